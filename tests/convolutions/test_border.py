"""What a convolution reads beyond the edges: reflected, circular, the edge itself; and edges that are cropped."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from strategies import activations, in_proportion

import layoutkit as lk

NUMPY = {"zeros": "constant", "reflect": "reflect", "circular": "wrap", "edge": "edge"}


def bordered(x, pads, mode):
    """The logical tensor with its border, by numpy's pad; negative pads crop first."""
    inner = tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape[2:], pads))
    x = x[(slice(None), slice(None), *inner)]
    return np.pad(x, [(0, 0), (0, 0), *((max(0, a), max(0, b)) for a, b in pads)], mode=NUMPY[mode])


@given(st.data())
def test_any_layout_and_padding(data):
    rank = data.draw(st.integers(1, 3))
    mode = data.draw(st.sampled_from(list(NUMPY)))
    size = data.draw(st.lists(st.integers(1, 9), min_size=rank, max_size=rank))
    kernel = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    channels = data.draw(st.integers(1, 9))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    pads = []
    for n in size:
        a, b = (data.draw(st.integers(-n, n)) for _ in range(2))
        left = n - max(0, -a) - max(0, -b)
        most = {"zeros": 9, "reflect": left - 1, "circular": left, "edge": 9}[mode]
        assume(left >= (mode != "zeros"))
        pads.append((min(a, most), min(b, most)))
    x = rng.integers(-3, 4, (data.draw(st.integers(1, 2)), channels, *size)).astype(np.float32)
    w = rng.integers(-3, 4, (data.draw(st.integers(1, 5)), channels, *kernel)).astype(np.float32)
    stride = data.draw(st.integers(1, 2))
    made = bordered(x, pads, mode)
    assume(all(n >= k for n, k in zip(made.shape[2:], kernel)))
    src, dst = data.draw(activations(rank)), data.draw(activations(rank))
    assume(in_proportion(src, x))
    want = reference.conv(made, w, None, (stride,) * rank, ((0, 0),) * rank, (1,) * rank, 1)
    assume(in_proportion(dst, want))
    t = lk.Tensor(reference.to_physical(x, src, 7.0), src, x.shape, pad_value=7.0)
    given = dict(stride=stride, padding=pads, padding_mode=mode, out_layout=dst)
    one = {1: lk.conv1d, 2: lk.conv2d, 3: lk.conv3d}[rank]
    np.testing.assert_array_equal(one(t, w, **given).numpy(), want)
    op = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}[rank](w, layout=src, **given)
    out = np.full(dst.physical_shape(want.shape), 5, np.float32)
    room = np.full(op.workspace(x.shape) + 1, 255, np.uint8)[1:]  # of any alignment
    op(t.array, out, workspace=room, shape=x.shape)
    np.testing.assert_array_equal(out, reference.to_physical(want, dst))


def test_names_of_torch_and_numpy():
    x, w = np.arange(5, dtype=np.float32).reshape(1, 1, 5), np.ones((1, 1, 3), np.float32)
    for name, other in (("replicate", "edge"), ("wrap", "circular")):
        np.testing.assert_array_equal(
            lk.conv1d(x, w, padding=1, padding_mode=name), lk.conv1d(x, w, padding=1, padding_mode=other)
        )


@pytest.mark.parametrize("mode", ["reflect", "circular", "replicate"])
def test_as_torch(mode):
    torch = pytest.importorskip("torch")
    x, w = torch.rand(2, 3, 7, 6), torch.rand(4, 3, 3, 3)
    want = torch.nn.Conv2d(3, 4, 3, padding=(2, 1), padding_mode=mode, bias=False)
    want.weight.data = w
    got = lk.conv2d(x, w, padding=(2, 1), padding_mode=mode)
    torch.testing.assert_close(got, want(x).detach(), rtol=1e-4, atol=1e-4)


def test_same_lower_puts_what_is_left_over_before():
    x, w = np.arange(6, dtype=np.float32).reshape(1, 1, 6), np.array([[[1, 10]]], np.float32)
    assert lk.conv1d(x, w, padding="same").tolist() == [[[10, 21, 32, 43, 54, 5]]]
    assert lk.conv1d(x, w, padding="same_lower").tolist() == [[[0, 10, 21, 32, 43, 54]]]
    assert lk.conv1d(x, w, padding="same", stride=4).shape == (1, 1, 2)  # ceil(6 / 4)


def test_borders_that_do_not_fit_are_refused():
    x, w = np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 1, 1, 1), np.float32)
    for padding, mode, what in (
        (4, "reflect", "reflect reaches 3 elements at most"),
        (5, "circular", "circular reaches 4 elements at most"),
        (-3, "zeros", r"crops more than the input of \(4, 4\)"),
        (((-4, 1), (0, 0)), "edge", "does not fit the input"),
    ):
        with pytest.raises(ValueError, match=f"conv2d: padding .*{what}"):
            lk.conv2d(x, w, padding=padding, padding_mode=mode)
    for mode in ("mirror", ["reflect"], None):
        with pytest.raises(ValueError, match=r"padding_mode .* is none of zeros, reflect, circular, edge"):
            lk.conv2d(x, w, padding_mode=mode)


def test_transposed_convolutions_that_are_padded_by_less_than_nothing_have_pixels_that_no_input_reaches():
    x, w = np.ones((1, 1, 4, 4), np.float32), np.full((1, 1, 1, 1), 2, np.float32)
    got = lk.conv_transpose2d(x, w, np.ones(1, np.float32), padding=-1)
    np.testing.assert_array_equal(got[0, 0], np.pad(np.full((4, 4), 3), 1, constant_values=1))
