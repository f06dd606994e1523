"""bench/load.py: callers at once are counted, and slowdowns are held against the best of the others'."""

import importlib.util
import json
import sys
import threading
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="the extra onnx")
BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    found = []
    for name in ("contenders", "load"):
        spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
        found.append(importlib.util.module_from_spec(spec))
        spec.loader.exec_module(found[-1])
    return found


@pytest.mark.parametrize("callers", [1, 3])
def test_calls_of_all_threads_count(modules, callers):
    contenders, _ = modules
    seen = set()

    def call():
        seen.add(threading.get_ident())

    told = contenders.load(call, 0.02, callers)
    assert len(seen) == callers
    assert 0 < told["median"] <= told["p99"] and told["rate"] > 0


def test_slowdowns_are_held_against_the_least_of_the_others(modules):
    _, load = modules

    def of(median, p99, rate):
        return {"median": median, "p99": p99, "rate": rate}

    row = {"situations": {
        "idle": {"layoutkit": of(1, 2, 10), "a": of(2, 2, 5), "b": of(4, 4, 2)},
        "busy": {"layoutkit": of(3, 4, 6), "a": of(4, 8, 3), "b": of(16, 8, 4)},
    }}  # fmt: skip
    assert load.compared(row)["busy"] == {"median": 1.5, "p99": 1.0, "tail": 2.0, "rate": 1.5}
    assert load.compared(row)["idle"] == {"median": 1.0, "p99": 1.0, "tail": 2.0, "rate": 2.0}


def test_the_command_runs(modules, monkeypatch, capsys, tmp_path):
    _, load = modules
    drawn, file = load.drawn, tmp_path / "load.json"
    monkeypatch.setattr(load, "drawn", lambda args, folder: islice(drawn(args, folder), 1))  # each takes two processes
    options = (
        "--only - --operations 1 --busy 1 --callers 2 --no-neighbours --rounds 1 --seconds 0.01 --threads 1 --seed 3"
    )
    assert load.main([*options.split(), "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert [row["kind"] for row in rows] == ["conv"]
    assert all(row["situations"].keys() == {"idle", "1 busy a core", "2 callers"} for row in rows)
    assert "beside" not in capsys.readouterr().out
