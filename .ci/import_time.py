"""The time that importing layoutkit takes, as a share of what importing numpy takes before it; a median of 21 runs."""

import statistics
import subprocess
import sys

LIMIT = 1.25
PROGRAM = """
from time import process_time
start = process_time()
import numpy
middle = process_time()
import layoutkit
print(middle - start, process_time() - middle)
"""

shares = []
for _ in range(21):
    numpy, layoutkit = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True).split()
    shares.append(float(layoutkit) / float(numpy))
share = statistics.median(shares)
print(f"import layoutkit: {share:.2f} of what importing numpy takes, at most {LIMIT}")
sys.exit(share > LIMIT)
