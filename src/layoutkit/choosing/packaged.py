"""The cost tables that come with the package, and which of them is for this machine.

    data/costs-avx512_bf16-amd-25-17.txt   its instruction set; vendor, family and model of the processor
    data/constants-avx512.txt              the first line of a table: the profile that estimates' constants stand for

A machine goes by the table of the processor that is most like it in what its profile measures, whatever either is
called: the least mean of |log(figure here / figure there)|. Where no profile is kept, the rates of multiplications
decide, which take a few milliseconds to measure, and the table's profile counts as the machine's. Tables of sets that
extend one another (`avx512`, `avx512_amx`) serve each other; before those that lack a figure of the machine, as that of
a tile unit, come those that have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import inf, log
from pathlib import Path

from .._core.runtime import registry
from . import machine_profile, shipped, tuning
from .machine_profile import UNIT_SCALE, MachineProfile
from .table import cost_table
from .warn import warn

DATA = Path(__file__).parents[1] / "data"


def path_of(isa: str, processor: str) -> Path:
    """Where the table of a processor is kept."""
    return DATA / f"costs-{isa}-{processor}.txt"


def constants_of(isa: str) -> Path:
    """Where the profile is kept that the constants of estimates stand for, as that instruction set measures it."""
    return DATA / f"constants-{_family(isa)}.txt"


def files(isa: str) -> list[Path]:
    """The tables that serve an instruction set."""
    return sorted(DATA.glob(f"costs-{_family(isa)}*-*.txt"))


def file(isa: str) -> Path | None:
    """The table that serves an instruction set on this machine; None if there is none."""
    return _nearest(isa, _kept())


def this_machine() -> MachineProfile:
    """The figures of this machine, or of its table, over those that the constants of estimates stand for."""
    isa = registry.isa()
    of = _kept() or _profile(_nearest(isa, None))
    return relative(isa, of) if of else UNIT_SCALE


@lru_cache(64)
def relative(isa: str, profile: MachineProfile) -> MachineProfile:
    """A profile over the one that the constants of estimates stand for."""
    constants = _profile(constants_of(isa))
    return profile.relative_to(constants) if constants else UNIT_SCALE


def _family(isa: str) -> str:
    """The set that sets for narrow numbers extend."""
    return isa.partition("_")[0]


def _kept() -> MachineProfile | None:
    """The profile beside this machine's cost table; None if there is none, and where the table does not count."""
    return None if tuning.mode() == "off" else machine_profile.read(machine_profile.path(cost_table.path))


@lru_cache(64)
def _nearest(isa: str, here: MachineProfile | None) -> Path | None:
    """The table of the processor that is most like a machine of this profile, or like this one."""
    found = {path: profile.by_name for path in files(isa) if (profile := _profile(path))}
    in_use = isa == registry.isa()
    names = set(here.by_name if here else machine_profile.rated() if in_use else ())
    lacking = {path: len(names - figures.keys()) for path, figures in found.items()}
    found = {path: figures for path, figures in found.items() if lacking[path] == min(lacking.values())}
    if len(found) < 2:
        return next(iter(found or files(isa)), None)
    figures = here.by_name if here else machine_profile.rates(isa) if in_use else {}
    return min(found, key=lambda path: _apart(figures, found[path]))


def _apart(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """How different two machines are, by the figures that both have."""
    both = a.keys() & b.keys()
    return sum(abs(log(a[name]) - log(b[name])) for name in both) / len(both) if both else inf


@lru_cache(64)
def _profile(path: Path | None) -> MachineProfile | None:
    """The profile that a table begins with; None if there is none."""
    try:
        return MachineProfile.of(shipped.machine(path).get("profile")) if path else None
    except (OSError, ValueError):
        return None


@lru_cache(8)
def read(path: Path | None) -> shipped.Shipped:
    """The table in a file; an empty one if there is none, with a warning if it is damaged."""
    try:
        return shipped.read(path) if path else shipped.EMPTY
    except (OSError, ValueError) as error:
        warn(f"cost table {path} is not used: {error}")
        return shipped.EMPTY
