"""The padded input: its places and its bytes are those of numpy.pad, for every algorithm that reads one."""

from math import prod

import numpy as np
from conv_problems import conv_problems
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from oracle import reference

from layoutkit import Layout
from layoutkit.convolutions.algorithms.planes import Planes
from layoutkit.convolutions.padded import padded_input

CHANNELS = {1: [Layout("NWC")], 2: [Layout("NHWC")], 3: [Layout("NDHWC")]}
PIXELS = {
    1: [Layout("NCW"), Layout("bac")], 2: [Layout("NCHW"), Layout("bacd")], 3: [Layout("NCDHW"), Layout("bacde")],
}  # fmt: skip


def check(p, found):
    """`found` holds the input where numpy.pad has it, and zeros in every other place that is read."""
    rng = np.random.default_rng(0)
    x = rng.integers(1, 99, p.src_shape).astype(p.types.src)
    blocks = np.full((found.n, sum(found.planes), sum(found.rows), sum(found.row)), 255, np.uint8)
    own = (slice(None), *(slice(pads[0], pads[0] + pads[1]) for pads in (found.planes, found.rows, found.row)))
    padding = np.ones(blocks.shape, bool)
    padding[own] = False
    blocks[padding] = 0  # as the route clears it
    assert found.bytes == blocks.size + found.behind and x.nbytes <= blocks[own].size
    memory = np.concatenate([blocks.reshape(-1), np.zeros(found.behind, np.uint8)])
    assert memory.nbytes == found.bytes
    first = (found.planes[0] * sum(found.rows) + found.rows[0]) * sum(found.row) + found.row[0]
    held = memory[first:].view(x.dtype)
    q = found.problem
    as_strided(held, q.src.physical_shape(p.src_shape), found.strides)[...] = reference.to_physical(x, q.src)
    padded = np.pad(x, ((0, 0), (0, 0), *p.padding))
    assert q.out == p.out and all(n <= 0 for pair in q.padding for n in pair)
    got = as_strided(memory.view(x.dtype), q.src.physical_shape(q.src_shape), found.strides)
    read = (slice(-a, n + b) for n, (a, b) in zip(q.src_shape, ((0, 0), (0, 0), *q.padding)))
    got = reference.to_logical(got, q.src, q.src_shape)[tuple(read)]
    np.testing.assert_array_equal(got, padded[tuple(map(slice, got.shape))])
    assert all(n == m or s > 1 for n, m, s in zip(got.shape[2:], padded.shape[2:], p.stride))


@given(conv_problems(layouts=CHANNELS))
def test_channels_last(p):
    item = p.types.src.itemsize
    found = padded_input(p, p.n, item * p.ic)
    check(p, found)
    assert found.behind == 0 and found.bytes == item * p.n * p.ic * prod(found.problem.size)


@given(conv_problems(layouts=PIXELS, per_group=(1, 40)))
def test_planes_of_pixels(p):
    check(p, Planes().padded(p, None))


@given(conv_problems(layouts=PIXELS), st.integers(1, 4))
def test_bytes_of_pixels_count_once_an_image(p, images):
    one, many = (padded_input(p, n, p.types.src.itemsize) for n in (1, images))
    assert many.bytes == images * one.bytes == p.types.src.itemsize * images * prod(one.problem.size)
