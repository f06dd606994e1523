"""Decisions about networks: made once for all processes, and harmless whatever the file says."""

import json

import numpy as np
import pytest
from oracle.network import evaluate

import layoutkit as lk
from layoutkit.choosing import best, decision_files
from layoutkit.choosing.table import cost_table
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.layout import siblings
from layoutkit.graph.model import Model

F32 = np.dtype(np.float32)
X = np.random.default_rng(0).standard_normal((1, 24, 9, 8)).astype(np.float32)


def network(special=1.0):
    """Siblings, a transposed convolution, a Transpose to channels last, views, and what follows any layout."""
    rng = np.random.default_rng(1)
    shapes = {"w": (20, 24, 3, 3), "a": (16, 20, 1, 1), "b": (24, 20, 1, 1), "d": (8, 16, 3, 3), "e": (8, 24, 3, 3)}
    shapes["t"] = 16, 8, 2, 2
    constants = {name: rng.standard_normal(shape).astype(np.float32) / 9 for name, shape in shapes.items()}
    constants["w"][3, 2, 1, 1] *= np.float32(special)
    nodes = [
        Node("Conv", ("x", "w"), ("c",), {"pads": [1] * 4}), Node("Relu", ("c",), ("r",)),
        Node("Conv", ("r", "a"), ("p",)), Node("Conv", ("r", "b"), ("q",)),
        Node("Conv", ("p", "d"), ("s",), {"pads": [1] * 4}), Node("Conv", ("q", "e"), ("h",), {"pads": [1] * 4}),
        Node("Sigmoid", ("s",), ("g",)), Node("Concat", ("h", "g"), ("j",), {"axis": 1}),
        Node("ConvTranspose", ("j", "t"), ("u",), {"strides": [2, 2]}),
        Node("Transpose", ("u",), ("y",), {"perm": [0, 2, 3, 1]}),
    ]  # fmt: skip
    return Graph(nodes, {"x": TensorType(F32, ("N", 24, "H", "W"))}, ("y",), constants)


@pytest.fixture
def folder(cache_dir, monkeypatch):
    monkeypatch.setattr(decision_files, "MAX_FILES", 9)
    monkeypatch.setattr(siblings, "STEP_SECONDS", 1.0)  # they are merged
    cost_table.load()
    return cache_dir


def decided(monkeypatch, model, x=X):
    """How many problems are ranked for a run of a model in a new process; its results are right."""
    lk.tuning(lk.tuning())  # what was ranked before does not count
    ranked = []
    with monkeypatch.context() as patch:
        patch.setattr(best, "rank", lambda p, rank=best.rank: ranked.append(p) or rank(p))
        (result,) = model.run(x).values()
    want = evaluate(model.graph, {"x": x})["y"]
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)
    return len(ranked)


def kinds(model):
    return [program.plan.decided for program in model._programs.values()]


def test_a_second_process_decides_nothing(folder, monkeypatch):
    models = [Model(network(), threads=1) for _ in range(2)]
    assert decided(monkeypatch, models[0]) and not decided(monkeypatch, models[1])
    assert kinds(models[0]) == kinds(models[1]) and any(kinds(models[0])[0].merged)
    assert len(list(folder.glob("plan-*.json"))) == 1
    assert models[0].explain({"x": X.shape}) == models[1].explain({"x": X.shape})


@pytest.mark.parametrize(
    ("options", "x"), [({"threads": 2}, X), ({"accuracy": "strict"}, X), ({"layouts": "plain"}, X), ({}, X[..., :5])]
)
def test_other_shapes_and_options_are_decided_anew(folder, monkeypatch, options, x):
    decided(monkeypatch, Model(network(), threads=1))
    assert decided(monkeypatch, Model(network(), **{"threads": 1, **options}), x)
    assert len(list(folder.glob("plan-*.json"))) == 2


def test_other_values_of_filters_are_decided_anew(folder, monkeypatch):
    decided(monkeypatch, Model(network(), threads=1))
    (file,) = folder.glob("plan-*.json")
    before = file.read_bytes()
    other = Model(network(np.inf), threads=1)
    with np.errstate(invalid="ignore"):
        assert decided(monkeypatch, other)
    (program,) = other._programs.values()
    assert program.plan.assigned is not None  # the layouts, too
    assert [*folder.glob("plan-*.json")] == [file] and file.read_bytes() != before


def test_a_reorder_that_a_file_lacks_is_added(folder, monkeypatch):
    decided(monkeypatch, Model(network(), threads=1))
    (file,) = folder.glob("plan-*.json")
    before = json.loads(file.read_text().split("\n")[1])
    rankings = {key: value for key, value in before["rankings"].items() if not key.startswith("ReorderProblem")}
    lacking = len(before["rankings"]) - len(rankings)
    decision_files.write(file, before | {"rankings": rankings})
    assert 0 < decided(monkeypatch, Model(network(), threads=1)) == lacking
    assert json.loads(file.read_text().split("\n")[1]) == before


def changed(content, name, value):
    content[name] = value(content[name]) if callable(value) else value
    return content


@pytest.mark.parametrize(
    "change",
    [
        lambda c: changed(c, "kinds", lambda k: [[9, 9]] * len(k)), lambda c: changed(c, "kinds", lambda k: k[1:]),
        lambda c: changed(c, "kinds", lambda k: [[0, 2]] * len(k)), lambda c: changed(c, "kinds", [[None, "x"], 7]),
        lambda c: changed(c, "kinds", lambda k: [[-1, -1]] * len(k)), lambda c: changed(c, "kinds", [[1e400, 0]]),
        lambda c: changed(c, "merged", lambda m: m + [True]), lambda c: changed(c, "merged", lambda m: [not m[0]]),
        lambda c: changed(c, "merged", []),
        lambda c: changed(c, "rankings", {}), lambda c: changed(c, "rankings", 7), lambda c: {},
        lambda c: changed(c, "rankings", lambda r: dict(zip(r, reversed(r.values())))),
        lambda c: changed(c, "rankings", lambda r: {k: [[n, float("nan"), s] for n, _, s in v] for k, v in r.items()}),
        lambda c: changed(c, "rankings", lambda r: {k: v[::-1] for k, v in r.items()}),
    ],
)  # fmt: skip
def test_whatever_a_file_says_results_are_right(folder, monkeypatch, change):
    decided(monkeypatch, Model(network(), threads=1))
    (file,) = folder.glob("plan-*.json")
    content = json.loads(file.read_text().split("\n")[1])
    decision_files.write(file, change(content))
    decided(monkeypatch, Model(network(), threads=1))


def test_what_cannot_be_written_is_decided_by_everyone(folder, monkeypatch):
    monkeypatch.setattr(cost_table, "read_only", True)
    assert all(decided(monkeypatch, Model(network(), threads=1)) for _ in range(2)) and not [*folder.iterdir()]
