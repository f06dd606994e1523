"""``LAYOUTKIT_VERBOSE=1``: a line on stderr for each executed call, to be cut at its commas.

    layoutkit,info,<version>,<cpu>,<instruction set>
    layoutkit,info,exec,operation,problem,candidate,threads,microseconds
    layoutkit,exec,reorder,reorder 1x64x56x56 NCHW>NHWC x32 t1,store allx64,1,18.3

The two lines about the machine and the fields come before the first call. Within a field commas are semicolons.
"""

from __future__ import annotations

import itertools
import os
import sys

from .._core.runtime import registry
from ..version import __version__
from .machine import cpu_model
from .watching import Event, watchers

VERBOSE = "LAYOUTKIT_VERBOSE"
_FIELDS = "operation", "problem", "candidate", "threads", "microseconds"


class Verbose:
    """A watcher that prints."""

    def __init__(self) -> None:
        self._events = itertools.count()

    def __call__(self, event: Event) -> None:
        """Print an event, and before the first one what the lines are about."""
        lines = [_line("exec", *event[:4], f"{1e6 * event.seconds:.1f}")]
        if next(self._events) == 0:
            about = (_line("info", __version__, cpu_model(), registry.isa()), _line("info", "exec", *_FIELDS))
            lines = [*about, *lines]
        if sys.stderr is not None:
            sys.stderr.write("".join(lines))  # at once: other threads and processes write there too


def _line(*fields: object) -> str:
    return ",".join(["layoutkit", *(str(f).replace(",", ";") for f in fields)]) + "\n"


if (_setting := os.environ.get(VERBOSE) or "0") not in ("0", "1"):
    raise ImportError(f"{VERBOSE}={_setting!r}: expected 0 or 1")
if _setting == "1":
    watchers.append(Verbose())
