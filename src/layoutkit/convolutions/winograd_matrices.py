"""Winograd convolution: the exact matrices AT, G, BT of F(m, r), derived from points.

F(m, r) computes m outputs of a correlation with r taps in m + r - 1 products:

    y = AT [(G g) * (BT d)]        y[i] = sum over k of g[k] d[i + k]

It is polynomial multiplication by evaluation at m + r - 2 points and at infinity (Toom-Cook), transposed.
Any distinct points give exact matrices; which ones decides only how rounding grows. Everything is a Fraction
here; points such as sqrt(2) are taken as a fraction nearby, 17/12, and are then exact in their turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._core.nests.convolutions.winograd import EXPANDED_RUN, RUN
from .winograd_pieces import Axis, axis_pieces

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "Transform", "as_array", "error_bound", "error_factor", "growth", "left_inverse", "rescale", "restore_filter",
    "roundings", "tiling", "transform", "transform_filter",
]  # fmt: skip

Matrix = tuple[tuple[Fraction, ...], ...]

# F(m, r) takes as many as it needs: small, and in pairs whose sums and differences are shared.
POINTS = tuple(Fraction(p) for p in ("0", "1", "-1", "2", "-2", "1/2", "-1/2", "4", "-4", "1/4", "-1/4"))

# The pairs +-p beside 0 and infinity that round best for r = 3, found by trying. Those of F(4, 3) have a product of 1:
# the rows are of like size, the error is half that of +-1, +-2.
PAIRS = {2: (Fraction(1),), 4: (Fraction(2, 3), Fraction(3, 2)), 6: (Fraction(1), Fraction(2), Fraction(1, 2))}
STRIDED = 3  # outputs of a tile of F(3, 3) of stride 2, the only one of that stride
TILES = (*PAIRS, STRIDED)

# Roundings that a number passes on its way through one transform of the input, of the output: of products, of sums, and
# of the kernels' coefficients where these are no floats. See in_1d and out_1d in winograd.c.
STEPS = {2: (1, 2), STRIDED: (1, 3), 4: (5, 5), 6: (4, 4)}
FILTER_STEPS = 2  # a transformed filter is rounded once, from float64; the second pays for all that is smaller still
EXPANDED_STEPS = 4  # the same along an axis of a filter that is expanded in float32

# The range for which `error_bound` holds: inputs up to LARGEST_INPUT; of a filter, the largest weight of an output
# channel is 0 or at least SMALLEST_WEIGHT, and no output channel's weights sum up to more than LARGEST_SUM.
LARGEST_INPUT, SMALLEST_WEIGHT, LARGEST_SUM = 2.0**64, 2.0**-100, 2.0**50
F0, F1 = Fraction(0), Fraction(1)
EPS, SMALLEST_NORMAL = 2.0**-24, 2.0**-126
TILE_EPS = 2.0**-8  # of a transformed input or filter that is rounded to bfloat16


class Transform(NamedTuple):
    """The matrices of F(m, r): AT is m x n, G is n x r, BT is n x n, with n = m + r - 1.

    Attributes
    ----------
    m : int
        Outputs of a tile.
    r : int
        Taps.
    AT, G, BT : tuple of tuple of Fraction
        Of outputs, of filters, of inputs.
    """

    m: int
    r: int
    AT: Matrix
    G: Matrix
    BT: Matrix


def transform(m: int, r: int, points: Sequence[Fraction | int | str] | None = None) -> Transform:
    """The matrices of F(m, r).

    Parameters
    ----------
    m, r : int
        Outputs and taps.
    points : sequence of rationals, optional
        m + r - 2 distinct numbers; infinity is always one more. Default: the first of `POINTS`.

    Raises
    ------
    ValueError
        m or r is not positive, or the points are too few, too many, or not distinct.
    """
    if m < 1 or r < 1:
        raise ValueError(f"F({m}, {r}): outputs and taps must be positive")
    finite = m + r - 2
    p = [Fraction(x) for x in (POINTS[:finite] if points is None else points)]
    if len(p) != finite or len(set(p)) != finite:
        listed = ", ".join(map(str, p))
        raise ValueError(f"F({m}, {r}) takes {finite} distinct points and infinity, got {len(p)}: {listed}")
    scales = [_product(x - y for y in p if y != x) for x in p]
    if scales and scales[0] < 0:  # the sign of one row is free: all published tables have this one positive
        scales[0] = -scales[0]
        sign = -1
    else:
        sign = 1
    g = [[x**k / s for k in range(r)] for x, s in zip(p, scales)] + [_last(r)]
    at = [[x**k for x in p] + [_last(m)[k]] for k in range(m)]
    bt = [_coefficients([y for y in p if y != x]) + [Fraction(0)] for x in p] + [_coefficients(p)]
    if sign < 0:
        bt[0] = [-x for x in bt[0]]
    return Transform(m, r, _matrix(at), _matrix(g), _matrix(bt))


def _product(factors) -> Fraction:
    out = Fraction(1)
    for f in factors:
        out *= f
    return out


def _last(n: int) -> list[Fraction]:
    """The value at infinity of a polynomial of n coefficients: the last."""
    return [Fraction(k == n - 1) for k in range(n)]


def _coefficients(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients, lowest first, of the product of (x - root)."""
    out = [Fraction(1)]
    for root in roots:
        out = [a - root * b for a, b in zip([Fraction(0), *out], [*out, Fraction(0)])]
    return out


def _matrix(rows) -> Matrix:
    return tuple(tuple(Fraction(x) for x in row) for row in rows)


def rescale(t: Transform, factors: Sequence[Fraction | int]) -> Transform:
    """The same algorithm with row i of G times factors[i], and column i of AT divided by it.

    Parameters
    ----------
    t : Transform
    factors : sequence of rationals
        One for each row of G, none 0.
    """
    f = [Fraction(x) for x in factors]
    if len(f) != len(t.G) or 0 in f:
        raise ValueError(f"F({t.m}, {t.r}) is rescaled by {len(t.G)} numbers other than 0, got {factors}")
    g = [[x * k for x in row] for row, k in zip(t.G, f)]
    at = [[x / k for x, k in zip(row, f)] for row in t.AT]
    return t._replace(AT=_matrix(at), G=_matrix(g))


@cache
def paired(m: int) -> Transform:
    """F(m, 3) at 0, +-p for p in `PAIRS`, infinity, with the sign that makes BT[0][m] a 1: what the kernels do."""
    t = transform(m, 3, [Fraction(0), *(x for p in PAIRS[m] for x in (p, -p))])
    sign = t.BT[0][m]
    G, BT = (_matrix([[sign * x for x in first], *rest]) for first, *rest in (t.G, t.BT))
    return t._replace(G=G, BT=BT)


@cache
def strided() -> Transform:
    """F(3, 3) of stride 2, y[i] = sum over k of g[k] d[2 i + k]: F(3, 2) of even inputs and the outer taps, and
    products of odd inputs and the middle tap.

    AT is 3 x 7, G 7 x 3, BT 7 x 7. Products are in the order of winograd.h: those that only the last output takes are
    the last two.
    """
    even = transform(STRIDED, 2, [0, 1, -1])
    sign, order = even.BT[0][2], (0, 1, 2, 4, 5, 3, 6)
    at, g, bt = [[F0] * 7 for _ in range(3)], [[F0] * 3 for _ in range(7)], [[F0] * 7 for _ in range(7)]
    for t in range(4):
        by = sign if t == 0 else 1
        g[t][0], g[t][2] = (by * x for x in even.G[t])
        bt[t][::2] = [by * x for x in even.BT[t]]
        for i in range(3):
            at[i][t] = even.AT[i][t]
    for i in range(3):
        g[4 + i][1] = bt[4 + i][2 * i + 1] = at[i][4 + i] = F1
    return Transform(
        STRIDED, 3, _matrix([row[t] for t in order] for row in at), _matrix(g[t] for t in order),
        _matrix(bt[t] for t in order),
    )  # fmt: skip


def stride_of(m: int) -> int:
    """The stride of tiles of m outputs; as many of their products along an axis only the last output takes."""
    return 2 if m == STRIDED else 1


def algorithm(m: int) -> Transform:
    """What the kernels of tiles of m outputs do; ValueError if there are none."""
    if m not in TILES:
        raise ValueError(f"winograd: tiles of {m!r} outputs, expected 2, 4 or 6, or with stride 2 also {STRIDED}")
    return strided() if m == STRIDED else paired(m)


def inputs_of(m: int) -> int:
    """How many inputs a tile of m outputs reads along an axis; it has as many products."""
    return stride_of(m) * (m - 1) + 3


@cache
def factors(m: int) -> np.ndarray:
    """The rows of G of tiles of m outputs, each once, as winograd.pyx reads them: n x 3, of stride 2 5 x 3."""
    rows = as_array(tuple(dict.fromkeys(algorithm(m).G)))
    rows.flags.writeable = False
    return rows


@cache
def kernel_table(m: int) -> tuple[Fraction, ...]:
    """The numbers that the kernels of tiles of m outputs read, in the order that winograd.h says."""
    if m == STRIDED:
        return ()
    bt = paired(m).BT
    table = list(bt[-1][1:m:2])
    for q, p in enumerate(PAIRS[m]):
        table += [*bt[2 * q + 1][2:m:2], *(p**k for k in range(1, m))]
    return tuple(table)


def expanding_table(m: int) -> list[float]:
    """The numbers that the kernels read which expand filters of `paired` F(m, 3): of G."""
    g = paired(m).G
    return [float(x) for x in (g[0][0], *(x for q in range(len(PAIRS[m])) for x in g[2 * q + 1]))]


@cache
def gradient_tables(high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The numbers that the kernels read for the gradient of a filter of F(4, 3), by tiles of `high` x 4 outputs.

    They are those of `kernel_table`; what makes the transform of inputs that of outputs, read backwards; and the scales
    of the products of a tile, the numbers that rows of G are multiples of, with the first two powers of the points.
    """
    t = paired(4)
    backwards = [Fraction(1), Fraction(0)]
    powers: list[Fraction] = []
    for p in PAIRS[4]:
        backwards += [p**2, p, p**2, p**3]
        powers += [p, p**2]
    scales = [row[0] or row[-1] for row in t.G]
    of_rows = scales if high > 1 else [Fraction(1)]
    tables = kernel_table(4), backwards, [a * b for a in of_rows for b in scales] + powers
    first, second, third = (np.array([float(k) for k in table], np.float32) for table in tables)
    return first, second, third


def tiling(outputs: int, m: int) -> tuple[int, int]:
    """How many tiles of m outputs an axis is cut into, and how many of m - 1 follow; the last may reach over the edge.

    The last output of a tile is the only one that takes the last products: tiles of m - 1 outputs are those of m
    without them.

    Parameters
    ----------
    outputs : int
        Along the axis.
    m : int
        2, 4 or 6; 3 with stride 2.
    """
    tiles = -(-outputs // m)
    short = min(tiles, tiles * m - outputs)
    return tiles - short, short


def growth(m: int, axes: int = 2) -> float:
    """How much larger the intermediate numbers of F(m, 3) along so many axes can be than the result they cancel to.

    Output i gets of tap k, through all products t, at most the sum of AT[i][t] G[t][k] b[t], all absolute, times the
    largest input, where b[t] is the sum of the absolute values of row t of BT. The most of these, once for each axis.

    Parameters
    ----------
    m : int
        2, 4 or 6; 3 with stride 2.
    axes : int, optional
        1 or 2.
    """
    at, g, bt = (abs(as_array(matrix, object)) for matrix in algorithm(m)[2:])
    return float((at @ (bt.sum(1)[:, None] * g)).max() ** axes)


def roundings(m: int, channels: int, taps: int = 1, axes: int = 2) -> int:
    """How many times a number is rounded on its way through F(m, 3): transforms, and the sum over channels.

    `channels` are those of a group, `taps` what is summed directly: taps along the depth, times pieces of 3x3 taps.

    Parameters
    ----------
    m : int
        2, 4 or 6; 3 with stride 2.
    channels : int
        Of the input, in a group.
    taps : int, optional
        Along the depth, times the pieces of 3x3 (or 3) taps that the filter has.
    axes : int, optional
        1 or 2.
    """
    algorithm(m)  # a ValueError where there is none
    return _summed(channels, taps, RUN) + FILTER_STEPS + axes * sum(STEPS[m])


def expands(m: int, channels: int, taps: int = 1, axes: int = 2) -> bool:
    """Whether no more is rounded where filters are expanded: their sums are shorter.

    Parameters
    ----------
    m, channels, taps, axes
        As of `roundings`.
    """
    expanded = _summed(channels, taps, EXPANDED_RUN) + 1 + axes * (EXPANDED_STEPS + sum(STEPS[m]))
    return expanded <= roundings(m, channels, taps, axes)


def _summed(channels: int, taps: int, most: int) -> int:
    """How many sums a product is a part of, if at most so many channels are summed by themselves, see winograd.pyx."""
    channels = max(1, channels)
    even = -(-channels // -(-channels // most))
    run = -(-even // 4) * 4
    return min(channels, run) + taps * -(-channels // run) - 1


def error_factor(m: int, channels: int, taps: int = 1, axes: int = 2, narrow: bool = False) -> float:
    """The c of `error_bound`: `growth` times the relative error that so many `roundings` add up to.

    With `narrow`, transformed inputs and filters are rounded to bfloat16 as well.

    Parameters
    ----------
    m : int
        2, 4 or 6; 3 with stride 2.
    channels : int
        Of the input, in a group.
    taps : int, optional
        Along the depth, times the pieces of 3x3 (or 3) taps that the filter has.
    axes : int, optional
        1 or 2.
    narrow : bool, optional
        Whether transformed inputs and filters are bfloat16.
    """
    each = roundings(m, channels, taps, axes) * EPS
    relative = each / (1 - each)
    return growth(m, axes) * ((1 + relative) * (1 + TILE_EPS) ** 2 - 1 if narrow else relative)


def error_bound(
    x: np.ndarray, w: np.ndarray, m: int, *, bias=None, stride=None, padding=None, dilation=None, groups: int = 1,
    narrow: bool = False,
) -> np.ndarray:  # fmt: skip
    """The largest error that a convolution by F(m, 3), or by pieces of 3 taps, may have, output by output.

    Of each output, the result is within ``c * sum(abs(w)) * max(abs(x))`` of the exact one: the sum over all weights of
    its channel, the maximum over all inputs that its tile reads, c of `error_factor`. Numbers below the smallest normal
    one, 2^-126, count as that (of bfloat16, which takes them for zeros, below 2^-118). A bias adds its own rounding. It
    holds for finite inputs up to `LARGEST_INPUT` and filters in the range above; "auto" leaves Winograd out for other
    filters.

    Parameters
    ----------
    x, w, bias : ndarray
        Logical input ``(N, C, *spatial)``, filter ``(O, C / groups, *kernel)``, bias ``(O,)``.
    m : int
        2, 4 or 6; 3 with stride 2. A kernel of several taps along the last two axes makes tiles of m x m outputs, one
        of 1 x k (or k in 1-D) of 1 x m, one of k x 1 of m x 1.
    stride, padding, dilation, groups
        One for each axis, padding as pairs (before, after). With m = 3 the last two strides are 2.
    narrow : bool
        Whether transformed inputs and filters are bfloat16.

    Returns
    -------
    ndarray of float64
        ``(N, O, *output)``.

    Raises
    ------
    ValueError
        There are no such tiles, or their stride is another one.
    """
    axes = x.ndim - 2
    lead = (1,) * (3 - axes)
    kernel, strides, (d, *steps) = ((*lead, *(numbers or (1,) * axes)) for numbers in (w.shape[2:], stride, dilation))
    if stride_of(m) > 1 and strides[1:] != (2, 2):
        raise ValueError(f"winograd: tiles of {m} outputs are those of stride 2 along the last two axes, got {stride}")
    pads = ((0, 0),) * (3 - axes) + tuple(padding or ((0, 0),) * axes)
    most = np.abs(x, dtype=np.float64).reshape(x.shape[0], groups, x.shape[1] // groups, *lead, *x.shape[2:])
    most = np.pad(most.max(2, initial=0), ((0, 0), (0, 0), *pads))
    deep = (most.shape[2] - d * (kernel[0] - 1) - 1) // strides[0] + 1
    most = np.max([most[:, :, k * d :: strides[0]][:, :, :deep] for k in range(kernel[0])], axis=0)
    summed = kernel[0]
    for axis, taps, s, step in zip((3, 4), kernel[1:], strides[1:], steps):
        pieces = axis_pieces(taps, s, step, stride_of(m))
        summed *= len(pieces.taps)
        if taps == 1:
            most = most.take(range(0, most.shape[axis], s), axis)
        else:
            most = _over_tiles(most, axis, m, taps, step, pieces)
    sums = np.abs(w, dtype=np.float64).sum(tuple(range(1, w.ndim))).reshape(groups, -1, 1, 1, 1)
    least = SMALLEST_NORMAL / TILE_EPS if narrow else SMALLEST_NORMAL
    sums = sums * np.maximum(most, least)[:, :, None]
    c = error_factor(m, w.shape[1], summed, 2 if min(kernel[1:]) > 1 else 1, narrow)
    bound = (c * sums + least).reshape(x.shape[0], w.shape[0], *most.shape[5 - axes :])
    if bias is None:
        return bound
    return bound + EPS * (sums.reshape(bound.shape) + np.abs(bias, dtype=np.float64).reshape(-1, *[1] * axes))


def _over_tiles(x: np.ndarray, axis: int, m: int, taps: int, step: int, pieces: Axis) -> np.ndarray:
    """For each output along `axis`, the most of what its tile reads, dilation `step` apart: each phase of it has tiles
    of its own. With a stride, what lies between counts as well."""
    stride, read = pieces.scale, pieces.last // step + 1
    out = max(0, (x.shape[axis] - (taps - 1) * step - 1) // stride + 1)
    x = np.moveaxis(x, axis, 0)
    whole, short = tiling(-(-out // step), m)
    sizes = [m] * whole + [m - 1] * short
    most = np.empty((out, *x.shape[1:]), x.dtype)
    for phase in range(min(step, out)):
        pixels = x[phase::step]
        ends = np.cumsum(sizes, dtype=int)
        tiles = [pixels[stride * (end - size) : stride * (end - 1) + read].max(0) for size, end in zip(sizes, ends)]
        most[phase::step] = np.repeat(tiles, sizes, 0)[: len(most[phase::step])]
    return np.moveaxis(most, 0, axis)


def left_inverse(a: Matrix) -> Matrix:
    """The matrix L with L a = 1 of least squares, (a^T a)^-1 a^T; ValueError if columns are dependent.

    Parameters
    ----------
    a : tuple of tuple of Fraction
        By rows.
    """
    n = len(a[0])
    # Gauss-Jordan on [a^T a | a^T], in exact rationals.
    zero = Fraction(0)
    rows = [[sum((r[i] * r[j] for r in a), zero) for j in range(n)] + [r[i] for r in a] for i in range(n)]
    for i in range(n):
        pivot = next((k for k in range(i, n) if rows[k][i]), None)
        if pivot is None:
            raise ValueError("no left inverse: the columns are dependent")
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i])]
    return _matrix(row[n:] for row in rows)


def as_array(matrix: Matrix, dtype: DTypeLike = np.float64) -> np.ndarray:
    """The matrix as a numpy array, each entry rounded once; exact Fractions if `dtype` is object.

    Parameters
    ----------
    matrix : tuple of tuple of Fraction
        By rows.
    dtype : dtype, optional
    """
    return np.array([list(row) for row in matrix], object).astype(dtype)


def transform_filter(w: np.ndarray, t: Transform) -> np.ndarray:
    """Filters (O, I, r, r) in the Winograd domain: G g G^T as ((m + r - 1)^2, O, I).

    Computed in float64, then rounded; exactly, if `w` is of dtype object (Fractions, integers).

    Parameters
    ----------
    w : ndarray
        ``(O, I, r, r)``.
    t : Transform

    Raises
    ------
    ValueError
        The filters are not of r x r taps.
    """
    w = np.asarray(w)
    if w.ndim != 4 or w.shape[2:] != (t.r, t.r):
        raise ValueError(f"F({t.m}, {t.r}) transforms filters (O, I, {t.r}, {t.r}), got shape {w.shape}")
    return _sandwich(t.G, w, w.dtype).transpose(2, 3, 0, 1).reshape(len(t.G) ** 2, *w.shape[:2])


def restore_filter(u: np.ndarray, t: Transform) -> np.ndarray:
    """Filters (O, I, r, r) back from the Winograd domain, by the left inverse of G.

    Exact on what `transform_filter` gives; of anything else, the filters nearest by least squares.

    Parameters
    ----------
    u : ndarray
        ``((m + r - 1)**2, O, I)``.
    t : Transform
    """
    u = np.asarray(u)
    n = len(t.G)
    if u.ndim != 3 or u.shape[0] != n * n:
        raise ValueError(f"F({t.m}, {t.r}) restores filters from ({n * n}, O, I), got shape {u.shape}")
    u = u.reshape(n, n, *u.shape[1:]).transpose(2, 3, 0, 1)
    return _sandwich(left_inverse(t.G), u, u.dtype)


def _sandwich(matrix: Matrix, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """matrix @ x @ matrix^T over the last two axes."""
    a = as_array(matrix, object if dtype.kind == "O" else np.float64)
    return (a @ x.astype(a.dtype) @ a.T).astype(dtype)


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__name__"]
