"""Files that several processes write: one at a time, each replacing the whole file.

Locks are POSIX record locks: they go with the process that took them, however it ends, and a forked child has none of
them. They hold between processes only, so this one's threads take turns under a lock of its own. A new file is written
under a temporary name, locked, and then renamed: temporary files that no process has locked were left by one that died.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from .._core.runtime.guard import Lock

POLL_SECONDS = 0.002  # between two attempts at a lock that another process has
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of file systems without locks

_writing = Lock(again=True)


def text(path: str | os.PathLike, most: int) -> str:
    """The text of a file; OSError or ValueError where there is none, or one of more than `most` bytes."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe must not make a decision wait
    with open(handle, "rb") as f:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a file")
        if status.st_size > most:
            raise ValueError(f"{status.st_size / 2**20:.1f} MB, at most {most >> 20} MB are read")
        return f.read(most).decode()


def rewrite(path: Path, content: Callable[[], bytes], timeout: float) -> None:
    """Replace a file by what `content` returns, while no other process does.

    Raises
    ------
    TimeoutError
        Other processes wrote for `timeout` seconds.
    """
    end = time.monotonic() + timeout
    with _writing.held(timeout), open(f"{path}.lock", "ab") as f:
        while not _lock(f):
            if time.monotonic() >= end:
                raise TimeoutError(f"another process has held {f.name} for {timeout:g} s")
            time.sleep(POLL_SECONDS)
        replace(path, content())


def replace(path: Path, content: bytes, lasting: bool = True) -> None:
    """Put a file in place, whole or not at all, and remove what writers of it that were killed have left; `lasting`: it
    is there even if the machine fails next."""
    with _writing.held():
        _remove_abandoned(path)
        while not _replaced(path, content, lasting):
            pass


def _replaced(path: Path, content: bytes, lasting: bool) -> bool:
    temporary = f"{path}.{os.urandom(6).hex()}.tmp"
    with open(temporary, "xb") as f:
        try:
            while not _lock(f):
                time.sleep(POLL_SECONDS)
            if not os.fstat(f.fileno()).st_nlink:
                return False  # another process took it for abandoned before it was locked
            f.write(content)
            f.flush()
            if lasting:
                os.fsync(f.fileno())
            os.replace(temporary, path)
            return True
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


def _remove_abandoned(path: Path) -> None:
    name = re.compile(re.escape(path.name) + r"\.[0-9a-f]{12}\.tmp")
    with os.scandir(path.parent) as entries:
        abandoned = [e.path for e in entries if name.fullmatch(e.name) and e.is_file(follow_symlinks=False)]
    for temporary in abandoned:
        with contextlib.suppress(OSError), open(temporary, "r+b", opener=_open_file) as f:
            if _lock(f, supported=True):
                os.unlink(temporary)


def _open_file(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)  # it may have been replaced since it was listed


def _lock(f: IO[bytes], supported: bool = False) -> bool:
    """Lock a file until it is closed, unless another process has it; where files cannot be locked that counts as
    locked, or, with `supported`, not."""
    try:
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return not supported
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        return False
    return True
