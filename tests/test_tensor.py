"""Tensors: values, bytes that move or do not, padding contracts, and what others see of them."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import laid_out, layouts

from layoutkit import reference
from layoutkit.layout import Layout
from layoutkit.tensor import UNDEFINED, Tensor

many = settings(max_examples=300, deadline=None)


def values(shape, dtype=np.int32):
    return 1 + np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def make(logical, layout, pad_value=0):
    array = reference.to_physical(logical, layout, pad_value)
    return Tensor(array, layout, logical.shape, pad_value=pad_value)


@many
@given(laid_out(), st.data())
def test_to_keeps_values_and_contract_and_moves_bytes_only_if_it_must(pair, data):
    layout, shape = pair
    pad = data.draw(st.sampled_from([0, 7, UNDEFINED]))
    logical = values(shape)
    x = make(logical, layout, 0 if pad is UNDEFINED else pad)
    x = Tensor(x.array, layout, shape, pad_value=pad)
    dst = data.draw(st.just(layout) | layouts(min_rank=layout.rank, max_rank=layout.rank))
    y = x.to(dst)
    np.testing.assert_array_equal(y.numpy(), logical)
    np.testing.assert_array_equal(np.asarray(y), logical)
    assert y.shape == x.shape == shape and y.layout == dst and y.pad_value == pad
    y.check_padding()
    move = x.explain(dst)
    assert np.shares_memory(x.array, y.array) == (move.view and logical.size > 0)
    fits = y.array.size <= x.array.size
    assert move.view == (fits and bool((x.array.reshape(-1)[: y.array.size] == y.array.reshape(-1)).all()))


@many
@given(laid_out(max_rank=3, most=100), st.data())
def test_strided_memory_is_read_and_written_in_place(pair, data):
    layout, shape = pair
    logical = values(shape)
    gaps = data.draw(st.lists(st.integers(0, 3), min_size=len(layout.factors), max_size=len(layout.factors)))
    pitches, inner = [], 1
    for axis, gap in zip(reversed(layout.axes(shape)), gaps):
        pitches.append(inner + gap)
        inner = (inner + gap) * max(axis.extent, 1)
    strided = Layout.from_factors(layout.factors, pitches[::-1])
    y = make(logical, layout).to(strided)
    np.testing.assert_array_equal(y.numpy(), logical)
    assert y.stored.equivalent(strided, shape)
    y.check_padding()
    z = y.to(layout)
    np.testing.assert_array_equal(z.array, reference.to_physical(logical, layout))
    assert not logical.size or np.shares_memory(y.array, z.array) == y.explain(layout).view
    again = Tensor(y.array, strided, shape)
    np.testing.assert_array_equal(again.numpy(), logical)


@many
@given(st.integers(1, 4), st.data())
def test_logical_arrays_of_any_strides_are_taken_without_a_copy(rank, data):
    logical = values(data.draw(st.tuples(*[st.integers(1, 4)] * rank)))
    order = data.draw(st.permutations(range(rank)))
    cut = tuple(slice(None, None, data.draw(st.sampled_from([1, 2]))) for _ in range(rank))
    array = logical.transpose(order)[cut]
    x = Tensor.from_logical(array)
    assert np.shares_memory(x.array, array) and x.shape == array.shape
    np.testing.assert_array_equal(x.numpy(), array)
    kept = [d for d in range(rank) if array.shape[d] > 1]
    assert [x.layout.strides(array.shape)[d] for d in kept] == [array.strides[d] // 4 for d in kept]
    back = x.to(x.layout.dense)
    assert back.array.flags.c_contiguous
    assert np.shares_memory(back.array, array) == x.array.flags.c_contiguous


def test_numpy_is_a_view_where_strides_can_say_it():
    x = Tensor(values((2, 3, 4, 5)), "NHWC")
    x.numpy()[1, 4, 2, 3] = -1
    assert x.array[1, 2, 3, 4] == -1
    blocked = make(values((1, 16, 2, 2)), Layout("nChw16c"))
    assert np.shares_memory(blocked.numpy(), blocked.array)  # a single block: strides can say it
    assert not np.shares_memory(make(values((1, 20, 2, 2)), Layout("nChw16c")).numpy(), blocked.array)


def test_negative_strides_are_copied_with_the_reason():
    x = Tensor(values((2, 3))[::-1], "ab")
    assert x.explain("ab").reason == "copy: byte strides (-12, 4) of the array are no layout's"
    assert x.to("ab").numpy().tolist() == [[4, 5, 6], [1, 2, 3]]
    with pytest.raises(ValueError, match="negative"):
        Tensor.from_logical(values((2, 3))[::-1])


def test_padding_contract():
    x = make(values((1, 3, 1, 2)), Layout("nChw4c"))
    x.check_padding()
    x.array[0, 0, 0, 1, 3] = 9
    with pytest.raises(ValueError, match=r"pad \(0, 0, 0, 1, 3\) holds 9; 1 pads are wrong"):
        x.check_padding()
    assert x.to("nhwC4c").numpy().tolist() == x.numpy().tolist()
    x.fill_padding(5)
    x.check_padding()
    assert "pads 5" in repr(x)
    move = x.explain("nChw4c", pad_value=0)
    assert move.reason == "copy: pads are 5 and must become 0"
    y = x.to("nChw4c", pad_value=0)
    y.check_padding()
    assert not np.shares_memory(x.array, y.array) and y.array[0, 0, 0, 0, 3] == 0
    assert np.shares_memory(x.array, x.to("nChw4c", pad_value=UNDEFINED).array)
    y.fill_padding(0)
    nan = make(np.ones((1, 3, 1, 2), np.float32), Layout("nChw4c"), np.nan)
    nan.check_padding()
    assert nan.explain("nChw4c", pad_value=float("nan")).view
    nan.array[..., 3] = 0
    with pytest.raises(ValueError, match=r"holds 0.0; 2 pads are wrong"):
        nan.check_padding()


def test_tensor_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="block axis of 16 has size 8"):
        Tensor(np.zeros((1, 2, 3, 4, 8)), "nChw16c")
    with pytest.raises(ValueError, match=r"shape \(1, 20, 3, 4\) takes an array of \(1, 2, 3, 4, 16\)"):
        Tensor(np.zeros((1, 3, 3, 4, 16)), "nChw16c", (1, 20, 3, 4))
    with pytest.raises(ValueError, match="takes 11 elements, memory has 10"):
        Tensor(np.zeros(10), "nc:(8,1)", (2, 3))
    with pytest.raises(ValueError, match="the memory has gaps"):
        Tensor(np.zeros(40)[::2], "nc:(8,1)", (2, 3))
    with pytest.raises(ValueError, match="byte strides"):
        Tensor(np.zeros((2, 3)), "nc:(8,1)")
    with pytest.raises(TypeError, match="expected an array, got object"):
        Tensor(object(), "nc")
    with pytest.raises(ValueError, match="overlap on shape"):
        Tensor(np.zeros((2, 3)), "nc").to("nc:(1,1)")
    with pytest.raises(ValueError, match="layout NHWC has 4 dimensions"):
        Tensor(np.zeros((2, 3)), "nc").to("NHWC")


def test_array_protocol():
    x = make(values((1, 20, 2, 2)), Layout("nChw16c"))
    with pytest.raises(ValueError, match="needs a copy"):
        x.__array__(copy=False)
    plain = Tensor(values((2, 3)), "nc")
    assert np.shares_memory(np.asarray(plain), plain.array)
    assert not np.shares_memory(np.array(plain), plain.array)
    assert np.asarray(plain, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="needs a copy"):
        plain.__array__(np.float64, copy=False)


def test_buffers():
    memory = bytearray(24)
    x = Tensor(memoryview(memory).cast("i", (2, 3)), "ba")
    x.numpy()[2, 1] = 7
    assert memory[20] == 7
    seen = memoryview(x) if sys.version_info >= (3, 12) else x.__buffer__(0)
    assert seen.shape == (3, 2) and seen.strides == (4, 12)
    with pytest.raises(BufferError, match="is blocked"):
        make(values((1, 20, 2)), Layout("nCw16c")).__buffer__(0)
    with pytest.raises(BufferError, match="read-only"):
        Tensor(memoryview(bytes(8)), "a").__buffer__(1)


def test_dlpack_between_tensors_and_numpy():
    x = Tensor(values((2, 3, 4, 5)), "NHWC")
    assert np.shares_memory(np.from_dlpack(x), x.array)
    y = Tensor(np.from_dlpack(x), "NCHW")
    assert y.explain("NHWC").view and np.shares_memory(y.to("NHWC").array, x.array)
    with pytest.raises(BufferError, match=r"is blocked; take \.array"):
        np.from_dlpack(make(values((1, 20, 2)), Layout("nCw16c")))


def test_torch_shares_memory_both_ways():
    torch = pytest.importorskip("torch")
    x = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)
    last = x.to(memory_format=torch.channels_last)
    t = Tensor.from_logical(last)
    assert t.layout == Layout("NHWC") and t.array.ctypes.data == last.data_ptr()
    assert t.explain("NHWC").view and t.array.flags.c_contiguous
    back = torch.from_dlpack(t)
    assert back.data_ptr() == last.data_ptr() and back.is_contiguous(memory_format=torch.channels_last)
    assert t.torch().data_ptr() == last.data_ptr()
    back[1, 2, 3, 4] = -1
    assert last[1, 2, 3, 4] == -1 and t.array[1, 3, 4, 2] == -1
    blocked = Tensor(x, "NCHW").to("nChw2c")
    assert torch.equal(torch.from_dlpack(blocked.to("NHWC")), x)
    assert Tensor(x, "NCHW").to("NHWC").torch().is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(BufferError, match="is blocked"):
        torch.from_dlpack(blocked)


@many
@given(st.integers(1, 5), st.data())
def test_torch_tensors_of_any_strides(rank, data):
    torch = pytest.importorskip("torch")
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    strides = data.draw(st.lists(st.integers(0, 20), min_size=rank, max_size=rank))
    x = torch.arange(400, dtype=torch.int16).as_strided(sizes, strides)
    t = Tensor.from_logical(x)
    assert t.array.ctypes.data == x.data_ptr()
    back = torch.from_dlpack(t)
    assert back.data_ptr() == x.data_ptr() and torch.equal(back, x)
    kept = [d for d in range(rank) if sizes[d] > 1]
    assert [back.stride(d) for d in kept] == [x.stride(d) for d in kept]


def test_torch_bfloat16():
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    x = torch.arange(24).to(torch.bfloat16).reshape(1, 2, 3, 4)
    t = Tensor(x, "NCHW")
    assert t.dtype.name == "bfloat16" and t.array.ctypes.data == x.data_ptr()
    assert t.torch().data_ptr() == x.data_ptr() and torch.equal(t.torch(), x)
    assert torch.equal(t.to("nChw16c").to("NCHW").torch(), x)


def test_read_only_memory_is_not_handed_to_writers():
    array = values((2, 3))
    array.flags.writeable = False
    x = Tensor(array, "nc")
    assert not x.to("nc").array.flags.writeable and not x.numpy().flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__()
    assert np.from_dlpack(Tensor(array.copy(), "nc")).tolist() == array.tolist()
    x.__dlpack__(copy=True)
