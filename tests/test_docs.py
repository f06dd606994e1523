"""What the pages, the README and the docstrings show is what happens."""

import doctest
import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import layoutkit
from layoutkit import embedding
from layoutkit.__main__ import main

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
        made = importlib.import_module("pictures").drawings()
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


DOORS = [name for name in PAGES if name.startswith("doors/")]
QUICK = ["--time-budget", "1", "--threads", "1"]  # in place of --quick


def test_every_door_is_shown_first():
    for page in ("README.md", "docs/index.md"):
        text = (ROOT / page).read_text()
        assert all(name in text for name in DOORS) and len(DOORS) == 5, page
    for name in DOORS:
        text = (ROOT / "docs" / name).read_text()
        assert "pip install" in text and "](../pictures/" in text, name


def commands(page):
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.M | re.S)
    return [shlex.split(line) for line in "".join(blocks).splitlines()]


def save_model(path):
    """A convolution with its activation."""
    onnx = pytest.importorskip("onnx", reason="the extra onnx")
    h, f32 = onnx.helper, onnx.TensorProto.FLOAT
    w = onnx.numpy_helper.from_array(np.ones((8, 3, 3, 3), np.float32), "w")
    nodes = [h.make_node("Conv", ["x", "w"], ["a"]), h.make_node("Relu", ["a"], ["y"])]
    shapes = h.make_tensor_value_info("x", f32, [1, 3, 8, 8]), h.make_tensor_value_info("y", f32, None)
    graph = h.make_graph(nodes, "g", [shapes[0]], [shapes[1]], [w])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10), path)


@pytest.mark.parametrize("name", DOORS)
def test_commands_of_the_doors(name, cache_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = layoutkit.tuning()
    for program, *arguments in commands(ROOT / "docs" / name):
        if program == "layoutkit-config":
            embedding.main(arguments)
        elif program == "layoutkit":
            if "model.onnx" in arguments:
                save_model("model.onnx")
            if "--quick" in arguments:
                pytest.importorskip("matplotlib", reason="the extra report")
                arguments[arguments.index("--quick") : arguments.index("--quick") + 1] = QUICK
            assert main(arguments) == 0, arguments
            layoutkit.tuning(before)
        else:
            assert program == "pip"
    assert "!" not in capsys.readouterr().err


def test_the_readme(tmp_path):
    blocks = python_blocks(ROOT / "README.md")
    assert blocks
    code = "\n".join(blocks)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    file = Path(module.__file__)
    if file.suffix != ".py" or ">>>" in file.read_text(encoding="utf-8"):  # to find nothing takes as long
        assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", layoutkit.__all__)
def test_public_names_are_documented(name):
    what = getattr(layoutkit, name)
    if callable(what) and what.__module__.startswith("layoutkit"):
        assert (what.__doc__ or "").strip(), name
