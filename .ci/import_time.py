"""The time that importing layoutkit takes, as a share of what importing numpy takes before it: the least of 21 runs of
each. numpy's BLAS starts no threads: they would count as numpy's time, by the number of cores."""

import os
import subprocess
import sys

LIMIT = 1.5
PROGRAM = """
from time import process_time
start = process_time()
import numpy
middle = process_time()
import layoutkit
print(middle - start, process_time() - middle)
"""

alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
runs = [subprocess.check_output([sys.executable, "-c", PROGRAM], text=True, env=alone).split() for _ in range(21)]
numpy, layoutkit = (min(map(float, times)) for times in zip(*runs, strict=True))
share = layoutkit / numpy
print(f"import layoutkit: {share:.2f} of what importing numpy takes, at most {LIMIT}")
sys.exit(share > LIMIT)
