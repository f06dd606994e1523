"""What the pages, the README and the docstrings show is what happens."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import layoutkit

ROOT = Path(__file__).parent.parent
PAGES = sorted(str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md"))
WITHOUT_EXAMPLES = {
    "glossary.md", "index.md", "kernels.md", "platforms.md", "reference.md", "results.md", "tasks/index.md",
    "threats.md",
}  # fmt: skip
MODULES = [
    m.name for m in pkgutil.walk_packages(layoutkit.__path__, "layoutkit.")
    if not {"__main__", "api", "_core", "bench"} & set(m.name.split("."))
]  # fmt: skip


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)


@pytest.mark.parametrize("name", PAGES)
def test_pages(name):
    blocks = [b for b in python_blocks(ROOT / "docs" / name) if ">>>" in b]
    assert bool(blocks) == (name not in WITHOUT_EXAMPLES)
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.summarize().failed == 0


def test_pictures_are_those_that_are_made_now():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        made = importlib.import_module("pictures").pictures()
    finally:
        sys.path.remove(str(ROOT / "tools"))
    assert all((ROOT / "docs" / "pictures" / name).read_text() == text for name, text in made.items()), (
        "tools/pictures.py"
    )


@pytest.mark.parametrize("name", PAGES)
def test_pictures_of_pages_are_there(name):
    page = ROOT / "docs" / name
    found = re.findall(r"^!\[[^\]]+\]\(([^)]+)\)", page.read_text(), re.M)
    assert [p for p in found if not (page.parent / p).is_file()] == []


PACKAGES = {"skimage": "scikit-image", "sklearn": "scikit-learn"}  # what pip calls modules
OURS = {"numpy", "layoutkit", *sys.stdlib_module_names}


@pytest.mark.parametrize("name", PAGES)
def test_pages_name_the_packages_that_they_need(name):
    text = (ROOT / "docs" / name).read_text()
    code = "".join(b for b in python_blocks(ROOT / "docs" / name) if ">>>" in b)
    needed = {m for m in re.findall(r"^(?:>>>|\.\.\.) *(?:import|from) (\w+)", code, re.M) if m not in OURS}
    named = " ".join(re.findall(r"pip install ([^`]*)", text))
    assert [m for m in sorted(needed) if PACKAGES.get(m, m) not in named] == []


def test_the_readme(tmp_path):
    blocks = python_blocks(ROOT / "README.md")
    assert blocks
    code = "\n".join(blocks)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", layoutkit.__all__)
def test_public_names_are_documented(name):
    what = getattr(layoutkit, name)
    if callable(what) and what.__module__.startswith("layoutkit"):
        assert (what.__doc__ or "").strip(), name
