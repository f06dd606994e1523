"""Comparing two runs."""

import json

import pytest

from layoutkit.bench import command as bench
from layoutkit.bench import comparison


def result(problem, share, seconds, winner="a"):
    return dict(problem=problem, kind="conv", group="NHWC", title=problem, threads=1, count=1, unit="GFLOP/s", work=1,
                bytes=1, share=share, rate=1.0, limit=1.0, seconds=seconds, lead=None, winner=winner,
                candidates={})  # fmt: skip


def test_what_changed(tmp_path, capsys):
    runs = {
        "a.json": [result("p", 0.5, 2.0), result("q", 0.5, 2.0), result("only a", 1.0, 1.0)],
        "b.json": [result("p", 0.9, 1.0, "b"), result("q", 0.51, 2.0), result("only b", 1.0, 1.0)],
    }
    for name, results in runs.items():
        (tmp_path / name).write_text(json.dumps({"machine": {"cpu": name}, "results": results}))
    assert bench.main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "not measured alike: cpu: a.json / b.json"
    assert out[1] == "2 problems in both, 1 only in A, 1 only in B"
    assert "  1.80    50.0%   90.0%   a -> b, p" in out
    assert not any(line.endswith(", q") for line in out), "2 % is noise"
    assert out[-1].split() == ["1.355", "1.414", "conv", "NHWC,", "1", "thread", "2"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"results": [{}]}', '{"results": [], "bandwidths": [{}]}', '{"results": 3}', "[" * 100_000],
)
def test_no_run(tmp_path, text, capsys):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="not what layoutkit"):
        comparison.read(str(path))
    for argv in (["compare", str(path), str(path)], ["report", str(path), str(tmp_path / "o.html")]):
        with pytest.raises(SystemExit) as stop:
            bench.main(argv)
        assert stop.value.code == 2
