"""What importing layoutkit costs beyond numpy: the least processor time of several processes each; at most 60 ms."""

import os
import subprocess
import sys

LIMIT = 60.0


def milliseconds(program: str) -> float:
    def spent():
        t = os.times()
        return t.children_user + t.children_system

    before = spent()
    subprocess.run([sys.executable, "-c", program], check=True)
    return 1e3 * (spent() - before)


pairs = [(milliseconds("import numpy"), milliseconds("import numpy, layoutkit")) for _ in range(15)]
numpy, both = (min(column) for column in zip(*pairs))
print(f"import numpy: {numpy:.0f} ms; import layoutkit: {both - numpy:.0f} ms beyond it")
sys.exit(both - numpy > LIMIT)
