"""The machine profile: measured, kept beside the cost table, and what estimates make of it."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing import machine_profile, model, packaged, shipped
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.machine_profile import FIGURES, MAX_RATIO, UNIT_SCALE, MachineProfile
from layoutkit.choosing.ranking import rank
from layoutkit.choosing.table import cost_table
from layoutkit.convolutions.algorithms.base import flops_per_second
from layoutkit.convolutions.task import ConvTask
from layoutkit.reorders.problem import ReorderProblem

measure_once = machine_profile.measure_once  # what tests/conftest.py takes away
LARGE = ReorderProblem.parse("reorder 20x47x129x75 NWCH>nChw8c x32 t1")
EVEN = ReorderProblem.parse("reorder 64x256x32x32 NCHW>NHWC x32 t1")
CONV = ConvTask.parse("conv n1 c64 56x56 o64 k1x1 s1x1 p0+0,0+0 d1x1 g1 NHWC>NHWC f32 standard t1")


pytestmark = pytest.mark.usefixtures("measured_costs")


@pytest.fixture
def kept(cache_dir):
    """Keeps a profile as that of this machine: factors on that which the constants of estimates are of."""

    def keep(**factors):
        constants = packaged.constants_of(registry.isa())
        there = MachineProfile.of(shipped.machine(constants)["profile"])
        here = there._replace(**{name: getattr(there, name) * factor for name, factor in factors.items()})
        machine_profile.save(machine_profile.path(cost_table.path), here)

    return keep


def unmeasured():
    """The profile of the table that serves this machine, over that which the constants of estimates are of."""
    isa = registry.isa()
    return packaged.relative(isa, MachineProfile.of(packaged.read(packaged.file(isa)).machine["profile"]))


def seconds(problem):
    return {c.candidate.name: c.seconds for c in rank(problem)}


def test_every_figure_is_measured(monkeypatch):
    monkeypatch.setattr(machine_profile, "FIGURE_SECONDS", 1e-3)
    found = machine_profile.measure()
    steps = dict(found.steps)
    assert all(0 < x < 1e7 and math.isfinite(x) for x in (*found.figures, *steps.values()))
    assert {"f32", "f64", *steps} == {k.types for k in registry.kernels("peak")}
    assert found.copy_l2 < 3 * found.copy_memory  # within the caches it is not slower, whatever else runs


def test_it_is_kept_beside_the_table(cache_dir):
    file = machine_profile.path(cost_table.path)
    assert file.parent == cost_table.path.parent and file != cost_table.path
    assert machine_profile.read(file) is None
    made = MachineProfile(*(1.5 + i for i in range(len(FIGURES))), steps=(("bf16", 0.25), ("s16", 3.0)))
    machine_profile.save(file, made)
    assert machine_profile.read(file) == made
    assert json.loads(file.read_text())["profile"][FIGURES[0]] == 1.5


def test_the_first_save_measures_it_and_no_other(cache_dir, monkeypatch):
    made = []

    def measure():
        made.append(MachineProfile(*(2.0 + len(made) for _ in FIGURES)))
        return made[-1]

    monkeypatch.setattr(machine_profile, "measure_once", measure_once)
    monkeypatch.setattr(machine_profile, "measure", measure)
    cost_table.record("reorder 1x64x56x56 NCHW>NHWC x32 t1", "store allx64", Cost(1.0, 1.0, 0.0, 3))
    assert not made
    generation = cost_table.generation
    file = machine_profile.path(cost_table.save())
    assert len(made) == 1 and machine_profile.read(file) == made[0] and cost_table.generation > generation + 1
    cost_table.save()
    assert len(made) == 1 and not measure_once(cost_table.path)
    file.write_text("damaged")
    assert measure_once(cost_table.path) and machine_profile.read(file) == made[1]


def test_another_process_that_measures_is_left_alone(cache_dir, monkeypatch):
    monkeypatch.setattr(machine_profile, "measure", lambda: pytest.fail("measured"))
    file = machine_profile.path(cost_table.path)
    script = (
        "import fcntl, sys; f = open(sys.argv[1], 'ab'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", script, f"{file}.lock"], stdin=-1, stdout=-1, text=True) as other:
        other.stdout.readline()
        assert not measure_once(cost_table.path) and not file.exists()
        other.stdin.close()


def test_what_prevents_it_only_leaves_estimates_as_they_are(cache_dir, monkeypatch):
    def nothing():
        raise MemoryError

    monkeypatch.setattr(machine_profile, "measure", nothing)
    assert not measure_once(cost_table.path)
    assert not measure_once(cache_dir / "gone" / "costs-1.json")
    assert packaged.this_machine() == unmeasured()


@pytest.mark.parametrize(("mode", "measures"), [("measure", True), ("learn", False), ("estimate", False)])
def test_a_process_that_measures_on_first_use_measures_it_when_it_ends(cache_dir, mode, measures):
    """Only there was saving asked for; importing does not measure, nor does a call."""
    script = """
import numpy as np, layoutkit as lk
from layoutkit.choosing import machine_profile
from layoutkit.choosing.table import cost_table
lk.reorder(np.ones((1, 8, 9, 9), np.float32), "NCHW", "NHWC")
assert not machine_profile.path(cost_table.path).exists()
print(machine_profile.path(cost_table.path))
"""
    env = os.environ | {"LAYOUTKIT_TUNING": mode}
    found = []
    for _ in range(2):
        told = subprocess.run([sys.executable, "-c", script.replace("assert", "assert 1 or" if found else "assert")],
                              env=env, capture_output=True, text=True, check=True)  # fmt: skip
        file = Path(told.stdout.strip())
        assert file.exists() == measures and told.stderr == ""
        found.append(file.stat().st_mtime_ns if measures else 0)
    assert found[0] == found[1]


GOOD = {"profile": dict.fromkeys(FIGURES, 1.0)}


@pytest.mark.parametrize("text", [
    "", "[]", "{}", '{"profile": 3}', '{"profile": []}', '{"profile": {}}', "[" * 100_000, "x" * 100_000,
    json.dumps({"profile": GOOD["profile"] | {"more": 1}}),
    *(json.dumps({"profile": GOOD["profile"] | {"run": x}}) for x in (0, -1, math.inf, math.nan, "a", [], 10**400)),
    *(json.dumps({"profile": GOOD["profile"] | {"steps": x}}) for x in (3, [], [1], {"s16": 0}, {"": math.nan})),
])  # fmt: skip
def test_files_that_hold_none_do_not_count(cache_dir, text):
    file = machine_profile.path(cost_table.path)
    file.write_text(json.dumps(GOOD))
    assert machine_profile.read(file) is not None
    machine_profile.read.cache_clear()
    file.write_text(text)
    assert machine_profile.read(file) is None
    machine_profile.read.cache_clear()
    assert packaged.this_machine() == unmeasured()


def test_the_scale_is_of_this_machine_over_the_reference(kept):
    assert packaged.this_machine() == unmeasured()
    kept(stream=2.0, partial=1e9)
    assert packaged.this_machine().figures == pytest.approx(UNIT_SCALE._replace(stream=2.0, partial=MAX_RATIO).figures)
    before = lk.tuning("off")
    assert packaged.this_machine() == unmeasured()  # the same choice every time, whatever was measured
    lk.tuning(before)


def test_a_machine_of_half_the_speed_takes_twice_as_long(kept, monkeypatch):
    serving = packaged.file(registry.isa())  # the same table for both
    monkeypatch.setattr(packaged, "_nearest", lambda isa, here: serving)
    kept()
    before = seconds(LARGE), seconds(CONV)
    kept(**dict.fromkeys(FIGURES, 2.0))
    after = seconds(LARGE), seconds(CONV)
    for old, new in zip(before, after):
        assert list(old) == list(new)
        assert all(1.5 < new[name] / old[name] < 2.001 for name in old)


@pytest.mark.parametrize(("here", "there", "factor"), [
    ((), (), 2.0), ((("bf16", 9.0),), (), 2.0), ((), (("bf16", 3.0),), 2.0), ((("bf16", 9.0),), (("bf16", 3.0),), 3.0),
])  # fmt: skip
def test_a_row_is_as_fast_as_its_peak_row_where_both_machines_know_it(here, there, factor):
    """Else as one of float32."""
    row = registry.best("gemm", "f32")[0]
    row = row._replace(kr=2, tile=row.tile._replace(peak="bf16"))
    before = flops_per_second(row)
    ours, theirs = UNIT_SCALE._replace(fma_f32=2.0, steps=here), UNIT_SCALE._replace(steps=there)
    with machine_profile.scaled(ours.relative_to(theirs)):
        assert flops_per_second(row) == pytest.approx(before / factor)


def test_steps_of_tiles_count_as_what_estimates_assume():
    """The reference has none; float32 says nothing of them."""
    rows = [k for k in registry.kernels("gemm", all_isas=True) if k.tile.peak in machine_profile.TILE_STEPS]
    ours = UNIT_SCALE._replace(fma_f32=2.0, steps=tuple((t, 3 * x) for t, x in machine_profile.TILE_STEPS.items()))
    for row in rows:
        before = flops_per_second(row)
        with machine_profile.scaled(ours.relative_to(UNIT_SCALE)):
            assert flops_per_second(row) == pytest.approx(before / 3)
        if not row.tile.components:
            assert machine_profile.TILE_STEPS[row.tile.peak] == pytest.approx(2e9 / row.tile.lane_flops)


@pytest.mark.parametrize(("figure", "problem"), [("fma_f32", CONV), ("stream", LARGE), ("copy_memory", EVEN)])
def test_a_figure_enters_the_estimates(kept, monkeypatch, figure, problem):
    serving = packaged.file(registry.isa())
    monkeypatch.setattr(packaged, "_nearest", lambda isa, here: serving)
    kept()
    before = seconds(problem)
    kept(**{figure: 3.0})
    after = seconds(problem)
    assert all(after[name] >= before[name] for name in before)
    assert any(after[name] > 1.2 * before[name] for name in before)


def test_costs_measured_here_are_corrected_by_the_scale_of_here(kept):
    """Another problem's measured cost says the same of this one, whatever the profile says of the machine."""
    near = ReorderProblem.parse("reorder 20x47x129x76 NWCH>nChw8c x32 t1")
    isa, costs = registry.isa(), {"stream allxall": Cost(1.0, 1.0, 0.0, 3)}
    found = []
    for factor in (1.0, 2.0):
        kept(**dict.fromkeys(FIGURES, factor))
        here = packaged.this_machine()
        with machine_profile.scaled(here):
            errors = model.log_errors(LARGE.key, costs, isa)
        known = model.Neighbours([LARGE.key], "reorder", isa), {LARGE.key: errors}.__getitem__, 1.0
        correction = model.weigh(near.features(), [known])["stream allxall"]
        with machine_profile.scaled(here):
            found.append(near.estimates()("stream allxall") * correction)
    assert found[0] == pytest.approx(found[1])
