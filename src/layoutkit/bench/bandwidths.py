"""What a copy reaches in memory and in the caches: the slopes of the roofline."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from ..choosing import machine
from ..choosing.limits import MAX_COPY_BYTES, Limits

SAMPLES = 5


def bandwidths(limits: Limits, threads: Iterable[int]) -> list[dict[str, object]]:
    """GB/s read and written on so many threads: of memory, and of the caches from the second on (copies in the first
    are too short to be timed)."""
    sizes = {"memory": max(MAX_COPY_BYTES, 4 * machine.last_level_cache())}
    sizes |= {f"L{level}": size // 2 for level, size in sorted(machine.caches().items(), reverse=True) if level > 1}
    rows: list[dict[str, object]] = []
    for t in threads:
        for level, moved in sizes.items():
            with contextlib.suppress(MemoryError):
                rate = max(limits.copy(moved, t) for _ in range(SAMPLES if level != "memory" else 1))
                rows.append({"threads": t, "level": level, "bytes": moved, "rate": rate / 1e9})
    return rows
