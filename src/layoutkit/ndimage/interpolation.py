"""Values between elements: zooms, shifts, affine maps, lists of points; coefficients of splines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.nests.filters.sampling import MARGIN, MAX_RANK, Sampling
from ..choosing import repeats
from ..choosing.threads import check_threads
from ..choosing.watching import CallInfo, watched
from . import windows as w
from .arguments import array_of, axis_of, by_parts, filters, numbers_of, output_for, warned
from .fixed import SMALL
from .grids import blended
from .neighbourhoods import plain
from .passes import ELEMENTS
from .separable import EXACT_IN_F32, give, limits, summed, target

POLE = np.sqrt(3.0) - 2  # of the recursion for the coefficients of cubic splines
REACH = 28  # elements to either side, beyond which its powers are less than the last bit of a double
NEAREST, MIRROR, REFLECT, WRAP, GRID_WRAP, CONSTANT = range(6)  # as LK_SAMPLE_.. of sample.h
# What scipy's modes make of a point that is outside, of elements around a point, and of the ends of what is filtered.
POINTS = {
    "nearest": NEAREST, "mirror": MIRROR, "reflect": REFLECT, "grid-mirror": REFLECT, "wrap": WRAP,
    "grid-wrap": GRID_WRAP, "constant": CONSTANT, "grid-constant": NEAREST,
}  # fmt: skip
AROUND = {
    "nearest": "nearest", "mirror": "mirror", "reflect": "reflect", "grid-mirror": "reflect", "wrap": "mirror",
    "grid-wrap": "wrap", "constant": "mirror",
}  # fmt: skip
FILTERED = AROUND | {"nearest": "reflect", "grid-constant": "mirror"}
PADDED = 12  # elements that are added before filtering where no recursion knows what is outside
OPTIONS = {
    "order": "int|Of the splines: 0, 1 or 3."
    "|RuntimeError: `order` is not 0 to 5|NotImplementedError: `order` is 2, 4 or 5",
    "mode": 'str|What is outside: "constant", "grid-constant", "nearest", "mirror", "reflect", "wrap", "grid-wrap".'
    "|RuntimeError: `mode` is not known, or `input` has no elements",
    "prefilter": "bool|Whether `input` is filtered first, by `spline_filter`, as order 3 needs.",
}


def _order(order: Any, what: str) -> int:
    if order not in (0, 1, 3):
        known = isinstance(order, int) and 0 <= order <= 5
        raise (NotImplementedError if known else RuntimeError)(f"{what}: spline order {order}, expected 0, 1 or 3")
    return int(order)


def _mode(mode: Any, what: str) -> str:
    if not isinstance(mode, str) or mode not in POINTS:
        raise RuntimeError(f"{what}: mode must be one of {', '.join(POINTS)}, got {mode!r}")
    return mode


def _coefficients(x: np.ndarray, y: np.ndarray, axes: Sequence[int], mode: str, threads: Any, what: str) -> None:
    """Those of cubic splines: a recursion in both directions, as the sum that it is."""
    powers = POLE ** abs(np.arange(-REACH, REACH + 1))
    weights = powers * (-6 * POLE / (1 - POLE * POLE))
    passes = [w.weighed(weights, axis, REACH, FILTERED[mode]) for axis in axes if x.shape[axis] > 1]
    if passes:
        summed(x, y, passes, 0.0, threads, what)
    else:
        y[...] = x


@filters(order=OPTIONS["order"], mode=OPTIONS["mode"])
def spline_filter1d(
    input, order=3, axis=-1, output=np.float64, mode="mirror", *, threads=None
) -> Any:  # fmt: skip
    """Coefficients of splines along one axis: as `scipy.ndimage.spline_filter1d`.

    PARAMETERS
    """
    what = "spline_filter1d"
    x, order, mode = array_of(input, what), _order(order, what), _mode(mode, what)
    axes = [axis_of(axis, x.ndim, what)] if order == 3 else []
    y = output_for(output, x, what, x.dtype.kind == "c")
    by_parts(lambda a, b, c: _coefficients(a, b, axes, mode, threads, what), x, y, 0.0, what)
    return y


@filters(order=OPTIONS["order"], mode=OPTIONS["mode"])
def spline_filter(
    input, order=3, output=np.float64, mode="mirror", *, threads=None
) -> Any:  # fmt: skip
    """Coefficients of splines along all axes: as `scipy.ndimage.spline_filter`.

    PARAMETERS
    """
    what = "spline_filter"
    x, order, mode = array_of(input, what), _order(order, what), _mode(mode, what)
    if order < 2:
        raise RuntimeError(f"{what}: spline order {order} has no filter")
    y = output_for(output, x, what, x.dtype.kind == "c")
    by_parts(lambda a, b, c: _coefficients(a, b, range(x.ndim), mode, threads, what), x, y, 0.0, what)
    return y


def _sampled(
    x: np.ndarray, y: np.ndarray, order: int, mode: str, cval: float, prefilter: bool,
    place: Callable[[int], dict[str, Any]], threads: Any, what: str,
) -> None:  # fmt: skip
    """Write to y the values at points, which `place` gives for an array with so many elements more on each side."""
    if x.ndim > MAX_RANK:
        raise RuntimeError(f"{what}: {x.ndim} axes, at most {MAX_RANK}")
    if x.size == 0 and y.size:
        raise RuntimeError(f"{what}: an input of shape {x.shape} has no elements")
    pad = 0
    if prefilter and order > 1:
        if mode in ("nearest", "grid-constant"):
            pad = PADDED
            with np.errstate(invalid="ignore"):  # a constant that integers do not hold wraps around, as in scipy
                outside = np.asarray(cval).astype(x.dtype)
            x = np.pad(x, pad, "edge") if mode == "nearest" else np.pad(x, pad, constant_values=outside)
        filtered = np.empty(x.shape, np.float64)
        _coefficients(x, filtered, range(x.ndim), mode, threads, what)
        x = filtered
    if mode == "grid-constant":  # beyond a margin nothing changes any more
        x = np.pad(x.astype(np.float64), MARGIN, constant_values=cval)
    x = np.ascontiguousarray(plain(x) if order < 2 and x.dtype.name in (*SMALL, "bool") else reals(x))
    own = y.dtype.newbyteorder("=")
    kept = own if own.name in ELEMENTS else np.dtype(np.float32 if own.name == "float16" else np.float64)
    kept = np.dtype(np.uint8) if kept.name == "bool" else kept
    to = target(y, x, kept)
    steps = [s // x.itemsize for s in x.strides]
    if mode == "grid-constant":
        x = x[(slice(MARGIN, -MARGIN),) * x.ndim]
        elements = [np.arange(-MARGIN, n + MARGIN) for n in x.shape]
    else:
        elements = [w.positions(n, 2 * MARGIN + 1, MARGIN, AROUND[mode]) for n in x.shape]
    around = [at * s for at, s in zip(elements, steps)]
    bounds = (float(limits(y.dtype)[0]), float(limits(y.dtype)[1])) if y.dtype.kind in "iu" else None
    most = check_threads(threads)
    types = (ELEMENTS[x.dtype.name], ELEMENTS[kept.name])
    points = {"points": [], "matrix": None} | place(pad)

    def info() -> CallInfo:
        size = "x".join(map(str, y.shape))
        return CallInfo(what, f"{what} {size} {types[0]} {types[1]} o{order} t{most}", "sample", most)

    def run() -> None:
        linear = order == 1 and points["kind"] == "grid" and types[0] == types[1]
        if linear and (types[0] == "f32" or y.dtype.name in SMALL):
            if blended(x, to, types[0], points["points"], elements, mode, cval, bounds, most):
                return
        repeats.run(Sampling((x, to), types, around, order, POINTS[mode], cval, bounds, threads=most, **points), x, to)

    if y.size:
        watched(info, run)
        give(to, y)


def reals(x: np.ndarray) -> np.ndarray:
    """An array of floats that has all numbers of another."""
    return np.asarray(x, np.float32 if x.dtype.name in EXACT_IN_F32 else np.float64)


def _grid(coordinates: list[np.ndarray]) -> Callable[[int], dict[str, Any]]:
    """Points whose coordinate along an axis depends on that axis alone."""
    return lambda pad: dict(kind="grid", points=[np.ascontiguousarray(c + pad) for c in coordinates])


@filters(
    zoom="float, or one for each axis|By how much axes become longer."
    "|TypeError: `zoom` is no number|ValueError: `zoom` is negative or not finite",
    grid_mode="bool|Whether elements are areas that fill the array, not points at its ends and between.", **OPTIONS,
)  # fmt: skip
def zoom(
    input, zoom, output=None, order=3, mode="constant", cval=0.0, prefilter=True, *, grid_mode=False, threads=None
) -> Any:
    """An array of another size: as `scipy.ndimage.zoom`.

    PARAMETERS
    """
    what = "zoom"
    x, order, mode = array_of(input, what), _order(order, what), _mode(mode, what)
    if x.ndim < 1:
        raise RuntimeError(f"{what}: input and output rank must be > 0")
    factors = numbers_of(zoom, x.ndim, f"{what}: zoom")
    if not all(0 <= f < np.inf for f in factors):
        raise ValueError(f"{what}: zoom must be finite and not negative, got {zoom}")
    shape = tuple(round(n * f) for n, f in zip(x.shape, factors))
    y = output_for(output, x, what, x.dtype.kind == "c", shape)
    if all(f == 1 for f in factors) and prefilter:
        y[...] = x
        return y
    if grid_mode and mode in ("constant", "wrap"):
        warned(f"{what}: with grid_mode, mode grid-{mode} is better than {mode}")
    coordinates = []
    for n, m in zip(x.shape, shape):
        above, below = (n, m) if grid_mode else (n - 1, m - 1)
        step = above / below if below else 1.0
        at = np.arange(m, dtype=np.float64)
        coordinates.append((at + 0.5) * step - 0.5 if grid_mode else at * step)
    place = _grid(coordinates)
    by_parts(lambda a, b, c: _sampled(a, b, order, mode, c, prefilter, place, threads, what), x, y, cval, what)
    return y


@filters(shift="float, or one for each axis|How far elements move.|TypeError: `shift` is no number", **OPTIONS)
def shift(
    input, shift, output=None, order=3, mode="constant", cval=0.0, prefilter=True, *, threads=None
) -> Any:  # fmt: skip
    """A moved array: as `scipy.ndimage.shift`.

    PARAMETERS
    """
    what = "shift"
    x, order, mode = array_of(input, what), _order(order, what), _mode(mode, what)
    if x.ndim < 1:
        raise RuntimeError(f"{what}: input and output rank must be > 0")
    far = numbers_of(shift, x.ndim, f"{what}: shift")
    y = output_for(output, x, what, x.dtype.kind == "c")
    place = _grid([np.arange(n, dtype=np.float64) - s for n, s in zip(x.shape, far)])
    by_parts(lambda a, b, c: _sampled(a, b, order, mode, c, prefilter, place, threads, what), x, y, cval, what)
    return y


@filters(
    matrix="array_like|The linear map, its diagonal, or the homogeneous one."
    "|RuntimeError: `matrix` does not fit the dimensions",
    offset="float, or one for each axis|What is added.|TypeError: `offset` is no number",
    output_shape="tuple of int, optional|That of the input by default.", **OPTIONS,
)  # fmt: skip
def affine_transform(
    input, matrix, offset=0.0, output_shape=None, output=None, order=3, mode="constant", cval=0.0, prefilter=True, *,
    threads=None,
) -> Any:  # fmt: skip
    """The value at ``matrix @ o + offset`` for each index o: as `scipy.ndimage.affine_transform`.

    PARAMETERS
    """
    what = "affine_transform"
    x, order, mode = array_of(input, what), _order(order, what), _mode(mode, what)
    if output_shape is None:
        output_shape = output.shape if isinstance(output, np.ndarray) else x.shape
    shape = tuple(output_shape)
    if x.ndim < 1 or len(shape) < 1:
        raise RuntimeError(f"{what}: input and output rank must be > 0")
    y = output_for(output, x, what, x.dtype.kind == "c", shape)
    m = np.asarray(matrix, np.float64)
    if m.ndim not in (1, 2) or m.shape[0] < 1:
        raise RuntimeError(f"{what}: no proper affine matrix, got one of shape {m.shape}")
    if m.ndim == 2 and m.shape[1] == x.ndim + 1 and m.shape[0] in (x.ndim, x.ndim + 1):
        if m.shape[0] == x.ndim + 1 and not np.array_equal(m[-1], [0] * x.ndim + [1]):
            raise ValueError(f"{what}: the last row of a homogeneous matrix must be 0, .., 0, 1, got {m[-1]}")
        offset, m = m[: x.ndim, x.ndim], m[: x.ndim, : x.ndim]
    if m.shape[0] != x.ndim:
        raise RuntimeError(f"{what}: affine matrix has wrong number of rows, {m.shape[0]} for {x.ndim} axes")
    if m.ndim == 2 and m.shape[1] != y.ndim:
        raise RuntimeError(f"{what}: affine matrix has wrong number of columns, {m.shape[1]} for {y.ndim} axes")
    if m.ndim == 1 and y.ndim != x.ndim:
        raise RuntimeError(f"{what}: a diagonal matrix for {x.ndim} axes, and {y.ndim} of the result")
    far = np.array(numbers_of(offset, x.ndim, f"{what}: offset"))
    if m.ndim == 1:
        steps = zip(shape, m, far)
        place = _grid([(np.arange(n, dtype=np.float64) + o / s) * s if s else np.full(n, o) for n, s, o in steps])
    else:

        def place(pad: int) -> dict[str, Any]:
            return dict(kind="affine", matrix=np.column_stack([m, far + pad]))

    by_parts(lambda a, b, c: _sampled(a, b, order, mode, c, prefilter, place, threads, what), x, y, cval, what)
    return y


@filters(
    coordinates="array_like|Of points: an axis more than the result, as long as `input` has axes."
    "|RuntimeError: `coordinates` are for another number of axes|TypeError: `coordinates` are complex", **OPTIONS,
)  # fmt: skip
def map_coordinates(
    input, coordinates, output=None, order=3, mode="constant", cval=0.0, prefilter=True, *, threads=None
) -> Any:
    """The values at given points: as `scipy.ndimage.map_coordinates`.

    PARAMETERS
    """
    what = "map_coordinates"
    x, order, mode = array_of(input, what), _order(order, what), _mode(mode, what)
    points = np.asarray(coordinates)
    if points.dtype.kind == "c":
        raise TypeError(f"{what}: complex coordinates")
    if x.ndim < 1 or points.ndim < 2:
        raise RuntimeError(f"{what}: input and output rank must be > 0")
    if points.shape[0] != x.ndim:
        raise RuntimeError(f"{what}: coordinates of shape {points.shape} for an input with {x.ndim} axes")
    y = output_for(output, x, what, x.dtype.kind == "c", points.shape[1:])

    def place(pad: int) -> dict[str, Any]:
        return dict(kind="list", points=[np.ascontiguousarray(c, np.float64).reshape(-1) + pad for c in points])

    by_parts(lambda a, b, c: _sampled(a, b, order, mode, c, prefilter, place, threads, what), x, y, cval, what)
    return y
