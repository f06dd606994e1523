"""stress/campaign.py, a bounded share with a new seed each time. More: ``python stress/campaign.py``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import campaign
import pytest
import random_cases
from conftest import LONG

STRESS = Path(__file__).parents[2] / "stress"
SHARE = {  # a sixth of it where this is not CI; .ci/run has a larger one
    "reorders": 200,
    "convolutions": 60,
    "integers": 25,
    "transposed": 15,
    "limits": 25,
    "reproducible": 10,
    "filters": 30,
    "chunked": 30,
}
if not LONG:
    SHARE = {kind: -(-count // 6) for kind, count in SHARE.items()}


def run(*args):
    return subprocess.run([sys.executable, str(STRESS / "campaign.py"), *args], capture_output=True, text=True)


def test_nothing_is_wrong():
    done = run(*(f"--{kind}={count}" for kind, count in SHARE.items()), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert {r["kind"]: (r["cases"], r["wrong"]) for r in found["kinds"]} == {k: (n, 0) for k, n in SHARE.items()}


@pytest.fixture
def of_one_kind(monkeypatch):
    """Replaces the cases of reorders by a function of their numbers."""
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", "set back after the test: main() sets it")
    return lambda case: monkeypatch.setitem(random_cases.CASES, "reorders", case)


def test_what_is_wrong_is_found_and_can_be_run_again(monkeypatch, capsys, of_one_kind):
    monkeypatch.setattr(random_cases.reorders.lk, "reorder", lambda x, *_, out=None, **__: x if out is None else out)
    monkeypatch.setattr(random_cases.reorders, "let_one_decide", lambda *_: "any")
    monkeypatch.setattr(random_cases.reorders.lk, "plan", lambda *_, **__: None)
    failures = list(campaign.run("reorders", 0, 0, 40))
    assert len(failures) > 20
    number = failures[0].split()[3]
    assert campaign.main(["--seed", "0", "--only", number]) == 1
    assert capsys.readouterr().out.strip() == failures[0]
    monkeypatch.undo()
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", "set back after the test")
    assert campaign.main(["--seed", "0", "--only", number]) == 0


def test_a_crash_and_a_hang_are_failures_and_the_rest_goes_on(monkeypatch, tmp_path):
    program = tmp_path / "campaign_with_faults.py"
    program.write_text(
        f"import os, sys, time; sys.path.insert(0, {str(STRESS)!r})\n"
        "import campaign, random_cases\n"
        "campaign.__file__, campaign.PATIENCE, campaign.CHUNK = __file__, 4.0, 10\n"
        "def case(seed, index):\n"
        "    if index == 3: os.abort()\n"
        "    if index == 15: time.sleep(60)\n"
        "    return 'off' if index in (4, 19) else None\n"
        "random_cases.CASES['reorders'] = case\n"
        "if __name__ == '__main__': sys.exit(campaign.main())\n"
    )
    rest = [f"--{kind}=0" for kind in SHARE if kind != "reorders"]
    command = [sys.executable, str(program), "--reorders=20", "--seed=7", "--json", *rest]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 1
    assert json.loads(done.stdout)["kinds"][0]["wrong"] == 4
    for text in ("reorders:3  the process ended with -6", "reorders:4  off", "reorders:15  hangs", "reorders:19  off"):
        assert f"--seed 7 --only {text}" in done.stderr
