"""The random models of `stress/graphs.py`: each a function of seed and number, and mistakes are found."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the extra onnx")

import graph_cases

from layoutkit.graph.operators import OPERATORS

FILE = Path(__file__).parent.parent / "stress" / "graphs.py"
SPEC = importlib.util.spec_from_file_location("stress_graphs", FILE)
graphs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(graphs)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_model_is_a_function_of_seed_and_number():
    for index in range(20):
        a, b = (graph_cases.draw(3, index) for _ in range(2))
        assert a.model.SerializeToString(deterministic=True) == b.model.SerializeToString(deterministic=True)
        assert list(a.inputs) == list(b.inputs) and a[2:] == b[2:]
        for name, value in a.inputs.items():
            np.testing.assert_array_equal(value, b.inputs[name])
    assert graph_cases.draw(3, 0).model != graph_cases.draw(4, 0).model


@pytest.mark.parametrize("op", ["Transpose", "ReduceSum", "Conv"])
def test_mistakes_are_found_and_the_model_is_printed(op, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", str(tmp_path))
    right = OPERATORS[op].run
    monkeypatch.setitem(OPERATORS, op, OPERATORS[op]._replace(run=lambda *a: [y + 1 for y in right(*a)]))
    drawn = (i for i in range(2000) if any(n.op_type == op for n in graph_cases.draw(1, i).model.graph.node))
    for index, _ in zip(drawn, range(8)):
        if graph_cases.case(1, index).wrong:
            break
    assert graphs.main(["--seed", "1", "--only", str(index)]) == 1
    told = capsys.readouterr().out
    assert f"= {op} " in told and "differ, at" in told


def test_the_command_says_what_it_has_tried(capsys, monkeypatch):
    monkeypatch.setattr(
        graphs, "campaign", lambda seed, count, jobs: ([(7, "wrong")], {"Conv": 2}, graphs.Counter(a=1))
    )
    assert graphs.main(["--models", "5", "--seed", "9"]) == 1
    told = capsys.readouterr().out
    assert "seed 9" in told and "nodes: Conv 2" in told and "1 explained: a" in told and "1 wrong" in told
    with pytest.raises(SystemExit):
        graphs.main(["--only", "3"])
    capsys.readouterr()
