"""bench/campaign.py, a bounded share: random problems against the reference. More: ``python bench/campaign.py``."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1] / "bench"


def run(*args):
    return subprocess.run([sys.executable, str(BENCH / "campaign.py"), *args], capture_output=True, text=True)


def test_nothing_is_wrong():
    done = run("--reorders", "5000", "--convolutions", "1500", "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert [(r["kind"], r["cases"], r["wrong"]) for r in json.loads(done.stdout)] == [
        ("reorders", 5000, 0), ("convolutions", 1500, 0),
    ]  # fmt: skip


def test_what_is_wrong_is_found_and_can_be_run_again(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", "set back after the test: main() sets it")
    import campaign
    import random_cases

    monkeypatch.setattr(random_cases.lk, "reorder", lambda x, *_, out=None, **__: x if out is None else out)
    failures = campaign.run("reorders", 0, 0, 40)
    assert len(failures) > 30
    number = failures[0].split()[3]
    assert campaign.main(["--only", number]) == 1
    assert capsys.readouterr().out.strip() == failures[0]
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", "set back after the test")
    assert campaign.main(["--only", number]) == 0
