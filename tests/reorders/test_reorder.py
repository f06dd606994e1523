import itertools
import re
from math import prod

import numpy as np
import pytest
from conftest import using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.reorders.box import Box
from layoutkit.reorders.program import Transfer, program
from layoutkit.reorders.variants import VARIANTS

DTYPES = ["u1", "u2", "f4", "f8", "c16"]


@st.composite
def layouts(draw, rank):
    """A format nobody has named: any order, up to three blocks of any size."""
    letters = "abcdef"[:rank]
    outer = draw(st.permutations(letters))
    blocks = draw(st.lists(st.tuples(st.sampled_from([2, 3, 4, 8, 12, 16]), st.sampled_from(letters)), max_size=3))
    capital = {x for _, x in blocks}
    return lk.Layout("".join(x.upper() if x in capital else x for x in outer) + "".join(f"{n}{x}" for n, x in blocks))


@st.composite
def cases(draw):
    rank = draw(st.integers(1, 6))
    top = {1: 300, 2: 70, 3: 30, 4: 20, 5: 9, 6: 5}[rank]
    return dict(
        shape=tuple(draw(st.lists(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, top),
                                  min_size=rank, max_size=rank))),
        src=draw(layouts(rank)), dst=draw(layouts(rank)), dtype=draw(st.sampled_from(DTYPES)),
        threads=draw(st.integers(1, 3)), isa=draw(st.sampled_from(registry.isas())),
        variant=draw(st.sampled_from(list(VARIANTS))), end=draw(st.sampled_from(["low", "high"])),
    )  # fmt: skip


def tensor(shape, dtype):
    n = int(np.prod(shape))
    return np.random.default_rng(n).integers(1, 250, n).astype(dtype).reshape(shape)


def on_guard(array, end):
    buffer = guarded(array.reshape(-1).view(np.uint8), end)
    return buffer.array.view(array.dtype).reshape(array.shape)


@given(cases())
def test_any_layout_to_any_layout(c):
    x = reference.to_physical(tensor(c["shape"], c["dtype"]), c["src"], pad_value=7)
    want = reference.reorder(x, c["src"], c["dst"], c["shape"], pad_value=3)
    x, out = on_guard(x, c["end"]), on_guard(np.zeros_like(want), c["end"])
    with using_isa(c["isa"]):
        got = lk.reorder(x, c["src"], c["dst"], shape=c["shape"], pad_value=3, threads=c["threads"], out=out)
        np.testing.assert_array_equal(got, want)
        if x.size:  # every variant, not only the one chosen
            out[...] = 0
            pad = np.asarray(3).astype(x.dtype).tobytes()
            move = Transfer(c["src"], c["dst"], x.itemsize, x.strides, out.strides, Box.all_of(c["shape"]))
            program(move, c["variant"], pad)(x, out, c["threads"])
            np.testing.assert_array_equal(out, want)


@given(cases(), st.randoms(use_true_random=False))
def test_strided_views_both_sides(c, random):
    x = reference.to_physical(tensor(c["shape"], c["dtype"]), c["src"])
    want = reference.reorder(x, c["src"], c["dst"], c["shape"])

    def view(array):
        """The same values seen through steps of 1, 2, -1 or -3 on every axis of a larger array, of 256 MB at most."""
        steps = [random.choice([1, 2, -1, -3]) for _ in array.shape]
        assume(array.nbytes * prod(map(abs, steps)) <= 1 << 28)
        room = np.zeros([n * abs(k) for n, k in zip(array.shape, steps)], array.dtype)
        seen = room[tuple(slice(None, None, k) for k in steps)]
        seen[...] = array
        return room, seen

    _, strided = view(x)
    room, out = view(np.zeros_like(want))
    before = room.copy()
    lk.reorder(strided, c["src"], c["dst"], shape=c["shape"], out=out)
    np.testing.assert_array_equal(out, want)
    out[...] = 0
    np.testing.assert_array_equal(room, before)  # nothing between the elements was written


def test_broadcast_source():
    x = np.broadcast_to(np.arange(7, dtype=np.float32), (2, 3, 5, 7))
    np.testing.assert_array_equal(lk.reorder(x, "NCHW", "NHWC"), x.transpose(0, 2, 3, 1))


@given(
    st.lists(st.integers(1, 20), min_size=4, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from(DTYPES), layouts(4), st.sampled_from(registry.isas()), st.data(),
)  # fmt: skip
def test_axes_that_are_broadcast(shape, repeated, dtype, dst, isa, data):
    """Runs of the destination may be of one element."""
    few = [1 if again else n for n, again in zip(shape, repeated)]
    x = np.broadcast_to((np.arange(prod(few)) % 251).astype(dtype).reshape(few), shape)
    want = reference.to_physical(x, dst)
    with using_isa(isa):
        np.testing.assert_array_equal(lk.reorder(x, "NCHW", dst), want)
        t = Transfer(lk.Layout("abcd"), dst, x.itemsize, x.strides, want.strides, Box.all_of(x.shape))
        out = np.ones_like(want)
        program(t, data.draw(st.sampled_from(list(VARIANTS))), bytes(x.itemsize))(x, out, 1)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("turned", list(itertools.product([1, -1], repeat=4)))
@pytest.mark.parametrize("variant", VARIANTS)
def test_reversed_axes_beside_padded_blocks(variant, turned):
    """Rows and columns of the source, and of the destination."""
    shape = 3, 21, 5, 19
    turns = [slice(None, None, turn) for turn in turned]
    x = tensor(shape, "f4")[..., turns[0], turns[1]]
    out = np.zeros((3, 2, 5, 19, 16), np.float32)[:, :, turns[2], turns[3]]
    want = reference.reorder(x, lk.Layout("NCHW"), lk.Layout("nChw16c"), shape)
    move = Transfer(lk.Layout("abcd"), lk.Layout("aBcd16b"), 4, x.strides, out.strides, Box.all_of(shape))
    program(move, variant, bytes(4))(x, out, 1)
    np.testing.assert_array_equal(out, want)


def test_explicit_strides_on_either_side():
    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    spread = lk.reorder(x, "NCHW", "nhwc:(100,20,4,1)")
    assert spread.shape == (2, 4, 5, 3) and [s // 4 for s in spread.strides] == [100, 20, 4, 1]
    np.testing.assert_array_equal(spread, x.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(lk.reorder(spread, "nhwc:(100,20,4,1)", "NCHW"), x)
    with pytest.raises(ValueError, match="the array has byte strides"):
        lk.reorder(np.ascontiguousarray(spread), "nhwc:(100,20,4,1)", "NCHW")


@pytest.mark.parametrize("bits", [0x7FC00001, 0xFFA00000, 0x80000000, 0x00000001])
def test_bits_are_kept(bits):
    x = np.full((1, 20, 5, 5), bits, np.uint32).view(np.float32)
    got = lk.reorder(lk.reorder(x, "NCHW", "nChw16c"), "nChw16c", "NCHW", shape=x.shape)
    np.testing.assert_array_equal(got.view(np.uint32), x.view(np.uint32))


def test_other_byte_order_and_structured_dtypes():
    x = np.arange(24, dtype=">f4").reshape(1, 2, 3, 4)
    got = lk.reorder(x, "NCHW", "NHWC")
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, x.transpose(0, 2, 3, 1))


def test_result_is_aligned_and_new():
    x = np.ones((1, 3, 4, 5), np.float32)
    got = lk.reorder(x, "NCHW", "NCHW")
    assert got.ctypes.data % 64 == 0 and not np.shares_memory(got, x)


X = np.ones((1, 20, 4, 5), np.float32)
MANY = lk.Layout.from_factors([(dim, 0) for dim in range(17)])


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "says"),
    [
        ((X, "NCHW", "NDHWC"), {}, ValueError, "reorder NCHW -> NDHWC: layouts of 4 and 5 dimensions"),
        ((X[0], "NCHW", "NHWC"), {}, ValueError, "layout NCHW is held by an array of 4 axes, got shape (20, 4, 5)"),
        ((X, "nope", "NHWC"), {}, ValueError, "format 'nope'"),
        ((X, "NCHW", "nChw"), {}, ValueError, "'C' at position 1 is a capital but has no block"),
        ((X, "NCHW", "nchw16c"), {}, ValueError, "'c' at position 1 is blocked and must be a capital"),
        ((X, "NCHW", "nChw16x"), {}, ValueError, "block 16x at position 4"),
        ((X, "NCHW", "nChw0c"), {}, ValueError, "block size 0 at position 4"),
        ((X, "NCHW", "n-hw"), {}, ValueError, "at position 1"),
        ((X, "NCHW", ""), {}, ValueError, "it is empty"),
        ((X, "NCHW", 4.5), {}, TypeError, "Layout"),
        ((X, "NCHW", "NHWC"), dict(shape=(1, 19, 4, 5)), ValueError, "held by an array of (1, 19, 4, 5)"),
        ((X, "NCHW", "NHWC"), dict(shape=(1, 20, 4)), ValueError, "has 4 dimensions"),
        ((X, "NCHW", "NHWC"), dict(out=np.ones((1, 4, 5, 21), "f4")), ValueError, "must have shape (1, 4, 5, 20)"),
        ((X, "NCHW", "NHWC"), dict(out=np.ones((1, 4, 5, 20))), ValueError, "dtype float32, got"),
        ((X, "NCHW", "NHWC"), dict(threads=1.5), TypeError, "threads: expected an int"),
        ((X.astype(object), "NCHW", "NHWC"), {}, TypeError, "plain bytes"),
        ((np.ones((1, 2, 3, 4), "V3"), "NCHW", "NHWC"), {}, TypeError, "1, 2, 4, 8 or 16"),
        ((object(), "NCHW", "NHWC"), {}, TypeError, "expected an array, got object"),
        (([[1, 2]], "ab", "ba"), {}, TypeError, "got list; numpy.asarray(array, 'float32') makes one"),
        ((np.ones((1,) * 17), MANY, MANY), {}, ValueError, "has 17 dimensions; operations plan at most"),
    ],
)
def test_bad_input(args, kwargs, error, says):
    with pytest.raises(error, match=re.escape(says)):
        lk.reorder(*args, **kwargs)


def test_bad_out_leaves_it_alone():
    room = np.arange(480, dtype=np.float32).reshape(1, 20, 4, 6)
    before = room.copy()
    with pytest.raises(ValueError, match="overlaps an input"):
        lk.reorder(room, "NCHW", "NHWC", out=room.reshape(1, 4, 6, 20))
    read_only = np.ones((1, 4, 5, 20), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        lk.reorder(X, "NCHW", "NHWC", out=read_only)
    np.testing.assert_array_equal(room, before)


def test_too_large_is_an_error_not_a_crash():
    x = np.broadcast_to(np.uint8(1), (2**58, 1, 1, 1))
    with pytest.raises(ValueError, match="too large"):
        lk.reorder(x, "NCHW", "nChw64c")
    with pytest.raises(MemoryError, match=r"an array of shape .* and dtype uint8"):
        lk.reorder(x, "NCHW", "NHWC")


def test_explain():
    plan = lk.plan(lk.reorder, X, "NCHW", "nChw16c")
    assert plan.explain().startswith("reorder of (1, 20, 4, 5) float32 NCHW -> nChw16c on 1 thread\n")
    assert "estimated" in plan.explain() and "allx64" not in plan.explain()
    assert "\nreorder 1x20x4x5 NCHW>nChw16c x32 t1\n" in plan.explain(verbose=True)


@pytest.mark.parametrize("dst", ["ba:(3,0)", "aB4b:(0,*,1)", "aB4b:(*,2,1)"])
def test_a_destination_whose_elements_overlap_is_refused(dst):
    with pytest.raises(ValueError, match=r"elements of .* overlap one another on shape"):
        lk.reorder(np.ones((5, 9), np.float32), "ab", dst)
