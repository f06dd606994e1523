"""Layers: the networks are the published ones, the notation reads what it writes."""

from math import prod

import pytest

from layoutkit.bench.layers import NETWORKS, Layer, spread, with_axes
from layoutkit.formats.layout import Layout

# convolutions, distinct ones, multiply-adds and weights, as published (3-D U-Net: as it comes out)
PUBLISHED = {
    "resnet50": (53, 23, 4_087_136_256, 23_454_912),
    "vgg16": (13, 9, 15_346_630_656, 14_710_464),
    "mobilenet_v2": (52, 30, 299_494_272, 2_189_760),
    "resnext101": (104, 19, 16_411_967_488, 86_539_456),
    "unet3d": (15, 15, 29_591_863_296, 16_313_376),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_networks_are_the_published_ones(name):
    layers = list(NETWORKS[name]())
    problems = [layer.problem("NCHW") for layer in layers]
    flops = sum(p.flops for p in problems)
    weights = sum(p.oc * p.ic // p.groups * prod(p.kernel) for p in problems)
    assert (len(layers), len(set(layers)), flops // 2, weights) == PUBLISHED[name]


@pytest.mark.parametrize("layers", [*(f() for f in NETWORKS.values()), spread(300, 7)])
def test_what_is_written_is_read(layers):
    for layer in layers:
        again = Layer.parse(str(layer))
        assert again.problem("NHWC") == layer.problem("NHWC") and str(again) == str(layer)


@pytest.mark.parametrize("text, layer", [
    ("3x3 64->128 @56 s2", Layer(64, 128, 56, 3, 2, 1)),
    ("1x1 2x64->128 @56x28", Layer(64, 128, (56, 28), 1, n=2)),
    ("3x3 8->8 @9 p0 g8", Layer(8, 8, 9, 3, 1, 0, 8)),
    ("3x5 8->8 @9x20 s1x2 p0+1x2 d2", Layer(8, 8, (9, 20), (3, 5), (1, 2), ((0, 1), 2), 1, 2)),
    ("9 4->8 @100", Layer(4, 8, (100,), (9,), 1, (4,))),
    ("3x3x3 1->8 @5x6x7", Layer(1, 8, (5, 6, 7), 3, 1, 1)),
])  # fmt: skip
def test_notation(text, layer):
    assert Layer.parse(text).problem("NHWC") == layer.problem("NHWC")


@pytest.mark.parametrize("text", [
    "", "3x3", "3x3 64->128", "3x3 64->x @5", "0x0 1->1 @5", "3x3 0->1 @5", "3x3 4->4 @5 s0", "3x3 4->4 @5 g3",
    "3x3 4->6 @5 g4", "3x3 4->4 @1 p0", "3x3 4->4 @5x5x5", "3x3x3x3 4->4 @5", "3x3 4->4 @5 p1+2+3", "3x3 4->4 @5 p+",
    "3x3 4->4 @5 p1x1x1", "3x3 4->4 @5 q1", "3x3 4->4 @5 s1x1x1",
])  # fmt: skip
def test_no_layer(text):
    with pytest.raises(ValueError, match="not a layer: "):
        Layer.parse(text)


def test_layouts_take_the_axes_that_there_are():
    assert with_axes("NHWC", 3) == Layout("NDHWC") and with_axes("NHWC", 1) == Layout("NWC")
    assert with_axes("nChw16c", 3) == Layout("nCdhw16c") and with_axes("nChw8c", 1) == Layout("nCw8c")
    assert with_axes(Layout("NCW"), 3) == Layout("NCW")


def test_a_spread_is_the_same_every_time_and_another_for_another_seed():
    assert list(spread(50, 3)) == list(spread(50, 3))
    assert not set(spread(50, 3)) & set(spread(50, 4))
