"""How commands end when whoever reads them has gone, or who started them has had enough."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

INTERRUPTED = 130  # as shells tell of SIGINT
PIPE_CLOSED = 141  # and of SIGPIPE


def run(command: Callable[[], int]) -> int:
    """Run `command`; its exit code, or that of what ended it. A closed pipe and Ctrl-C are no errors to tell of."""
    try:
        try:
            return command()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where what goes wrong can still be told apart
    except BrokenPipeError:
        code = PIPE_CLOSED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except OSError as error:  # of writing: a full disk
        with contextlib.suppress(OSError):
            print(f"layoutkit: {error}", file=sys.stderr)
        code = 1
    _silence()
    return code


def through(*steps: Callable[[], Any]) -> list[Any]:
    """What the steps return. One that Ctrl-C interrupts begins again, once, and the rest follow; then it counts."""
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


def _silence() -> None:
    """What streams still hold goes nowhere, so that Python does not fail on it when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
