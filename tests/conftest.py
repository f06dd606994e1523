import contextlib
import os
import signal
import tempfile

import pytest

# Before layoutkit is imported: the tests neither read nor write this user's cost table, nor learn by use.
os.environ["LAYOUTKIT_CACHE_DIR"] = tempfile.mkdtemp(prefix="layoutkit-tests-")
os.environ.setdefault("LAYOUTKIT_TUNING", "estimate")  # decisions do not depend on what else the machine does

from layoutkit._core.runtime import registry

# Instruction sets with rows of every family; the others only add units of narrow numbers to the one below.
WHOLE_ISAS = [isa for isa in registry.isas() if any(k.isa == isa for k in registry.kernels("copy", all_isas=True))]

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


@pytest.fixture(autouse=True)
def no_profile(monkeypatch):
    """Saving costs does not take the second that a machine profile takes."""
    from layoutkit.choosing import profile

    monkeypatch.setattr(profile, "measure_once", lambda table: False)


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
