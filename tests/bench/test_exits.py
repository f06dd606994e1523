"""Commands whose reader goes away, or that are interrupted: what was measured is saved, nothing is complained of."""

import json
import os
import subprocess
import sys

import pytest

from layoutkit.bench.exits import finish_steps
from layoutkit.bench.suites import SUITES
from layoutkit.choosing.table import CostTable

BENCH = ["--suite", "tiny", "--quick", "--threads", "1", "--layouts", "NHWC"]
EVERY = {case.key for case in SUITES["tiny"](["NHWC"], [1])}
QUIET = (0, 141)
BRIEF_PROFILE = """
from layoutkit.choosing import machine_profile
machine_profile.FIGURE_SECONDS, machine_profile.MAX_LARGE_BYTES = 1e-3, 1 << 22
"""
COMMAND = f"{BRIEF_PROFILE}\nimport runpy\nrunpy.run_module('layoutkit.bench', run_name='__main__', alter_sys=True)"

# The command with a clock that no other work disturbs, and a hook: {before} runs before every problem that is
# measured, with its number.
PROGRAM = """
import os, signal, sys
from layoutkit.choosing import table as cost
from layoutkit.bench import __main__, command
from layoutkit.choosing import machine
from layoutkit.bench.exits import run
machine.waited = lambda: 0.0
measure, seen = command.measure_task, []
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
def hooked(contest, seconds):
    seen.append(contest)
    {hook}
    return measure(contest, 0.01)
command.measure_task = hooked
command.QUICK_SECONDS = 1000.0
{setup}
sys.exit(run(command.main))
"""


def bench(*args, hook="pass", setup="", **streams):
    """The command in a process of its own."""
    program = BRIEF_PROFILE + PROGRAM.format(hook=hook, setup=setup)
    command = [sys.executable, "-c", program, *BENCH, *args]
    return subprocess.Popen(command, text=True, stderr=subprocess.PIPE, **streams)


def leave(process, lines):
    """Read so many lines of standard output and close it; what comes on standard error."""
    with process:
        for _ in range(lines):
            assert process.stdout.readline()
        process.stdout.close()
        return process.stderr.read()


@pytest.mark.parametrize("reads, args", [
    (0, []), (1, ["--json", "-"]), (3, []), (3, ["--json", "out.json"]),
])  # fmt: skip
def test_a_reader_that_goes_away(cache_dir, tmp_path, args, reads):
    args = [str(tmp_path / a) if a == "out.json" else a for a in args]
    process = bench(*args, stdout=subprocess.PIPE)
    told = leave(process, reads)
    assert process.returncode in QUIET
    assert "Traceback" not in told and "Exception" not in told
    assert set(CostTable().problems()) == EVERY
    if str(tmp_path / "out.json") in args:
        assert (tmp_path / "out.json").stat().st_size > 1000


def test_a_pipe_that_is_closed_from_the_start(cache_dir):
    reading, writing = os.pipe()
    os.close(reading)
    process = bench(stdout=writing)
    os.close(writing)
    assert process.communicate()[1] == "" and process.returncode == 141
    assert set(CostTable().problems()) == EVERY


@pytest.mark.parametrize("closed", ["1", "2", "1, 2"])
def test_streams_that_are_not_there(cache_dir, closed):
    program = f"""
import os, sys
for fd in ({closed},):
    os.close(fd)
os.execv(sys.executable, [sys.executable, "-c", {COMMAND!r}, *{BENCH}, "--time-budget", "0.2"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert ("1" in closed) == (done.stdout == "")


@pytest.mark.parametrize("hook, saved", [
    ("if len(seen) == 1: interrupt()", 0),
    ("if len(seen) == 3: interrupt()", 2),
    (f"if len(seen) == {len(EVERY) + 1}: interrupt()", len(EVERY)),
])  # fmt: skip
def test_ctrl_c_while_measuring(cache_dir, hook, saved):
    process = bench(hook=hook, stdout=subprocess.PIPE)
    said, told = process.communicate()
    assert (process.returncode, told) == (130, "")
    assert len(CostTable().problems()) == saved
    assert f"{saved} problems measured" in said
    assert (f"{len(EVERY) - saved} problems were left out: interrupted" in said) == (saved < len(EVERY))


def files(folder):
    """Arguments that ask for both files, and what reads whether they are whole."""
    data, page = folder / "out.json", folder / "out.html"

    def problems():
        assert page.read_text().rstrip().endswith("</html>")
        return {r["problem"] for r in json.loads(data.read_text())["results"]}

    return ["--json", str(data), "--report", str(page)], problems


def test_files_are_written_before_the_reader_is_missed(cache_dir, tmp_path):
    args, problems = files(tmp_path)
    assert leave(bench(*args, stdout=subprocess.PIPE), 0) == ""
    assert problems() == EVERY


def test_json_comes_before_the_text_that_nobody_reads(cache_dir, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", COMMAND, *BENCH, "--time-budget", "0.2", "--json", "-"]
    with open(tmp_path / "out.json", "wb") as out:
        done = subprocess.run(command, stdout=out, stderr=writing)
    os.close(writing)
    assert done.returncode == 141
    assert json.loads((tmp_path / "out.json").read_text())["suite"] == "tiny"


WRITING = """
def interrupted(*args):
    command.page.write = write
    interrupt()
write, command.page.write = command.page.write, interrupted
"""
PROFILE = "command.PROFILE_BUDGET_SECONDS = 0.0; command._profile = lambda began: interrupt()"


@pytest.mark.parametrize("hook, setup, saved", [
    ("if len(seen) == 3: interrupt()", "", 2), ("pass", WRITING, len(EVERY)), ("pass", PROFILE, len(EVERY)),
])  # fmt: skip
def test_ctrl_c_leaves_whole_files(cache_dir, tmp_path, hook, setup, saved):
    args, problems = files(tmp_path)
    process = bench(*args, hook=hook, setup=setup, stdout=subprocess.PIPE)
    said, told = process.communicate()
    assert (process.returncode, told) == (130, "") and ("problems measured" in said) == (setup != WRITING)
    assert len(problems()) == len(CostTable().problems()) == saved


def test_one_file_that_cannot_be_written_does_not_cost_the_other(cache_dir, tmp_path):
    args, _ = files(tmp_path)
    (tmp_path / "out.json").mkdir()
    process = bench(*args, stdout=subprocess.PIPE)
    said, told = process.communicate()
    assert process.returncode == 1 and "out.json" in told and "problems measured" in said
    assert (tmp_path / "out.html").stat().st_size > 1000


def test_steps_that_are_interrupted_begin_again():
    calls = []

    def step(name, times):
        calls.append(name)
        if calls.count(name) <= times:
            raise KeyboardInterrupt
        return name

    assert finish_steps(lambda: step("a", 0), lambda: step("b", 0)) == ["a", "b"]
    with pytest.raises(KeyboardInterrupt):
        finish_steps(lambda: step("c", 1), lambda: step("d", 0))
    with pytest.raises(KeyboardInterrupt):
        finish_steps(lambda: step("e", 2), lambda: step("never", 0))
    assert calls == ["a", "b", "c", "c", "d", "e", "e"]


FIRST_SAVE = """
def interrupted(*args):
    cost.files.replace = replace
    interrupt()
replace, cost.files.replace = cost.files.replace, interrupted
"""
REPORT = "command.report.lines = lambda *_: interrupt()"


@pytest.mark.parametrize("setup", [FIRST_SAVE, REPORT])
def test_ctrl_c_while_saving_or_printing(cache_dir, setup):
    process = bench(setup=setup, stdout=subprocess.PIPE)
    assert process.communicate()[1] == "" and process.returncode == 130
    assert set(CostTable().problems()) == EVERY


@pytest.mark.parametrize("args", [[], ["--json"], ["--help"]])
@pytest.mark.parametrize("reads", [0, 1])
def test_the_configuration_to_a_reader_that_goes_away(cache_dir, args, reads):
    process = subprocess.Popen(
        [sys.executable, "-m", "layoutkit", *args], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert leave(process, reads) == "" and process.returncode in QUIET


def test_the_configuration_to_a_full_disk(cache_dir):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "layoutkit"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "No space left" in done.stderr and "Traceback" not in done.stderr
