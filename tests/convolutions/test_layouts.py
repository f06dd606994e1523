"""Layouts that no list names: each of these was convolved wrongly once, or past the end of its memory."""

import numpy as np
import pytest
from conftest import NEST_ISAS, using_isa
from oracle import reference
from oracle.guard import guarded

import layoutkit as lk

CLASSES = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}
SEEN = [  # input, filter, layout, output's, attributes
    ((16, 1, 56, 56), (8, 1, 3, 3), "CNHW", "CNHW", dict(padding=1)),
    ((1, 16, 14, 14), (8, 16, 3, 3), "CNHW", "CNHW", dict(padding=1)),
    ((3, 5, 4, 6, 7), (2, 5, 3, 3, 3), "CNDHW", "CNDHW", dict(padding=1)),
    ((2, 16, 9, 12), (16, 1, 3, 2), "cdaB8b", "cdaB8b", dict(padding=((1, 2), (0, 1)), groups=16)),
    ((2, 16, 9, 12), (16, 1, 3, 2), "aBdc8b", "aBdc8b", dict(padding=((1, 2), (0, 1)), groups=16)),
    ((2, 16, 9), (16, 1, 3), "cBa8b", "cBa8b", dict(padding=1, groups=16)),
    ((2, 16, 4, 5, 6), (16, 1, 3, 3, 3), "eacdB8b", "eacdB8b", dict(padding=1, groups=16)),
    ((2, 1, 12), (1, 1, 3), "aCB3c3b", "acb", dict(padding=1)),
    ((2, 8, 6, 9), (8, 8, 3, 3), "abcD3db", "acdb", dict(padding=1)),
    ((2, 8, 6, 9), (8, 1, 3, 3), "caDd3db", "caDd3db", dict(padding=1, groups=8)),
    ((2, 6, 5, 4), (10, 6, 3, 3), "NHWC", "cBda1b", dict(padding=1)),
    ((2, 6, 5, 4), (10, 6, 3, 3), "daBc1b", "NHWC", dict(padding=1)),
]
IDS = [f"{src} {dst}" for _, _, src, dst, _ in SEEN]


def parsed(text):
    """A tag; in the list above `abcD3db` means a plain channel innermost behind a block of the width."""
    if not text.endswith("3db"):
        return lk.Layout(text)
    first, second = (0, 2) if text == "abcD3db" else (2, 0)
    return lk.Layout.from_factors([(first, 0), (second, 0), (3, 0), (3, 3), (1, 0)])


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize(("x_shape", "w_shape", "src", "dst", "attributes"), SEEN, ids=IDS)
def test_every_way_to_do_what_went_wrong(x_shape, w_shape, src, dst, attributes, isa):
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-8, 9, s).astype(np.float32) for s in (x_shape, w_shape))
    rank, src, dst = len(x_shape) - 2, parsed(src), parsed(dst)
    pads = attributes["padding"]
    padding = ((pads, pads),) * rank if isinstance(pads, int) else pads
    want = reference.conv(x, w, None, (1,) * rank, padding, (1,) * rank, attributes.get("groups", 1))
    stored = reference.to_physical(x, src, pad_value=np.nan)
    expected = reference.to_physical(want, dst).astype(np.float32)
    for end in ("low", "high"):
        held = guarded(stored.reshape(-1).view(np.uint8), end).array.view(np.float32).reshape(stored.shape)
        for name in ("auto", "direct", "im2col", "planes", "folded", "depthwise", "grouped"):
            out = guarded(np.zeros(expected.nbytes, np.uint8), end).array.view(np.float32).reshape(expected.shape)
            with using_isa(isa):
                op = CLASSES[rank](w, layout=src, out_layout=dst, algorithm=name, accuracy="strict", **attributes)
                try:
                    space = np.empty(op.workspace(x_shape), np.uint8)
                except ValueError as refusal:
                    assert name != "auto" and "cannot do it" in str(refusal)
                    continue
                op(held, out, workspace=guarded(space, end).array)
            np.testing.assert_array_equal(out, expected, err_msg=name)


@pytest.mark.parametrize("layout", ["nChw8c", "nChw16c", "NHWC"])
def test_winograd_of_a_broadcast_input(layout):
    rng = np.random.default_rng(0)
    w, layout = rng.standard_normal((16, 32, 3, 3), np.float32), lk.Layout(layout)
    one = rng.standard_normal((1, 1, 12, 12, layout.block(1)) if layout.block(1) > 1 else (1, 12, 12, 1), np.float32)
    x = np.broadcast_to(one, layout.physical_shape((1, 32, 12, 12)))
    got = lk.conv2d(x, w, padding=1, layout=layout, algorithm="winograd")
    want = lk.conv2d(np.ascontiguousarray(x), w, padding=1, layout=layout, algorithm="winograd")
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_arrays_that_begin_within_a_float(shift):
    rng = np.random.default_rng(0)

    def moved(a):
        room = np.zeros(a.nbytes + 4, np.uint8)[shift : shift + a.nbytes]
        room[...] = a.reshape(-1).view(np.uint8)
        return room.view(np.float32).reshape(a.shape)

    x, w = rng.standard_normal((1, 9, 9, 16), np.float32), rng.standard_normal((16, 16, 3, 3), np.float32)
    op = lk.Conv2d(w, layout="NHWC", padding=1, activation="relu", accuracy="strict")
    for given, out in ((moved(x), None), (x, moved(x)), (moved(x), moved(x))):
        np.testing.assert_array_equal(op(given, out), op(x))
    both = moved(x)
    np.testing.assert_array_equal(op(x, both, add=both), op(x, add=x))
