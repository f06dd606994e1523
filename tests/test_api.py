"""layoutkit.h through its capsule: structs with their size first, plans, workspaces, codes and messages.

Driven by ctypes, so that no compiler is needed; examples/ do the same from C and Cython (.ci/wheel).
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import pytest
from conftest import LONG
from oracle import reference

import layoutkit as lk
from layoutkit import api as module
from layoutkit import embedding
from layoutkit._core.runtime import registry

HEADER = (Path(lk.get_include()) / "layoutkit.h").read_text()
OK, VALUE, TYPE, MEMORY, WORKSPACE, OTHER = range(6)


class Reorder(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("src", c_char_p), ("dst", c_char_p), ("rank", c_int), ("shape", POINTER(c_int64)),
        ("itemsize", c_int), ("src_strides", POINTER(c_int64)), ("dst_strides", POINTER(c_int64)),
        ("pad", c_void_p), ("threads", c_int),
    ]  # fmt: skip


class Convolution(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("spatial", c_int), ("layout", c_char_p), ("out_layout", c_char_p),
        ("filter_layout", c_char_p), ("n", c_int64), ("in_channels", c_int64), ("out_channels", c_int64),
        ("groups", c_int64), ("in_", c_int64 * 3), ("kernel", c_int64 * 3), ("stride", c_int64 * 3),
        ("dilation", c_int64 * 3), ("before", c_int64 * 3), ("after", c_int64 * 3), ("filter", POINTER(c_float)),
        ("bias", POINTER(c_float)), ("src_strides", POINTER(c_int64)), ("dst_strides", POINTER(c_int64)),
        ("algorithm", c_char_p), ("accuracy", c_char_p), ("threads", c_int), ("dtype", c_char_p),
        ("out_dtype", c_char_p),
        ("scale", POINTER(c_float)), ("zero_point", c_int), ("out_zero_point", c_int), ("out_scale", c_float),
        ("transposed", c_int), ("output_padding", c_int64 * 3),
    ]  # fmt: skip


function = ctypes.CFUNCTYPE


class Api(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t), ("abi_version", c_int),
        ("plan_reorder", function(c_int, c_void_p, POINTER(c_void_p))),
        ("plan_convolution", function(c_int, c_void_p, POINTER(c_void_p))),
        ("workspace", function(c_int64, c_void_p)), ("dst_bytes", function(c_int64, c_void_p)),
        ("threads", function(c_int, c_void_p)),
        ("execute", function(c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_int64)),
        ("free", function(None, c_void_p)), ("last_error", function(c_char_p)),
    ]  # fmt: skip


ctypes.pythonapi.PyCapsule_GetPointer.restype = c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, c_char_p]
api = Api.from_address(ctypes.pythonapi.PyCapsule_GetPointer(module._C_API, b"layoutkit.api._C_API"))


def int64s(*values):
    return (c_int64 * len(values))(*values)


def reorder_spec(src="NCHW", dst="nChw16c", shape=(2, 20, 5, 6), itemsize=4, **fields):
    return Reorder(size=ctypes.sizeof(Reorder), src=src.encode(), dst=dst.encode(), rank=len(shape),
                   shape=int64s(*shape), itemsize=itemsize, **({"threads": 1} | fields))  # fmt: skip


def conv_spec(w, bias=None, x=(2, 20, 9, 8), **fields):
    rank = w.ndim - 2
    front = (1,) * (3 - rank)
    return Convolution(
        size=ctypes.sizeof(Convolution), spatial=rank, n=x[0], in_channels=x[1], out_channels=w.shape[0],
        in_=int64s(*front, *x[2:]), kernel=int64s(*front, *w.shape[2:]),
        filter=w.ctypes.data_as(POINTER(c_float)),
        bias=None if bias is None else bias.ctypes.data_as(POINTER(c_float)), **({"threads": 1} | fields),
    )  # fmt: skip


def planned(spec):
    """A plan of `spec`, freed by the one who asked."""
    plan = c_void_p(1)
    make = api.plan_reorder if isinstance(spec, Reorder) else api.plan_convolution
    code = make(byref(spec), byref(plan))
    assert (code == OK) == bool(plan.value)
    return code, plan


def run(plan, x, y, room=0):
    need = api.workspace(plan)
    work = np.empty(need + room, np.uint8)
    return api.execute(plan, x.ctypes.data, y.ctypes.data, work.ctypes.data, need)


def test_the_table_fits_the_header():
    assert api.size == ctypes.sizeof(Api)
    assert f"LAYOUTKIT_ABI_VERSION {api.abi_version}\n" in HEADER
    names = re.findall(r"\(\*(\w+)\)\(", HEADER.split("layoutkit_api")[0])
    assert names == [n for n, _ in Api._fields_[2:]]
    codes = re.findall(r"LAYOUTKIT_(?:OK|ERROR_\w+) = (\d)", HEADER)
    assert codes == [str(i) for i in range(6)]
    pxd = (Path(lk.__file__).parent / "api.pxd").read_text()
    for struct in (Reorder, Convolution):
        for name, _ in struct._fields_:
            assert re.search(rf"\b{name}\b", pxd), f"api.pxd lacks {name}"


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8, 16])
def test_reorder_with_pads_and_strides(itemsize):
    shape = (2, 20, 5, 6)
    dtype = np.dtype(f"V{itemsize}")
    x = np.random.default_rng(0).integers(0, 255, (*shape, itemsize), np.uint8).view(dtype)[..., 0]
    pad = np.frombuffer(bytes(range(1, itemsize + 1)), dtype)
    want = reference.to_physical(x, lk.Layout("nChw16c"), pad_value=pad[0])
    room = np.zeros((2, 2, 5, 6, 16, 3), dtype)
    y = room[..., 1]
    spec = reorder_spec(shape=shape, itemsize=itemsize, pad=pad.ctypes.data, dst_strides=int64s(*y.strides))
    code, plan = planned(spec)
    assert code == OK, api.last_error()
    assert api.dst_bytes(plan) == want.nbytes and api.workspace(plan) == 0 and api.threads(plan) == 1
    assert api.execute(plan, x.ctypes.data, y.ctypes.data, None, 0) == OK
    assert y.tobytes() == want.tobytes()
    assert not np.frombuffer(room[..., ::2].tobytes(), np.uint8).any()
    api.free(plan)


@pytest.mark.parametrize("layout", [None, "NHWC", "nChw16c", "CHWN"])
@pytest.mark.parametrize("threads", [1, 2])
def test_convolution(layout, threads):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 20, 39, 38), np.float32)
    w, bias = rng.standard_normal((18, 10, 3, 2), np.float32), rng.standard_normal(18, np.float32)
    spec = conv_spec(w, bias, x.shape, groups=2, threads=threads, stride=int64s(0, 2, 1), dilation=int64s(0, 1, 2),
                     before=int64s(0, 1, 0), after=int64s(0, 2, 3), layout=layout and layout.encode())  # fmt: skip
    code, plan = planned(spec)
    assert code == OK, api.last_error()
    w[...] = bias[...] = np.nan  # the plan keeps its own
    rng = np.random.default_rng(0)
    rng.standard_normal(x.shape, np.float32)
    w, bias = rng.standard_normal(w.shape, np.float32), rng.standard_normal(18, np.float32)
    held = lk.Layout(layout or "NCHW")
    want = lk.conv2d(reference.to_physical(x, held), w, bias, groups=2, stride=(2, 1), dilation=(1, 2),
                     padding=((1, 2), (0, 3)), layout=held, threads=threads)  # fmt: skip
    y = np.full_like(want, np.nan)
    assert api.dst_bytes(plan) == y.nbytes
    assert run(plan, reference.to_physical(x, held), y) == OK, api.last_error()
    np.testing.assert_array_equal(y, want)
    api.free(plan)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c"])
@pytest.mark.parametrize(("dtype", "out"), [
    ("float64", None), ("bfloat16", None), ("bfloat16", "float32"), ("float16", None), ("uint8", None),
    ("int8", "uint8"), ("uint8", "float32"),
])  # fmt: skip
def test_convolution_of_other_types(dtype, out, layout):
    rng = np.random.default_rng(0)
    whole = dtype.endswith("int8")
    stored = {"bfloat16": "u2", "uint8": "u1", "int8": "i1"}.get(dtype, dtype)
    if whole:
        limits = np.iinfo(stored)
        x = rng.integers(limits.min, limits.max, (2, 5, 9, 8), endpoint=True).astype(stored)
        w, bias = rng.integers(-128, 128, (18, 5, 3, 3)).astype("i1"), rng.integers(-99, 99, 18).astype("i4")
    else:
        x, w = (lk.reorder(rng.standard_normal(s, np.float32), "abcd", "abcd", dtype=dtype).view(stored)
                for s in ((2, 5, 9, 8), (18, 5, 3, 3)))  # fmt: skip
        bias = rng.standard_normal(18).astype("f8" if dtype == "float64" else "f4")
    numbers = {}
    if whole:
        numbers["zero_point"] = 7
    if out == "uint8":
        numbers |= dict(out_zero_point=3, out_scale=0.5)
    scale = np.linspace(0.001, 0.01, 18, dtype="f4") if out and whole else None
    spec = conv_spec(w, bias, x.shape, before=int64s(0, 1, 1), after=int64s(0, 1, 1), layout=layout.encode(),
                     accuracy=b"reproducible", dtype=dtype.encode(), out_dtype=out and out.encode(),
                     scale=None if scale is None else scale.ctypes.data_as(POINTER(c_float)), **numbers)  # fmt: skip
    code, plan = planned(spec)
    assert code == OK, api.last_error()
    held = reference.to_physical(x, lk.Layout(layout))
    results = dtype, out or ("int32" if whole else dtype)
    want = lk.conv2d(held, w, bias, padding=1, layout=layout, shape=x.shape, scale=scale, threads=1,
                     accuracy="reproducible", dtype=results, **numbers)  # fmt: skip
    y = np.zeros_like(want)
    assert run(plan, held, y) == OK, api.last_error()
    np.testing.assert_array_equal(y, want)
    api.free(plan)


TRANSPOSED = [("float32", None), ("bfloat16", None), ("float16", "float32"), ("float64", None), ("uint8", None),
              ("int8", "uint8")]  # fmt: skip


@pytest.mark.parametrize("layouts", [("NCHW", None), ("NHWC", None), ("nChw16c", "NCHW"), ("CHWN", "NHWC")])
@pytest.mark.parametrize(("dtype", "out"), TRANSPOSED)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("threads", [1, 2])
def test_transposed_convolution(layouts, dtype, out, groups, threads):
    rng = np.random.default_rng(groups)
    whole = dtype.endswith("int8")
    stored = {"bfloat16": "u2", "uint8": "u1", "int8": "i1"}.get(dtype, dtype)
    shape, of = (2, 6, 7, 5), (6, 9 // groups, 4, 3)  # I O H W
    if whole:
        limits = np.iinfo(stored)
        x = rng.integers(limits.min, limits.max, shape, endpoint=True).astype(stored)
        w, bias = rng.integers(-128, 128, of).astype("i1"), rng.integers(-99, 99, 9).astype("i4")
    else:
        x, w = (lk.reorder(rng.standard_normal(s, np.float32), "abcd", "abcd", dtype=dtype).view(stored)
                for s in (shape, of))  # fmt: skip
        bias = rng.standard_normal(9).astype("f8" if dtype == "float64" else "f4")
    numbers = dict(zero_point=7) if whole else {}
    if out == "uint8":
        numbers |= dict(out_zero_point=3, out_scale=0.5)
    scale = np.linspace(0.001, 0.01, 9, dtype="f4") if out and whole else None
    src, dst = layouts
    attributes = dict(stride=int64s(1, 2, 1), dilation=int64s(1, 1, 2), before=int64s(0, 1, 0), after=int64s(0, 0, 1),
                      output_padding=int64s(0, 1, 0))  # fmt: skip
    spec = conv_spec(w, bias, shape, layout=src.encode(), out_layout=dst and dst.encode(), accuracy=b"reproducible",
                     dtype=dtype.encode(), out_dtype=out and out.encode(), threads=threads, transposed=1, groups=groups,
                     scale=None if scale is None else scale.ctypes.data_as(POINTER(c_float)), **attributes,
                     **numbers)  # fmt: skip
    spec.out_channels = 9
    code, plan = planned(spec)
    assert code == OK, api.last_error()
    held = reference.to_physical(x, lk.Layout(src))
    results = dtype, out or ("int32" if whole else dtype)
    want = lk.conv_transpose2d(
        held, w, bias, stride=(2, 1), dilation=(1, 2), padding=((1, 0), (0, 1)), output_padding=(1, 0), groups=groups,
        layout=src, out_layout=dst, shape=shape, scale=scale, threads=threads, accuracy="reproducible", dtype=results,
        **numbers,
    )  # fmt: skip
    y = np.zeros_like(want)
    assert api.dst_bytes(plan) == y.nbytes and api.threads(plan) <= threads
    for _ in range(2):
        assert run(plan, held, y) == OK, api.last_error()
        np.testing.assert_array_equal(y, want)
    api.free(plan)


def test_transposed_convolution_between_strided_arrays():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 5, 4, 6), np.float32), rng.standard_normal((6, 3, 2, 2), np.float32)
    room_x, room_y = np.zeros((2, 5, 4, 6, 2), np.float32), np.full((2, 10, 8, 3, 2), 7, np.float32)
    held, y = room_x[..., 0], room_y[..., 1]
    held[...] = x
    spec = conv_spec(w, None, (2, 6, 5, 4), layout=b"NHWC", transposed=1, stride=int64s(1, 2, 2),
                     src_strides=int64s(*held.strides), dst_strides=int64s(*y.strides))  # fmt: skip
    spec.out_channels = 3
    code, plan = planned(spec)
    assert code == OK, api.last_error()
    assert run(plan, held, y) == OK, api.last_error()
    want = lk.conv_transpose2d(x, w, stride=2, layout="NHWC")
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    assert (room_y[..., 0] == 7).all()
    api.free(plan)


def test_a_type_that_convolutions_do_not_have():
    spec = conv_spec(np.ones((18, 5, 3, 3), np.float32), None, (2, 5, 9, 8), dtype=b"complex64")
    assert planned(spec)[0] == TYPE and b"dtype 'complex64' is none of float32" in api.last_error()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_reproducible_convolution(threads):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 32, 20, 21), np.float32), rng.standard_normal((24, 32, 3, 3), np.float32)
    spec = conv_spec(w, x=x.shape, threads=threads, accuracy=b"reproducible", before=int64s(0, 1, 1),
                     after=int64s(0, 1, 1))  # fmt: skip
    code, plan = planned(spec)
    assert code == OK, api.last_error()
    six_taps = 6 * 32, 6 * 32
    want = reference.conv_in_order(x, w, None, (1, 1), ((1, 1), (1, 1)), (1, 1), 1, chunks=six_taps)
    y = np.full_like(want, np.nan)
    assert run(plan, x, y) == OK, api.last_error()
    api.free(plan)
    if registry.isa() == "portable":
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)
    else:
        np.testing.assert_array_equal(y.view(np.int32), want.view(np.int32))


@pytest.mark.parametrize("layout", ["abcD16d", "debcA4a", "nhwc:(4000,300,20,1)"])
def test_convolution_holds_to_logical_shapes(layout):
    """Blocks of any dimension with pads, and explicit strides; the filter is padded in both channels."""
    rank = lk.Layout(layout).rank - 2
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 20, 7, 9, 4)[: rank + 2], np.float32)
    w = rng.standard_normal((18, 20, 3, 2, 1)[: rank + 2], np.float32)
    held, ordered = lk.Layout(layout), "OI" + "DHW"[3 - rank :]
    blocked = lk.reorder(w, ordered, "OI" + "dhw"[3 - rank :] + "16i16o")
    spec = conv_spec(w, x=x.shape, layout=layout.encode(), out_layout=held.dense.tag.encode(),
                     filter_layout=f"OI{'dhw'[3 - rank:]}16i16o".encode())  # fmt: skip
    spec.filter = blocked.ctypes.data_as(POINTER(c_float))
    code, plan = planned(spec)
    assert code == OK, api.last_error()
    want = lk.Tensor(lk.reorder(x, "abcde"[: rank + 2], held), held, x.shape)
    want = (lk.conv2d if rank == 2 else lk.conv3d)(want, w).array
    y = np.full_like(want, np.nan)
    memory = np.full(held.required_span_size(x.shape), np.nan, np.float32)
    memory[reference.offsets(held, x.shape)] = x
    assert run(plan, memory, y) == OK, api.last_error()
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    api.free(plan)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c"])
@pytest.mark.parametrize("algorithm", ["auto", "direct"])
def test_convolution_by_what_the_filter_holds(layout, algorithm):
    """Zeros around the input times Inf are NaN here as well; Winograd is not for such a filter."""
    w, held = np.ones((18, 20, 3, 3), np.float32), lk.Layout(layout)
    w[3, :, 0, 0] = np.inf
    x = np.ones((1, 20, 9, 8), np.float32)
    pads = int64s(0, 1, 1)
    name = {"layout": layout.encode(), "algorithm": algorithm.encode()}
    code, plan = planned(conv_spec(w, None, x.shape, before=pads, after=pads, **name))
    assert code == OK, api.last_error()
    with np.errstate(all="ignore"):
        want = reference.conv(x, w, None, (1, 1), ((1, 1), (1, 1)), (1, 1), 1).astype(np.float32)
    y = np.full(held.physical_shape(want.shape), np.nan, np.float32)
    assert run(plan, reference.to_physical(x, held), y) == OK, api.last_error()
    np.testing.assert_array_equal(y, reference.to_physical(want, held))
    api.free(plan)


def test_other_ranks_and_nothing_to_do():
    w = np.ones((3, 2, 2), np.float32)
    code, plan = planned(conv_spec(w, x=(1, 2, 5)))
    y = np.zeros((1, 3, 4), np.float32)
    assert code == OK and run(plan, np.ones((1, 2, 5), np.float32), y) == OK
    assert (y == 4).all()
    api.free(plan)
    for spec in (conv_spec(w, x=(0, 2, 5)), reorder_spec(shape=(0, 3, 2, 2))):
        code, plan = planned(spec)
        assert code == OK and api.dst_bytes(plan) == 0
        assert api.execute(plan, None, None, None, 0) == OK
        api.free(plan)
    api.free(None)


W = np.ones((4, 2, 3, 3), np.float32)
BROKEN = np.full((4, 4, 3, 3), np.inf, np.float32)


@pytest.mark.parametrize(("spec", "code", "says"), [
    (reorder_spec(dst="NCWW"), VALUE, "stands twice"),
    (reorder_spec(dst="NCW"), VALUE, "layout NCW has 3 dimensions"),
    (reorder_spec(shape=(1, 2, 3)), VALUE, "rank 3, but NCHW has 4"),
    (reorder_spec(shape=(1, -2, 3, 4)), VALUE, "-2"),
    (reorder_spec(src="NCW", dst="NTC", shape=(1, 2, 3)), VALUE, "T N C of recurrent networks"),
    (conv_spec(W, x=(1, 2, 5, 5), layout=b"HWIO"), VALUE, "names O I H W of filters"),
    (reorder_spec(itemsize=3), TYPE, "elements of 3 bytes"),
    (reorder_spec(threads=-1), VALUE, "threads"),
    (reorder_spec(threads=1 << 20), VALUE, "four times the cores of this machine), got 1048576"),
    (conv_spec(W, x=(1, 2, 5, 5), threads=1 << 20), VALUE, "four times the cores of this machine), got 1048576"),
    (reorder_spec(dst="NHWC", dst_strides=int64s(4, 4, 4, 4)), VALUE, "overlap"),
    (Reorder(size=0), VALUE, "size of the struct"),
    (Reorder(size=ctypes.sizeof(Reorder)), VALUE, "src, dst and shape"),
    (conv_spec(W, x=(1, 3, 5, 5), groups=2), VALUE, "3 input"),
    (conv_spec(W, x=(1, 2, 2, 5)), VALUE, "does not fit"),
    (conv_spec(W, x=(1, 2, 5, 5), algorithm=b"fft"), VALUE, "algorithm 'fft'"),
    (conv_spec(W, x=(1, 2, 5, 5), accuracy=b"most"), VALUE, "accuracy 'most'"),
    (conv_spec(W, x=(1, 2, 5, 5), layout=b"\xff\xfe"), VALUE, "decode"),
    (conv_spec(W, x=(1, 2, 5, 5), layout=b"NCW"), VALUE, "expected 4"),
    (conv_spec(W, x=(1, 2, 5, 5), output_padding=int64s(0, 1, 0)), VALUE, "of transposed convolutions"),
    (conv_spec(W, x=(1, 2, 5, 5), transposed=1, output_padding=int64s(0, 0, 1)), VALUE, "not below stride 1"),
    (conv_spec(W, x=(1, 4, 5, 5), transposed=1, groups=3), VALUE, "4 input and 4 output channels in 3 groups"),
    (conv_spec(BROKEN, x=(1, 4, 5, 5), transposed=1), VALUE, "the filter holds Inf or NaN"),
    (Convolution(size=ctypes.sizeof(Convolution), spatial=4), VALUE, "4 spatial axes"),
    (Convolution(size=ctypes.sizeof(Convolution), spatial=2), VALUE, "no filter"),
], ids=lambda v: v if isinstance(v, str) else None)  # fmt: skip
def test_refused_with_a_code_and_words(spec, code, says):
    assert planned(spec)[0] == code
    assert says in api.last_error().decode()


def test_a_struct_of_before_its_last_field_was_added():
    spec = reorder_spec(threads=77)
    spec.size = Reorder.threads.offset
    code, plan = planned(spec)
    assert code == OK and api.threads(plan) <= lk.get_num_threads(), "the caller does not know of threads"
    api.free(plan)


def test_execute_refuses():
    x = np.ones((1, 2, 9, 9), np.float32)
    w = np.ones((4, 2, 3, 3), np.float32)
    code, plan = planned(conv_spec(w, x=x.shape, layout=b"CHWN"))
    assert code == OK
    need, y = api.workspace(plan), np.zeros((4, 7, 7), np.float32)
    work = np.zeros(max(1, need), np.uint8)
    assert need > 0
    assert api.execute(plan, x.ctypes.data, y.ctypes.data, work.ctypes.data, need - 1) == WORKSPACE
    assert api.execute(plan, x.ctypes.data, y.ctypes.data, None, need) == WORKSPACE
    assert api.execute(plan, None, y.ctypes.data, work.ctypes.data, need) == VALUE
    assert api.execute(None, x.ctypes.data, y.ctypes.data, work.ctypes.data, need) == VALUE
    assert api.last_error() == b"execute: no plan"
    assert not y.any()
    api.free(plan)


def test_one_plan_in_many_threads_each_with_its_workspace():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 20, 9, 8), np.float32), rng.standard_normal((6, 20, 3, 3), np.float32)
    want = lk.Conv2d(w, threads=1)(x)
    _, plan = planned(conv_spec(w))
    wrong = []

    def work():
        for _ in range(50):
            y = np.full_like(want, np.nan)
            if run(plan, x, y) != OK or not (y == want).all():
                wrong.append(y)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    api.free(plan)


def test_a_threaded_plan_runs_on_one_thread_after_a_fork():
    x, w = np.ones((1, 64, 70, 66), np.float32), np.ones((32, 64, 3, 3), np.float32)
    _, many = planned(conv_spec(w, x=x.shape, threads=2))
    _, one = planned(conv_spec(w, x=x.shape))
    y = np.zeros((1, 32, 68, 64), np.float32)
    assert api.threads(many) == 2 and run(many, x, y) == OK
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        again, plan = planned(conv_spec(w, x=x.shape, threads=2))
        every = many, one, plan
        os._exit(again or any(run(p, x, y) or api.threads(p) != 1 for p in every))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    api.free(many)
    api.free(one)


class Job(ctypes.Structure):
    _fields_ = [
        ("execute", c_void_p), ("plan", c_void_p), ("src", c_void_p), ("want", c_void_p), ("dst_bytes", c_int64),
        ("workspace_bytes", c_int64),
    ]  # fmt: skip


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_forks_of_c_beside_threads_of_c(tmp_path):
    """In a process of its own: a fork takes as long as the memory of the tests so far is large."""
    library, tests = tmp_path / "forks.so", Path(__file__).parent
    source = tests / "forks.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-pthread", "-o", str(library), str(source)], check=True)
    program = "import sys; sys.path.insert(0, sys.argv[1]); import test_api; test_api.fork_beside_threads(sys.argv[2])"
    done = subprocess.run([sys.executable, "-c", program, str(tests), str(library)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def fork_beside_threads(library):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 64, 70, 66), np.float32)
    w = rng.standard_normal((8, 64, 3, 3), np.float32)
    for spec in (reorder_spec("NCHW", "NHWC", x.shape, threads=2), conv_spec(w, x=x.shape, threads=2)):
        fork_beside_threads_of(spec, x, library)


def fork_beside_threads_of(spec, x, library):
    code, plan = planned(spec)
    assert code == OK and api.threads(plan) == 2
    want = np.zeros(api.dst_bytes(plan), np.uint8)
    assert run(plan, x, want) == OK
    job = Job(
        execute=ctypes.cast(api.execute, c_void_p), plan=plan, src=x.ctypes.data, want=want.ctypes.data,
        dst_bytes=want.nbytes, workspace_bytes=api.workspace(plan),
    )  # fmt: skip
    assert ctypes.CDLL(library).lk_test_forks(byref(job), 100 if LONG else 30) == 0
    api.free(plan)


def test_config_command(capsys):
    assert embedding.main(["--cflags", "--libs"]) == 0
    flag = capsys.readouterr().out.strip()
    assert flag.startswith("-I") and (Path(flag[2:]) / "layoutkit.h").exists()
    assert embedding.main(["--pkgconfigdir"]) == 0
    text = (Path(capsys.readouterr().out.strip()) / "layoutkit.pc").read_text()
    assert f"Version: {lk.__version__}\n" in text
    assert embedding.main(["--includedir"]) == 0
    assert embedding.main([]) == 2


@pytest.mark.parametrize("field", ["stride", "dilation", "before", "after"])
@pytest.mark.parametrize("value", [2**31, 2**32 + 1, 2**62])
@pytest.mark.parametrize("groups", [1, 20])
def test_attributes_beyond_the_limit_are_refused(field, value, groups):
    w = np.ones((20, 20 // groups, 1, 1), np.float32)
    spec = conv_spec(w, None, (1, 20, 5, 5), groups=groups, **{field: int64s(0, 0, value)})
    code, _ = planned(spec)
    assert code == VALUE and b"2147483647" in api.last_error()


def test_arrays_within_a_float_are_refused():
    code, plan = planned(conv_spec(np.ones((4, 4, 1, 1), np.float32), None, (1, 4, 5, 5)))
    room = np.zeros(404, np.uint8)
    assert code == OK
    x = np.zeros(100, np.float32)
    assert run(plan, x, room[1:]) == VALUE and b"whole elements" in api.last_error()
    assert run(plan, room[1:], x) == VALUE
    api.free(plan)
