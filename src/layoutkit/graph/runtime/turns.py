"""A semaphore that threads get in the order in which they ask for it."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class Turns:
    """A context for `most` threads at a time. With a semaphore of `threading` one that asks again at once may always
    win."""

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._free = most
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        mine = threading.Lock()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine.acquire()
            self._waiting.append(mine)
        try:
            mine.acquire()  # until the one before passes the turn on
        except BaseException:  # a signal's
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                else:
                    self._pass_on()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().release()
        else:
            self._free += 1
