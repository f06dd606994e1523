"""What notebooks show of plans, recorded calls and the cost table: HTML that is well formed."""

import xml.etree.ElementTree as ET
from html import unescape

import numpy as np

import layoutkit as lk
from layoutkit import pages
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.table import cost_table

X = np.zeros((1, 3, 4, 5), np.float32)


def test_plans():
    plan = lk.plan(lk.conv2d, X, np.zeros((4, 3, 3, 3), np.float32))
    text = plan._repr_html_()
    assert text.startswith(f"<div><b>{plan.words}") and "decided by" in text
    assert text.count("<tr>") == 1 + min(8, len(plan.choices)) and "<th scope=col>algorithm" in text


def test_profiles():
    with lk.profile() as p:
        lk.reorder(X, "NCHW", "NHWC")
    assert "reorder 1x3x4x5 NCHW>NHWC" in unescape(p._repr_html_())
    assert "Profile(0 calls" in lk.profile()._repr_html_()


def test_cost_tables(cache_dir):
    cost_table.record("reorder 2x3 ab>ba x32 t1", "store", Cost(1e-7, 2e-7, 3e-8, 100))
    assert "<td>reorder<td class=n>1" in cost_table._repr_html_()


def test_texts_are_escaped():
    text = pages.fragment(["<a>", "b & c"], ["<h>"], [["1.5%"], ["<x>"]])
    assert "&lt;a&gt;" in text and "b &amp; c" in text and "<td class=n>1.5%" in text and "&lt;x&gt;" in text
    row = ET.fromstring(pages.bars([("<n>", "1 ms", "", 0.5)]).replace("class=value", "a='b'").replace(
        "class=bars", "").replace("class=bar", ""))  # fmt: skip
    assert row.find("li/span").text == "<n>" and "width:50.0%" in row.find(".//i").get("style")
