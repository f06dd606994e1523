"""Buffers between two pages that cannot be touched: an access one byte outside ends the process."""

import ctypes
import mmap

import numpy as np

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """A copy of `array`'s bytes that starts right after ("low") or ends right before ("high") a guard page."""

    def __init__(self, array: np.ndarray, end: str) -> None:
        size = array.nbytes
        pages = max(1, -(-size // PAGE))
        self._map = mmap.mmap(-1, (pages + 2) * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        start = PAGE if end == "low" else (pages + 1) * PAGE - size
        self.array = np.frombuffer(self._map, np.uint8, size, start)
        self.array[...] = array
        self.address = base + start
        for page in (base, base + (pages + 1) * PAGE):
            if _libc.mprotect(ctypes.c_void_p(page), PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")


def guarded(array: np.ndarray, end: str) -> Guarded:
    """`array`, one-dimensional bytes, between guard pages."""
    return Guarded(np.ascontiguousarray(array), end)
