"""The order of sums: which channels a vector reads, counted one by one."""

import numpy as np
import pytest
from conv_problems import conv_problems
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference

import layoutkit as lk
from layoutkit.convolutions import order

PROBLEMS = conv_problems(per_group=(1, 24))


def every_length(p):
    """The elements of a vector, of each instruction set."""
    return [width // p.types.sum.itemsize for width in (16, 32, 64)]


def channels_of(p, each, vector):
    """The input channels that each output channel of a vector reads; of none past the last, those of the last."""
    depth, per_group = p.ic // p.groups, p.oc // p.groups
    for lane in range(each):
        group = min(vector * each + lane, p.oc - 1) // per_group
        yield [group * depth + c for c in range(depth)]


def windows(p, each, vectors, lanes):
    """As `order.windows_of`, by trying."""
    read = [list(channels_of(p, each, v)) for v in range(vectors)]
    if all(max(map(max, r)) - min(map(min, r)) < lanes for r in read):
        return [[r[0][0]] * len(r[0]) for r in read]  # all channels of a vector's groups lie within one
    found = []
    for r in read:
        columns = list(zip(*r))  # one channel of each group
        if any(max(column) - min(column) >= lanes for column in columns):
            return None
        found.append([min(column) for column in columns])
    return found


@given(PROBLEMS, st.sampled_from([(4, 4), (8, 8), (16, 16), (8, 16)]))
def test_windows_are_where_a_vector_reads(p, vectors):
    each, lanes = vectors
    count = -(-p.oc // each)
    found, want = order.windows_of(p, each, count, lanes), windows(p, each, count, lanes)
    assert (found is None) == (want is None)
    if want is not None:
        np.testing.assert_array_equal(found, want)


@given(PROBLEMS)
def test_within_vectors_of_every_instruction_set(p):
    want = all(windows(p, lanes, -(-p.oc // lanes), lanes) is not None for lanes in every_length(p))
    assert order.within_vectors(p) == want


@given(PROBLEMS)
def test_small_groups_are_summed_by_channel(p):
    small = p.groups > 1 and 2 <= p.ic // p.groups <= 16 and p.taps > 1 and not p.types.integers  # those are exact
    within = all(windows(p, lanes, -(-p.oc // lanes), lanes) is not None for lanes in every_length(p))
    assert order.by_channel(p) == (small and within)
    assert order.by_taps(p) == ("strict" if small and within else "reproducible")


@given(PROBLEMS)
def test_chunks_are_whole_taps_or_parts_of_one(p):
    chunk, period = order.chunks(p)
    channels = p.ic // p.groups
    if not channels or p.types.integers or order.by_channel(p):
        assert chunk == period > 2**60
    elif channels <= order.MAX_CHUNK_PRODUCTS:
        assert chunk == period <= order.MAX_CHUNK_PRODUCTS < chunk + channels
        assert chunk % channels == 0
    else:
        assert period == channels
        assert chunk <= order.MAX_CHUNK_PRODUCTS and chunk % order.CHANNEL_BLOCK == 0


@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "nChw16c"])
@pytest.mark.parametrize(("channels", "kernel"), [(2048, 1), (1000, 1), (207, 3), (300, 3), (5, 21)])
def test_errors_of_long_sums_are_those_of_a_chunk(channels, kernel, layout):
    """A sum in one piece is three times as far off, and more."""
    rng = np.random.default_rng(0)
    shape = (1, channels, 23, 22)
    x, w = (rng.standard_normal(s, np.float32) for s in (shape, (12, channels, kernel, kernel)))
    want = reference.conv(x, w, None, (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    got = lk.conv2d(lk.reorder(x, "NCHW", layout), w, layout=layout, accuracy="strict")
    got = lk.reorder(got, layout, "NCHW", shape=want.shape)
    bound = 0.4 * np.sqrt(order.MAX_CHUNK_PRODUCTS) * 2.0**-24
    assert np.linalg.norm(got - want) <= bound * np.linalg.norm(want)
