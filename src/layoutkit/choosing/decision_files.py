"""Decisions that later processes need not make again: small files beside the cost table.

    {"layoutkit plan": 1, "crc32": 2907551042}
    {"of": "9f86d081884c7d659a2feaa0c55ad015", ..}

The key of a file stands for everything that its decisions depend on: what was planned, this machine and build, its
profile, and all costs in the table. Once any of them changes, nothing is found, and decisions are made again. A file
may come from anywhere: one that is damaged or of something else is no file, and who reads one checks each decision.
Nothing is told where files cannot be written.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from math import isfinite
from pathlib import Path
from typing import Any

from . import files, machine, packaged, tuning
from .machine_profile import scaled
from .problem import Choice, Problem
from .ranking import candidates_of
from .table import cost_table

VERSION = 1
MAX_FILES = 256  # in a folder; those that were written first make room
MAX_BYTES = 1 << 20  # of a file
MODES = "learn", "estimate"  # of tuning, in which decisions depend on nothing but the key
SOURCES = "measured", "estimated"


def path_of(what: str) -> Path | None:
    """The file of decisions about `what`; None where none are kept: while costs are measured or do not count, or where
    this process knows costs that the table's file does not have."""
    costs = cost_table.fingerprint() if tuning.mode() in MODES and MAX_FILES else None
    if costs is None or not cost_table.path.is_absolute():
        return None
    import hashlib

    of = f"{VERSION} {json.dumps(machine.identity())} {packaged.this_machine()} {costs} {what}"
    return cost_table.path.with_name(f"plan-{hashlib.blake2b(of.encode(), digest_size=16).hexdigest()}.json")


def read(path: Path) -> dict[str, Any] | None:
    """The decisions in a file; None if there are none."""
    try:
        head, _, body = files.text(path, MAX_BYTES).partition("\n")
        content = json.loads(body) if head == _head(body) else None
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.pop("of", None) == path.name else None


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Put decisions in place, whole or not at all."""
    body = json.dumps({"of": path.name, **content})
    if cost_table.read_only or len(body) + 100 > MAX_BYTES:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _make_room(path)
        files.replace(path, f"{_head(body)}\n{body}".encode(), lasting=False)


def _head(body: str) -> str:
    return f'{{"layoutkit plan": {VERSION}, "crc32": {zlib.crc32(body.encode(errors="surrogatepass"))}}}'


def _make_room(path: Path) -> None:
    """Remove the oldest files, if there are too many."""
    with os.scandir(path.parent) as entries:
        there = [e for e in entries if e.name.startswith("plan-") and e.name.endswith(".json") and e.name != path.name]
    if len(there) >= MAX_FILES:
        ages = []
        for each in there:
            with contextlib.suppress(OSError):
                ages.append((each.stat(follow_symlinks=False).st_mtime_ns, each.path))
        for _, oldest in sorted(ages)[: len(there) - MAX_FILES + 1]:
            with contextlib.suppress(OSError):
                os.unlink(oldest)


class Rankings:
    """The candidates of problems in their order, as another process ranked them, and those that this one ranks.

    Parameters
    ----------
    found : mapping
        By problem, name, seconds and source of every candidate; from a file, so it may be anything.

    Attributes
    ----------
    content : dict
        All that was asked for, in the form of `found`.
    ranked : list of Problem
        Those that were not found.
    """

    def __init__(self, found: object = None) -> None:
        self._found: Mapping[str, object] = found if isinstance(found, Mapping) else {}
        self._choices: dict[Problem, tuple[Choice, ...]] = {}
        self.content: dict[str, object] = {}
        self.ranked: list[Problem] = []

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Problems are looked up here before they are ranked, and kept here."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def of(self, problem: Problem) -> tuple[Choice, ...] | None:
        """The candidates of a problem, best first; None if they are not known."""
        choices = self._choices.get(problem)
        if choices is None:
            text = repr(problem)
            choices = _choices(problem, self._found.get(text))
            if choices is not None:
                with scaled(packaged.this_machine()):
                    problem.on_ranked(choices)
                self._choices[problem], self.content[text] = choices, self._found[text]
        return choices

    def add(self, problem: Problem, ranked: Sequence[Choice]) -> None:
        """Keep the candidates of a problem that were ranked here."""
        self.content[repr(problem)] = [(c.candidate.name, c.seconds, c.source) for c in ranked]
        self.ranked.append(problem)
        self._choices[problem] = tuple(ranked)


_current: ContextVar[Rankings | None] = ContextVar("rankings", default=None)
current = _current.get


def _choices(problem: Problem, ranking: object) -> tuple[Choice, ...] | None:
    """A ranking with the candidates that it names; None unless it ranks those of the problem, all of them."""
    if not isinstance(ranking, list):
        return None
    candidates = {c.name: c for c in candidates_of(problem)}
    choices = []
    for each in ranking:
        if not isinstance(each, list) or len(each) != 3 or not isinstance(each[0], str):
            return None
        name, seconds, source = each
        if type(seconds) is not float or not isfinite(seconds) or seconds < 0 or source not in SOURCES:
            return None
        candidate = candidates.pop(name, None)
        if candidate is None:
            return None
        choices.append(Choice(candidate, seconds, source, "decided by another process"))
    return None if candidates or not choices else tuple(choices)
