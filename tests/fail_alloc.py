"""Run by test_memory.py under fail_alloc.c: every allocation of an operation fails in turn.

Each time the operation must raise or, where whoever asked for memory can do without, give the right result; what it
left allocated must be gone after the next call that succeeds. It must be MemoryError that it raises, but where
Python and numpy themselves make another error of theirs (os.stat says TypeError, OpenSSL ValueError).
"""

import ctypes
import gc
import json
import os
import sys

import numpy as np

import layoutkit as lk
from layoutkit._core import registry

shim = ctypes.PyDLL(None)
OURS = os.path.dirname(registry.__file__).encode()
shim.lk_in_use.restype = ctypes.c_size_t
lk.tuning("off")
rng = np.random.default_rng(0)
x = rng.standard_normal((1, 20, 19, 8), np.float32)
w = rng.standard_normal((18, 20, 3, 3), np.float32)
bias = rng.standard_normal(18, np.float32)
nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def forget():
    """Plan anew: what is cached asks for no memory."""
    for name, module in list(sys.modules.items()):
        if name.startswith("layoutkit.") and name != "layoutkit.machine":  # what the machine is stays known
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
            getattr(module, "_bound", {}).clear()


def disarm():
    """Allocations since the last arming; ctypes needs memory itself."""
    while True:
        try:
            return shim.lk_disarm()
        except MemoryError:
            pass


def a_reorder():
    return lk.reorder(x, "NCHW", "nChw16c", threads=1)


def a_convolution():
    return lk.conv2d(nhwc, w, bias, padding=1, layout="NHWC", out_layout="nChw16c", threads=1)


def a_convolution_with_reorders():
    return lk.conv2d(x.transpose(0, 1, 3, 2), w, bias, padding=1, layout="NCWH", algorithm="direct", threads=1)


def a_layout():
    return str(lk.Layout("Abcd2a").inverse((16, 20, 3, 3)))


def sweep(operation, planned, ours):
    """Fail the allocations of `operation` one after another: how many there were, and what came of it.

    With `ours` only those that the compiled modules ask for themselves.
    """
    want = operation()
    n, came = 0, {"MemoryError": 0, "other": 0, "right": 0, "wrong": 0}
    while True:
        n += 1
        if not planned:
            forget()
        got, raised = None, None
        try:
            shim.lk_arm(n, OURS if ours else None)
            got = operation()
        except Exception as error:
            raised = type(error)
        if disarm() < n:
            return {"allocations": n - 1, **came}
        if raised:
            came["MemoryError" if raised is MemoryError else "other"] += 1
        else:
            came["right" if np.array_equal(got, want) else "wrong"] += 1


OURS_AGAIN = 20  # sweeps of our own allocations: what leaks once must show


def main():
    for operation in (a_reorder, a_convolution, a_convolution_with_reorders, a_layout):
        for planned, ours in ((False, False), (True, False), (False, True)):
            if operation is a_layout and ours:
                continue
            forget()
            operation()
            gc.collect()
            before = shim.lk_in_use()
            for _ in range(OURS_AGAIN if ours else 1):
                came = sweep(operation, planned, ours)
            forget()
            operation()
            gc.collect()
            came["left"] = shim.lk_in_use() - before
            print(json.dumps({"operation": operation.__name__, "known": planned, "ours": ours, **came}), flush=True)


main()
