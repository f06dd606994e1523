"""PyTorch's rules, against PyTorch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit import torch_format as tf
from layoutkit.formats.layout import Layout

torch = pytest.importorskip("torch")

FORMATS = {"contiguous_format": None, "channels_last": 4, "channels_last_3d": 5}


@st.composite
def tensors(draw, min_rank=0, max_rank=6, min_size=0):
    """Tensors of any strides: permuted, sliced, expanded, or plainly arbitrary."""
    rank = draw(st.integers(min_rank, max_rank))
    sizes = draw(st.lists(st.integers(min_size, 3), min_size=rank, max_size=rank))
    channels_last = [1, *range(rank - 1, 1, -1), 0] if rank > 1 else range(rank)
    order = draw(st.permutations(range(rank)) | st.just(channels_last))
    step = draw(st.sampled_from([1, 1, 1, 2]))
    strides, stride = [0] * rank, step
    for d in order:
        strides[d] = stride
        stride *= max(sizes[d], 1)
    for d in draw(st.lists(st.integers(0, max(rank - 1, 0)), max_size=2 if rank else 0)):
        strides[d] = draw(st.just(0) | st.integers(0, 12))
    return torch.empty_strided(sizes, strides)


@given(tensors())
def test_contiguity(x):
    for name, rank in FORMATS.items():
        memory_format = getattr(torch, name)
        expected = x.is_contiguous(memory_format=memory_format)
        assert tf.is_contiguous(x.shape, x.stride(), name) == expected
        assert tf.is_contiguous(x.shape, x.stride(), memory_format) == expected
        if expected and (rank is None or rank == x.ndim) and 0 not in x.shape:
            assert tf.layout_of(name, x.ndim).equivalent(Layout.from_strides(x.shape, x.stride()), x.shape)
    dense = torch.ops.aten.is_non_overlapping_and_dense.default(x)
    assert tf.is_non_overlapping_and_dense(x.shape, x.stride()) == dense


@given(tensors(min_rank=3, max_rank=5))
def test_suggested_format(x):
    is_like = torch.ops.aten.is_strides_like_format.default
    like = [n for n, r in FORMATS.items() if r == x.ndim and is_like(x, memory_format=getattr(torch, n))]
    expected = like[0] if like else "contiguous_format"
    assert tf.suggest(x.shape, x.stride()) == expected


@given(tensors(min_rank=4, max_rank=4, min_size=1))
def test_operators_give_results_the_suggested_format(x):
    """The C++ rule itself, seen through an operator that follows it."""
    y = torch.nn.functional.max_pool2d(x, 1)
    assert y.stride() == tf.strides_of(tf.suggest(x.shape, x.stride()), x.shape)


@given(tensors())
def test_preserve(x):
    expected = tf.preserve(x.shape, x.stride())
    assert torch.empty_like(x).stride() == expected
    assert torch.empty_like(x, memory_format=torch.preserve_format).stride() == expected
    assert x.clone().stride() == expected
    assert x.to(torch.int8).stride() == expected


@given(st.sampled_from(list(FORMATS)), st.data())
def test_strides_of_new_tensors(name, data):
    rank = FORMATS[name] or data.draw(st.integers(0, 6))
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank))
    expected = torch.empty(sizes, memory_format=getattr(torch, name)).stride()
    assert tf.strides_of(name, sizes) == expected
    if 0 not in sizes:
        assert tf.layout_of(name, rank).strides(sizes) == expected


@pytest.mark.parametrize(
    ("sizes", "strides", "contiguous", "channels_last", "suggested"),
    [
        ((2, 1, 4, 5), (20, 20, 5, 1), True, True, "contiguous_format"),
        ((2, 1, 4, 5), (20, 1, 5, 1), True, True, "channels_last"),
        ((2, 3, 1, 1), (3, 1, 1, 1), True, True, "contiguous_format"),
        ((2, 3, 1, 1), (3, 1, 3, 3), True, True, "channels_last"),
        ((1, 3, 32, 32), (3, 1, 96, 3), False, True, "contiguous_format"),
    ],
)
def test_the_ambiguous_ones(sizes, strides, contiguous, channels_last, suggested):
    assert tf.is_contiguous(sizes, strides) == contiguous
    assert tf.is_contiguous(sizes, strides, "channels_last") == channels_last
    assert tf.suggest(sizes, strides) == suggested


def test_unknown_formats():
    with pytest.raises(ValueError, match="memory format 'nhwc': expected one of contiguous_format"):
        tf.is_contiguous((1,), (1,), "nhwc")
    with pytest.raises(ValueError, match="channels_last has 4 dimensions, the tensor has 5"):
        tf.layout_of("channels_last", 5)
