"""What choosing asks of an operation: a problem, and the candidates that could do it. It knows no operation itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol


class Step(NamedTuple):
    """What a candidate does beside its own problem, a problem of its own: packing a filter that is met once."""

    problem: Problem
    name: str
    estimate: float  # seconds


class Candidate(NamedTuple):
    """One way to do a problem."""

    name: str  # what the cost table knows it by
    estimate: float  # seconds, by counting what it would execute
    build: Callable[..., Any]  # makes what runs: on contiguous arrays, or on those that its arguments describe
    steps: tuple[Step, ...] = ()


class Choice(NamedTuple):
    """A candidate and what it is thought to cost, its steps included."""

    candidate: Candidate
    seconds: float
    source: str  # "measured" or "estimated"
    basis: str = ""  # what that rests on, in words


class Problem(Protocol):
    """Something that can be done in several ways: hashable, equal to what has the same candidates at the same cost."""

    @property
    def key(self) -> str:
        """What the cost table knows it by."""
        ...

    @property
    def work(self) -> int:
        """Operations or bytes, of its own measure; 0 if there is nothing to do."""
        ...

    def features(self) -> Sequence[float]:
        """Where it lies among others of its operation; ValueError if it is like no other."""
        ...

    def candidates(self) -> Iterable[Candidate]:
        """The ways to do it, for the instruction set in use. Made once and kept by `choosing.best`."""
        ...

    def prepare(self) -> Callable[[Any], Callable[[], object]]:
        """Contiguous arrays that are touched, as what turns that which a candidate has built into a call on them."""
        ...

    @property
    def depends(self) -> bool:
        """Whether its candidates depend on what is decided about other problems."""
        return False

    def estimates(self) -> Callable[[str], float | None]:
        """From candidates' names to estimates; None: no such candidate."""
        return {c.name: c.estimate for c in self.candidates()}.get

    def parts(self) -> Sequence[Problem]:
        """The problems that are measured where this one is to be."""
        return (self,)
