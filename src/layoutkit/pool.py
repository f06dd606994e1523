"""Memory of arrays that are handed out: aligned, in huge pages where large, and used again.

New pages cost about as much as the copy that fills them. Large blocks therefore come from mappings of their own,
advised to be huge pages, and return to a pool when the last array that sees them is gone: `release_memory` and a
bound give them back to the system.
"""

from __future__ import annotations

import mmap
import os

from ._core.pool import Pool

LARGE = 4 << 20  # bytes from which on a block is a mapping of its own
HAS_MAPPINGS = hasattr(mmap, "MAP_ANONYMOUS")


def _bound() -> int:
    """Bytes that a pool keeps at most: a sixteenth of the memory, at most 1 GB."""
    try:
        return min(1 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16)
    except (ValueError, OSError, AttributeError):
        return 1 << 28


pool = Pool(_bound())


def release_memory(keep: int = 0) -> int:
    """Give memory that no array uses any more back to the system.

    Large arrays that operations have returned, and those of `empty`, leave their memory to later ones of about
    the same size: at most 1 GB, and a sixteenth of the machine's memory, is kept.

    Parameters
    ----------
    keep : int, optional
        Bytes that may stay.

    Returns
    -------
    int
        Bytes given back.
    """
    if not isinstance(keep, int) or keep < 0:
        raise ValueError(f"release_memory: keep must be bytes, not negative, got {keep!r}")
    return pool.release(keep)
