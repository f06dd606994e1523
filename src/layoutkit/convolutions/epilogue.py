"""Epilogues: the residual and the activation, applied to each output after its sum."""

from __future__ import annotations

import math

import numpy as np

from .._core.route import Epilogue

NOTHING = Epilogue()  # no activation: only the residual is added
# By name, how many numbers come with it.
ACTIVATIONS = {
    "relu": 0, "relu6": 0, "clip": 2, "leaky_relu": 1, "prelu": 1, "silu": 0, "gelu": 0, "gelu_tanh": 0,
    "hardswish": 0,
}  # fmt: skip


def parse(activation, channels: int, dtype: np.dtype, what: str) -> Epilogue | None:
    """What a name of ACTIVATIONS, or (name, number, ..), means for so many output channels, summed in `dtype`."""
    if activation is None:
        return None
    name, *given = activation if isinstance(activation, (tuple, list)) and activation else (activation,)
    if not isinstance(name, str) or ACTIVATIONS.get(name) != len(given):
        known = ", ".join(n if not count else f"({n!r}{', number' * count})" for n, count in ACTIVATIONS.items())
        raise ValueError(f"{what}: activation {activation!r} is none of {known}")
    try:
        given = [np.array(value, dtype, order="C") for value in given]
    except (TypeError, ValueError):
        raise TypeError(f"{what}: activation {activation!r}: expected numbers") from None
    if name == "prelu":
        slope = given[0].reshape(-1)
        if slope.size not in (1, channels):
            raise ValueError(f"{what}: prelu has {slope.size} slopes, expected 1 or {channels}")
        return Epilogue("prelu", slope)
    if any(value.ndim for value in given):
        raise ValueError(f"{what}: activation {activation!r}: expected numbers, not sequences of them")
    if name == "leaky_relu":
        return Epilogue("prelu", np.array(given, dtype))
    if name in ("relu", "relu6"):
        return Epilogue("clip", np.array((0, math.inf if name == "relu" else 6), dtype))
    if name == "clip":
        lo, hi = map(float, given)
        if not lo <= hi:
            raise ValueError(f"{what}: clip from {lo} to {hi} leaves nothing")
        return Epilogue("clip", np.array((lo, hi), dtype))
    return Epilogue(name)
