"""Extreme integers for everything that takes one: the answer is right, or a refusal that is an error of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from oracle import reference

import layoutkit as lk

from .deciding import any_instruction_set, instruction_set, let_one_decide
from .layouts import activation_layout, fitting

EXTREME = (
    -(2**63), -1, 0, 1, 2, 3, 7, 2**15, 2**16 + 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**32 + 1, 2**40, 2**53 + 1,
    2**61, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 + 1, 10**30,
)  # fmt: skip
REFUSALS = (ValueError, TypeError, MemoryError)
OPERATIONS = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}
MAX_OUT = 1 << 16  # pixels of an output that is computed


def extreme(rng: np.random.Generator, usual: int) -> int:
    """Anything, or what is usual."""
    return int(EXTREME[rng.integers(len(EXTREME))]) if rng.integers(2) else usual


def case(seed: int, index: int) -> str | None:
    """One convolution some of whose attributes are extreme."""
    rng = np.random.default_rng((seed, 3, index))
    rank = int(rng.choice((1, 2, 3)))
    size = tuple(int(n) for n in rng.integers(1, 6, rank))
    kernel = tuple(int(n) for n in rng.choice((1, 1, 2, 3), rank))
    groups = int(rng.choice((1, 1, 2, 16)))
    ic, oc = (groups, groups) if rng.integers(2) else (groups * 2, groups * 3)
    attributes: dict[str, Any] = {
        "stride": [extreme(rng, 1) for _ in range(rank)],
        "dilation": [extreme(rng, 1) for _ in range(rank)],
        "padding": [(extreme(rng, 1), extreme(rng, 1)) for _ in range(rank)],
        "groups": extreme(rng, groups) if rng.integers(8) == 0 else groups,
    }
    out = [
        (n + sum(p) - d * (k - 1) - 1) // s + 1 if s > 0 else 0
        for n, k, s, d, p in zip(size, kernel, *(attributes[name] for name in ("stride", "dilation", "padding")))
    ]
    large = any(n > MAX_OUT for n in out) or np.prod([max(n, 1) for n in out], dtype=object) > MAX_OUT
    x, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((1, ic, *size), (oc, ic // groups, *kernel)))
    layout = fitting(activation_layout(rng, rank + 2), x.shape)
    if layout.full_shape(x.shape)[2:] != size or layout.full_shape(x.shape)[0] != 1:
        layout = lk.Layout("abcde"[: rank + 2])
    threads, isa = int(rng.integers(1, 3)), any_instruction_set(rng)
    what = f"{x.shape} {w.shape} {attributes} {layout} {isa} t{threads}"
    with instruction_set(isa):
        try:
            op = OPERATIONS[rank](w, layout=layout, threads=threads, accuracy="strict", **attributes)
            plan = op.plan(x.shape)
            what += " " + let_one_decide(rng, plan)
            if large:  # planned, but not to be run
                return None
            got = op(reference.to_physical(x, layout))
        except REFUSALS as error:
            legal = all(abs(v) < 2**31 for v in _numbers(attributes)) and attributes["groups"] == groups
            legal &= min(out) > 0 and min(attributes["stride"] + attributes["dilation"]) > 0
            legal &= min(p for pair in attributes["padding"] for p in pair) >= 0
            if legal and not large and not isinstance(error, MemoryError):
                return f"refused: {error}: {what}"
            return None
    want = reference.conv(x, w, None, **{k: v if k == "groups" else tuple(v) for k, v in attributes.items()})
    if not np.array_equal(reference.to_logical(got, layout, want.shape), want):
        return f"wrong: {what}"
    return None


def _numbers(attributes: dict[str, Any]):
    for value in attributes.values():
        for one in value if isinstance(value, list) else [value]:
            yield from one if isinstance(one, tuple) else [one]
