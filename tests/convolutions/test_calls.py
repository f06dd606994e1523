"""What calls take besides batches in arrays (single inputs, tensors of torch, filters with groups); their errors."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk

RNG = np.random.default_rng(0)
X, W = RNG.random((2, 8, 7, 6), np.float32), RNG.random((4, 8, 3, 3), np.float32)
FUNCTIONS = [lk.conv1d, lk.conv2d, lk.conv3d, lk.conv_transpose1d, lk.conv_transpose2d, lk.conv_transpose3d]
CLASSES = [lk.Conv1d, lk.Conv2d, lk.Conv3d, lk.ConvTranspose1d, lk.ConvTranspose2d, lk.ConvTranspose3d]


@given(st.permutations("nchw"), st.permutations("nchw"), st.sampled_from([1, 4, 8]), st.booleans())
def test_single_inputs_as_in_torch(order, to, block, transposed):
    layout = "".join(order) if block == 1 else "".join(order).replace("c", "C") + f"{block}c"
    out_layout = "".join(to)
    one, cls = (lk.conv_transpose2d, lk.ConvTranspose2d) if transposed else (lk.conv2d, lk.Conv2d)
    w = W.swapaxes(0, 1) if transposed else W
    held = lk.reorder(X[:1], "nchw", layout)
    given = dict(layout=layout, out_layout=out_layout)
    want = one(held, w, **given)
    single, result = np.squeeze(held, order.index("n")), np.squeeze(want, to.index("n"))
    got = one(single, w, **given)
    assert got.shape == result.shape
    np.testing.assert_allclose(got, result, rtol=1e-4)
    op = cls(w, **given)
    out = np.empty_like(got)
    assert op(single, out, add=np.ones_like(out)) is out
    np.testing.assert_allclose(out, result + 1, rtol=1e-4)


def test_wrong_ranks_say_both_numbers_of_axes():
    for operation in (
        lambda: lk.conv2d(X[0, 0], W),
        lambda: lk.Conv2d(W)(X[0, 0]),
        lambda: lk.conv_transpose2d(X[0, 0], W.swapaxes(0, 1)),
    ):
        with pytest.raises(ValueError, match="held by an array of 4, or of 3 without the batch"):
            operation()
    with pytest.raises(ValueError, match="x of shape"):  # two images in a block: which one is meant?
        lk.conv2d(np.zeros((8, 7, 6, 2), np.float32), W, layout="Nchw2n")


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_tensors_of_torch_stay_what_they_are(last, dtype):
    torch = pytest.importorskip("torch")
    form = torch.channels_last if last else torch.contiguous_format
    x, w = torch.from_numpy(X).to(getattr(torch, dtype)), torch.from_numpy(W).to(getattr(torch, dtype))
    x = x.contiguous(memory_format=form)
    want = torch.nn.functional.conv2d(x, w, padding=1)
    ops = [lambda x, **k: lk.conv2d(x, w, padding=1, **k), lk.Conv2d(lk.Tensor.from_logical(w).numpy(), padding=1)]
    for op in ops:
        y = op(x)
        assert isinstance(y, torch.Tensor) and y.dtype == x.dtype and y.is_contiguous(memory_format=form)
        torch.testing.assert_close(y, want, rtol=2e-2, atol=2e-2)
        for other in (torch.contiguous_format, torch.channels_last):
            out = torch.empty(y.shape, dtype=y.dtype, memory_format=other)
            assert op(x, out=out) is out
            torch.testing.assert_close(out, y, rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(op(x[0]), y[0], rtol=1e-2, atol=1e-2)
    physical = lk.conv2d(x.permute(0, 2, 3, 1), w, padding=1, layout="NHWC")  # a layout says what the axes are
    torch.testing.assert_close(physical.permute(0, 3, 1, 2), y, rtol=1e-2, atol=1e-2)
    t = lk.conv_transpose2d(x, w.transpose(0, 1), add=torch.zeros(2, 4, 9, 8, dtype=x.dtype))
    assert isinstance(t, torch.Tensor) and t.is_contiguous(memory_format=form)
    moved = lk.reorder(x, dst="nchw")
    assert torch.equal(moved, x) and moved.is_contiguous()
    assert torch.equal(lk.reorder(x, "NCHW", "NHWC"), x.permute(0, 2, 3, 1))


def test_an_out_layout_gives_its_physical_axes_whatever_the_memory_format():
    torch = pytest.importorskip("torch")
    x, w = torch.from_numpy(X), torch.from_numpy(W)
    want = lk.conv2d(X, W, out_layout="nChw2c")
    for form in (torch.contiguous_format, torch.channels_last):
        y = lk.conv2d(x.contiguous(memory_format=form), w, out_layout="nChw2c")
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)


def test_tensors_of_torch_that_do_not_fit_are_refused_by_name():
    torch = pytest.importorskip("torch")
    x, w = torch.from_numpy(X), torch.from_numpy(W)
    with pytest.raises(TypeError, match=r"conv2d: x requires gradients, which layoutkit.torch computes; x.detach\(\)"):
        lk.conv2d(x.clone().requires_grad_(), w)
    with pytest.raises(TypeError, match=r"out must be a numpy array or a Tensor, as the input is, got torch\.Tensor"):
        lk.conv2d(X, W, out=torch.zeros(2, 4, 5, 4))
    for other in (x.to_sparse(), x.to("meta")):
        with pytest.raises(BufferError, match="conv2d: x: Tensor by DLPack"):
            lk.conv2d(other, w)
    with pytest.raises(ValueError, match=r"a tensor of torch\.sparse_coo has no strides"):
        lk.layout_of(x.to_sparse())


@given(st.sampled_from(["goihw", "gOIhw2i4o", "hwgio", "Goihw2g", "g 2o i h w o"]))
def test_filters_with_groups(layout):
    x, w = RNG.random((1, 12, 6, 5), np.float32), RNG.random((3, 8, 4, 3, 3), np.float32)
    want = lk.conv2d(x, w.reshape(24, 4, 3, 3), groups=3)
    held = lk.reorder(w, "goihw", layout)
    given = dict(filter_layout=layout, filter_shape=w.shape)
    np.testing.assert_array_equal(lk.conv2d(x, held, **given), want)
    np.testing.assert_array_equal(lk.Conv2d(held, groups=3, **given)(x), want)
    with pytest.raises(ValueError, match="has 3 groups, groups is 2"):
        lk.conv2d(x, held, groups=2, **given)


def test_all_that_does_not_fit_is_in_one_error():
    with pytest.raises(ValueError) as error:
        lk.conv2d(X[:, :5], W, groups=3, stride=0, algorithm="fast", padding_mode="mirror", dilation=(1, 2, 3))
    text = str(error.value)
    assert text.startswith("conv2d: 6 things do not fit:\n- ")
    shape = "x of shape (2, 5, 7, 6) has 5 channels, expected 24"
    for what in (shape, "groups", "stride", "algorithm 'fast'", "mirror", "dilation"):
        assert what in text
    with pytest.raises(
        ValueError, match=r"bias has shape \(3,\), expected \(4,\)\n- x is of dtype float64, w of float32"
    ):
        lk.conv2d(X.astype(float), W, np.zeros(3, np.float32))
    with pytest.raises(TypeError, match=r"x: expected dtype float32, got >f4; x.astype\('float32'\) converts"):
        lk.conv2d(X.astype(">f4"), W)
    with pytest.raises(TypeError, match=r"conv2d: x: expected an array, got list; numpy.asarray\(x, 'float32'\)"):
        lk.conv2d(X.tolist(), W)


@pytest.mark.parametrize("operation", [*FUNCTIONS, *CLASSES], ids=lambda f: f.__name__)
def test_signatures_are_whole_and_misspelt_keywords_are_named(operation):
    names = inspect.signature(operation).parameters
    assert {"w", "bias", "stride", "padding", "dilation", "groups", "layout", "filter_layout", "threads"} <= set(names)
    assert not any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in names.values())
    given = [W] if operation in CLASSES else [X, W]
    start = rf"^{operation.__name__}\(\) "
    with pytest.raises(TypeError, match=rf"{start}got an .* keyword argument 'strides'; did you mean 'stride'\?$"):
        operation(*given, strides=2)
    with pytest.raises(TypeError, match=rf"{start}takes from .* positional .*; attributes are keywords: stride=2, p"):
        operation(*given, None, 2, 1)
    for name, own in (("pad", "'padding'"), ("num_threads", "'threads'"), ("activaton", "'activation'")):
        with pytest.raises(TypeError, match=rf"{start}got an unexpected keyword argument '{name}'; did you mean {own}"):
            operation(*given, **{name: 2})
    with pytest.raises(TypeError, match=rf"{start}got an unexpected keyword argument 'zeal'$"):
        operation(*given, zeal=2)
    if operation in FUNCTIONS:
        with pytest.raises(TypeError, match=rf"{operation.__name__}\(\).* unexpected keyword argument 'strides'"):
            lk.plan(operation, X, W, strides=2)


def test_arguments_that_tensors_of_torch_come_with_are_not_dropped():
    torch = pytest.importorskip("torch")
    x, w = torch.from_numpy(X), torch.from_numpy(W)
    with pytest.raises(TypeError, match="attributes are keywords: stride=2, padding=1"):
        lk.conv2d(x, w, None, 2, 1)
    with pytest.raises(TypeError, match=r"conv2d\(\) got an unexpected keyword argument 'pad'; did you mean 'padding'"):
        lk.conv2d(x, w, pad=1)
    with pytest.raises(TypeError, match="requires gradients"):  # from inside: as it is
        lk.conv2d(x.clone().requires_grad_(), w)


def test_subclasses_of_kept_convolutions_are_named_in_errors():
    class Mine(lk.Conv2d):
        pass

    class Other(lk.Conv2d):
        def __init__(self, w, **attributes):
            super().__init__(w, **attributes)

    for cls, name in ((Mine, "Mine"), (Other, "Conv2d")):
        assert cls(W, stride=2).stride == (2, 2)
        with pytest.raises(TypeError, match=rf"^{name}\(\) got an .* 'strides'; did you mean 'stride'\?$"):
            cls(W, strides=2)


def test_objects_say_what_they_are():
    op = lk.Conv2d(W, stride=2, padding="same", activation="relu", layout="NHWC", algorithm="direct", accuracy="strict")
    assert repr(op) == (
        "Conv2d(8 to 4 channels, kernel 3x3, stride 2, padding 'same', relu, by direct, strict; NHWC, float32)"
    )
    assert (op.stride, op.dilation, op.groups, op.kernel_size) == ((2, 2), (1, 1), 1, (3, 3))
    assert (op.in_channels, op.out_channels, op.padding, op.activation) == (8, 4, "same", "relu")
    assert op.layout == "NHWC" == op.out_layout and op.dtype == np.float32 and op.threads is None
    assert (op.algorithm, op.accuracy) == ("direct", "strict")
    back = lk.ConvTranspose2d(W, groups=2, dilation=(1, 2), out_layout="NHWC", padding=1)
    assert repr(back).startswith(
        "ConvTranspose2d(4 to 16 channels, kernel 3x3, dilation (1, 2), padding ((1, 1), (1, 1)), 2 groups"
    )
    assert back.groups == 2 and back.out_layout == "NHWC"
