"""``python -m layoutkit doctor``: what it tells, and that it sees what is wrong."""

import json

import numpy as np
import pytest
from tables import IDENTITY, TABLE

from layoutkit import doctor
from layoutkit.__main__ import main
from layoutkit._core.runtime import registry
from layoutkit.bench import health
from layoutkit.bench.health import Result, Speed
from layoutkit.choosing.table import path_of, write


def test_every_instruction_set_is_told(monkeypatch):
    compiled = {k.isa for k in registry.kernels(all_isas=True)} - registry.emulated()
    fates = doctor.instruction_sets()
    assert fates.keys() == compiled and fates[registry.isa()].startswith("used")
    assert {isa for isa, fate in fates.items() if fate.startswith("used")} == {
        k.isa for k in registry.kernels()
    } & compiled


def test_the_flags_of_all_sets_are_known():
    x86 = {k.isa for k in registry.kernels(all_isas=True)} - registry.emulated() - {"portable"}
    assert x86 <= doctor.FLAGS.keys() or "avx2" not in x86


def test_why_a_set_is_not_used(monkeypatch):
    flags = frozenset(("avx2", "fma"))
    assert "has no amx_tile, amx_bf16, amx_int8" in doctor._fate("avx512_amx", ["avx2"], "avx2", flags, None)
    granted = flags | {*doctor.FLAGS["avx512_amx"]}
    assert "system does not grant tiles" in doctor._fate("avx512_amx", ["avx2"], "avx2", granted, None)
    assert doctor._fate("avx512", ["avx2", "avx512"], "avx2", flags, "avx2") == "not used: LAYOUTKIT_ISA=avx2"
    assert doctor._fate("unknown", ["avx2"], "avx2", None, None).startswith("not used: this processor or its system")


def test_tables_of_this_machine_and_of_others(cache_dir, capsys):
    write(path_of(IDENTITY), TABLE, IDENTITY)
    (path_of(IDENTITY).parent / "costs-broken.json").write_text("[]")
    assert main(["doctor", "--no-checks", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    broken, other = sorted(found["cache"]["tables"], key=lambda t: t["problems"])
    assert other["problems"] == 2 and not other["applies"] and "another machine" in other["why"]
    assert "not a layoutkit cost table" in broken["why"] and not found["results"]
    assert any("no cost table of this machine" in text for text in found["findings"])


def test_results_are_compared_and_wrong_ones_seen(monkeypatch, capsys):
    found = list(health.results(2))
    assert len(found) == 14 and all(r.right for r in found)
    monkeypatch.setattr(health, "plain_sums", lambda x, w, groups: np.ones((len(x), len(w), *x.shape[2:])))
    assert sum(not r.right for r in health.results(1)) == 5
    monkeypatch.setattr(health, "speeds", lambda threads: [Speed("copy", 3.0, 4.0, "GB/s", "the profile")])
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "WRONG: convolution" in text and "! WRONG RESULT: convolution" in text and "75% of what is expected" in text


def test_findings():
    good, slow = Result("a", True, 0.0), Speed("copy", 1.0, 2.0, "GB/s", "the profile")
    assert list(health.findings([good], [slow._replace(measured=2.0), slow._replace(expected=None)], 0.0)) == []
    texts = list(health.findings([good._replace(right=False, error=0.5)], [slow], 0.5))
    assert [text.partition(":")[0] for text in texts[:1]] == ["WRONG RESULT"] and len(texts) == 3
    assert "50% of what is expected by the profile" in texts[2]


@pytest.mark.alone
def test_speeds_are_beside_what_is_expected(cache_dir, monkeypatch):
    monkeypatch.setattr(health, "SECONDS", 0.01)
    speeds = list(health.speeds(2))
    assert all(s.measured > 0 for s in speeds) and [s.share for s in speeds[:3]] == [None] * 3
    assert all(s.share for s in speeds[4:])
