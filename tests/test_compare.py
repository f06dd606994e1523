"""bench/compare.py: it runs, its figures fit together, and it does not compare what differs."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"
spec = importlib.util.spec_from_file_location("compare", BENCH / "compare.py")
compare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare)


def run(*args, **env):
    command = [sys.executable, str(BENCH / "compare.py"), *args]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | env)


def test_every_contender_takes_part(tmp_path, cache_dir):
    file = tmp_path / "out.json"
    done = run("--quick", "--rounds", "1", "--suite", "tiny", "--json", str(file))
    assert done.returncode == 0, done.stderr
    data = json.loads(file.read_text())
    assert [v.split()[0] for v in data["versions"]] == ["layoutkit", "torch", "numpy"]
    assert {r["kind"] for r in data["results"]} == {"conv", "reorder"}
    for r in data["results"]:
        assert r["title"] in done.stdout
        assert set(r["rates"]) == set(compare.COLUMNS[r["kind"]])
        for pair, ratio in r["ratios"].items():
            ours, theirs = pair.split(" / ")
            if "packed" not in theirs:
                assert ratio == pytest.approx(r["rates"][ours] / r["rates"][theirs])
            assert r["shares"][ours] == pytest.approx(r["rates"][ours] / r["limit"])


def test_gradients_are_compared(tmp_path, cache_dir):
    file = tmp_path / "out.json"
    done = run("--quick", "--rounds", "1", "--pass", "backward", "--suite", "tiny", "--batch", "2", "--json", str(file))
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())["results"]
    assert {r["title"].split()[-1] for r in found} == {"weight"}  # of a first layer the other is not
    assert all(set(r["rates"]) == set(compare.COLUMNS["backward"]) for r in found)
    case = {"kind": "backward", "title": "b", "dtype": "float32"}
    with pytest.raises(SystemExit, match="do not agree"):
        compare.check(case, {"a": [1.0], "b": [1.1]})


def test_steps_of_training_are_compared(tmp_path, cache_dir):
    pytest.importorskip("torch", reason="the extra compare")
    file = tmp_path / "out.json"
    command = [sys.executable, str(BENCH / "training.py"), "--network", "mobilenetv2", "--size", "32", "--batch", "4"]
    done = subprocess.run([*command, "--rounds", "1", "--layouts", "NHWC", "--json", str(file)], capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())
    assert "differ" not in done.stdout and set(row["losses"]) == set(row["seconds"]) == {"layoutkit.torch", "torch"}


def test_without_torch_it_says_so_and_goes_on(tmp_path, cache_dir):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    done = run("--quick", "--rounds", "1", "--cases", "reorder", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr == "compare.py: without torch: no torch here (pip install torch)\n"
    assert "lk out / numpy out" in done.stdout and "torch" not in done.stdout


def test_what_differs_is_not_compared():
    conv, move = {"kind": "conv", "title": "c", "dtype": "float32"}, {"kind": "reorder", "title": "r"}
    compare.check(conv, {"a": [1.0, 100.0], "b": [1.001, 100.0]})
    compare.check(move, {"a": [5], "b": [5]})
    for case, other in ((conv, [1.1, 100.0]), (conv, [1.0]), (move, [6])):
        with pytest.raises(SystemExit, match="b and a do not agree"):
            compare.check(case, {"a": [1.0, 100.0] if case is conv else [5], "b": other})


@pytest.mark.parametrize("args", [
    ["--threads", "0"], ["--rounds", "x"], ["--cases", "conv,pool"], ["--json", "/no/such/place/x"], ["--nope"],
])  # fmt: skip
def test_bad_arguments_exit_with_2(args, capsys):
    with pytest.raises(SystemExit) as stop:
        compare.main(args)
    assert stop.value.code == 2
    assert args[0] in capsys.readouterr().err
