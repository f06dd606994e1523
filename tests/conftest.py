import contextlib
import fcntl
import gc
import os
import random
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# Before layoutkit is imported: the tests neither read nor write this user's cost table, nor learn by use.
os.environ["LAYOUTKIT_CACHE_DIR"] = tempfile.mkdtemp(prefix="layoutkit-tests-")
os.environ.setdefault("LAYOUTKIT_TUNING", "estimate")  # decisions do not depend on what else the machine does

from layoutkit._core.runtime import registry, team
from layoutkit.choosing import packaged

team.assume(max(4, os.cpu_count() or 1))  # regions of several threads, also where there is one processor

# Instruction sets with rows of every family; the others only add units of narrow numbers to the one below.
WHOLE_ISAS = [isa for isa in registry.isas() if any(k.isa == isa for k in registry.kernels("copy", all_isas=True))]

NEAREST = packaged._nearest  # what `reference_costs` stands in for
REFERENCE = {
    isa: packaged.path_of(isa, processor)
    for isa, processor in (("avx512", "amd-26-2"), ("avx2", "amd-25-17"), ("portable", "amd-25-17"))
}

EMULATED = registry.isas(emulated=True)  # sets of processors that this one is not

# Loop nests are compiled once: they run on the best set, and on the lowest, whose register tiles differ most.
NEST_ISAS = list(dict.fromkeys((WHOLE_ISAS[0], WHOLE_ISAS[-1])))

# How many examples properties draw that do not say so themselves. CI draws the long ones; a new seed each time.
LONG = bool(os.environ.get("CI"))
settings.register_profile("short", max_examples=20, deadline=None)
settings.register_profile("long", max_examples=50, deadline=None)
settings.load_profile("long" if LONG else "short")


def fewer(times: int) -> settings:
    """For a property whose examples are costly, or that is run for many cases: a so many times smaller number."""
    return settings(max_examples=-(-settings().max_examples // times))


# A shell's background jobs ignore Ctrl-C, and what they start does: not so the tests that send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def using_isa(name):
    """Plans made inside use instruction set `name`."""
    before = registry.use_isa(name)
    try:
        yield
    finally:
        registry.use_isa(before)


class Turnstile:
    """Workers that run tests: many at a time, or one that has the machine for itself. Neither side starves."""

    def __init__(self, run: str) -> None:
        folder = Path(tempfile.gettempdir())
        self.entry, self.inside = (open(folder / f"layoutkit-{run}-{name}.lock", "w") for name in ("entry", "inside"))

    @contextlib.contextmanager
    def passed(self, alone: bool):
        fcntl.flock(self.entry, fcntl.LOCK_EX)  # whoever waits to be alone holds it: nobody else goes in
        try:
            fcntl.flock(self.inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        finally:
            fcntl.flock(self.entry, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self.inside, fcntl.LOCK_UN)

    def remove(self) -> None:
        for file in (self.entry, self.inside):
            file.close()
            Path(file.name).unlink(missing_ok=True)


turnstile = Turnstile(os.environ["PYTEST_XDIST_TESTRUNUID"]) if "PYTEST_XDIST_WORKER" in os.environ else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """No garbage is looked for among the million objects that modules and tests are: neither now nor later.

    The collector stays enabled: functions of dask leave it for ever as it is when they are imported.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    try:
        return (yield)
    finally:
        gc.set_threshold(*thresholds)
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Tests marked `alone` run while no other worker runs one."""
    if turnstile is None:
        return (yield)
    with turnstile.passed(item.get_closest_marker("alone") is not None):
        return (yield)


def pytest_sessionfinish(session):
    if turnstile is not None:
        turnstile.remove()


@pytest.fixture(autouse=True)
def no_profile(monkeypatch):
    """Saving costs does not take the second that a machine profile takes, and networks are planned in every test."""
    from layoutkit.choosing import decision_files, machine_profile

    monkeypatch.setattr(machine_profile, "measure_once", lambda table: False)
    monkeypatch.setattr(decision_files, "MAX_FILES", 0)


@pytest.fixture(autouse=True)
def reference_costs(monkeypatch):
    """Whatever processor this is, plans are made by the same tables, so that a choice can be asserted."""

    def nearest(isa, here):
        return REFERENCE[packaged._family(isa)]

    monkeypatch.setattr(packaged, "_nearest", nearest)


@pytest.fixture
def measured_costs(reference_costs, monkeypatch):
    """Plans are made by the table of the processor that is most like this one after all."""
    monkeypatch.setattr(packaged, "_nearest", NEAREST)


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    """A cost table of this test's own."""
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def seed():
    """Another one in each run, printed where a test fails; ``LAYOUTKIT_TEST_SEED`` brings one back."""
    given = os.environ.get("LAYOUTKIT_TEST_SEED")
    found = int(given) if given else int.from_bytes(os.urandom(4), "little")
    print(f"LAYOUTKIT_TEST_SEED={found}")
    return found


@pytest.fixture
def some(seed):
    """A share of many cases, at least one, others in each run; in CI all of them."""
    rng = random.Random(seed)

    def chosen(cases, share=0.4):
        cases = list(cases)
        return cases if LONG else [case for case in cases if rng.random() < share] or rng.sample(cases, 1)

    return chosen
