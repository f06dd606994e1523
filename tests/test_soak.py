"""stress/soak.py: everything at once is right, and what is wrong is told."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import LONG

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
FILE = Path(__file__).parents[1] / "stress" / "soak.py"


@pytest.fixture
def soak(monkeypatch, tmp_path):
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "path", sys.path.copy())
    spec = importlib.util.spec_from_file_location("soak", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from random_cases import deciding

    monkeypatch.setattr(deciding, "shared", False)  # which a run changes
    assumed = module.team.granted(1 << 20)
    yield module
    module.team.assume(max(4, assumed))


@pytest.mark.alone
def test_everything_at_once(soak):
    run = soak.soak(seed=7, seconds=3 if LONG else 1.5, callers=2)
    assert not run.wrong
    assert set(run.done) == {*soak.KINDS, "networks"}


@pytest.mark.alone
def test_mistakes_are_told(soak, monkeypatch):
    grows = iter(range(1, 10**6))
    right = soak.Model.run

    def sometimes_wrong(self, x):
        return {name: y + np.random.default_rng().random() for name, y in right(self, x).items()}

    monkeypatch.setattr(soak.Model, "run", sometimes_wrong)
    monkeypatch.setattr(soak.Soak, "cases", lambda *args: None)
    for seconds in (1, 4, 16):  # until a shape came again
        run = soak.soak(seed=7, seconds=seconds, callers=1, memory=lambda: next(grows) << 30)
        if any("other bits" in wrong for wrong in run.wrong):
            break
    assert any("other bits" in wrong for wrong in run.wrong)
    assert any("memory grew" in wrong for wrong in run.wrong)
