"""Exit codes of commands whose output pipe is closed or that are interrupted."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

INTERRUPTED = 130  # by SIGINT, the exit code of shells
PIPE_CLOSED = 141  # by SIGPIPE


def run(command: Callable[[], int]) -> int:
    """Run `command`; returns its exit code. A closed pipe and Ctrl-C end it without a traceback."""
    try:
        try:
            return command()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, not at exit, so that errors of writing are handled below
    except BrokenPipeError:
        code = PIPE_CLOSED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except OSError as error:  # such as a full disk
        with contextlib.suppress(OSError):
            print(f"layoutkit: {error}", file=sys.stderr)
        code = 1
    _discard_output()
    return code


def finish_steps(*steps: Callable[[], Any]) -> list[Any]:
    """Run steps that Ctrl-C must not prevent: an interrupted one is run again, once, and KeyboardInterrupt raised after
    the last. Returns their results."""
    results, interrupted = [], False
    for step in steps:
        try:
            results.append(step())
        except KeyboardInterrupt:
            interrupted = True
            results.append(step())
    if interrupted:
        raise KeyboardInterrupt
    return results


def _discard_output() -> None:
    """Discard what cannot be written, so that Python does not fail to flush it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
