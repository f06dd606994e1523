"""Products of matrices: whole numbers, whose sums are exact, in arrays of any strides between guard pages."""

import numpy as np
import pytest
from conftest import NEST_ISAS, WHOLE_ISAS, using_isa
from hypothesis import example, given
from hypothesis import strategies as st
from strided import placed, products

from layoutkit._core.nests.axes import merged, offsets, viewed_array
from layoutkit._core.nests.products.matmul import Matmul
from layoutkit.convolutions.epilogue import parse

EXTENTS = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 16, 17, 24, 31, 32, 33, 48, 50, 64, 65, 100, 197])
ROWS, COLUMNS = ((order, [0, 0], [1, 1], None, True) for order in ([0, 1], [1, 0]))
LONG_K = st.sampled_from([191, 192, 193, 384, 400, 1536, 1537, 3100])


def whole(rng, shape, dtype):
    return rng.integers(-4, 5, shape).astype(dtype)


@given(
    products(EXTENTS, LONG_K), st.sampled_from(NEST_ISAS), st.sampled_from([np.float32, np.float64]),
    st.sampled_from(["", "a", "b"]), st.booleans(),
    st.sampled_from([None, "relu", ("add", "row"), [("mul", 2), ("add", "row"), ("clip", -50, 60)]]),
    st.booleans(), st.integers(1, 4),
)  # fmt: skip
@example(([(300, 200), (200, 1400), (300, 1400)], [ROWS] * 3), NEST_ISAS[-1], np.float32, "", True, None, False, 3)
@example(([(300, 900), (900, 70), (300, 70)], [COLUMNS] * 3), NEST_ISAS[-1], np.float32, "", False, "relu", True, 2)
def test_any_strides(product, isa, dtype, constant, biased, activation, adds, threads):
    shapes, lie = product
    rng = np.random.default_rng(0)
    a, b = (placed(whole(rng, shape, dtype), of) for shape, of in zip(shapes[:2], lie))
    c = placed(np.full(shapes[2], np.nan, dtype), lie[2])
    n = c.shape[-1]
    bias, row = (whole(rng, n, dtype) for _ in range(2))
    add = None
    if adds:
        add = placed(whole(rng, c.shape, dtype), lie[2])
        assert add.strides == c.strides
    steps = [(name, *(row if v == "row" else v for v in rest)) for name, *rest in chain(activation)]
    epilogue = parse(steps, n, dtype, "test").epilogue if steps and n else None
    with using_isa(isa):
        op = Matmul(
            a, b, c, bias=bias if biased else None, epilogue=epilogue, add=add, constant=constant, threads=threads
        )
    op(*(x for name, x in (("a", a), ("b", b), ("c", c), ("add", add)) if name != constant and x is not None))
    want = np.matmul(a.astype(np.float64), b.astype(np.float64)) + (bias if biased else 0) + (0 if add is None else add)
    for name, *rest in steps if epilogue else ():
        want = {
            "relu": lambda x: np.maximum(x, 0), "add": lambda x, v: x + v, "mul": lambda x, v: x * v, "clip": np.clip,
        }[name](want, *rest)  # fmt: skip
    np.testing.assert_array_equal(c, np.broadcast_to(want, c.shape))


def chain(activation):
    """The steps of an activation."""
    if activation is None:
        return []
    return [
        step if isinstance(step, tuple) else (step,)
        for step in (activation if isinstance(activation, list) else [activation])
    ]


@pytest.mark.parametrize("isa", [isa for isa in WHOLE_ISAS if isa != "portable"])
@pytest.mark.parametrize("m, k, n", [(50, 64, 50), (1, 700, 300), (90, 2000, 33), (400, 70, 1), (7, 5, 3)])
def test_the_bits_are_the_same(isa, m, k, n):
    """Whatever the threads, strides, and which operand is constant."""
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((3, m, k), np.float32), rng.standard_normal((3, k, n), np.float32)
    results = []
    with using_isa(isa):
        for threads in (1, 2, 3):
            for turned_a, turned_b, turned_c in np.ndindex(2, 2, 2):
                x, y, z = (
                    np.ascontiguousarray(v.swapaxes(1, 2)).swapaxes(1, 2) if turned else v.copy()
                    for v, turned in ((a, turned_a), (b, turned_b), (np.full((3, m, n), np.nan, np.float32), turned_c))
                )
                Matmul(x, y, z, threads=threads)(x, y, z)
                results.append(z)
            z = np.full((3, m, n), np.nan, np.float32)
            Matmul(a, b, z, constant="b", threads=threads)(a, z)
            results.append(z)
    for z in results[1:]:
        np.testing.assert_array_equal(z, results[0])
    want = np.matmul(a.astype(np.float64), b)
    bound = 8e-7 * np.matmul(abs(a), abs(b))
    assert (abs(results[0] - want) <= bound).all()


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("turned", [False, True])
def test_infinities_and_nan_stay_where_the_sum_has_them(isa, turned):
    rng = np.random.default_rng(0)
    a, b = whole(rng, (40, 30), np.float32), whole(rng, (30, 37), np.float32)
    a[3, 4], a[17, 29], a[39, 0] = np.inf, np.nan, -np.inf
    b[4, 5], b[0, 36], b[7, 7] = 0, np.inf, np.nan
    if turned:
        b = np.ascontiguousarray(b.T).T
    c = np.empty((40, 37), np.float32)
    with using_isa(isa):
        Matmul(a, b, c, threads=2)(a, b, c)
    with np.errstate(invalid="ignore"):
        want = (a[:, :, None].astype(np.float64) * b).sum(1)
    np.testing.assert_array_equal(c, want)
    assert np.isnan(c[3, 5]) and np.isnan(c).mean() < 0.5


def test_views_of_arrays():
    """Operands that are parts of one array, from an address that only a run tells."""
    rng = np.random.default_rng(0)
    packed, out = whole(rng, (2, 9, 3, 4, 8), np.float32), np.zeros((2, 9, 4, 9), np.float32)
    q, k = (packed[:, :, i].transpose(0, 2, 1, 3) for i in (0, 1))
    op = Matmul(q, k.swapaxes(2, 3), out.transpose(0, 2, 1, 3), arrays=(packed, out))
    other, into = whole(rng, packed.shape, np.float32), np.zeros_like(out)
    op(other, into)
    q, k = (other[:, :, i].transpose(0, 2, 1, 3) for i in (0, 1))
    np.testing.assert_array_equal(into.transpose(0, 2, 1, 3), q @ k.swapaxes(2, 3))
    with pytest.raises(ValueError, match="no view of the arrays"):
        Matmul(q, k.swapaxes(2, 3), out.transpose(0, 2, 1, 3), arrays=(packed, out))


@pytest.mark.parametrize(
    "error, a, b, c, more",
    [
        (ValueError, (2, 3), (4, 5), (2, 5), {}),
        (ValueError, (2, 3), (3, 5), (5, 2), {}),
        (ValueError, (7, 2, 3), (3, 5), (2, 5), {}),
        (TypeError, (2, 3), (3, 5), (2, 5), {"dtype": np.int32}),
        (ValueError, (2, 3), (3, 5), (2, 5), {"bias": np.zeros(2, np.float32)}),
        (ValueError, (2, 3), (3, 5), (2, 5), {"add": np.zeros((1, 5), np.float32)}),
    ],
)
def test_what_does_not_fit_is_refused(error, a, b, c, more):
    dtype = more.pop("dtype", np.float32)
    with pytest.raises(error, match="Matmul"):
        Matmul(np.zeros(a, dtype), np.zeros(b, dtype), np.zeros(c, dtype), **more)


def test_axes():
    assert merged([(2, 12), (3, 4), (4, 1)]) == [(24, 1)]
    assert merged([(2, 100), (1, 5), (4, 1)]) == [(2, 100), (4, 1)]
    assert merged([(1, 7), (4, 1)]) == [(4, 1)]
    np.testing.assert_array_equal(offsets([(2, 5, 100), (3, 1, 10)], 2), [0, 10, 20, 100, 110, 120])
    x = np.zeros((4, 6))
    assert viewed_array(x[1:, ::-1], [np.zeros(1), x]) == (1, 8 * (6 + 5))
