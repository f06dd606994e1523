"""What errors say of inputs and filters that would fit otherwise."""

import re

import numpy as np
import pytest

import layoutkit as lk

FUNCTIONS = {1: lk.conv1d, 2: lk.conv2d, 3: lk.conv3d}
CLASSES = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}
SIZE = (17, 12, 11)


def ones(*shape):
    return np.ones(shape, np.float32)


def raised(function, *args, **keywords):
    with pytest.raises(ValueError) as error:
        function(*args, **keywords)
    return str(error.value)


@pytest.mark.parametrize("rank", FUNCTIONS)
def test_swapped_arguments(rank):
    x, w, conv = ones(2, 3, *SIZE[:rank]), ones(8, 3, *[4] * rank), FUNCTIONS[rank]
    assert raised(conv, w, x).endswith("; are x and w swapped?")
    last, tag = np.moveaxis(x, 1, -1), "N" + "DHW"[3 - rank :] + "C"
    assert raised(conv, w, last, layout=tag).endswith("; are x and w swapped?")
    assert raised(conv, ones(8, 2, *[4] * rank), ones(2, 4, *SIZE[:rank]), groups=2).endswith("; are x and w swapped?")
    assert "swapped" not in raised(conv, x, w, out=ones(1))  # which fit as they are
    assert "swapped" not in raised(conv, w[:, :2], x)  # nor do they fit the other way round
    assert "swapped" not in raised(conv, lk.Tensor(w, "NC" + "DHW"[3 - rank :]), x)


@pytest.mark.parametrize("rank", FUNCTIONS)
@pytest.mark.parametrize("kept", [False, True])
def test_filters_in_another_order(rank, kept):
    def call(x, w, **how):
        return CLASSES[rank](w, **how)(x) if kept else FUNCTIONS[rank](x, w, **how)

    x, axes = ones(2, 3, *SIZE[:rank]), "DHW"[3 - rank :]
    for tag, shape in (("O" + axes + "I", (8, *[5] * rank, 3)), (axes + "IO", (*[5] * rank, 3, 8))):
        w = ones(*shape)
        if shape[1] == 3:  # WIO of 5 3 8 is a filter in OIW, too
            continue
        assert raised(call, x, w).endswith(f'w would fit with filter_layout="{tag}"')
        call(x, w, filter_layout=tag)
        assert "filter_layout" not in raised(call, x, w, filter_layout="OI" + axes)  # the caller knows of it
        assert "filter_layout" not in raised(call, x, lk.Tensor(w, "OI" + axes))
        assert "filter_layout" not in raised(call, x[:, :2], w)
    assert "filter_layout" not in raised(call, x, ones(8, *[40] * rank, 3))  # does not fit into the input
    assert raised(call, ones(2, 6, *SIZE[:rank]), ones(8, *[5] * rank, 3), groups=2).count("filter_layout") == 1


@pytest.mark.parametrize("rank", FUNCTIONS)
def test_inputs_in_another_order(rank):
    w, axes = ones(8, 3, *[4] * rank), "DHW"[3 - rank :]
    first, last = ones(2, 3, *SIZE[:rank]), ones(2, *SIZE[:rank], 3)
    for x, tag, other in ((last, f"NC{axes}", f"N{axes}C"), (first, f"N{axes}C", f"NC{axes}")):
        assert raised(FUNCTIONS[rank], x, w, layout=tag).endswith(f'x would fit with layout="{other}"')
        FUNCTIONS[rank](x, w, layout=other)
    assert "would fit" not in raised(FUNCTIONS[rank], first[:, :2], w)


def test_transposed_convolutions_suggest_no_order_of_ordinary_ones():
    assert "filter_layout" not in raised(lk.conv_transpose2d, ones(1, 3, 9, 9), ones(8, 5, 5, 3))


IMAGES = {"NCHW": "x[None, None]", "NHWC": "x[None, ..., None]", "CHWN": "x[None, ..., None]",
          "HWNC": "x[..., None, None]"}  # fmt: skip
FILTERS = {None: "w[None, None]", "HWIO": "w[..., None, None]", "OHWI": "w[None, ..., None]",
           "HIWO": "w[:, None, :, None]"}  # fmt: skip


@pytest.mark.parametrize(("layout", "index"), IMAGES.items())
def test_images_without_channels(layout, index):
    x, w = ones(9, 9), ones(1, 1, 3, 3)
    assert raised(lk.conv2d, x, w, layout=layout).endswith(f"an image of one channel is {index}")
    assert index in raised(lk.Conv2d(w, layout=layout), x)
    lk.conv2d(eval(index), w, layout=layout)
    assert raised(lk.conv2d, x, ones(1, 2, 3, 3), layout=layout).endswith(f"of one channel is {index}, and w takes 2")
    assert "x[" not in raised(lk.conv2d, x[0], w, layout=layout)


@pytest.mark.parametrize(("layout", "index"), FILTERS.items())
def test_filters_without_channels(layout, index):
    x, w = ones(1, 1, 9, 9), ones(3, 3)
    for call in (lk.conv2d, lambda x, w, **how: lk.Conv2d(w, **how)):
        assert f"a filter of one channel is {index}" in raised(call, x, w, filter_layout=layout)
    lk.conv2d(x, eval(index), filter_layout=layout)
    assert "w[None, None]" in raised(lk.conv_transpose2d, x, w)
    assert re.search(r"w\[None, None\]$", raised(lk.conv1d, x[0], w[0]))
    assert "w[" not in raised(lk.conv2d, x, ones(3, 3, 3))


def test_kept_convolutions_are_not_given_inputs():
    told = raised(lk.Conv2d, ones(1, 3, 9, 9), ones(4, 3, 3, 3))
    assert told.endswith("; the order is Conv2d(filter, bias), conv2d(x, filter, bias)")
    assert "order" not in raised(lk.Conv2d, ones(4, 3, 3, 3), ones(5))
