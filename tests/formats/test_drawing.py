"""Drawings: every element is where the layout says, and nothing else is drawn."""

import xml.etree.ElementTree as ET
from itertools import product
from math import prod

import pytest
from hypothesis import given
from strategies import laid_out

from layoutkit.formats.drawing import MAX_COLUMNS, MAX_ROWS
from layoutkit.formats.layout import Layout


@given(laid_out(pitched=True, most=200))
def test_elements_are_where_they_lie(pair):
    layout, shape = pair
    drawing = layout.draw(shape)
    extents, strides = layout.physical_shape(shape), layout.axis_strides(shape)
    rows = list(drawing.rows())
    assert len(rows) == (min(prod(extents[:-1]), MAX_ROWS) if prod(extents) else 0)
    drawn = [(index, row.offset + j * strides[-1]) for row in rows for j, index in enumerate(row.cells)]
    for index, offset in drawn:
        assert index is None or layout.offset(index, shape) == offset
    if prod(extents[:-1]) <= MAX_ROWS and extents[-1] <= MAX_COLUMNS:
        assert sorted(index for index, _ in drawn if index is not None) == sorted(product(*map(range, shape)))
        assert len(drawn) == prod(extents)
    svg = ET.fromstring(drawing._repr_svg_())
    assert len(svg.findall(".//{*}rect")) == len(drawn) and svg.get("role") == "img" and svg.get("aria-label")
    assert len(str(drawing).splitlines()) >= len(rows) + 4


def test_text():
    text = str(Layout("nChw2c").draw((1, 3, 1, 2))).splitlines()
    assert text[-4:] == ["at 0  C0 w0  0 2", "at 2  C0 w1  1 3", "at 4  C1 w0  4 .", "at 6  C1 w1  5 ."]
    assert repr(Layout("NHWC").draw((1, 2, 1, 1))).endswith("\nat 0  0 1")


def test_large_ones_are_cut():
    drawing = Layout("NCHW").draw((10**6, 3, 10**6, 10**6))
    assert "and 2999999999976 more rows, 999968 more in each row" in str(drawing)
    assert len(str(drawing)) < 10**4 and len(drawing._repr_svg_()) < 10**6


def test_save(tmp_path):
    drawing = Layout("NHWC").draw((1, 2, 3, 1))
    assert drawing.save(tmp_path / "a.svg").read_text() == drawing._repr_svg_()


def test_wrong_shapes():
    with pytest.raises(ValueError, match="layout NCHW has 4 dimensions, shape"):
        Layout("NCHW").draw((1, 2))
