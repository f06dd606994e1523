"""The machine's limits, and when they are none: on clocks that are made up."""

import re

import pytest

from layoutkit._core.runtime import registry
from layoutkit.choosing import limits
from layoutkit.choosing.machine_profile import UNIT_SCALE


@pytest.fixture
def machine(monkeypatch):
    """A machine whose samples are given, and whose profile is."""
    made = type("Made", (), dict(samples=[], profile=None))()
    monkeypatch.setattr(limits, "_best", {})
    monkeypatch.setattr(limits, "_profile", lambda: made.profile)
    monkeypatch.setattr(limits, "Limits", lambda: made)
    made.fma = made.copy = lambda *_: made.samples.pop(0)
    return made


def test_a_limit_is_sampled_once(machine):
    machine.samples = [100.0, 7.0]
    assert limits.peak_limit(90.0, 1, "f32") == limits.peak_limit(120.0, 1, "f32") == limits.peak_rate(1) == 100.0
    assert limits.copy_limit(5.0, 1000, 1) == 7.0 and not machine.samples


def test_a_limit_that_a_rate_passes_is_sampled_again(machine):
    machine.samples = [10.0, 9.0, 100.0]
    assert limits.peak_limit(90.0, 1, "f32") == 100.0 and limits.peak_rate(1) == 100.0
    machine.samples = [99.0] * limits.SAMPLES
    assert limits.peak_limit(900.0, 1, "f32") is None and limits.peak_rate(1) == 100.0, "the best of them stays"


def test_a_machine_that_stays_below_is_disturbed(machine):
    machine.samples = [1.0] * 2 * limits.SAMPLES
    assert limits.peak_limit(90.0, 1, "f32") is None and limits.copy_limit(90.0, 1000, 1) is None
    assert not machine.samples
    machine.samples = [1.0] * limits.SAMPLES
    assert limits.peak_limit(0.5, 1, "f32") == 1.0, "a rate that fits it has one"


@pytest.mark.parametrize("types", ["f32", "f64"])
def test_the_profile_of_a_machine_tells_what_it_can(machine, types):
    promised = 1e9 * 2 * registry.best("peak", types)[0].lanes  # a vector in a nanosecond
    machine.profile, machine.samples = UNIT_SCALE, [0.5 * promised] * limits.SAMPLES
    assert limits.peak_limit(1.0, 1, types) is None
    machine.samples = [0.7 * promised]
    assert limits.peak_limit(1.0, 1, types) == 0.7 * promised
    machine.samples = [0.7 * promised, 0.7 * promised]
    assert limits.peak_limit(1.0, 2, types) == 0.7 * promised, "two threads may share a core"
    machine.samples = [1.0]
    assert limits.peak_limit(1.0, 1, "u8s8") == 1.0, "nothing is known of others"


def test_the_profile_tells_of_copies_that_are_not_short(machine):
    promised = 128e9  # a line read and one written in a nanosecond
    machine.profile, machine.samples = UNIT_SCALE, [0.5 * promised] * limits.SAMPLES
    assert limits.copy_limit(1.0, 2 << 20, 1) is None
    machine.samples = [0.5 * promised, 0.7 * promised]
    assert limits.copy_limit(1.0, 1000, 1) == 0.5 * promised
    assert limits.copy_limit(1.0, 2 << 20, 1) == 0.7 * promised


def test_it_is_said_in_place_of_a_share():
    assert limits.disturbed("a copy", "measured") == "no share of a copy: other work slows this machine down now"
    assert re.search("no share of a copy: the estimate is .* other work may", limits.disturbed("a copy", "estimated"))
