"""Memory of arrays that are handed out: aligned, in huge pages where large, and used again.

New pages cost about as much as the copy that fills them. Large blocks therefore come from mappings of their own,
advised to be huge pages, and return to a pool when the last array that sees them is gone: `release_memory` and a
bound give them back to the system.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections import deque

import numpy as np

from ._core.reorder import address

HUGE = 2 << 20  # bytes of a huge page
LARGE = 2 * HUGE  # from here on a block is a mapping of its own
ROOM = 1.25  # a free block serves what takes at least 1 / ROOM of it
HAS_MAPPINGS = hasattr(mmap, "MAP_ANONYMOUS")


def _bound() -> int:
    """Bytes that a pool keeps at most: a sixteenth of the memory, at most 1 GB."""
    try:
        return min(1 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16)
    except (ValueError, OSError, AttributeError):
        return 1 << 28


class _Handed(weakref.ref):
    """The array over a block that was handed out."""

    __slots__ = ("block",)
    block: mmap.mmap


class Pool:
    """Free blocks of large memory, the longest unused given up first.

    A block comes back by the weak reference of the array over it, which may die anywhere, in the middle of a
    method of this class too: what comes back is only queued there, and settled by whoever has the lock.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.held = 0  # bytes of the free blocks
        self._free: list[mmap.mmap] = []
        self._returned: deque[mmap.mmap] = deque()
        self._out: dict[int, _Handed] = {}  # by identity: arrays have no hash
        self._lock = threading.Lock()

    def take(self, size: int) -> np.ndarray:
        """An array of at least `size` bytes, at a huge page's beginning where there are any."""
        block, need = None, -(-size // HUGE) * HUGE
        with self._lock:
            for i, free in enumerate(self._free):
                if need <= len(free) - HUGE <= ROOM * need:
                    block = self._free.pop(i)
                    self.held -= len(block)
                    break
        if block is None:
            block = self._new(need + HUGE)
        memory = np.frombuffer(block, np.uint8)
        ref = _Handed(memory, self._give)
        ref.block = block
        self._out[id(ref)] = ref
        self._settle()
        return memory[-address(memory) % HUGE :][:size]

    def _new(self, size: int) -> mmap.mmap:
        for last in (False, True):
            try:
                block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                break
            except (OSError, OverflowError):
                if last or not self.release():
                    raise MemoryError(f"no memory for {size} bytes") from None
        if hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                block.madvise(mmap.MADV_HUGEPAGE)
            except OSError:
                pass  # a kernel without them
        return block

    def _give(self, ref: _Handed) -> None:
        del self._out[id(ref)]
        self._returned.append(ref.block)
        self._settle()

    def _settle(self, bound: int | None = None) -> int:
        """Take in what came back, then give up what exceeds `bound`; returns how many bytes that were."""
        released = 0
        while (self._returned or bound is not None) and self._lock.acquire(blocking=False):
            most = self.bound if bound is None else bound
            try:
                while self._returned:
                    self._free.append(self._returned.popleft())
                    self.held += len(self._free[-1])
                while self.held > most:
                    gone = self._free.pop(0)
                    self.held -= len(gone)
                    released += len(gone)
            finally:
                self._lock.release()
            bound = None
        return released

    def release(self, keep: int = 0) -> int:
        """Give free blocks back to the system until at most `keep` bytes are left; returns how many went."""
        return self._settle(keep)


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
    if not isinstance(keep, (int, np.integer)) or keep < 0:
        raise ValueError(f"release_memory: keep must be bytes, not negative, got {keep!r}")
    return pool.release(int(keep))
