"""The machine profile: seconds of the simple operations that estimates are made of.

The constants of estimates are those of one machine, whose profile comes with the package (`packaged.constants_of`).
That of this machine is measured in a second and stored beside its cost table: by `python -m layoutkit.bench`, or by the
first process that saves costs there. `scale` is the ratio of the two, figure by figure: how many times as long
everything takes here. Corrections by cost tables are relative to that.

Until it is measured a machine counts as the one whose table comes with the package and whose rates are most like its
own (`rates`, `packaged`).
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache, partial
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.nests.moves.reorder import Program
from .._core.runtime import machine as limits
from .._core.runtime import registry
from ..memory.arrays import empty
from . import files
from .machine import caches, cores, identity

LINE_BYTES = 64
FIGURE_SECONDS = 0.06  # of measuring, each
RATE_SECONDS = 0.5e-3  # the same, where only rates are measured
MIN_TIMINGS = 5  # of each: a thread may lose its core during one of them
LOCK_SECONDS = 0.01  # to wait for another process that measures
MAX_BYTES = 1 << 16  # of a file that is read
MAX_RATIO = 1000.0  # of figures of two machines; others are nonsense
ROUNDS = 20_000  # of FMAs in a burst
MULTIPLICATION_CYCLES = 3  # of an integer multiplication that waits for the one before it
LARGE_BYTES = 48 << 20  # of an array in memory, at least; twice the last cache if that is more, up to MAX_LARGE_BYTES
MAX_LARGE_BYTES = 256 << 20


class MachineProfile(NamedTuple):
    """Nanoseconds on one core, except `copy_all`."""

    cycle: float  # of the clock
    fma_f32: float  # a vector of fused multiply-adds
    fma_f64: float
    copy_l2: float
    copy_l3: float
    copy_memory: float  # through the caches
    stream: float  # a line copied from memory to memory by streaming stores
    copy_all: float  # the same on all cores together
    piece: float  # a line of a page of its own, read and appended to others
    partial: float  # three quarters of a line, stored to a page of its own
    element: float  # four bytes that are gathered from memory
    run: float  # 40 bytes, copied within the second cache
    steps: tuple[tuple[str, float], ...] = ()  # of other peak rows, by their types: a vector's multiplications and sums

    @property
    def figures(self) -> tuple[float, ...]:
        """All but `steps`."""
        return self[: len(FIGURES)]  # type: ignore[return-value]

    def step(self, types: str) -> float | None:
        """What a vector of the peak row of these types takes; None if that was not measured."""
        return {"f32": self.fma_f32, "f64": self.fma_f64, **dict(self.steps)}.get(types)

    @classmethod
    def of(cls, figures: Any) -> MachineProfile | None:
        """The profile in a mapping, which may come from anywhere; None if there is none."""
        try:
            steps = tuple((str(types), float(x)) for types, x in figures.get("steps", {}).items())
            profile = cls(**{name: float(x) for name, x in figures.items() if name != "steps"}, steps=steps)
        except (TypeError, ValueError, AttributeError, OverflowError):
            return None
        return profile if all(isfinite(x) and x > 0 for x in (*profile.figures, *dict(steps).values())) else None

    @property
    def by_name(self) -> dict[str, float]:
        """All figures."""
        return {**dict(zip(FIGURES, self.figures)), **dict(self.steps)}

    @property
    def content(self) -> dict[str, Any]:
        """The mapping that `of` reads."""
        return self._asdict() | {"steps": dict(self.steps)}

    def rounded(self, digits: int) -> MachineProfile:
        """The same to so many digits after the point."""
        figures = (round(x, digits) for x in self.figures)
        return MachineProfile._make((*figures, tuple((types, round(x, digits)) for types, x in self.steps)))

    def relative_to(self, other: MachineProfile) -> MachineProfile:
        """Each figure that both have, divided by the other machine's; steps of a tile unit by those of `TILE_STEPS`."""
        figures = map(_ratio, self.figures, other.figures)
        both = ((types, x, other.step(types) or TILE_STEPS.get(types)) for types, x in self.steps)
        return MachineProfile._make(
            (*figures, tuple((types, _ratio(x, theirs)) for types, x, theirs in both if theirs))
        )


def _ratio(a: float, b: float) -> float:
    return min(max(a / b, 1 / MAX_RATIO), MAX_RATIO)


FIGURES = MachineProfile._fields[:-1]  # that every profile has
UNIT_SCALE = MachineProfile._make((*[1.0] * len(FIGURES), ()))
# What the constants of rows on tile units stand for (`lane_flops` of kernels.h): the reference has no tile unit.
TILE_STEPS = {"bf16_tiles": 2 / 92, "u8s8_tiles": 2 / 92}
_scale: ContextVar[MachineProfile | None] = ContextVar("scale", default=None)


def scale() -> MachineProfile:
    """How many times as long each figure is as on the machine that the constants of estimates are of."""
    current = _scale.get()
    return UNIT_SCALE if current is None else current


@contextlib.contextmanager
def scaled(by: MachineProfile) -> Iterator[None]:
    """Estimates are made for a machine of this scale."""
    token = _scale.set(by)
    try:
        yield
    finally:
        _scale.reset(token)


@lru_cache(16)
def path(table: Path) -> Path:
    """The file of the profile of this machine, beside its cost table."""
    return table.with_name(table.name.replace("costs-", "profile-", 1))


@lru_cache(16)
def read(file: Path) -> MachineProfile | None:
    """The profile in a file; None if there is none of this machine."""
    try:
        return MachineProfile.of(json.loads(files.text(file, MAX_BYTES))["profile"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def save(file: Path, profile: MachineProfile) -> None:
    """Put a profile in place; OSError if that cannot be."""
    file.parent.mkdir(parents=True, exist_ok=True)
    files.replace(file, _content(profile))
    read.cache_clear()


def _content(profile: MachineProfile) -> bytes:
    return json.dumps({"machine": identity(), "profile": profile.content}, indent=1).encode()


def measure_once(table: Path) -> bool:
    """Measure this machine and store its profile beside its cost table, unless there is one or another process does.

    Returns whether it was measured; failing that, estimates stay as they are.
    """
    file, measured = path(table), False

    def stored() -> MachineProfile | None:
        read.cache_clear()  # other processes may have written it
        return read(file)

    def content() -> bytes:
        nonlocal measured
        before = stored()
        measured = before is None
        return _content(before or measure())

    if stored() is None:
        with contextlib.suppress(MemoryError, OSError):
            files.rewrite(file, content, LOCK_SECONDS)
            return stored() is not None and measured
    return False


def measure() -> MachineProfile:
    """Measure this machine, in the instruction set in use: the least of many timings, each figure for some 50 ms."""
    sizes = caches()
    large = min(max(LARGE_BYTES, 2 * sizes[max(sizes)]), MAX_LARGE_BYTES) // LINE_BYTES * LINE_BYTES
    src, dst = (empty((large,), np.dtype(np.uint8), "profile") for _ in range(2))
    for x in (src, dst):
        x[...] = 1  # so that its pages exist

    def copy(size: int, stream: bool = False, threads: int = 1, places: int = 1) -> float:
        """Nanoseconds of a line, at the best of some places, as pages may compete for sets of a cache."""
        size = min(size, large // places) // LINE_BYTES * LINE_BYTES
        parts = [slice(i * size, (i + 1) * size) for i in range(places)]
        return min(_least(partial(limits.copy, src[x], dst[x], threads, stream)) for x in parts) / (size // LINE_BYTES)

    def nest(
        family: str, bits: int, first: tuple[int, int, int], second: tuple[int, int, int], threads: int = 1
    ) -> float:
        """Seconds of a tile: of each of its loops the count, and the strides in the source and in the destination."""
        width = bits // 8
        run = Program([(family, bits, (), (first, second), 0, 0, 0, (0,) * 4, 0, None)], width, bytes(width), False)

        def call() -> float:
            start = time.perf_counter()
            run(src, dst, 1)
            return time.perf_counter() - start

        return _least(call)

    stride = 4096 + LINE_BYTES
    pages, line = large // stride, (LINE_BYTES, 1, 1)
    return MachineProfile(
        cycle=_cycle(),
        fma_f32=_step("f32"),
        fma_f64=_step("f64"),
        copy_l2=copy(sizes[2] // 3, places=4),
        copy_l3=copy(sizes[max(sizes)] // 4),
        copy_memory=copy(large),
        stream=copy(large, True),
        copy_all=copy(large, True, cores()),
        piece=nest("copy", 8, (pages, stride, LINE_BYTES), line) / pages,
        partial=nest("copy", 8, (pages, 48, stride), (48, 1, 1)) / pages,
        element=nest("gather", 32, (pages, stride, 32), (8, 512, 4)) / (8 * pages),
        run=nest("copy", 8, (1000, 104, 40), (40, 1, 1)) / 1000,
        steps=tuple((types, _step(types)) for types in _peak_types() if types not in ("f32", "f64")),
    )


@lru_cache(16)
def rates(isa: str) -> dict[str, float]:
    """The figures that `rated` names, measured briefly in `isa`, which is in use."""
    return {name: _step(types, RATE_SECONDS) if types else _cycle(RATE_SECONDS) for name, types in rated().items()}


def rated() -> dict[str, str | None]:
    """The names of the clock and of multiplications in the instruction set in use, and their types."""
    names = {"f32": "fma_f32", "f64": "fma_f64"}
    return {"cycle": None} | {names.get(types, types): types for types in _peak_types()}


def _peak_types() -> dict[str, None]:
    return dict.fromkeys(k.types for k in registry.kernels("peak"))


def _cycle(seconds: float | None = None) -> float:
    return _least(limits.multiplication, seconds) / MULTIPLICATION_CYCLES


def _step(types: str, seconds: float | None = None) -> float:
    """Nanoseconds of a vector of the peak row of these types."""
    row = registry.best("peak", types)[0]
    vector = 2 * row.lanes * row.kr
    return _least(lambda: ROUNDS * vector / limits.fma_peak(1, ROUNDS, types), seconds) / ROUNDS


def _least(call: Callable[[], float], seconds: float | None = None) -> float:
    """Nanoseconds of a call that returns the seconds it took: the least of many."""
    timings: list[float] = []
    end = time.perf_counter() + (seconds or FIGURE_SECONDS)
    while len(timings) < MIN_TIMINGS or time.perf_counter() < end:
        timings.append(call())
    return 1e9 * min(timings)
