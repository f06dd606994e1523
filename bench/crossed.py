"""The Python modules that a first call goes through: ``python bench/crossed.py``.

Of a first ``lk.conv2d`` and a first ``lk.reorder``: how many modules of the package run any code, and between which
modules calls go up, from a room to one above it by the order of pyproject.toml: all of them should be `choosing` asking
a problem about itself.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["LAYOUTKIT_CACHE_DIR"] = os.devnull

import numpy as np

import layoutkit as lk

ROOMS = ("formats", "memory", "choosing", "reorders", "convolutions", "bench")
PACKAGE = Path(lk.__file__).parent
X, W = np.ones((1, 16, 14, 14), np.float32), np.ones((16, 16, 3, 3), np.float32)


def module_of(frame) -> str | None:
    """The module of a frame, within the package; None of another's."""
    path = Path(frame.f_code.co_filename)
    if PACKAGE not in path.parents:
        return None
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def crossed(call) -> tuple[list[str], list[str]]:
    """The modules that a call runs, in the order in which they are met, and the pairs between which it goes up."""
    met: dict[str, None] = {}
    up: dict[str, None] = {}

    def profile(frame, event, _):
        if event != "call" or (callee := module_of(frame)) is None:
            return
        met[callee] = None
        caller = frame.f_back and module_of(frame.f_back)
        rooms = [name.partition(".")[0] for name in (caller or "", callee)]
        if all(room in ROOMS for room in rooms) and ROOMS.index(rooms[0]) < ROOMS.index(rooms[1]):
            up[f"{caller} > {callee}"] = None

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(met), list(up)


def main() -> int:
    """Run the command; returns its exit code."""
    for name, call in (
        ("lk.reorder", lambda: lk.reorder(X, "NCHW", "NHWC", threads=1)),
        ("lk.conv2d", lambda: lk.conv2d(X, W, padding=1, threads=1)),
    ):
        met, up = crossed(call)
        print(f"{name}: {len(met)} modules: {', '.join(met)}")
        print(f"  up: {', '.join(up) or 'never'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
