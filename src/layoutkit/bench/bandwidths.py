"""The bandwidths of memory and of the caches: the slopes of the roofline."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from ..choosing import machine
from ..choosing.limits import MAX_COPY_BYTES, Limits

SAMPLES = 5


def bandwidths(limits: Limits, threads: Iterable[int]) -> list[dict[str, object]]:
    """GB/s read and written by copies in memory and in the caches from L2 on (copies in L1 are too short to time), for
    each number of threads."""
    sizes = {"memory": max(MAX_COPY_BYTES, 4 * machine.last_level_cache())}
    sizes |= {f"L{level}": size // 2 for level, size in sorted(machine.caches().items(), reverse=True) if level > 1}
    rows: list[dict[str, object]] = []
    for t in threads:
        for level, nbytes in sizes.items():
            with contextlib.suppress(MemoryError):
                rate = max(limits.copy(nbytes, t) for _ in range(SAMPLES if level != "memory" else 1))
                rows.append({"threads": t, "level": level, "bytes": nbytes, "rate": rate / 1e9})
    return rows
