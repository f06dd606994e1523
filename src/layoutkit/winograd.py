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

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Matrix = tuple[tuple[Fraction, ...], ...]

# Taken in turn as F(m, r) needs them: small, and in pairs whose sums and differences are shared.
POINTS = tuple(Fraction(p) for p in ("0", "1", "-1", "2", "-2", "1/2", "-1/2", "4", "-4", "1/4", "-1/4"))

# The pairs +-p beside 0 and infinity that round best for r = 3, found by trying. Those of F(4, 3) have a product of 1:
# the rows are of like size, the error is half that of +-1, +-2.
PAIRS = {2: (Fraction(1),), 4: (Fraction(2, 3), Fraction(3, 2)), 6: (Fraction(1), Fraction(2), Fraction(1, 2))}


class Transform(NamedTuple):
    """The matrices of F(m, r): AT is m x n, G is n x r, BT is n x n, with n = m + r - 1."""

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
        given = ", ".join(map(str, p))
        raise ValueError(f"F({m}, {r}) takes {finite} distinct points and infinity, got {len(p)}: {given}")
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
    """The same algorithm with row i of G times factors[i], and column i of AT divided by it."""
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
def kernel_table(m: int) -> tuple[Fraction, ...]:
    """The numbers that the kernels of `paired` F(m, 3) read, in the order that kernels.h says."""
    bt = paired(m).BT
    table = list(bt[-1][1:m:2])
    for q, p in enumerate(PAIRS[m]):
        table += [*bt[2 * q + 1][2:m:2], *(p**k for k in range(1, m))]
    return tuple(table)


def left_inverse(a: Matrix) -> Matrix:
    """The matrix L with L a = 1 of least squares, (a^T a)^-1 a^T; ValueError if columns are dependent."""
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
    """The matrix as a numpy array, each entry rounded once; exact Fractions if `dtype` is object."""
    return np.array([list(row) for row in matrix], object).astype(dtype)


def transform_filter(w: np.ndarray, t: Transform) -> np.ndarray:
    """Filters (O, I, r, r) in the Winograd domain: G g G^T as ((m + r - 1)^2, O, I).

    Computed in float64, then rounded; exactly, if `w` is of dtype object (Fractions, integers).

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
