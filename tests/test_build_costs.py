"""What a build cost is read from ninja's log."""

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parent.parent / "tools" / "build_costs.py"
LOG = """# ninja log v7
0	4000	1	src/layoutkit/_core/kernels/libtiles_avx2_f32.a.p/gemm_gemm.c.o	a
0	1000	1	add.cpython-311-x86_64-linux-gnu.so.p/src/layoutkit/_core/add.pyx.c	b
0	1000	1	add.cpython-311-x86_64-linux-gnu.so.p/add.pyx.c.dep	b
1000	4000	1	src/layoutkit/_core/nests/add.cpython-311-x86_64-linux-gnu.so.p/meson-generated_add.pyx.c.o	c
4000	5000	1	src/layoutkit/_core/nests/add.cpython-311-x86_64-linux-gnu.so	d
0	9000	1	src/layoutkit/_core/kernels/libtiles_avx2_f32.a.p/gemm_gemm.c.o	a
"""


def told(folder, *args):
    (folder / ".ninja_log").write_text(LOG)
    done = subprocess.run([sys.executable, TOOL, folder, *args], capture_output=True, text=True, check=True)
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_each_step_counts_once_as_it_was_done_last(tmp_path):
    assert told(tmp_path, "--most", "2") == [
        "9.0 s, 14.0 s of steps: 1.6 at a time", "9.00 s 64.3% tiles_avx2_f32: gemm_gemm.c",
        "3.00 s 21.4% add: add.pyx.c", "2.00 s 14.3% 2 others",
    ]  # fmt: skip
    assert told(tmp_path, "--by", "target")[1:] == ["9.00 s 64.3% tiles_avx2_f32", "5.00 s 35.7% add"]
