"""Run by test_leaks.py under fail_alloc.c: every allocation of an operation fails in turn.

Where there are thousands (planning makes that many Python objects) some of them, evenly, others in each run, more in
CI: all with LAYOUTKIT_LONG_TESTS.
Each time the operation must raise or, where whoever asked for memory can do without, give the right result; what it
left allocated must be gone after the next call that succeeds, to the last block of what the compiled modules asked for.
It must be MemoryError that it raises, but where Python and numpy themselves make another error of theirs (os.stat says
TypeError, OpenSSL ValueError).
"""

import ctypes
import gc
import json
import os
import random
import sys

import numpy as np

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing import model
from layoutkit.choosing.cache import plans
from layoutkit.reorders.problem import ReorderProblem

shim = ctypes.PyDLL(None)
OURS = os.path.dirname(os.path.dirname(registry.__file__)).encode()  # _core
shim.lk_in_use.restype = ctypes.c_size_t
shim.lk_blocks.restype = ctypes.c_long
shim.lk_ours(OURS)
lk.tuning("off")
rng = np.random.default_rng(0)
x = rng.standard_normal((1, 20, 19, 8), np.float32)
w = rng.standard_normal((18, 20, 3, 3), np.float32)
bias = rng.standard_normal(18, np.float32)
nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))


# Allocations of one operation that are failed.
MOST = 1 << 60 if "LAYOUTKIT_LONG_TESTS" in os.environ else 200 if os.environ.get("CI") else 60
# what the machine is, which of the tables that come with the package serves it, and what that says
KNOWN = {"layoutkit.choosing.machine", "layoutkit.choosing.packaged", "layoutkit.choosing.model"}


def forget(known=KNOWN):
    """Plan anew: what is cached asks for no memory."""
    for name, module in list(sys.modules.items()):
        if name.startswith("layoutkit.") and name not in known:
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
    plans.clear()


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
    return lk.conv2d(nhwc, w, bias, padding=1, layout="NHWC", out_layout="nChw16c", algorithm="direct", threads=1)


def a_convolution_with_reorders():
    return lk.conv2d(x.transpose(0, 1, 3, 2), w, bias, padding=1, layout="NCWH", algorithm="direct", threads=1)


def a_layout():
    return str(lk.Layout("Abcd2a").inverse((16, 20, 3, 3)))


def a_table_that_is_read():
    forget(known={"layoutkit.choosing.machine"})
    return str(sorted(model.corrections(ReorderProblem.parse("reorder 1x64x56x56 NCHW>NHWC x32 t1")).items()))


def attempt(operation, n, ours):
    """The operation with its n-th allocation failing: its result, what it raised, how many allocations there were."""
    got, raised = None, None
    try:
        shim.lk_arm(n, ours)
        got = operation()
    except Exception as error:
        raised = type(error)
    return got, raised, disarm()


def sweep(operation, planned, ours, most=MOST):
    """Fail the allocations of `operation` one after another: how many were failed, and what came of it.

    With `ours` only those that the compiled modules ask for themselves.
    """
    want = operation()
    came = {"MemoryError": 0, "other": 0, "right": 0, "wrong": 0}
    if not planned:
        forget()
    total = attempt(operation, 0, ours)[2]
    step = -(-total // most) or 1
    points = range(random.randint(1, step), total + 1, step)
    for n in points:
        if not planned:
            forget()
        got, raised, _ = attempt(operation, n, ours)
        if raised:
            came["MemoryError" if issubclass(raised, MemoryError) else "other"] += 1
        else:
            came["right" if np.array_equal(got, want) else "wrong"] += 1
    return {"allocations": len(points), **came}


def settle(operation):
    """Drop what earlier calls have left in caches: ours, and Python's of attributes that it looked up by name."""
    forget()
    operation()
    gc.collect()
    sys._clear_type_cache()


AGAIN = 5  # sweeps of our own allocations: objects of Python's that leak once must show


def main():
    sweeps = [
        (operation, known, ours)
        for operation in (a_reorder, a_convolution, a_convolution_with_reorders, a_layout)
        for known, ours in ((False, False), (True, False), (False, True))
        if operation != a_layout or not ours
    ]
    for operation, known, ours in sweeps + [(a_table_that_is_read, True, False)]:
        most = MOST // 10 if operation is a_table_that_is_read else MOST
        sweep(operation, known, ours, min(most, 60))  # what is made once, as the traceback's own modules
        settle(operation)
        before, blocks = shim.lk_in_use(), shim.lk_blocks()
        for _ in range(AGAIN if ours else 1):
            came = sweep(operation, known, ours, most)
        settle(operation)
        came["blocks left"], came["left"] = shim.lk_blocks() - blocks, shim.lk_in_use() - before
        print(json.dumps({"operation": operation.__name__, "known": known, "ours": ours, **came}), flush=True)


main()
