"""Memory that nobody uses: bounded over changing shapes and many threads, and given back when asked for."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.memory.pool import pool

MB = 1 << 20


@pytest.fixture
def limit():
    """Sets the limit for a test."""
    before = lk.memory_limit()
    yield lk.memory_limit
    lk.memory_limit(before)


def padded(side, threads=1):
    """A call whose workspace is a padded copy of an image of so many pixels a side."""
    op = lk.Conv2d(np.ones((1, 1, 3, 3), np.float32), padding=1, algorithm="planes", threads=threads)
    return op, np.ones((1, 1, side, side), np.float32)


def run_python(program, **environment):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | environment)
    return done.returncode, done.stdout.strip(), done.stderr


def test_resident_memory_over_changing_shapes():
    program = """
import os, resource, numpy as np, layoutkit as lk
lk.memory_limit(64 << 20)
op = lk.Conv2d(np.ones((1, 1, 3, 3), np.float32), padding=1, algorithm="planes", threads=1)
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()
for i in range(520):
    side = 600 + 37 * i % 1100
    op(np.ones((1, 1, side, side), np.float32))
    if i == 20:
        before = resident()
after = resident()
lk.release_memory()
print((after - before) >> 20, lk.release_memory())
"""
    code, out, err = run_python(program)
    assert code == 0, err
    grown, left = map(int, out.split())
    assert grown < 100 and left == 0


@pytest.mark.parametrize("side", [300, 1500])  # a small workspace, and one that is a block of its own
def test_workspaces_are_used_again(side, limit):
    limit(256 * MB)
    lk.release_memory()
    op, x = padded(side)
    out = op(x)
    held = pool.free_bytes
    assert held >= x.nbytes
    for _ in range(5):
        op(x, out)
        assert pool.free_bytes == held


def test_threads_leave_no_more_than_the_limit(limit):
    limit(48 * MB)
    op, x = padded(1500)

    def work():
        for _ in range(3):
            op(x)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.free_bytes <= 48 * MB
    assert lk.release_memory() > 0 and pool.free_bytes == 0


def test_the_limit(limit):
    lk.release_memory()
    assert limit(100 * MB) >= 0 and lk.memory_limit() == 100 * MB
    del_me = lk.empty((32 * MB,), "a", np.uint8)
    del del_me
    op, x = padded(300)
    op(x)
    assert 32 * MB < pool.free_bytes <= 100 * MB
    assert limit(16 * MB) == 100 * MB and pool.free_bytes <= 16 * MB
    limit(0)
    assert pool.free_bytes == 0
    op(x)
    assert pool.free_bytes == 0  # nothing is kept
    for wrong in (-1, "1", 1.5):
        with pytest.raises((ValueError, TypeError), match="memory_limit: nbytes must be bytes"):
            lk.memory_limit(wrong)


@pytest.mark.parametrize(("text", "nbytes"), [("1234567", 1234567), ("256M", 256 * MB), ("2g", 2 << 30), ("0", 0)])
def test_the_limit_in_the_environment(text, nbytes):
    assert run_python("import layoutkit as lk; print(lk.memory_limit())", LAYOUTKIT_MEMORY=text)[:2] == (0, str(nbytes))


@pytest.mark.parametrize("text", ["much", "-1", "1.5G", "M"])
def test_a_limit_that_is_none(text):
    code, _, err = run_python("import layoutkit", LAYOUTKIT_MEMORY=text)
    assert code == 1 and "ImportError: LAYOUTKIT_MEMORY=" in err
