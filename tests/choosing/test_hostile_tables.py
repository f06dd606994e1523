"""Tables from elsewhere, with a checksum that fits: calls go on, and the work that any such table makes is bounded."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import fewer
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.choosing import costfile

FILE = Path(__file__).parents[2] / "stress" / "hostile.py"
spec = importlib.util.spec_from_file_location("hostile", FILE)
hostile = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hostile)

SQUARE = "conv n1 c64 56x56 o64 k3x3 s1x1 p1+1,1+1 d1x1 g1 {} f32 standard t{}"


@given(st.randoms(use_true_random=False))
@fewer(2)
def test_no_table_stops_a_call(tmp_path_factory, rng):
    folder = tmp_path_factory.getbasetemp()
    assert hostile.use(hostile.table(rng), folder) < hostile.MAX_CALLS


@pytest.mark.parametrize("key", [
    SQUARE.format("NHWC>NHWC", "-1"), SQUARE.format("NHWC>NHWC", "0"), SQUARE.format(f"nChw{'1c' * 20_000}>NHWC", 1),
    SQUARE.format(f"nChw{'1c' * 16}>nChw{'1c' * 16}", 1), "reorder 1000000007 A999983a>A999979a x8 t1",
])  # fmt: skip
def test_keys_that_once_did(tmp_path, key):
    text = hostile.sealed(f'  "{key}": {{\n   "direct": [1, 1, 0, 3],\n   "blas": [1, 1, 0, 3]}}')
    assert hostile.use(text, tmp_path) < 1_000_000


def test_the_largest_table_takes_bounded_work(tmp_path, some):
    for kind in some(hostile.CROWDS):
        text = hostile.crowd(hostile.CROWDS[kind])
        assert costfile.MAX_BYTES - 20_000 < len(text) <= costfile.MAX_BYTES
        assert hostile.use(text, tmp_path) < hostile.MAX_CALLS, kind


MEMORY = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import hostile
hostile.use(hostile.sealed(""), sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
hostile.use(hostile.crowd(hostile.CROWDS["the shortest keys"], "\\N{ROCKET}"), sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is told in other units")
def test_the_largest_table_takes_bounded_memory(tmp_path):
    """With a character that makes Python's text of it four bytes each."""
    command = [sys.executable, "-c", MEMORY, str(FILE.parent), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300 << 10
