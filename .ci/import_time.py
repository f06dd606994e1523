"""What importing layoutkit costs beyond numpy: the least processor time of several processes; at most 60 ms."""

import subprocess
import sys

LIMIT = 60.0
PROGRAM = "import time, numpy; t = time.process_time(); import layoutkit; print(1e3 * (time.process_time() - t))"

times = [float(subprocess.check_output([sys.executable, "-c", PROGRAM])) for _ in range(15)]
print(f"import layoutkit: {min(times):.0f} ms beyond numpy")
sys.exit(min(times) > LIMIT)
