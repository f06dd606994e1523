"""What importing layoutkit costs beyond numpy, in milliseconds: the median of pairs taken in turn; at most 60."""

import statistics
import subprocess
import sys
import time

LIMIT = 60.0


def seconds(program: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - start


pairs = [(seconds("import numpy"), seconds("import numpy, layoutkit")) for _ in range(15)]
beyond = 1e3 * statistics.median(b - a for a, b in pairs)
print(f"import layoutkit: {beyond:.0f} ms beyond numpy")
sys.exit(beyond > LIMIT)
