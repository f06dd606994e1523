"""What importing layoutkit costs beyond numpy: the least processor time of several processes each; at most 60 ms."""

import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage

LIMIT = 60.0


def milliseconds(program: str) -> float:
    def spent():
        t = getrusage(RUSAGE_CHILDREN)
        return t.ru_utime + t.ru_stime

    before = spent()
    subprocess.run([sys.executable, "-c", program], check=True)
    return 1e3 * (spent() - before)


pairs = [(milliseconds("import numpy"), milliseconds("import numpy, layoutkit")) for _ in range(15)]
numpy, both = (min(column) for column in zip(*pairs))
print(f"import numpy: {numpy:.0f} ms; import layoutkit: {both - numpy:.0f} ms beyond it")
sys.exit(both - numpy > LIMIT)
