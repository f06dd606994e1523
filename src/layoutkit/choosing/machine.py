"""This machine: its identity in the cost table, and the sizes of its caches."""

from __future__ import annotations

import os
import platform
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

from .._core.runtime import registry
from ..version import __version__

PACKAGE = Path(__file__).parents[1]
PART_BYTES = 1 << 17  # of a file, read at once: new memory for whole files takes longer than reading them
_CPU0 = Path("/sys/devices/system/cpu/cpu0/cache")


def _size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)


_assumed: ContextVar[dict[int, int] | None] = ContextVar("caches", default=None)


@contextmanager
def assumed_caches(sizes: dict[int, int]) -> Iterator[None]:
    """Plans made inside, unless cached before, are for a machine with these caches."""
    token = _assumed.set(sizes)
    try:
        yield
    finally:
        _assumed.reset(token)


def caches() -> dict[int, int]:
    """Bytes of the data caches by level."""
    return _assumed.get() or _reported_caches()


@cache
def _reported_caches() -> dict[int, int]:
    """As the system reports them; common sizes where it does not."""
    sizes = {1: 32 << 10, 2: 1 << 20}
    try:
        for index in sorted(_CPU0.glob("index*")):
            if (index / "type").read_text().strip() != "Instruction":
                sizes[int((index / "level").read_text())] = _size((index / "size").read_text().strip())
    except (OSError, ValueError):
        pass
    return sizes


def last_level_cache() -> int:
    """Bytes of the outermost cache."""
    levels = caches()
    return levels[max(levels)]


@cache
def cpu_model() -> str:
    """The processor's name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@cache
def build() -> str:
    """A checksum of all code that run times depend on: the compiled modules, and the sources that plan."""
    total, part = 0, memoryview(bytearray(PART_BYTES))
    try:
        for path in _sources():
            with open(path, "rb", buffering=0) as file:
                while count := file.readinto(part):
                    total = zlib.crc32(part[:count], total)
    except OSError:
        pass
    return f"{total:08x}"


def _sources() -> list[str]:
    """Every compiled module and every source but those of the command line."""
    compiled = Path(str(registry.__file__))
    modules = [str(path) for path in compiled.parent.glob(f"*{compiled.suffix}")]
    planning = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(PACKAGE)
        if os.path.basename(folder) != "bench"
        for name in names
        if name.endswith(".py")
    ]
    return sorted(modules) + sorted(planning)


@cache
def cores() -> int:
    """Cores that this process may run on, as it was when first asked."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def identity() -> dict[str, object]:
    """What a measured cost holds for: CPU, caches, cores, instruction set, version and build."""
    return {
        "cpu": cpu_model(),
        "caches": [caches()[k] for k in sorted(caches())],
        "cores": cores(),
        "isa": registry.isa(),
        "version": __version__,
        "build": build(),
    }


def waited() -> float:
    """Seconds that threads of this process have been ready to run without getting a core.

    It grows while other work occupies the cores that a timing needs. Where the system does not report it, every
    involuntary context switch counts as a second.
    """
    total = 0
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/schedstat", "rb") as f:
                total += int(f.read().split()[1])
    except (OSError, ValueError, IndexError):
        return float(getrusage(RUSAGE_SELF).ru_nivcsw)
    return total * 1e-9
