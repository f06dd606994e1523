"""Which of the tables that come with the package serves a machine: that of the processor that measures most alike."""

import pytest
from conftest import using_isa
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing import machine_profile, packaged, shipped
from layoutkit.choosing.machine_profile import TILE_STEPS, UNIT_SCALE, MachineProfile
from layoutkit.choosing.table import cost_table

FILES = sorted(packaged.DATA.glob("costs-*.txt"))
SEVERAL = [file for file in FILES if len(packaged.files(shipped.machine(file)["isa"])) > 1]


def profile(file) -> MachineProfile:
    return MachineProfile.of(shipped.machine(file)["profile"])


@pytest.fixture(autouse=True)
def undecided(cache_dir, measured_costs):
    packaged._nearest.cache_clear()
    yield
    packaged._nearest.cache_clear()


@given(st.sampled_from(FILES), st.data())
def test_a_machine_that_measures_like_one_goes_by_its_table(file, data):
    """Figures are off by up to a tenth each, and all of them by a common factor."""
    of, common = profile(file), data.draw(st.floats(0.95, 1.05))
    noise = iter(data.draw(st.lists(st.floats(0.91, 1.1), min_size=20, max_size=20)))
    here = MachineProfile._make(
        (*(x * common * next(noise) for x in of.figures), tuple((t, x * common * next(noise)) for t, x in of.steps))
    )
    assert packaged._nearest(shipped.machine(file)["isa"], here) == file


@pytest.mark.parametrize("file", SEVERAL, ids=lambda file: file.name)
def test_without_a_profile_the_rates_decide(file, monkeypatch):
    isa = shipped.machine(file)["isa"]
    by_name = profile(file).by_name
    assert machine_profile.FIGURES[:3] == ("cycle", "fma_f32", "fma_f64")
    rates = {name: x for name, x in by_name.items() if name not in machine_profile.FIGURES[3:]}
    monkeypatch.setattr(machine_profile, "rates", lambda isa: rates)
    monkeypatch.setattr(machine_profile, "rated", lambda: rates)
    monkeypatch.setattr(registry, "isa", lambda: isa)
    assert packaged.file(isa) == file
    constants = profile(packaged.constants_of(isa))
    assert packaged.this_machine() == profile(file).relative_to(constants)


def test_rates_are_figures_of_a_profile():
    rates = machine_profile.rates(registry.isa())
    types = {k.types for k in registry.kernels("peak")} - {"f32", "f64"}
    assert rates.keys() == machine_profile.rated().keys() == {"cycle", "fma_f32", "fma_f64", *types}
    assert all(0 < x < 1e6 for x in rates.values())


@pytest.mark.parametrize("isa", [*registry.isas(), *registry.isas(emulated=True)])
def test_every_set_has_a_table_and_one_of_tiles_that_of_a_machine_with_tiles(isa):
    with using_isa(isa):
        steps = packaged.read(packaged.file(isa)).machine["profile"]["steps"]
        assert not ("amx" in isa and steps.keys().isdisjoint(TILE_STEPS))
        constants = profile(packaged.constants_of(isa))
        assert (packaged.this_machine() == UNIT_SCALE) == (profile(packaged.file(isa)) == constants)


def test_the_kept_profile_counts_but_where_the_table_does_not():
    isa, kept = registry.isa(), packaged.this_machine()
    here = MachineProfile.of(packaged.read(packaged.file(isa)).machine["profile"])._replace(stream=77.0)
    machine_profile.save(machine_profile.path(cost_table.path), here)
    assert packaged.this_machine() == packaged.relative(isa, here) != kept
    before = lk.tuning("off")
    try:
        assert packaged.this_machine() == kept
    finally:
        lk.tuning(before)


@pytest.mark.parametrize("isa", registry.isas(emulated=True))
def test_what_one_table_alone_has_is_not_measured(isa, monkeypatch):
    """Emulated tiles take seconds."""
    monkeypatch.setattr(machine_profile, "rates", lambda isa: pytest.fail("measured"))
    with using_isa(isa):
        assert packaged.file(isa)


@pytest.mark.parametrize("extreme", [5e-324, 1.7e308])
def test_any_number_that_a_profile_may_hold_is_compared(extreme):
    of = profile(SEVERAL[0])
    steps = tuple((types, extreme) for types, _ in of.steps)
    here = MachineProfile._make((*(extreme for _ in of.figures), steps))
    assert packaged._nearest(shipped.machine(SEVERAL[0])["isa"], here) in FILES


def test_a_table_whose_first_line_is_none_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.setattr(packaged, "DATA", tmp_path)
    for name, text in (("amd-1-1", "{}"), ("amd-1-2", SEVERAL[0].read_text()), ("amd-1-3", "")):
        packaged.path_of("some", name).write_text(text)
    packaged.path_of("some", "amd-1-4").mkdir()
    assert packaged.file("some") == packaged.path_of("some", "amd-1-2")
    assert packaged.file("none") is None and packaged.read(packaged.file("none")) == {}
