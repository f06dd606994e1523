"""Arrays, integers and pad values of other kinds than the plainest: taken as what they are, or refused by name."""

import re

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.formats.layout import Layout
from layoutkit.memory.tensor import Tensor


def whole(seed, *shape):
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def subclasses(array, file):
    """The same numbers in arrays of subclasses, not contiguous."""
    double = (*array.shape[:-1], 2 * array.shape[-1])
    mapped = np.memmap(file, array.dtype, "w+", shape=double)
    for room in (mapped, np.zeros(double, array.dtype).view(np.recarray)):
        view = room[..., ::2]
        view[...] = array
        yield room, view


def test_subclasses_of_arrays_are_read_and_written_as_arrays(tmp_path):
    x, w = whole(0, 1, 4, 5, 6), whole(1, 4, 4, 3, 3)
    operations = [
        lambda x, w, out: lk.reorder(x, "NCHW", "NCHW", out=out),
        lambda x, w, out: lk.reorder(x, "NCHW", "NCHW", out=out, scale=2.0),
        lambda x, w, out: lk.conv2d(x, w, padding=1, out=out),
        lambda x, w, out: lk.Conv2d(w, padding=1)(x, out, x),
        lambda x, w, out: lk.conv_transpose2d(x, w, padding=1, out=out),
        lambda x, w, out: lk.ConvTranspose2d(w, padding=1)(x, out, x),
    ]
    for operation in operations:
        want = operation(x, w, None)
        given = (subclasses(a, tmp_path / name) for a, name in ((x, "x"), (w, "w"), (0 * x, "out")))
        for (_, x_view), (_, w_view), (room, out) in zip(*given):
            room[..., 1::2] = 77
            assert operation(x_view, w_view, out) is out
            np.testing.assert_array_equal(np.asarray(out), want)
            assert (np.asarray(room)[..., 1::2] == 77).all()
            assert type(lk.Tensor(x_view, "NCHW").array) is np.ndarray


def test_masks_are_not_lost_in_silence():
    x, w = whole(0, 1, 4, 5, 6), whole(1, 4, 4, 3, 3)
    masked, masked_w = np.ma.masked_array(x, x > 0), np.ma.masked_array(w, w > 0)
    out = np.ma.masked_array(np.zeros_like(x), x > 0)
    plan = lk.plan(lk.reorder, x, "NCHW", "NCHW").run
    for operation in (
        lambda: lk.reorder(masked, "NCHW", "NHWC"), lambda: lk.reorder(x, "NCHW", "NCHW", out=out),
        lambda: plan(masked, x), lambda: plan(x, out), lambda: lk.conv2d(masked, w), lambda: lk.conv2d(x, masked_w),
        lambda: lk.conv2d(x, w, padding=1, out=out), lambda: lk.conv2d(x, w, padding=1, add=masked),
        lambda: lk.conv2d(x, w, masked[0, :, 0, 0]), lambda: lk.conv_transpose2d(masked, w),
        lambda: lk.conv_transpose2d(x, w, padding=1, out=out), lambda: lk.Tensor(masked, "NCHW"),
        lambda: lk.compensation(masked.astype("i1")),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="got MaskedArray, whose mask would be lost"):
            operation()
    assert not np.asarray(out).any()


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16, np.intp])
def test_integers_of_numpy_are_integers(kind):
    x, w = whole(0, 2, 8, 9, 9), whole(1, 8, 4, 3, 3)
    i = kind
    want = lk.conv2d(x, w, stride=2, padding=1, dilation=2, groups=2)
    for padding in (i(1), (i(1), i(1)), np.ones(2, kind), np.ones((2, 2), kind), [(i(1), 1), np.ones(2, kind)]):
        got = lk.conv2d(x, w, stride=i(2), padding=padding, dilation=np.full(2, 2, kind), groups=i(2), threads=i(1),
                        shape=np.array(x.shape, kind), filter_shape=list(map(i, w.shape)))  # fmt: skip
        np.testing.assert_array_equal(got, want)
    op = lk.Conv2d(w, groups=i(2), threads=i(1))
    assert op.plan(np.array(x.shape, kind)).title == op.plan(x.shape).title
    assert op.workspace(list(map(i, x.shape))) == op.workspace(x.shape)
    wt = lk.conv_transpose2d(x, w, stride=i(2), output_padding=i(1), groups=i(2))
    np.testing.assert_array_equal(wt, lk.conv_transpose2d(x, w, stride=2, output_padding=1, groups=2))
    scales = np.arange(1, 9, dtype=np.float32)
    numbers = dict(shape=tuple(map(i, x.shape)), axis=i(1), scale=scales, pad_value=i(0), threads=i(2))
    got = lk.reorder(x, "NCHW", "NHWC", **numbers)
    np.testing.assert_array_equal(got, lk.reorder(x, "NCHW", "NHWC", scale=scales))
    assert (lk.reorder(x, "NCHW", "NHWC", region=((i(0), i(1)), None, None, None)) == x[:1].transpose(0, 2, 3, 1)).all()
    assert lk.compensation(np.ones((2, 3), "i1"), "OI", i(1)).tolist() == [2, 2, 2]
    before = lk.get_num_threads()
    lk.set_num_threads(i(1))
    assert lk.get_num_threads() == 1
    lk.set_num_threads(None)
    assert lk.get_num_threads() == before and lk.release_memory(i(100)) >= 0
    if kind is not np.int8:
        assert Layout(kind(0x1342)) == Layout("NHWC")


@pytest.mark.parametrize(
    "bad", [1.5, np.float64(2), "1", None, np.bool_(1), (1, 2, 3), np.ones(3, int), np.nan, np.inf, {}]
)
def test_what_is_no_integer_stays_refused(bad):
    x, w = whole(0, 2, 8, 9, 9), whole(1, 8, 4, 3, 3)
    for name in ("stride", "dilation", "groups", "padding"):
        with pytest.raises(ValueError, match=name):
            lk.conv2d(x, w, **{name: bad})
    if bad is not None:
        with pytest.raises((TypeError, ValueError), match="threads"):
            lk.conv2d(x, w, groups=2, threads=bad)
        with pytest.raises((TypeError, ValueError)):
            lk.conv2d(x, w, groups=2, shape=bad)


# ---- pad values, everywhere they are said


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, v: lk.reorder(x, "NCHW", "nChw4c", pad_value=v),
        lambda x, v: lk.reorder(x, "NCHW", "NHWC", pad_value=v),
        lambda x, v: lk.reorder(x, "NCHW", "nChw4c", pad_value=v, dtype="u1", scale=2.0),
        lambda x, v: lk.reorder(x, "NCHW", "nChw4c", pad_value=v, region=(None, None, None, (0, 1))),
        lambda x, v: lk.reorder(Tensor(x, "NCHW"), None, "nChw4c", pad_value=v),
        lambda x, v: lk.plan(lk.reorder, x, "NCHW", "nChw4c", pad_value=v),
        lambda x, v: Tensor(x, "NCHW", pad_value=v),
        lambda x, v: Tensor(x, "NCHW").to("nChw4c", pad_value=v),
        lambda x, v: Tensor(x, "NCHW").to("NCHW", pad_value=v),
        lambda x, v: Tensor(x, "NCHW").explain("nChw4c", pad_value=v),
        lambda x, v: Tensor(x, "NCHW").to("nChw4c").fill_padding(v),
    ],
)
@pytest.mark.parametrize("value", [300, -1, 0.5, np.nan, "1", 1j, [0], np.float32(256), 1e300])
def test_a_pad_value_that_the_dtype_does_not_have_is_named(operation, value):
    for x in (np.ones((1, 3, 2, 2), np.uint8), np.ones((0, 3, 2, 2), np.uint8)):
        for _ in range(2):
            with pytest.raises(ValueError, match=re.escape(f"pad_value={value!r} is not a value of dtype uint8")):
                operation(x, value)
        operation(x, 255)


class Producer:
    """What exports an array by DLPack as if it lay elsewhere, or were of another type."""

    def __init__(self, array, device=(1, 0), kind=None):
        self.array, self.device, self.kind = array, device, kind

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **asked):
        from layoutkit.memory.dlpack import _type_of

        capsule = self.array.__dlpack__(**asked)
        if self.kind:
            _type_of(capsule)[:2] = self.kind
        return capsule


@pytest.mark.parametrize(
    ("producer", "what"),
    [
        (Producer(np.zeros((1, 2, 3, 3), "f4"), (2, 1)), "lies on CUDA 1; expected memory of the CPU"),
        (Producer(np.zeros((1, 2, 3, 3), "f4"), (10, 0)), "lies on ROCm 0"),
        (Producer(np.zeros((1, 2, 3, 3), "f4"), (99, 0)), "lies on DLPack device 99 0"),
        (Producer(np.zeros((1, 2, 3, 3), "u1"), kind=(11, 8)), "elements of float8_e4m3fnuz are not supported"),
        (Producer(np.zeros((1, 2, 3, 3), "u1"), kind=(17, 8)), "elements of float4_e2m1fn are not supported"),
    ],
)
def test_producers_whose_tensors_cannot_be_read_are_refused_by_name(producer, what):
    for operation, name in (
        (lambda x: lk.reorder(x, "NCHW", "NHWC"), "reorder: array"),
        (lambda x: lk.conv2d(x, x), "conv2d: [wx]"),
    ):
        with pytest.raises(BufferError, match=f"{name}.*{what}"):
            operation(producer)


def test_labels_and_units_are_not_lost_in_silence():
    x = whole(0, 1, 4, 5, 6)

    class DataArray:  # as xarray's
        coords: tuple = ()

        def __array__(self, dtype=None, copy=None):
            return x

    class DataFrame:  # as that of pandas
        iloc = None

        def __array__(self, dtype=None, copy=None):
            return x[0, 0]

    class Quantity(np.ndarray):  # as astropy's
        unit = "m"

    for value, hint in ((DataArray(), r"labels would be lost; array\.values"), (DataFrame(), r"array\.to_numpy\(\)"),
                        (x.view(Quantity), "unit would be lost")):  # fmt: skip
        with pytest.raises(TypeError, match=f"reorder: array: expected a plain array, got .*{hint}"):
            lk.reorder(value, "NCHW", "NHWC")


@pytest.mark.parametrize("dtype", ["f8", "f2", ">f4", "i8", "c8", "O"])
def test_types_that_do_not_fit_say_how_to_convert(dtype):
    x, w = whole(0, 1, 4, 5, 6), whole(1, 4, 4, 3, 3)
    for operation in (lambda a: lk.conv2d(a, w), lambda a: lk.Conv2d(w)(a), lambda a: lk.conv_transpose2d(a, w)):
        with pytest.raises(TypeError, match=r"x.*(x\.astype\('float32'\) converts|x is of dtype)"):
            operation(x.astype(dtype))
    if dtype not in ("f8", "f2"):
        with pytest.raises(TypeError, match=r"w: expected dtype .*w\.astype\('float32'\) converts"):
            lk.conv2d(x, w.astype(dtype))


def test_pooling_takes_single_inputs():
    x = whole(0, 1, 4, 6, 6)
    for layout in ("NCHW", "NHWC", "CHWN"):
        held = lk.reorder(x, "NCHW", layout)
        at = layout.index("N")
        want = lk.max_pool2d(held, 2, layout=layout)
        np.testing.assert_array_equal(lk.max_pool2d(held.squeeze(at), 2, layout=layout), want.squeeze(at))
        out = np.empty_like(want.squeeze(at))
        assert lk.avg_pool2d(held.squeeze(at), 2, layout=layout, out=out) is out
        np.testing.assert_array_equal(out, lk.avg_pool2d(held, 2, layout=layout).squeeze(at))
