"""MACE images: against its kernels' index arithmetic, and read by a real OpenCL runtime."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit import mace, winograd
from layoutkit.formats.layout import Layout
from layoutkit.interop.mace import BUFFER_TYPES, Image
from layoutkit.memory.tensor import Tensor

sizes = st.integers(1, 9)
RANK = {"argument": 1, "winograd_filter": 3}


def up4(n):
    return (n + 3) // 4


# What the kernels of buffer_to_image.cl do: (image size, logical index of lane k of pixel x, y).
KERNELS = {
    "in_out_channel": lambda n, c, h, w: (
        (up4(c) * w, n * h),
        lambda x, y, k: (y // h, 4 * (x // w) + k, y % h, x % w),
    ),
    "in_out_height": lambda n, c, h, w: (
        (w * c, n * up4(h)),
        lambda x, y, k: (y // up4(h), x // w, 4 * (y % up4(h)) + k, x % w),
    ),
    "in_out_width": lambda n, c, h, w: (
        (up4(w) * c, n * h),
        lambda x, y, k: (y // h, x // up4(w), y % h, 4 * (x % up4(w)) + k),
    ),
    "conv2d_filter": lambda o, i, h, w: (
        (i, h * w * up4(o)),
        lambda x, y, k: (4 * (y // (h * w)) + k, x, y % (h * w) // w, y % (h * w) % w),
    ),
    "dw_conv2d_filter": lambda m, i, h, w: (
        (m * h * w, up4(i)),
        lambda x, y, k: (x // (h * w), 4 * y + k, x % (h * w) // w, x % w),
    ),
    "argument": lambda w: ((up4(w), 1), lambda x, y, k: (4 * x + k,)),
    "weight_height": lambda o, i, h, w: (
        (i * h * w, up4(o)),
        lambda x, y, k: (4 * y + k, x % i, x // i // w, x // i % w),
    ),
    "weight_width": lambda o, i, h, w: (
        (up4(i) * h * w, o),
        lambda x, y, k: (y, 4 * (x % up4(i)) + k, x // up4(i) // w, x // up4(i) % w),
    ),
    "winograd_filter": lambda t, o, i: ((up4(i), t * o), lambda x, y, k: (y // o, y % o, 4 * x + k)),
}


@st.composite
def images(draw):
    name = draw(st.sampled_from(BUFFER_TYPES))
    rank = RANK.get(name, 4)
    return name, draw(st.tuples(*[sizes] * rank).filter(lambda s: np.prod(s) <= 500))


def tensor_of(shape):
    plain = Layout.from_factors([(d, 0) for d in range(len(shape))])
    return Tensor(1 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape), plain)


def test_all_nine_buffer_types_are_there():
    assert set(BUFFER_TYPES) == set(KERNELS) and len(BUFFER_TYPES) == 9


@given(images())
def test_images_are_those_of_the_kernels_both_ways(pair):
    name, shape = pair
    image = Image(name)
    assert Layout("mace:" + name) == image.layout
    tensor = tensor_of(shape)
    logical = tensor.numpy()
    (width, height), element = KERNELS[name](*shape)
    assert image.image_shape(shape) == (width, height)
    pixels = image.from_tensor(tensor)
    assert pixels.shape == (height, width, 4)
    for y, x, k in itertools.product(range(height), range(width), range(4)):
        i = element(x, y, k)
        inside = all(a < b for a, b in zip(i, shape))
        assert pixels[y, x, k] == (logical[i] if inside else 0)
        assert image.index(x, y, k, shape) == (i if inside else None)
        assert not inside or image.pixel(i, shape) == (x, y, k)
    back = image.to_tensor(pixels, shape)
    assert np.shares_memory(back.array, pixels)
    back.check_padding()
    np.testing.assert_array_equal(back.numpy(), logical)


def test_the_golden_case():
    x = Tensor(np.arange(1, 31).reshape(1, 2, 3, 5), "NHWC")
    pixels = Image("in_out_channel").from_tensor(x)
    assert pixels[0, 0].tolist() == [1, 2, 3, 4]
    assert pixels[0, 3].tolist() == [5, 0, 0, 0]
    assert pixels[1, 5].tolist() == [30, 0, 0, 0]


def test_any_source_layout_gives_the_same_image():
    logical = tensor_of((6, 5, 3, 2))
    expected = Image("conv2d_filter").from_tensor(logical)
    for source in ("HWOI", "HWIO", "OIhw4i4o", "IOHW"):
        np.testing.assert_array_equal(Image("mace:conv2d_filter").from_tensor(logical.to(source)), expected)


def test_the_padded_filter_of_the_document_is_an_option():
    image = Image("conv2d_filter_padded")
    assert image.image_shape((6, 5, 3, 2)) == (8, 12)
    pixels = image.from_tensor(tensor_of((6, 5, 3, 2)))
    plain = Image("conv2d_filter").from_tensor(tensor_of((6, 5, 3, 2)))
    np.testing.assert_array_equal(pixels[:, :5], plain)
    assert not pixels[:, 5:].any()


def test_the_same_memory_may_be_two_images():
    shape = (6, 5, 3, 2)
    filter_, height = Image("conv2d_filter"), Image("weight_height")
    assert filter_.layout == height.layout and filter_ != height
    assert filter_.image_shape(shape) != height.image_shape(shape)
    assert filter_ == Image("(o h w) (i) 4o") and hash(filter_) == hash(Image("(o h w) (i) 4o"))
    assert pickle.loads(pickle.dumps(filter_)) == filter_ == eval(repr(filter_))


def test_an_image_that_mace_does_not_have_costs_a_text():
    image = Image("batch depth rows cols -> (depth rows) (batch cols) 4depth")
    assert image.image_shape((2, 7, 3, 5)) == (10, 6)
    tensor = tensor_of((2, 7, 3, 5))
    back = image.to_tensor(image.from_tensor(tensor), tensor.shape)
    np.testing.assert_array_equal(back.numpy(), tensor.numpy())


@pytest.mark.parametrize("text", ["n h w c", "(n h) (c w)", "(n h) (c w) 8c", "(n h) (c w 4c)", "n h c 4c w"])
def test_what_is_no_image(text):
    with pytest.raises(ValueError):
        Image(text)
    with pytest.raises(TypeError, match=r"expected a text such as .*, got int"):
        Image(5)


def test_sizes_that_do_not_fit():
    image = Image("in_out_channel")
    with pytest.raises(ValueError, match=r"takes an image of \(2, 6, 4\), got \(6, 2, 4\)"):
        image.to_tensor(np.zeros((6, 2, 4)), (1, 5, 2, 3))
    with pytest.raises(ValueError, match=r"pixel \(6, 0\) lane 0 lies outside 6 x 2 x 4"):
        image.index(6, 0, 0, (1, 5, 2, 3))


# Winograd filters: G as the kernels of buffer_to_image.cl write it out, with a, b, c their constants.
MACE_G = {
    2: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
    4: [
        [1 / 4, 0, 0],
        *([x / -6 for x in r] for r in ([1, 1, 1], [1, -1, 1])),
        *([x / 24 for x in r] for r in ([1, 2, 4], [1, -2, 4])),
        [0, 0, 1],
    ],
    6: [
        [1, 0, 0],
        *([x * -2 / 9 for x in r] for r in ([1, 1, 1], [1, -1, 1])),
        *([x / 90 for x in r] for r in ([1, 2, 4], [1, -2, 4])),
        *([x / 180 for x in r] for r in ([4, 2, 1], [4, -2, 1])),
        [0, 0, 1],
    ],
}


@pytest.mark.parametrize("m", [2, 4, 6])
def test_winograd_filters_both_ways(m):
    t = mace.winograd_transform(m)
    np.testing.assert_allclose(winograd.as_array(t.G), MACE_G[m], rtol=1e-15)
    assert all(x.denominator == 1 for row in t.AT for x in row)
    rng = np.random.default_rng(m)
    w = rng.standard_normal((3, 6, 3, 3)).astype(np.float32)
    image = mace.winograd_to_image(Tensor(w, "OIHW"), m)
    assert image.shape == ((m + 2) ** 2 * 3, 2, 4)
    assert not image[:, 1, 2:].any()
    g = np.array(MACE_G[m])
    for o, i in itertools.product(range(3), range(6)):
        u = g @ w[o, i].astype(float) @ g.T
        np.testing.assert_allclose(image[o::3, i // 4, i % 4], u.reshape(-1), rtol=1e-6, atol=1e-7)
    back = mace.winograd_from_image(image, m, w.shape)
    np.testing.assert_allclose(back.numpy(), w, rtol=0, atol=2e-5)
    np.testing.assert_array_equal(mace.winograd_to_image(Tensor(w, "OIHW").to("HWIO"), m), image)


def test_winograd_refuses():
    with pytest.raises(ValueError, match="blocks of 2, 4 or 6 outputs, not 3"):
        mace.winograd_transform(3)
    with pytest.raises(ValueError, match=r"transforms filters \(O, I, 3, 3\), got shape"):
        mace.winograd_to_image(Tensor(np.zeros((1, 1, 5, 5)), "OIHW"), 2)
    with pytest.raises(ValueError, match=r"holds filters \(O, I, 3, 3\)"):
        mace.winograd_from_image(np.zeros((16, 1, 4)), 2, (1, 1, 5, 5))


READ = """
__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

__kernel void read_pixels(__read_only image2d_t image, __global float4 *out, int width) {
    int x = get_global_id(0), y = get_global_id(1);
    out[y * width + x] = read_imagef(image, nearest, (int2)(x, y));
}
"""


@pytest.fixture(scope="module")
def opencl():
    """Context, queue and kernel of any OpenCL platform (Debian: pocl-opencl-icd, and pyopencl)."""
    cl = pytest.importorskip("pyopencl")
    try:
        platforms = cl.get_platforms()
    except cl.LogicError:
        platforms = []
    devices = [d for p in platforms for d in p.get_devices() if d.image_support]
    if not devices:
        pytest.skip("no OpenCL platform with images")
    context = cl.Context(devices[:1])
    return cl, context, cl.CommandQueue(context), cl.Kernel(cl.Program(context, READ).build(), "read_pixels")


@pytest.mark.parametrize("name", [*BUFFER_TYPES, "conv2d_filter_padded"])
def test_a_real_opencl_runtime_reads_our_bytes(opencl, name):
    cl, context, queue, kernel = opencl
    shape = {1: (10,), 3: (16, 3, 6), 4: (2, 5, 6, 7)}[RANK.get(name, 4)]
    image = Image(name)
    tensor = tensor_of(shape)
    pixels = image.from_tensor(tensor)
    width, height = image.image_shape(shape)
    form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    source = cl.create_image(context, flags, form, shape=(width, height), hostbuf=pixels)
    seen = np.empty((height, width, 4), np.float32)
    target = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, seen.nbytes)
    kernel(queue, (width, height), None, source, target, np.int32(width))
    cl.enqueue_copy(queue, seen, target)
    logical = tensor.numpy()
    for y, x, k in itertools.product(range(height), range(width), range(4)):
        i = image.index(x, y, k, shape)
        assert seen[y, x, k] == (0 if i is None else logical[i])
    np.testing.assert_array_equal(image.to_tensor(seen, shape).numpy(), logical)
