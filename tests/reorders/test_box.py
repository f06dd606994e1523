import re

import numpy as np
import pytest
from conftest import using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from strategies import laid_out, layouts, shapes

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.reorders.pieces import Digit, Side, pieces


@st.composite
def sides(draw):
    """Digits of some block sizes, any strides, and a place to begin."""
    blocks = draw(st.lists(st.integers(2, 9), max_size=2))
    units = [1]
    for b in blocks:
        units.append(units[-1] * b)
    strides = draw(st.permutations([1000**k for k in range(len(units))]))
    return Side(tuple(Digit(u, s) for u, s in zip(reversed(units), strides)), draw(st.integers(0, 40)))


@given(st.lists(sides(), min_size=1, max_size=3), st.integers(0, 20), st.integers(0, 120))
def test_pieces_walk_every_step_once(walked, lo, length):
    seen = []
    for piece in pieces(lo, lo + length, walked):
        places = {(): tuple(s.offset(piece.start) for s in walked)}
        for n, strides in piece.loops:
            places = {
                (*at, i): tuple(p + i * s for p, s in zip(place, strides))
                for at, place in places.items() for i in range(n)
            }  # fmt: skip
        seen += places.values()
    assert sorted(seen) == sorted(tuple(s.offset(i) for s in walked) for i in range(lo, lo + length))


@given(st.lists(sides(), min_size=1, max_size=3), st.integers(0, 20), st.integers(0, 120), st.integers(0, 20))
def test_more_pieces_than_allowed_are_refused(walked, lo, length, most):
    found = pieces(lo, lo + length, walked)
    if len(found) <= most:
        assert pieces(lo, lo + length, walked, most) == found
    else:
        with pytest.raises(ValueError, match="more pieces than allowed"):
            pieces(lo, lo + length, walked, most)


def test_too_many_pieces_are_refused_before_they_are_made():
    first, second = (Side((Digit(unit, 1000), Digit(1, 1))) for unit in (999_983, 999_979))
    with pytest.raises(ValueError, match="more pieces than allowed"):
        pieces(0, 10**15, [first, second], 1000)


@st.composite
def boxes(draw):
    """A box of one tensor and a place for it in another of any layout."""
    src, shape = draw(laid_out(min_rank=1, most=900))
    region = []
    for size in shape:
        start = draw(st.integers(0, size))
        region.append((start, draw(st.integers(start, size))))
    box = [b - a for a, b in region]
    dst = draw(layouts(src.rank, src.rank, max_blocks=2))
    before = draw(shapes(src.rank, most=60))
    after = draw(shapes(src.rank, most=20))
    before = [min(b, 7) for b in before]
    whole = tuple(b + n + min(a, 5) for b, n, a in zip(before, box, after))
    return dict(
        src=src, shape=shape, region=tuple(region), dst=dst, at=tuple(before), whole=whole,
        dtype=draw(st.sampled_from(["u1", "u2", "f4", "f8", "c16"])), to=draw(st.sampled_from([None, "f4", "i1"])),
        isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 2)),
        end=draw(st.sampled_from(["low", "high"])),
    )  # fmt: skip


def on_guard(array, end):
    buffer = guarded(np.ascontiguousarray(array).reshape(-1).view(np.uint8), end)
    return buffer.array.view(array.dtype).reshape(array.shape)


@given(boxes())
def test_any_box_to_any_place(c):
    if c["to"] is not None:
        c["dtype"] = "u1"
    tensor = np.random.default_rng(0).integers(0, 200, c["shape"]).astype(c["dtype"])
    x = on_guard(reference.to_physical(tensor, c["src"], 201), c["end"])
    part = tensor[tuple(slice(*r) for r in c["region"])]
    if c["to"] is not None:
        part = reference.convert(part, c["to"])
    given = dict(shape=c["shape"], region=c["region"], dtype=c["to"], threads=c["threads"])
    with using_isa(c["isa"]):
        got = lk.reorder(x, c["src"], c["dst"], **given, pad_value=9)
        np.testing.assert_array_equal(got, reference.to_physical(part, c["dst"], 9))

        # into a larger tensor, of which nothing else is touched, pads neither
        room = np.random.default_rng(1).integers(0, 100, c["dst"].physical_shape(c["whole"])).astype(part.dtype)
        held = c["dst"].padded_shape(room.shape)
        inside = reference.to_logical(room, c["dst"], held)
        inside[tuple(slice(a, a + n) for a, n in zip(c["at"], part.shape))] = part
        out = on_guard(room, c["end"])
        assert lk.reorder(x, c["src"], c["dst"], **given, at=c["at"], out=out) is out
        np.testing.assert_array_equal(out, reference.to_physical(inside, c["dst"]))


def test_slices_and_sums():
    x = np.arange(2 * 20 * 3 * 3, dtype=np.float32).reshape(2, 20, 3, 3)
    blocked = lk.reorder(x, "NCHW", "nChw8c")
    got = lk.reorder(blocked, "nChw8c", "NCHW", shape=x.shape, region=(slice(1, 2), slice(3, None), None, (0, 2)))
    np.testing.assert_array_equal(got, x[1:2, 3:, :, :2])
    out = np.ones((2, 3, 3, 24), np.float32)
    scale = np.arange(1.0, 6.0)
    lk.reorder(x, "NCHW", "NHWC", region=(None, (2, 7), None, None), at=(0, 11, 0, 0), scale=scale, beta=2, out=out)
    want = np.ones((2, 3, 3, 24), np.float32)
    want[..., 11:16] = 2 + x[:, 2:7].transpose(0, 2, 3, 1) * scale.astype(np.float32)
    np.testing.assert_array_equal(out, want)


X = np.ones((1, 20, 4, 5), np.float32)
OUT = np.zeros((1, 4, 5, 20), np.float32)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (dict(region=((0, 1), (0, 21), None, None)), ValueError, "region 0:21 of dimension 1 lies outside its size 20"),
        (dict(region=((0, 1), (5, 3), None, None)), ValueError, "region 5:3 of dimension 1"),
        (dict(region=((0, 1), (-9, 3), None, None)), ValueError, "region -9:3 of dimension 1"),
        (dict(region=(None, None, None)), ValueError, "region must say something of each of 4 dimensions"),
        (dict(region="NCHW"), ValueError, "region must say something"),
        (dict(region=(None, 3, None, None)), TypeError, "region takes None, (start, stop) or slices, got"),
        (dict(region=(None, slice(0, 99, 2), None, None)), ValueError, "region 0:99:2 of dimension 1"),
        (dict(at=(0, 0, 0, 0)), ValueError, "is a place in out, and there is none"),
        (dict(at=(0, 1, 0, 0), out=OUT), ValueError, "a box of (1, 20, 4, 5) at (0, 1, 0, 0) lies outside out"),
        (dict(at=(0, -1, 0, 0), out=OUT), ValueError, "lies outside out, which holds (1, 20, 4, 5)"),
        (dict(at=(0, 0.5, 0, 0), out=OUT), TypeError, "at must be integers"),
        (dict(at=(0, 0), out=OUT), ValueError, "at must say something of each of 4 dimensions"),
        (dict(at=(0, 0, 0, 0), out=OUT.astype("f8")), ValueError, "dtype float32, got"),
        (dict(at=(0, 0, 0, 0), out=OUT[0]), ValueError, "held by an array of 4 axes"),
        (dict(region=(None, (0, 3), None, None), out=OUT), ValueError, "shape (1, 4, 5, 3)"),
    ],
)
def test_bad_boxes(given, error, says):
    with pytest.raises(error, match=re.escape(says)):
        lk.reorder(X, "NCHW", "NHWC", **given)
    assert not OUT.any()
