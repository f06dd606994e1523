"""The names that people use for formats, and what a slip of the keyboard was meant to be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import layouts

import layoutkit as lk
from layoutkit.formats.layout import Layout


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("BCHW", "NCHW"), ("BHWC", "NHWC"), ("BDHWC", "NDHWC"), ("NCL", "NCW"), ("NLC", "NWC"), ("BLC", "NWC"),
        ("LC", "WC"),
        ("NC4HW4", "nChw4c"), ("NC8HW8", "nChw8c"), ("NC16DHW16", "nCdhw16c"), ("NC2W2", "nCw2c"),
        ("channels_last", "NHWC"), ("channels_first", "NCHW"), ("channels_last_3d", "NDHWC"),
        ("channels_first_3d", "NCDHW"),
    ],
)  # fmt: skip
def test_names_that_people_use(name, meant):
    layout = Layout(name)
    assert layout == Layout(meant) and layout.family.meaning == Layout(meant).family.meaning
    assert lk.is_view(name, meant, (2,) * layout.rank)


def test_formats_of_torch_by_its_own_objects():
    torch = pytest.importorskip("torch")
    assert Layout(torch.channels_last) == "NHWC" and Layout(torch.channels_last_3d) == "NDHWC"
    for form in (torch.contiguous_format, torch.preserve_format):
        with pytest.raises(ValueError, match=f"{form} is no format by itself; expected torch.channels_last"):
            Layout(form)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("nchw16c", "nChw16c"), ("NCHW16", "nChw16c"), ("nChw16", "nChw16c"), ("oihw16i16o", "OIhw16i16o"),
        ("NCHV", "NCHW"), ("NHWCC", "NHWC"), ("channelslast", "channels_last"), ("Channels_Last", "channels_last"),
        ("mace:in_out_chanel", "mace:in_out_channel"), ("NHCW8", "nhCw8c"),
    ],
)  # fmt: skip
def test_errors_say_what_was_meant(text, meant):
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        Layout(text)
    Layout(meant)


@given(st.text(max_size=12))
def test_no_text_breaks_the_hint(text):
    try:
        Layout(text)
    except ValueError as error:
        assert repr(text) in str(error)


@given(layouts(tagged=True))
def test_layouts_equal_their_texts(layout):
    assert layout == layout.tag and layout.tag == layout and not layout != layout.tag
    assert Layout("NHWC") != "NCHW"


def test_a_text_that_is_no_format_is_not_compared():
    with pytest.raises(ValueError, match="did you mean 'NHWC'"):
        _ = Layout("NHWC") == "NHVC"
    assert Layout("NHWC") != 5 and Layout("NHWC") != None  # noqa: E711


def test_blocks_outside_their_dimension_are_space_to_depth():
    x = np.arange(2 * 3 * 4 * 6).reshape(2, 3, 4, 6)
    want = x.reshape(2, 3, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4)  # n, h % 2, w % 2, c, h // 2, w // 2
    for text in (
        "n 2h 2w c h w",
        "n 2h 2w c h/2 w/2",
        "(d0, d1, d2, d3) -> (d0, d2 mod 2, d3 mod 2, d1, d2 floordiv 2, d3 floordiv 2)",
    ):
        layout = Layout(text)
        got = lk.reorder(x, "NCHW", layout)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(lk.reorder(got, layout, "NCHW"), x)


def test_blocks_keep_their_order_from_left_to_right():
    layout = Layout("2c 3c n c")  # index = 6 c + 3 (2c) + (3c)
    x = np.arange(2 * 12).reshape(2, 12)
    want = x.reshape(2, 2, 2, 3).transpose(2, 3, 0, 1)
    np.testing.assert_array_equal(lk.reorder(x, "NC", layout), want)
    assert layout.digits(1) == (3, 0, 1)
    with pytest.raises(ValueError, match="no tag"):
        _ = layout.tag


def test_layout_of_arrays_tensors_and_torch():
    torch = pytest.importorskip("torch")
    image = np.zeros((2, 5, 6, 3), np.float32)
    assert lk.layout_of(image.transpose(0, 3, 1, 2)) == "NHWC"
    assert lk.layout_of(image) == "NCHW"
    assert lk.layout_of(lk.Tensor(image, "NHWC").to("nChw8c")) == "nChw8c"
    assert lk.layout_of(torch.zeros(2, 3, 5, 6).to(memory_format=torch.channels_last)) == "NHWC"
    assert str(lk.layout_of(image[:, :, ::2])) == "NCHW:(*,*,6,*)"
    with pytest.raises(TypeError, match="expected an array, or a shape and strides; got list"):
        lk.layout_of([1, 2])
    with pytest.raises(ValueError, match="negative"):
        lk.layout_of(image[:, ::-1])


def test_strides_in_bytes_are_noticed():
    x = np.zeros((2, 3, 4, 5), np.float32)
    assert lk.read_strides(x).layout == "NCHW" == lk.read_strides(x.shape, (60, 20, 5, 1)).layout
    with pytest.warns(RuntimeWarning, match=r"look like bytes of elements of 4") as told:
        lk.read_strides(x.shape, x.strides)
    assert told[0].filename == __file__
    mixed = np.zeros(6, "u1")[1:5].view("u1")
    with pytest.raises(ValueError, match="no multiples"):
        lk.read_strides(np.lib.stride_tricks.as_strided(mixed.view("u2"), (2,), (1,)))
