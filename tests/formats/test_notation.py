"""Every written form: exact both ways, and clear about what is malformed."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import layouts

from layoutkit.formats import notation
from layoutkit.formats.affine import affine_map
from layoutkit.formats.families import FAMILIES
from layoutkit.formats.layout import Layout


@given(layouts(min_rank=0, max_rank=15, max_blocks=6, tagged=True, pitched=True))
def test_tags_are_read_back_whatever_the_format(layout):
    assert Layout(layout.tag) == layout
    assert Layout(layout.tag).tag == layout.tag


@given(layouts(min_rank=0, max_rank=15, max_blocks=6, pitched=True))
def test_every_printed_form_is_read_back(layout):
    assert Layout(str(layout)) == layout
    assert eval(repr(layout)) == layout
    assert Layout(notation.spaced(layout)) == layout
    assert Layout(notation.spaced(layout, tuple(f"dim_{i}x" for i in range(layout.rank)))) == layout
    assert Layout(affine_map(layout.dense)) == layout.dense
    if layout.is_plain and layout.is_dense:
        assert Layout(notation.code(layout)) == Layout(hex(notation.code(layout))) == layout
    else:
        with pytest.raises(ValueError, match="no DimsOrder code"):
            notation.code(layout)


@given(st.sampled_from([f.order for f in FAMILIES.values()]), st.data())
def test_every_family_prints_and_reads_in_its_own_letters(order, data):
    rank = len(order)
    drawn = data.draw(layouts(min_rank=rank, max_rank=rank, pitched=True))
    layout = Layout.from_factors(drawn.factors, drawn.pitches, order)
    again = Layout(str(layout))
    assert again == layout and again.dims == layout.dims and str(again) == str(layout)
    assert eval(repr(layout)) == layout
    assert notation.name(drawn, order) == str(layout)


def onednn_tags():
    """(tag, what it stands for) of all tags in oneDNN's header, as torch ships it."""
    torch = pytest.importorskip("torch")
    header = Path(torch.__file__).parent / "include/oneapi/dnnl/dnnl_types.h"
    if not header.exists():
        pytest.skip("this torch ships no oneDNN header")
    enum = header.read_text().split("dnnl_format_tag_any,")[1].split("} dnnl_format_tag_t")[0]
    physical = re.findall(r"^\s*dnnl_(?!format_tag)(\w+),", enum, re.M)
    return [(tag, tag) for tag in physical] + re.findall(r"dnnl_(\w+) = dnnl_(\w+)", enum)


def test_every_tag_and_alias_of_onednn():
    pairs = onednn_tags()
    assert len(pairs) > 1600
    for tag, meaning in pairs:
        assert Layout(tag).tag == meaning
        assert Layout(tag) == Layout(meaning)
    misnamed = {tag for tag, meaning in pairs if tag in notation.MISNAMED}
    assert misnamed == set(notation.MISNAMED)


@pytest.mark.parametrize(
    ("forms", "tag"),
    [
        (["NHWC", "nhwc", "n h w c", "N H W C", 0x1342, "0x1342", "torch:channels_last", "acdb"], "acdb"),
        (["nChw16c", "NCHW16c", "NCHW16C", "n c h w 16c", "n c/16 h w 16c", "n (c h w) 16c"], "aBcd16b"),
        (["OIhw16i16o", "OIHW16i16o", "o/16 i/16 h w 16i 16o", "OIyx16i16o"], "ABcd16b16a"),
        (["HWIO", "hwio", "YXIO", "RSCK", "h w i o"], "cdba"),
        (["HWOI", "YXOI", 0x3412], "cdab"),
        (["CHWN", "chwn", "batch c y x -> c y x batch"], "bcda"),
        (["MIHW", "m i h w", "mihw"], "abcd"),
        (["gOIhw4o4i", "g o i h w -> g o i h w 4o 4i", "g o/4 i/4 h w 4o 4i"], "aBCde4b4c"),
        (["mace:in_out_channel", "(n h) (c w) 4c", "nhCw4c"], "acBd4b"),
        (["affine_map<(d0, d1, d2) -> (d1 floordiv 8, d0, d2, (d1 floordiv 2) mod 4, d1 mod 2)>"], "Bac4b2b"),
        (["( d0,d1 )->(d1 floordiv 16, d0, (d1 mod 16) floordiv 4, d1 mod 4 )"], "Ba4b4b"),
        (["nhwc:(*,4096,64,1)", "n h w c:(*, 4096, 64, 1)"], "acdb:(*,4096,64,1)"),
        (["scalar", "SCALAR", 0, "() -> ()"], "scalar"),
        (["ldigo", "l d i g o"], "abcde"),
    ],
)
def test_forms_of_one_format(forms, tag):
    read = {Layout(x) for x in forms}
    assert len(read) == 1
    assert read.pop().tag == tag


def test_names_of_formats_are_all_readable():
    for text in notation.NAMES:
        assert Layout(text) == Layout(notation.NAMES[text])


def test_str_and_repr_say_it_in_the_letters_given():
    assert [str(Layout(code)) for code in (0x1, 0x21, 0x231, 0x13452)] == ["C", "CN", "HWC", "NDHWC"]
    assert str(Layout("acdb")) == "acdb" and str(Layout("nhwc")) == "NHWC" and str(Layout(0x1342)) == "NHWC"
    assert repr(Layout("OIhw16i16o")) == "Layout('o/16 i/16 h w 16i 16o')"
    assert repr(Layout("x y -> y x 4x")) == "Layout('x y -> y x/4 4x')"
    assert str(Layout("n c 16c h w")) == "n c/16 16c h w"
    assert repr(Layout("NHWC:(*,*,64,1)")) == "Layout('NHWC:(*,*,64,1)')"


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("", "it is empty", 0),
        ("nchw16", "then blocks", 4),
        ("16c", "expected dimension letters", 0),
        ("nch w16", "names of several letters need", 0),
        ("nhcq", "not the dimensions of any family", None),
        ("ncd", "not the dimensions of any family", None),
        ("nhwcn", "'n' stands twice", 4),
        ("nChw", "'C' at position 1 is a capital but has no block", 1),
        ("nchw16c", "'c' at position 1 is blocked and must be a capital", 1),
        ("nChw0c", "block size 0 at position 4 is not in", 4),
        ("nChw9999999999c", "block size 9999999999 at position 4 is not in", 4),
        ("nChw16x", "block 16x at position 4 is of no dimension", 4),
        ("nChw16c4q", "block 4q at position 7 is of no dimension", 7),
        ("nChw16c!", "then blocks", 7),
        ("n c h w 16q", "'q' is no dimension", 8),
        ("n c/8 h w 16c", "'/8' where the blocks of 'c' make 16", 2),
        ("(n h (c w) 4c", "expected a dimension", 5),
        ("(n h) (c w 4c", "this parenthesis is not closed", 6),
        ("rows cols", "names of several letters", 0),
        ("rows cols -> cols", "'rows' is missing", 12),
        ("rows cols -> cols rows cols", "'cols' stands twice", 23),
        ("rows cols -> cols rows depth", "'depth' is no dimension", 23),
        ("n c h w 0c", "block size is not in", 8),
        ("x x -> x", "'x' stands twice", 2),
        ("x 4y -> x y", "before '->' stand names only", 2),
        ("(x y) -> x y", "before '->' stand names only", 1),
        ("x -> ", "'x' is missing", 4),
        (" ", "it is empty", None),
        ("()", "it is empty", None),
        ("mace:in_out_depth", "no format of this name", 0),
        ("0x13g2", "hexadecimal", 2),
        ("nhwc:(1,2)", "2 strides for 4 physical axes", 4),
        ("nhwc:(*,x,3,4)", "expected an element stride", 8),
        ("nhwc:(*,-1,3,4)", "expected an element stride", 8),
        ("nhwc:(*,1,3,4", "not closed", 12),
        ("(d0, d2) -> (d0)", "must be d0, d1, .. in turn", 1),
        ("(d0, d1) -> (d0)", "what remains of d1 is no result", None),
        ("(d0, d1) -> (d0, d2)", "d2 is no dimension", 17),
        ("(d0, d1) -> (d0, d1, d1)", "leave nothing", 17),
        ("(d0) -> (d0 floordiv 8, d0 mod 4)", "takes d0 divided by 8, the smaller digits leave divided by 4", 9),
        ("(d0) -> (d0 mod 4, d0 floordiv 4 mod 2, d0 floordiv 8)", "takes d0 divided by 4, the smaller digits", 19),
        ("(d0) -> (d0 plus 4)", "expected d<i>, 'floordiv'", 11),
        ("(d0) -> (d0 mod x)", "expected d<i>", 15),
        ("(d0) -> (d0 mod d0)", "expected a positive number after 'mod', got d0", 16),
        ("(d0) -> (d0 mod 0)", "expected a positive number", 16),
        ("(d0) -> ((d0 mod 6) mod 4)", "4 does not divide", 24),
        ("(d0) -> (d0", "expected an affine map", None),
        ("(d0) -> ((d0)", "expected ')'", 12),
        ("(d0) -> (4 d0)", "expected a dimension, got 4", 9),
        ("(d0) -> (d0 d0)", "expected the end of the result, got d0", 12),
        ("(d0) -> (" + "(" * 500 + "d0" + ")" * 501, "expected a dimension, got (", 18),
        ("affine_map<(d0) -> (d0)", "expected an affine map", None),
    ],
)
def test_malformed_texts_say_what_and_where(text, what, where):
    with pytest.raises(ValueError) as error:
        Layout(text)
    message = str(error.value)
    assert what in message and repr(text) in message
    if where is not None:
        assert f"at position {where} " in message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-10, "must not be negative"),
        (0x11, "digit 1 at position 1 stands twice"),
        (0x13, "digit 3 at position 1, expected digits 1..2"),
        (0x2, "digit 2 at position 0"),
        (0x102, "digit 0 at position 1"),
        (0x123456789ABCDEF1, "16 digits, at most 15"),
    ],
)
def test_malformed_codes(value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Layout(value)


@pytest.mark.parametrize("value", [None, 1.0, ["n", "c"], True, b"nchw", {}])
def test_other_types_are_refused(value):
    with pytest.raises(TypeError, match="expected a tag such as"):
        Layout(value)


letters = st.text(st.sampled_from("abcnhwCW0149 ()->/:*,dmod_x"), max_size=14)
pieces = st.lists(st.sampled_from(["n", "c ", " 4c", "->", "(", ")", "/4", ":(", "*", ",", "d0", " mod "]))


@given(letters | pieces.map("".join))
def test_any_text_is_a_layout_or_a_value_error(text):
    try:
        layout = Layout(text)
    except ValueError as e:
        quoted = (repr(text), repr(text.partition(":(")[0]))  # the whole, or what stands before the strides
        assert any(x in str(e) for x in quoted) or "DimsOrder code" in str(e)
    else:
        assert Layout(str(layout)) == layout


def test_what_tags_cannot_say():
    many = Layout.from_factors([(d, 0) for d in reversed(range(20))] + [(0, 4)])
    assert Layout(str(many)) == eval(repr(many)) == Layout(affine_map(many)) == many
    with pytest.raises(ValueError, match="letters for 15 dimensions, the layout has 20"):
        many.tag  # noqa: B018
    with pytest.raises(ValueError, match="has no tag: a block stands outside"):
        Layout("n c 16c h w").tag  # noqa: B018
    with pytest.raises(ValueError, match="explicit strides"):
        affine_map(Layout("nc:(8,1)"))
    with pytest.raises(ValueError, match="'oihw' names 4 dimensions, the layout has 2"):
        notation.name(Layout("nc"), "oihw")


def test_a_number_after_a_slash_has_a_limit():
    with pytest.raises(ValueError, match=r"'a b -> a/123456789012 b': number is not in 1\.\."):
        Layout("a b -> a/123456789012 b")
