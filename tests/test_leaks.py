"""Memory: every allocation failed in turn, and nothing kept by thousands of calls."""

import gc
import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from conftest import LONG

import layoutkit as lk

HERE = Path(__file__).parent


@pytest.mark.skipif(not sys.platform.startswith("linux") or not shutil.which("gcc"), reason="needs gcc and LD_PRELOAD")
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="another allocator stands in already")
def test_every_allocation_fails_in_turn(tmp_path):
    shim = tmp_path / "fail_alloc.so"
    source = HERE / "fail_alloc.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", str(shim), str(source)], check=True)
    done = subprocess.run(
        [sys.executable, str(HERE / "fail_alloc.py")], capture_output=True, text=True, check=True,
        env=os.environ | {"LD_PRELOAD": str(shim), "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
        | {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"},  # what lies in its caches counts as used
    )  # fmt: skip
    sweeps = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(sweeps) == 12
    for s in sweeps:
        assert s["wrong"] == 0, s
        assert s["left"] <= 40_000 + 100 * s["allocations"], s  # what Python itself forgets; arrays are larger
        if s["ours"]:
            assert s["MemoryError"] == s["allocations"] > 0, s
            assert s["blocks left"] == 0, s
        else:
            assert s["allocations"] > (3 if s["known"] else 10), s
            assert s["MemoryError"] + s["right"] >= 0.9 * s["allocations"], s


def calls():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 8, 6, 7), np.float32), rng.standard_normal((9, 8, 3, 3), np.float32)
    out = lk.reorder(x, "NCHW", "nChw4c")
    op = lk.Conv2d(w, padding=1)
    y = op(x)
    tensor = lk.Tensor(x, "NCHW")

    def refused():
        with pytest.raises(ValueError):
            lk.reorder(x, "NCHW", "nChw4c", out=x)

    return {
        "reorder": lambda: lk.reorder(x, "NCHW", "nChw4c"),
        "reorder into": lambda: lk.reorder(x, "NCHW", "nChw4c", out=out),
        "reorder fails": refused,
        "conv2d": lambda: lk.conv2d(x, w, padding=1),
        "Conv2d": lambda: op(x, y),
        "Conv2d new": lambda: lk.Conv2d(w, padding=1)(x),
        "tensor": lambda: tensor.to("NHWC"),
        "layout": lambda: lk.Layout("ABcd8b4a").inverse((16, 24, 3, 3)),
    }


@pytest.mark.parametrize("name", calls())
def test_thousands_of_calls_keep_nothing(name):
    call = calls()[name]
    n = 4_000 if LONG else 2_000
    for _ in range(50):
        call()
    rounds = [kept_by(call, n)]
    if rounds[0] >= 40_000:  # a table of Python's that has just grown does not do so again
        rounds.append(kept_by(call, n))
    assert min(rounds) < 40_000, f"{rounds} bytes after {n} calls each"  # no object of each call: 24 bytes or more


def kept_by(call, n):
    """Bytes that are there after n calls and were not before."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(n):
            call()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
