"""Tensors: values, bytes that move or do not, padding contracts, and what others see of them."""

import ctypes
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from strategies import laid_out, layouts

from layoutkit.formats.layout import Layout
from layoutkit.memory.arrays import as_array
from layoutkit.memory.tensor import UNDEFINED, Tensor


def values(shape, dtype=np.int32):
    return 1 + np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def make(logical, layout, pad_value=0):
    array = reference.to_physical(logical, layout, pad_value)
    return Tensor(array, layout, logical.shape, pad_value=pad_value)


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


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_dlpack_of_types_that_numpy_has_not(name):
    torch = pytest.importorskip("torch")
    numbers = (np.arange(24) % 8 - 4).reshape(1, 2, 3, 4)  # which all of the types have
    x = torch.tensor(numbers).to(getattr(torch, name))
    held = Tensor(x, "NCHW")
    assert held.array.dtype == np.dtype(getattr(ml_dtypes, name)) and held.array.ctypes.data == x.data_ptr()
    assert np.array_equal(held.array.astype(int), numbers)
    made = Tensor(numbers.astype(getattr(ml_dtypes, name)), "NCHW").to("NHWC")
    for back in (torch.from_dlpack(made), made.torch()):
        assert back.dtype == x.dtype and back.data_ptr() == made.array.ctypes.data
        assert torch.equal(back.float(), x.float())

    class Old:  # a producer of before DLPack 1.0
        def __dlpack__(self, stream=None):
            return x.__dlpack__()

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    assert np.array_equal(as_array(Old(), "x").astype(int), numbers)


@pytest.mark.parametrize(("name", "bits"), [("bfloat16", "uint16"), ("float8_e5m2", "uint8")])
def test_without_ml_dtypes_dlpack_gives_bits(name, bits, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    x = torch.arange(4).to(getattr(torch, name))
    got = as_array(x, "x")
    assert got.dtype == bits and np.array_equal(got, x.view(getattr(torch, bits)).numpy())


def test_dlpack_of_what_nobody_has():
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="Tensor by DLPack: elements of float8_e4m3fnuz are not supported"):
        Tensor(torch.ones(2, 3).to(torch.float8_e4m3fnuz), "ab")
    with pytest.raises(BufferError, match="require"):
        Tensor(torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True), "ab")


def test_torch_bfloat16():
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    x = torch.arange(24).to(torch.bfloat16).reshape(1, 2, 3, 4)
    t = Tensor(x, "NCHW")
    assert t.dtype.name == "bfloat16" and t.array.ctypes.data == x.data_ptr()
    assert t.torch().data_ptr() == x.data_ptr() and torch.equal(t.torch(), x)
    assert torch.equal(t.to("nChw16c").to("NCHW").torch(), x)


# ---- DLPack: what a capsule says


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned, as far as the flags."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("data", ctypes.c_void_p)]  # fmt: skip


READ_ONLY, IS_COPIED = 1, 2
with_flags = pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="this numpy has no DLPack 1.0")
ctypes.pythonapi.PyCapsule_GetName.restype = ctypes.c_char_p
ctypes.pythonapi.PyCapsule_GetName.argtypes = [ctypes.py_object]
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def capsule_of(tensor, **asked):
    """(flags or None where the version has none, address of the data) of an export."""
    capsule = tensor.__dlpack__(**asked)
    name = ctypes.pythonapi.PyCapsule_GetName(capsule)
    at = ctypes.pythonapi.PyCapsule_GetPointer(capsule, name)
    if name == b"dltensor":
        return None, ctypes.c_void_p.from_address(at).value
    assert name == b"dltensor_versioned"
    found = Managed.from_address(at)
    return found.flags, found.data


@with_flags
@given(laid_out(min_size=1, max_rank=3, most=60, max_blocks=0), st.booleans(), st.data())
def test_an_export_says_what_it_is(pair, writeable, data):
    layout, shape = pair
    array = reference.to_physical(values(shape), layout)
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, 1, 2, -1]))) for _ in shape)
    array = array[steps]
    array.flags.writeable = writeable
    x = Tensor(array, layout)
    version = data.draw(st.sampled_from([None, (0, 8), (1, 0), (1, 1), (2, 0)]))
    copied = data.draw(st.sampled_from([None, False, True]))
    asked = {"max_version": version, "copy": copied}
    flags = version is not None and version >= (1, 0)
    if not copied and any(n > 1 and s < 0 for n, s in zip(array.shape, array.strides)):
        with pytest.raises(BufferError, match="has negative strides"):
            capsule_of(x, **asked)
    elif not copied and not writeable and not flags:
        with pytest.raises(BufferError, match="is read-only"):
            capsule_of(x, **asked)
    else:
        found, address = capsule_of(x, **asked)
        if flags:
            assert found == (IS_COPIED if copied else 0 if writeable else READ_ONLY)
        else:
            assert found is None
        assert (address == array.ctypes.data) != bool(copied)
    if copied or not any(n > 1 and s < 0 for n, s in zip(array.shape, array.strides)):
        seen = np.from_dlpack(x, copy=copied)
        np.testing.assert_array_equal(seen, x.numpy())
        assert np.shares_memory(seen, array) != bool(copied) and seen.flags.writeable == bool(writeable or copied)


def test_an_older_numpy_has_no_flags(monkeypatch):
    monkeypatch.setattr("layoutkit.memory.dlpack.FLAGS", False)
    x = Tensor(values((2, 3)), "nc")
    assert capsule_of(x, max_version=(1, 0)) == (None, x.array.ctypes.data)
    assert capsule_of(x, copy=True, max_version=(1, 0))[1] != x.array.ctypes.data
    x.array.flags.writeable = False
    with pytest.raises(BufferError, match="is read-only"):
        capsule_of(x, max_version=(1, 0))
    assert capsule_of(x, copy=True)[0] is None


@with_flags
def test_read_only_memory_is_not_handed_to_those_who_are_not_told():
    array = values((2, 3))
    array.flags.writeable = False
    x = Tensor(array, "nc")
    assert not x.to("nc").array.flags.writeable and not x.numpy().flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__()
    assert np.from_dlpack(x).tolist() == array.tolist() and not np.from_dlpack(x).flags.writeable
    assert np.from_dlpack(Tensor(array.copy(), "nc")).tolist() == array.tolist()
    x.__dlpack__(copy=True)


TORCH = """
import numpy as np, torch, layoutkit as lk
for steps in (np.s_[::-1], np.s_[:, ::-1], np.s_[::-1, ::-2]):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)[steps]
    x, refused = lk.Tensor(array, "nc"), []
    for operation in (x.torch, lambda: torch.from_dlpack(x)):
        try:
            operation()
        except BufferError as error:
            refused.append("negative strides" in str(error))
    assert refused == [True, True]
    assert torch.from_dlpack(x, copy=True).tolist() == array.tolist()
print("alive")
"""


def test_torch_is_not_given_negative_strides():
    """It would end the process (std::terminate in its capsule's consumer)."""
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", TORCH], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_torch_is_not_given_what_it_must_not_write():
    pytest.importorskip("torch")
    x = Tensor(np.broadcast_to(np.float32(1), (2, 3)), "nc")
    with pytest.raises(BufferError, match="is read-only, and torch tensors can be written to"):
        x.torch()


# ---- frozen


def test_attributes_cannot_be_assigned():
    x = make(values((1, 3, 1, 2)), Layout("nChw4c"))
    before = x.array, x.layout, x.shape, x.pad_value
    others = {"shape": (9, 9, 9, 9), "layout": "NHWC", "array": values((99,)), "pad_value": 5, "new": 1}
    for name, value in others.items():
        with pytest.raises(AttributeError, match=f"Tensor is frozen: {name} cannot be assigned"):
            setattr(x, name, value)
        with pytest.raises(AttributeError, match=f"Tensor is frozen: {name} cannot be deleted"):
            delattr(x, name)
    assert all(a is b for a, b in zip(before, (x.array, x.layout, x.shape, x.pad_value)))


@given(laid_out(pitched=True, most=100), st.sampled_from([0, 7, -3, 2.5, 2**40, None, "x"]), st.booleans())
def test_filled_pads_are_promised_and_elements_stay(pair, value, writeable):
    layout, shape = pair
    memory = np.zeros(max(1, layout.required_span_size(shape)), np.int32)
    offsets = reference.offsets(layout, shape)
    memory[offsets] = values(shape)
    held = memory[offsets]  # where layouts overlap, what was written last
    memory.flags.writeable = writeable
    array = np.lib.stride_tricks.as_strided(
        memory, layout.physical_shape(shape), [4 * s for s in layout.axis_strides(shape)], writeable=writeable
    )
    x = Tensor(array, layout, shape, pad_value=UNDEFINED)
    kept = memory.copy()
    pads = layout.full_shape(shape) != shape and array.size
    try:
        x.fill_padding(value)
    except ValueError as error:
        refused = ("is not a value of dtype int32", "is read-only", "elements overlap one another")
        assert any(text in str(error) for text in refused)
        assert value in (2.5, 2**40, None, "x") or pads
        np.testing.assert_array_equal(memory, kept)
        assert x.pad_value is UNDEFINED
    else:
        assert value in (0, 7, -3)
        np.testing.assert_array_equal(memory[offsets], held)
        assert x.pad_value == value
        x.check_padding()


def test_a_tensor_of_a_tensor_says_what_to_do():
    x = Tensor(values((2, 3)), "nc")
    with pytest.raises(TypeError, match=r"expected an array, got Tensor of shape .*: \.to gives it in another layout"):
        Tensor(x, "cn")
    assert Tensor.from_logical(x) is x and Tensor.from_logical(x, "cn").layout == Layout("cn")


@given(laid_out(min_rank=1), st.data())
def test_elements_by_logical_index_in_any_layout(case, data):
    layout, shape = case
    assume(0 not in shape)
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    t = Tensor(reference.to_physical(x, layout), layout, shape)
    at = tuple(data.draw(st.integers(-n, n - 1)) for n in shape)
    assert t[at] == x[at]
    assert (t.ndim, t.size, t.itemsize) == (x.ndim, x.size, x.itemsize) and t.nbytes >= x.nbytes
    if layout.is_plain:
        np.testing.assert_array_equal(t[..., ::-1], x[..., ::-1])
        assert t.strides == layout.strides(shape)
    with pytest.raises(IndexError):
        t[tuple(shape)]


def test_what_a_blocked_tensor_cannot_say_is_refused():
    t = Tensor(np.zeros((1, 2, 3, 3, 4)), "nChw4c")
    with pytest.raises(TypeError, match=r"is blocked: expected an index of 4 integers"):
        t[0]
    with pytest.raises(ValueError, match="dimension c is blocked"):
        _ = t.strides


def test_arithmetic_comparisons_and_loops_are_refused():
    t = Tensor(np.ones((1, 2, 3, 3), np.float32), "NCHW")
    for operation in (
        lambda: t + 1, lambda: 1 - t, lambda: t @ t, lambda: -t, lambda: t.array * t, lambda: t < 2, lambda: list(t),
        lambda: len(t), lambda: bool(t), lambda: float(t), lambda: t == t.array, lambda: t.array == t, lambda: 1 in t,
    ):  # fmt: skip
        with pytest.raises(
            TypeError, match=r"NCHW, float32 takes no part in arithmetic, comparisons and loops; \.numpy"
        ):
            operation()
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.add(t, 1)
    assert t == t and t != 5 and hash(t) == hash(t) and len({t, t}) == 1
