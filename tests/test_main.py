"""``python -m layoutkit``: its commands. What `run` and `bench` do is tested with them."""

import json
import subprocess
import sys

import pytest

import layoutkit as lk
from layoutkit.__main__ import main


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"layoutkit {lk.__version__}\n"


def test_show_is_what_no_command_does(cache_dir, capsys):
    said = []
    for argv in ([], ["show"]):
        assert main(argv) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and said[0].startswith("layoutkit ")
    told = []
    for argv in (["--json"], ["show", "--json"]):
        assert main(argv) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1] and told[0]["layoutkit"] == lk.__version__


@pytest.mark.parametrize("name", ["run", "bench", "doctor", "table"])
def test_commands_have_help_of_their_own(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0 and "usage: python -m layoutkit" in capsys.readouterr().out


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert (
        all(f"\n  {name}" in said for name in ("show", "doctor", "run MODEL", "bench", "table")) and "--version" in said
    )


def test_bench_is_that_of_layoutkit_bench(cache_dir, capsys):
    assert main(["bench", "--suite", "tiny", "--quick", "--threads", "1", "--layouts", "NHWC", "--no-save"]) == 0
    assert "problems measured in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [(["nonsense"], "invalid choice: 'nonsense'"), (["--nonsense"], "unrecognized arguments"),
     (["--json", "run"], "run comes first: python -m layoutkit run ..")],
)  # fmt: skip
def test_wrong_arguments(argv, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "layoutkit", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"layoutkit {lk.__version__}\n", "")
