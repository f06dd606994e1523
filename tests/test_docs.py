"""What the page for newcomers and the docstrings show is what happens."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "formats.md"
MODULES = ("layout", "notation", "affine", "algebra", "strides", "view", "pads", "tensor", "mace", "winograd")


def test_the_page_on_formats():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(blocks) > 15
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, PAGE.name, str(PAGE), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.summarize().failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module("layoutkit." + name)
    assert doctest.testmod(module).failed == 0
