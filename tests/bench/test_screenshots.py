"""Screenshots tell what is wrong with a page."""

import chromium
import pytest
import screenshots

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
