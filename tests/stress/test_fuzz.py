"""stress/fuzz.py, a bounded share: damaged text, tables and shapes are refused in words or taken, nothing else."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "stress" / "fuzz.py"
sys.path.append(str(FILE.parent))  # for what it imports from beside it
spec = importlib.util.spec_from_file_location("fuzz", FILE)
fuzz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fuzz)


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_nothing_but_refusals(name):
    ran, taken, failures = fuzz.campaign(name, 0.4, seed=1, least=12 if name == "harmful" else 120)
    assert failures == []
    assert taken > 0.05 * ran


def test_a_failure_is_found(monkeypatch):
    def target(data):
        if b"W" in data:
            raise IndexError("planted")

    monkeypatch.setitem(fuzz.TARGETS, "layout", (target, fuzz.TARGETS["layout"][1]))
    assert "IndexError: planted" in fuzz.campaign("layout", 0.2, seed=1)[2][0]


def test_guided_by_coverage():
    pytest.importorskip("atheris")
    done = subprocess.run(
        [sys.executable, str(FILE), "--atheris", "--target", "layout", "--seconds", "5"],
        capture_output=True, text=True, env=os.environ | {"LAYOUTKIT_CACHE_DIR": os.devnull},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "stat::number_of_executed_units" in done.stderr
