"""Random filters of images against scipy.ndimage: names, shapes, types, strides, windows, modes."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.ndimage as scipy

import layoutkit.ndimage as ndi

from .deciding import any_instruction_set, instruction_set

TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]
MODES = ["reflect", "mirror", "nearest", "wrap", "constant"]
LONGEST = [0, 3000, 90, 30, 12]  # axes of so many dimensions


def _image(rng: np.random.Generator) -> np.ndarray:
    """Of any type, rank and strides; noise, flat parts, or all the same."""
    rank = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.integers(1, LONGEST[rank] + 1, rank))
    dtype = np.dtype(str(rng.choice(TYPES)))
    low, high = (
        (0, 1) if dtype.kind == "f" else (max(np.iinfo(dtype).min, -(1 << 20)), min(np.iinfo(dtype).max, 1 << 20))
    )
    values = rng.random(shape) * (high - low) + low
    kind = rng.integers(4)
    if kind == 0:
        values = np.where(values > (low + high) / 2, high, low)
    elif kind == 1:
        values = np.full(shape, values.flat[0])
    x = values.astype(dtype)
    steps = rng.choice([1, 1, 1, 2, -1], rank)
    wide = np.zeros([n * abs(s) for n, s in zip(shape, steps)], dtype)
    view = wide[tuple(slice(None, None, s) for s in steps)]
    view[...] = x
    return view if rng.integers(2) else x


def _windows(rng: np.random.Generator, x: np.ndarray) -> tuple[str, list, dict]:
    """A filter, its arguments, and those by keyword."""
    sizes = [int(s) for s in rng.integers(1, 6, x.ndim)]
    large = [int(s) for s in rng.integers(1, 15 if x.ndim < 4 else 5, x.ndim)]
    mask = rng.random(sizes) < 0.7
    mask.flat[rng.integers(mask.size)] = True
    weights = rng.standard_normal(sizes)
    if rng.integers(2):
        weights = np.round(weights * 2)
    weights[abs(weights) < 1e-3] = 0
    line = rng.standard_normal(int(rng.integers(1, 20)))
    if x.dtype.kind == "u":  # casts of negative numbers are not defined
        weights, line = abs(weights), abs(line)
    if x.dtype.kind in "iu":  # nor are those of what no integer holds
        weights, line = weights / max(1, abs(weights).sum()), line / abs(line).sum()
    axis = int(rng.integers(x.ndim))
    choices = [
        ("gaussian_filter", [float(rng.uniform(0.2, 3))], {}), ("uniform_filter", [large], {}),
        ("minimum_filter", [large], {}), ("maximum_filter", [], {"footprint": mask}), ("correlate", [weights], {}),
        ("correlate1d", [line, axis], {}), ("grey_opening", [sizes], {}), ("white_tophat", [sizes], {}),
    ]  # fmt: skip
    if x.dtype.kind != "u":
        choices += [("sobel", [axis], {}), ("laplace", [], {}), ("prewitt", [axis], {})]
    if x.ndim > 1:  # of one dimension scipy has another algorithm, with other edges
        choices += [("median_filter", [int(rng.choice([2, 3, 5]))], {}), ("rank_filter", [0], {"footprint": mask})]
    return choices[rng.integers(len(choices))]


def like(x: np.ndarray) -> np.ndarray:
    """Zeros, of the shape and strides of an array."""
    first, last = np.lib.array_utils.byte_bounds(x)
    return np.ndarray(x.shape, x.dtype, bytearray(last - first), x.__array_interface__["data"][0] - first, x.strides)


def case(seed: int, index: int) -> str | None:
    """Integers must be equal, floats within some units of the last place of the largest number times the weights."""
    rng = np.random.default_rng((seed, index, 40))
    x = _image(rng)
    name, args, keywords = _windows(rng, x)
    keywords |= {"mode": str(rng.choice(MODES)), "cval": float(rng.integers(0, 3))}
    isa, threads = any_instruction_set(rng), int(rng.integers(1, 4))
    what = f"{name} {x.shape} {x.strides} {x.dtype} {keywords['mode']} {isa} t{threads}"
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = getattr(scipy, name)(np.ascontiguousarray(x), *args, **keywords)
        with instruction_set(isa):
            if rng.integers(2):  # what is kept of this call makes the next one
                getattr(ndi, name)(like(x), *args, threads=threads, **keywords)
            got = getattr(ndi, name)(x, *args, threads=threads, **keywords)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{what}: {got.shape} {got.dtype}, expected {want.shape} {want.dtype}"
    if x.dtype.kind != "f":
        return None if np.array_equal(got, want) else f"{what}: {np.count_nonzero(got != want)} of {got.size} differ"
    magnitudes = 1.0
    if name.startswith("correlate"):
        magnitudes = float(abs(args[0]).sum())
    elif name in ("sobel", "prewitt", "laplace"):
        magnitudes = 4.0**x.ndim
    units = 16.0
    if name == "uniform_filter":  # scipy's are running sums, whose roundings add up
        units += 4 * max(x.shape) ** 0.5
    bound = units * np.finfo(x.dtype).eps * max(1.0, magnitudes) * max(float(abs(x).max()), keywords["cval"])
    far = float(np.max(abs(got.astype(np.float64) - want)))
    return None if far <= bound else f"{what}: {far} away, bound {bound}"
