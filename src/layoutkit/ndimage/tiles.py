"""Arrays of dask: filters on their chunks, each with as much of its neighbours as windows reach."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .arguments import MODES, OTHERS, axes_of, axis_of, one_each

STEPS = {  # filters of windows of a size, footprint or structure, one after another
    "grey_opening": 2, "grey_closing": 2, "white_tophat": 2, "black_tophat": 2, "binary_opening": 2,
    "binary_closing": 2,
}  # fmt: skip


def is_dask(value: Any) -> bool:
    """Whether a value is an array of dask, which need not be installed."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(value, dask.Array)


def reach(name: str, given: Mapping[str, Any], ndim: int) -> dict[int, int]:
    """By axis, how far the windows of a filter reach at most."""
    if "axis" in given and name not in ("sobel", "prewitt"):
        axes: tuple[int, ...] = (axis_of(given["axis"], ndim, name),)
    else:
        axes = axes_of(given.get("axes"), ndim, given.get("channel_axis"), name)
    n = len(axes)
    if "sigma" in given:
        sigmas = one_each(given["sigma"], n, f"{name}: sigma")
        radii = one_each(given.get("radius"), n, f"{name}: radius")
        truncate = given.get("truncate", 4.0)
        return {a: int(truncate * s + 0.5) if r is None else int(r) for a, s, r in zip(axes, sigmas, radii)}
    if name in ("sobel", "prewitt", "laplace"):
        return dict.fromkeys(axes, 1)
    steps = STEPS.get(name, 1) * int(given.get("iterations", 1))
    if steps < 1:
        raise NotImplementedError(f"{name}: iterations until nothing changes need the whole array, not chunks")
    for window in ("weights", "footprint", "structure", "size"):
        if given.get(window) is not None:
            size = given[window]
            sizes = one_each(size, n, name) if window == "size" else np.shape(size)
            return {a: steps * (int(s) - 1) for a, s in zip(axes, sizes)}
    if name.startswith("binary"):
        return dict.fromkeys(axes, steps)
    raise NotImplementedError(f"{name}: not for arrays of dask")


def on_tiles(operation: Callable[..., np.ndarray], given: dict[str, Any]) -> Any:
    """The filter of an array of dask, made when it is computed."""
    import dask.array as da

    name, x = operation.__name__, given["input"]
    rest = {k: v for k, v in given.items() if k != "input"}
    kind = rest.get("output")
    if isinstance(kind, np.ndarray) or is_dask(kind) or rest.get("mask") is not None:
        raise NotImplementedError(f"{name}: output and mask cannot be arrays where the input is one of dask")
    depth = {axis: 0 for axis in range(x.ndim)} | reach(name, given, x.ndim)
    mode = rest.get("mode", "reflect")
    modes = {mode} if isinstance(mode, str) else set(mode)
    if any(MODES.get(m) == "wrap" for m in modes):
        raise NotImplementedError(f"{name}: mode {mode!r} is not for arrays of dask")
    dtype = operation(np.ones((1,) * x.ndim, x.dtype), **rest).dtype
    rest["threads"] = rest.get("threads") or 1  # chunks are computed on all threads
    return da.map_overlap(
        lambda block: operation(block, **rest), x, depth=depth, boundary="none", dtype=dtype, meta=np.empty((), dtype),
    )  # fmt: skip


OTHERS.append((is_dask, on_tiles))
