"""Every public object has a docstring that describes all of its parameters, and stands in docs/reference.md."""

import contextlib
import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import layoutkit as lk

REFERENCE = (Path(__file__).parent.parent / "docs" / "reference.md").read_text()

LATER: set[str] = set()
# Made as the class that they inherit from: exceptions, torch's modules.
INHERITED = {"SlowPathWarning", "onnx.Unsupported"} | {
    f"torch.Conv{t}{n}d" for t in ("", "Transpose") for n in (1, 2, 3)
}


def names_of(module):
    """The public names of a module: its ``__all__``, or what it defines."""
    found = getattr(module, "__all__", None)
    return found or [n for n, what in vars(module).items()
                     if not n.startswith("_") and getattr(what, "__module__", None) == module.__name__]  # fmt: skip


def public():
    """All public functions and classes by their names below ``lk``."""
    found = {}
    modules = {name: getattr(lk, name) for name in lk.__all__ if inspect.ismodule(getattr(lk, name))}
    for name in ("torch", "dask"):
        with contextlib.suppress(ImportError):
            modules[name] = importlib.import_module(f"layoutkit.{name}")
    for name in lk.__all__:
        if name not in modules:
            found[name] = getattr(lk, name)
    for prefix, module in modules.items():
        found |= {f"{prefix}.{name}": getattr(module, name) for name in names_of(module)}
    return found


PUBLIC = public()
CALLABLES = {name: what for name, what in PUBLIC.items() if callable(what)}


def described(doc, *sections):
    """The names that sections of a numpydoc docstring describe."""
    names = set()
    for section in sections:
        found = re.search(rf"^{section}\n-{{{len(section)}}}\n(.*?)(?=^[A-Z]\w+( \w+)?\n-+$|\Z)", doc, re.M | re.S)
        for line in found[1].splitlines() if found else ():
            if line and not line[0].isspace():
                names.update(name.strip().lstrip("*") for name in line.split(" : ")[0].split(","))
    return names


def wrong(name, what):
    """What is missing or too much in the docstrings of a function, or of a class and its methods."""
    doc = inspect.getdoc(what) or ""
    found = [] if doc.strip() else [f"{name}: no docstring"]
    if name not in INHERITED:
        parameters = {p for p in inspect.signature(what).parameters if p not in ("self", "cls")}
        record = inspect.isclass(what) and issubclass(what, tuple)
        known = described(doc, "Parameters", *(["Attributes"] if record else []))
        found += [f"{name}: parameter {p} is not described" for p in sorted(parameters - known)]
        found += [f"{name}: describes {p}, which it does not take" for p in sorted(known - parameters)]
    if inspect.isclass(what):
        others = [cls for cls in what.__mro__ if not cls.__module__.startswith("layoutkit")]
        for cls in what.__mro__:
            if cls in others:
                continue
            for n, member in vars(cls).items():
                member = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if n.startswith("_") and n != "__call__":
                    continue
                if any(hasattr(other, n) for other in others):
                    continue  # described there
                if isinstance(member, property) and not member.__doc__:
                    found.append(f"{name}.{n}: no docstring")
                elif inspect.isfunction(member):
                    found += wrong(f"{name}.{n}", member)
    return found


@pytest.mark.parametrize("name", sorted(CALLABLES.keys() - LATER))
def test_parameters_are_described(name):
    assert wrong(name, CALLABLES[name]) == []


def test_what_is_left_out_is_public():
    assert LATER - CALLABLES.keys() <= {"cost_table"}


def test_methods_of_the_cost_table():
    if "cost_table" not in LATER:
        assert wrong("cost_table", type(lk.cost_table)) == []


def test_models_are_described():
    from layoutkit.graph.model import Model

    assert [w for w in wrong("Model", Model) if not w.startswith("Model:")] == []


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_reference_has_it(name):
    """By itself, or with all of its module."""
    listed = re.findall(r"^\.\. auto(?:function|class|exception|data):: (?:layoutkit\.)?([\w.]+)$", REFERENCE, re.M)
    whole = re.findall(r"^\.\. automodule:: layoutkit\.(?:formats\.)?([\w.]+)\n   :members:$", REFERENCE, re.M)
    module, _, own = name.rpartition(".")
    explained = re.findall(r"``lk\.(\w+)``", REFERENCE)
    assert name in listed or (own and module in whole) or name in explained


def test_help_shows_the_parameters_of_functions_like_another():
    text = inspect.getdoc(lk.max_pool3d)
    assert "kernel : int or triple of int" in text and '"NCDHW"' in text and "max_pool2d" not in text
    assert list(inspect.signature(lk.max_pool3d).parameters) == list(inspect.signature(lk.max_pool2d).parameters)
    assert "(N, C, width)" in inspect.getdoc(lk.grad.conv1d_input)
    with pytest.raises(TypeError, match="unexpected keyword"):
        lk.max_pool1d([[[1.0]]], 1, kernels=2)


MODULES = sorted({name.rpartition(".")[0] for name in PUBLIC if "." in name})


@pytest.mark.parametrize("name", ["", *MODULES])
def test_completion_lists_what_users_call_and_nothing_else(name):
    module = getattr(lk, name, None) or importlib.import_module(f"layoutkit.{name}".rstrip("."))
    assert {n for n in dir(module) if not n.startswith("__")} == set(module.__all__)


def test_kept_convolutions_list_no_internals():
    shown = {n for n in dir(lk.Conv2d(np.zeros((1, 1, 1, 1), np.float32))) if not n.startswith("_")}
    assert {"plan", "explain", "workspace", "stride"} <= shown and not {"once", "over", "padded", "of_constant"} & shown


# Calls that cannot fail, and those that return nothing.
NO_ERRORS = {"get_include", "get_num_threads", "profile", "show_config", "ndimage.generate_binary_structure"}
NO_RESULT = {"set_num_threads", "show_config"}


CALLS = ("", "grad", "ndimage", "onnx")  # the other modules explain what these do


@pytest.mark.parametrize(
    "name", [n for n, f in PUBLIC.items() if n.rpartition(".")[0] in CALLS and inspect.isfunction(f)]
)
def test_help_tells_results_and_errors(name):
    doc = inspect.getdoc(PUBLIC[name])
    assert bool(re.search(r"^(Returns|Yields)\n-", doc, re.M)) == (name not in NO_RESULT)
    assert bool(re.search(r"^Raises\n-", doc, re.M)) == (name not in NO_ERRORS)
