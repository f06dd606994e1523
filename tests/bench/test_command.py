"""The commands: they measure, save and tell; what they saved decides in other processes."""

import html
import itertools
import json
import os
import subprocess
import sys

import pytest

import layoutkit as lk
from layoutkit import __main__ as config_command
from layoutkit.bench import command as bench
from layoutkit.bench import report
from layoutkit.bench.layers import Layer
from layoutkit.bench.suites import DTYPES, SUITES, ConvCase, backward, in_types
from layoutkit.choosing import machine, machine_profile
from layoutkit.choosing.best import choices
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.limits import Limits
from layoutkit.choosing.table import cost_table
from layoutkit.grad.task import WeightTask

TINY = ["--suite", "tiny", "--quick", "--threads", "1", "--layouts", "NHWC,nChw8c"]


@pytest.fixture(autouse=True)
def calm(monkeypatch):
    """No other work on the machine, or none that is noticed; and its profile does not take a second."""
    monkeypatch.setattr(machine, "waited", lambda: 0.0)
    monkeypatch.setattr(machine_profile, "FIGURE_SECONDS", 1e-3)
    monkeypatch.setattr(machine_profile, "MAX_LARGE_BYTES", 1 << 22)


class FixedLimits(Limits):
    """A machine whose limits are known."""

    def __init__(self):
        pass

    def sample(self, unit, work, threads, types):
        return [1e15]


def conv_case(layer, count=1, threads=1):
    return ConvCase(layer.problem("NHWC"), str(layer), "NHWC", count, threads)


# ---- the command


def run(args, capsys):
    code = bench.main(args)
    return code, capsys.readouterr()


def test_measures_saves_and_tells(cache_dir, tmp_path, capsys):
    file = tmp_path / "out.json"
    code, said = run([*TINY, "--json", str(file)], capsys)
    assert code == 0 and said.err == ""
    data = json.loads(file.read_text())
    want = SUITES["tiny"](["NHWC", "nChw8c"], [1])
    assert [r["problem"] for r in data["results"]] == [c.key for c in want]
    assert cost_table.problems() == sorted(r["problem"] for r in data["results"])
    for r in data["results"]:
        times = [c["min"] for c in r["candidates"].values()]
        assert times == sorted(times) and r["seconds"] == times[0]
        assert r["winner"] == next(iter(r["candidates"]))
        assert r["lead"] == times[1] / times[0] >= 1
        assert r["share"] == pytest.approx(r["rate"] / r["limit"])
        assert {n: c.min for n, c in cost_table.costs(r["problem"]).items()} == {
            n: c["min"] for n, c in r["candidates"].items()
        }
        assert r["winner"] in said.out and r["title"] in said.out
    conv = next(t for t in data["totals"] if t["kind"] == "conv" and t["group"] == "NHWC")
    parts = [r for r in data["results"] if r["kind"] == "conv" and r["group"] == "NHWC"]
    assert conv["count"] == 3
    assert conv["seconds"] == pytest.approx(sum(r["count"] * r["seconds"] for r in parts))
    assert f"cost table: {cost_table.path}" in " ".join(said.out.split())


def test_a_second_process_takes_the_winner(cache_dir, capsys):
    # a machine on which the last candidate wins, not the one that is estimated to
    case = conv_case(Layer(8, 16, 8, 1))
    names = [c.name for c in case.task.candidates()]
    for i, name in enumerate(names):
        cost_table.record(case.key, name, Cost(1e-9 / (i + 1), 1.0, 0.0, 1))
    cost_table.save()
    program = """
import numpy as np, layoutkit as lk
op = lk.Conv2d(np.ones((16, 8, 1, 1), np.float32), layout="NHWC", threads=1)
print(op.explain((1, 8, 8, 8), verbose=True))
"""
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    lines = said.splitlines()
    assert lines[1] in case.key
    assert lines[3].startswith("-> ") and f"  {names[-1]}  " in lines[3]
    assert lines[-1].startswith("decided by measured cost: ")


def test_no_save_leaves_no_file(cache_dir, capsys):
    code, said = run([*TINY, "--no-save", "--json", "-"], capsys)
    assert code == 0 and not list(cache_dir.iterdir())
    assert json.loads(said.out)["suite"] == "tiny", "only JSON on standard output"
    assert "all together" in said.err


def test_what_was_disturbed_does_not_enter_the_table(cache_dir, capsys, monkeypatch):
    monkeypatch.setattr(machine, "waited", itertools.count().__next__)
    code, said = run(["--suite", "tiny", "--threads", "1", "--layouts", "NHWC", "--time-budget", "0.5"], capsys)
    assert code == 0
    assert "problems had no undisturbed timing: neither shown nor saved" in said.out
    assert "all together" not in said.out
    assert cost_table.problems() == []


def test_the_time_budget_ends_it(cache_dir, capsys):
    code, said = run([*TINY, "--time-budget", "1e-9"], capsys)
    assert code == 0
    assert "0 problems measured" in said.out and "were left out: the time was over" in said.out


@pytest.mark.parametrize(("seconds", "profiled"), [("29", False), ("31", True)])
def test_short_time_budgets_leave_the_machine_profile(cache_dir, capsys, monkeypatch, seconds, profiled):
    monkeypatch.setattr(bench, "measure", lambda *args: None)
    monkeypatch.setattr(bench, "bandwidths", lambda *args: [])
    monkeypatch.setattr(bench, "_profile", lambda began: "machine profile: there")
    code, said = run([*TINY, "--time-budget", seconds], capsys)
    assert code == 0 and ("machine profile: there" in said.out) == profiled


def test_a_report_without_matplotlib_is_refused_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench.page, "available", lambda: False)
    monkeypatch.setattr(bench, "measure", lambda *args: pytest.fail("measured"))
    with pytest.raises(SystemExit) as stop:
        bench.main([*TINY, "--report", str(tmp_path / "page.html")])
    assert stop.value.code == 2 and "needs matplotlib: pip install 'layoutkit[report]'" in capsys.readouterr().err


def test_interrupting_keeps_what_there_is(cache_dir, capsys, monkeypatch):
    calls = []

    def measure(problem, seconds):
        calls.append(problem)
        if len(calls) == 3:
            raise KeyboardInterrupt
        cost_table.record(problem.key, "a", Cost(1.0, 1.0, 0.0, 1))
        return cost_table.costs(problem.key)

    monkeypatch.setattr(bench, "measure_task", measure)
    code, said = run(TINY, capsys)
    assert code == 130
    assert "2 problems measured" in said.out and "left out: interrupted" in said.out


def test_what_does_not_fit_into_memory_is_left_out(cache_dir, capsys, monkeypatch):
    real, calls = bench.measure_task, []

    def measure(problem, seconds):
        calls.append(problem.key)
        if problem.key == calls[0]:
            raise MemoryError
        return {} if problem.key == calls[1] else real(problem, seconds)

    def cold(self, name):
        raise MemoryError

    monkeypatch.setattr(bench, "measure_task", measure)
    monkeypatch.setattr(ConvCase, "cold", cold)
    code, said = run(TINY, capsys)
    assert code == 0 and said.err == ""
    assert "2 problems need more memory than there is" in said.out
    assert "left out" not in said.out and "undisturbed" not in said.out
    assert f"\n{len(set(calls)) - 2} problems measured" in said.out


def test_a_table_that_cannot_be_saved_is_an_error(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", str(tmp_path / "file" / "below"))
    code, said = run([*TINY, "--time-budget", "1e-9"], capsys)
    assert code == 1
    assert "cannot be saved" in said.err and "LAYOUTKIT_CACHE_DIR" in said.err


def test_missing_goes_on_where_a_run_ended(cache_dir, capsys):
    every = SUITES["tiny"](["NHWC", "nChw8c"], [1])
    for case in every[2:]:
        cost_table.record(case.key, "a", Cost(1.0, 1.0, 0.0, 1))
    code, said = run([*TINY, "--missing"], capsys)
    assert code == 0 and "\n2 problems measured" in said.out
    assert {c.key for c in every} == set(cost_table.problems())
    assert "\n0 problems measured" in run([*TINY, "--missing"], capsys)[1].out


def test_problems_from_a_file_and_several_suites(cache_dir, tmp_path, capsys):
    file = tmp_path / "mine.txt"
    file.write_text("reorder 2x3x4x5 NCHW>NHWC x32 t1\n1x1 4->8 @6\n")
    code, said = run([*TINY, "--suite", f"{file},tiny", "--json", "-"], capsys)
    assert code == 0
    found = {r["problem"] for r in json.loads(said.out)["results"]}
    assert "reorder 2x3x4x5 NCHW>NHWC x32 t1" in found
    assert {c.key for c in SUITES["tiny"](["NHWC", "nChw8c"], [1])} < found


def test_what_was_measured_is_saved_on_the_way(cache_dir, capsys, monkeypatch):
    monkeypatch.setattr(bench, "SAVE_EVERY_SECONDS", 0.0)
    saved = []
    monkeypatch.setattr(type(cost_table), "save", lambda self: saved.append(len(self.problems())) or self.path)
    run(TINY, capsys)
    assert len(saved) > 3 and saved[0] == 1


def test_a_page_is_made_of_a_run(cache_dir, tmp_path, capsys):
    out, again, data = tmp_path / "a.html", tmp_path / "b.html", tmp_path / "a.json"
    code, _ = run([*TINY, "--layouts", "NHWC,NCHW", "--report", str(out), "--json", str(data)], capsys)
    assert code == 0
    assert "memory" in {slope["level"] for slope in json.loads(data.read_text())["bandwidths"]}
    for case in SUITES["tiny"](["NHWC", "NCHW"], [1]):
        assert case.key in html.unescape(out.read_text())
    assert bench.main(["report", str(data), str(again)]) == 0
    assert again.read_text() == out.read_text()


@pytest.mark.parametrize("args, why", [
    (["--report", "/no/such/place/x.html"], "no directory"),
    (["--suite", "resnet51"], "resnet51"),
    (["--threads", "1,x"], f"expected numbers of 1 to {4 * os.cpu_count()} such as 1,2, got '1,x'"),
    (["--threads", "0"], "expected numbers"),
    (["--threads", "1,1024"], "expected numbers"),
    (["--layouts", "NHWC,NHXC"], "'NHXC'"),
    (["--layouts", "NWC"], "has 3 dimensions"),
    (["--dtype", "float32,int7"], "got 'int7'"),
    (["--time-budget", "-3"], "expected seconds, got '-3'"),
    (["--time-budget", "nan"], "expected seconds"),
    (["--json", "/no/such/place/x.json"], "no directory"),
    (["--fast"], "--fast"),
])  # fmt: skip
def test_bad_arguments_exit_with_2(args, why, capsys):
    with pytest.raises(SystemExit) as stop:
        bench.main(args)
    assert stop.value.code == 2
    assert why in capsys.readouterr().err


def test_measures_in_other_types(cache_dir, tmp_path, capsys):
    file = tmp_path / "out.json"
    code, said = run([*TINY, "--dtype", "bfloat16,int8", "--json", str(file)], capsys)
    assert code == 0 and said.err == ""
    data = json.loads(file.read_text())
    want = in_types(SUITES["tiny"](["NHWC", "nChw8c"], [1]), [DTYPES["bfloat16"], DTYPES["int8"]])
    assert [r["problem"] for r in data["results"]] == [c.key for c in want]
    assert "conv NHWC bf16, 1 thread" in said.out and "conv NHWC u8s8_u8, 1 thread" in said.out


def test_measures_gradients(cache_dir, tmp_path, capsys):
    file = tmp_path / "out.json"
    code, _ = run([*TINY, "--pass", "backward", "--json", str(file)], capsys)
    assert code == 0
    found = json.loads(file.read_text())["results"]
    assert {r["kind"] for r in found} == {"weight", "conv", "pack"}
    assert {r["problem"] for r in found} == {c.key for c in backward(SUITES["tiny"](["NHWC", "nChw8c"], [1]))}
    task = WeightTask.parse(next(r["problem"] for r in found if r["kind"] == "weight"))
    assert choices(task)[0].source == "measured"
    assert not backward(in_types(SUITES["tiny"](["NHWC"], [1]), [DTYPES["int8"]]))


def test_visits_share_the_time(monkeypatch):
    found = SUITES["tiny"](["NHWC", "NCHW"], [1])
    now = [0.0]
    monkeypatch.setattr(bench.time, "perf_counter", lambda: now[0])
    caps = {"conv": 4.0, "reorder": 1.0, "pack": 1.0}
    whole = sum(caps[c.kind] for c in found) * bench.VISITS
    assert [v.budget for v in bench.visits(found, caps, None)] == [caps[c.kind] for c in found] * bench.VISITS
    for case, budget in bench.visits(found, caps, whole / 2):
        assert budget == pytest.approx(caps[case.kind] / 2)
        now[0] += budget
    assert now[0] == pytest.approx(whole / 2)
    now[0] = 0.0
    done = 0
    for visit in bench.visits(found, caps, whole):
        now[0] += 2 * visit.budget + 1.0  # a slow machine
        done += 1
    assert 0 < done < bench.VISITS * len(found) and now[0] < whole + 9


def test_visits_are_merged(monkeypatch):
    case = conv_case(Layer(1, 1, 4, 1))
    costs = iter([
        {"a": Cost(2.0, 3.0, 0.0, 1), "b": Cost(4.0, 4.0, 0.0, 1)},
        {"a": Cost(1.0, 5.0, 0.0, 1), "b": Cost(9.0, 9.0, 0.0, 1)},
    ])  # fmt: skip
    monkeypatch.setattr(bench, "measure_task", lambda *_: next(costs))
    monkeypatch.setattr(ConvCase, "cold", lambda self, name: {"a": 3.0}[name])
    found = {}
    bench.measure([bench.Visit(case, 1.0)] * 2, FixedLimits(), found)
    assert found[case].costs == {"a": Cost(1.0, 4.0, 0.0, 2), "b": Cost(4.0, 6.5, 0.0, 2)}
    assert (found[case].seconds, found[case].lead, found[case].limit) == (1.0, 4.0, 1e15)
    assert found[case].cold == 3.0, "of the winner"


# ---- the parts


def test_limits_are_rates():
    limits = Limits()
    assert 1e8 < limits.fma(1) < 1e13
    assert 1e7 < limits.copy(1 << 16, 2) < 1e13
    assert limits.copy(1, 1) > 0


def test_report_of_nothing_and_of_one_candidate():
    assert list(report.lines([])) == []
    case = conv_case(Layer(1, 1, 4, 1), 7)
    one = report.Result(case, {"only": Cost(1e-6, 1e-6, 0.0, 1)}, (1e9, 2e9))
    assert one.lead is None and one.limit == 2e9
    text = "\n".join(report.lines([one]))
    assert "only" in text and "-" in text
    assert report.geomean([2.0, 8.0]) == pytest.approx(4.0)


def test_a_busy_machine_is_reported():
    def result(*limits):
        return report.Result(conv_case(Layer(1, 1, 4, 1), 1, 2), {"a": Cost(1.0, 1.0, 0.0, 1)}, limits)

    assert list(report.busy([])) == list(report.busy([result(*[1e9] * 19, 7e8)])) == []
    assert list(report.busy([result(1e9, 1e9, 7e8, 5e8)])) == [
        "the machine was busy: 2 of 4 times 2 threads had less than 80% of the FMA peak; measure again when it is idle"
    ]


def test_configuration(cache_dir, capsys, monkeypatch):
    assert config_command.main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["layoutkit"] == lk.__version__ and told["isa"] in told["isas"]
    assert told["cost_table"].startswith(str(cache_dir)) and told["problems"] == 0
    assert config_command.main([]) == 0
    printed = capsys.readouterr().out
    lk.show_config()
    assert capsys.readouterr().out == printed
    assert f"[{told['isa']}]" in printed and told["cost_table"] in printed
    with pytest.raises(SystemExit) as stop:
        config_command.main(["--nonsense"])
    assert stop.value.code == 2


@pytest.mark.parametrize("module", ["layoutkit", "layoutkit.bench"])
def test_commands_run_as_modules_with_only_the_dependencies(module, cache_dir):
    hidden = "import sys; sys.modules.update(dict.fromkeys(['rich', 'torch', 'scipy', 'skimage']));"
    program = f"{hidden} import runpy; sys.argv = ['x', *{TINY if 'bench' in module else []}];"
    program += f"runpy.run_module({module!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and "cost table" in done.stdout
