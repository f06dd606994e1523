"""Screenshots tell what is wrong with a page."""

import chromium
import pytest
import screenshots

from layoutkit.graph.page import page as network_page
from layoutkit.graph.report import Profile, Timed

TEXT = "<text x=10 y={} style='font-size: {}px'>{}</text>"
PAGE = "<!doctype html><meta name=viewport content='width=device-width'><body style='{}'><svg {} width=200>{}</svg>"
NAMED = "role=img aria-label=x"

needs_chromium = pytest.mark.skipif(chromium.find() is None, reason="no Chromium")


@needs_chromium
@pytest.mark.parametrize("page, wrong", [
    (PAGE.format("", NAMED, TEXT.format(20, 12, "one") + TEXT.format(40, 12, "two")), None),
    (PAGE.format("", NAMED, TEXT.format(20, 12, "one") + TEXT.format(25, 12, "two")), '"one" and "two" lie on each'),
    (PAGE.format("", NAMED, TEXT.format(20, 5, "one")), '"one" is small'),
    (PAGE.format("", "role=img", ""), "without a name"),
    (PAGE.format("width: 800px", NAMED, ""), "390-dark: the page is 8"),
    (PAGE.format("", NAMED, "") + "<details><p style='width: 800px'>text", "390-light: the page is 8"),
])  # fmt: skip
def test_what_is_wrong(tmp_path, capsys, page, wrong):
    file = tmp_path / "page.html"
    file.write_text(page)
    assert screenshots.main([str(file), "--folder", str(tmp_path / "shots")]) == (wrong is not None)
    assert (wrong or "") in capsys.readouterr().err
    assert len(list((tmp_path / "shots").glob("*.png"))) == 4


def test_without_a_browser_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(screenshots, "find", lambda: None)
    assert screenshots.main(["--folder", str(tmp_path / "shots")]) == 0
    assert "no screenshots" in capsys.readouterr().out


@needs_chromium
def test_the_page_of_a_network(tmp_path, monkeypatch):
    monkeypatch.setattr("layoutkit.graph.report.peak_limit", lambda rate, threads, types: 2e12)
    how = "winograd F(4,3) gemm_6x64_f32_avx512 via NCHW>NHWC"
    steps = [
        Timed(
            "Conv", "a/long/name" * i, i * 1e-3, "convolutions", 1 << 30, 0, "1x3x224x224 > 1x64x112x112", lambda: how
        )
        for i in range(9)
    ]
    profile = Profile(steps, {"Conv of Conv BatchNormalization Relu": 9}, 2)
    text = network_page("a model.onnx", ["What to do. " * 9], "a machine", "what was printed, " * 40, profile)
    (tmp_path / "page.html").write_text(text)
    assert screenshots.main([str(tmp_path / "page.html"), "--folder", str(tmp_path / "shots")]) == 0
