"""Where the time of a network goes."""

import re

import numpy as np
import pytest

from layoutkit.graph.advice import advice
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.report import NUMPY, Profile, Timed, family_of, work_of

IMAGE = TensorType(np.dtype(np.float32), (1, 3, 8, 8))


@pytest.fixture
def model():
    """A convolution with batch normalisation and an activation, and an operator without a kernel."""
    nodes = [
        Node("Conv", ("x", "w"), ("c",), name="first"),
        Node("BatchNormalization", ("c", "one", "one", "one", "one"), ("b",)),
        Node("Relu", ("b",), ("r",)),
        Node("Acosh", ("r",), ("y",)),
    ]
    constants = {"w": np.ones((4, 3, 3, 3), np.float32), "one": np.ones(4, np.float32)}
    return Model(Graph(nodes, {"x": IMAGE}, ("y",), constants), threads=1)


def test_a_profile_is_a_list_and_a_screen(model):
    profile = model.profile(np.ones((1, 3, 8, 8), np.float32))
    assert [op for op, _, seconds in profile if seconds >= 0 and op != "reorder"] == ["Conv", "Acosh"]
    told = str(profile).splitlines()
    assert any(line.startswith("  convolutions") for line in told)
    assert any(line.startswith(f"  {NUMPY}") and "Acosh" in line for line in told)
    assert "1 Conv of Conv BatchNormalization Relu" in told[-1]
    (slow,) = (line for line in told if "Conv first" in line)
    assert "1x3x8x8 > 1x4x6x6" in slow


def test_explain_tells_what_numpy_runs_and_what_was_fused(model):
    summary, _, steps = model.explain().partition("\n\n")
    assert "run by numpy: Acosh" in summary and "1 Conv of Conv BatchNormalization Relu" in summary
    assert "first" in steps


@pytest.mark.parametrize(
    ("op", "compiled", "family"),
    [("Conv", True, "convolutions"), ("Conv", False, NUMPY), ("reorder", True, "reorders"), ("Concat", True, "moves"),
     ("ReduceMean", True, "norms"), ("Add", True, "elementwise"), ("Unheard", True, "others")],
)  # fmt: skip
def test_families(op, compiled, family):
    assert family_of(op, compiled) == family


def test_work(model):
    program, _ = model.planned(np.ones((1, 3, 8, 8), np.float32))
    assert work_of(program.plan.graph.nodes[0], program.known) == 2 * 4 * 36 * 27
    assert work_of(program.plan.graph.nodes[-1], program.known) == 0


def test_nothing_was_done():
    assert "0 steps" in str(Profile([], {}, 1))
    assert "slowest" in str(Profile([Timed("Reshape", "a", 0.0, "others", 0, 0, "")], {"A of B": 2}, 1))
    assert "other kinds" in str(Profile([], {f"A of {i}": 1 for i in range(20)}, 1))


def step(family, seconds, work=0, op="Conv", name="a"):
    return Timed(op, name, seconds, family, work, 0, "1x2")


@pytest.mark.parametrize(
    ("steps", "threads", "tuned", "said"),
    [
        ([], 2, True, ["Nothing was executed"]),
        ([step("convolutions", 1.0, 1 << 20)], 2, True, ["Convolutions are 100% of the time, at"]),
        ([step("convolutions", 1.0)], 2, True, ["Most of the time, 100%, is convolutions: what remains"]),
        ([step("convolutions", 1.0)], 1, False, ["run it once with --tune", "on 1 of 2 threads", "Most of"]),
        ([step("reorders", 1.0), step("elementwise", 2.0, op="Add")], 2, True, ["33% .* reorders", "elementwise: Add"]),
        ([step(NUMPY, 1.0, op="Acosh")], 2, True, ["100% .* run in Python: Acosh", "Most"]),
    ],
)
def test_what_to_do(steps, threads, tuned, said, monkeypatch):
    monkeypatch.setattr("layoutkit.graph.report.peak_limit", lambda rate, threads, types: 1e9)
    sentences = list(advice(steps, threads, 2, tuned))
    assert len(sentences) == len(said)
    for sentence, words in zip(sentences, said):
        assert re.search(words, sentence)


def test_notebooks_show_bars(model):
    text = model.profile(np.ones((1, 3, 8, 8), np.float32))._repr_html_()
    assert text.count("<li>") >= 4 and "1x3x8x8 &gt; 1x4x6x6" in text and "Acosh" in text
