"""What choosing asks of an operation: a problem, and the candidates that could do it. It knows no operation itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol


class PackingStep(NamedTuple):
    """Work of a candidate that is a problem of its own: packing a filter that is used in one call only."""

    problem: Problem
    name: str
    estimate: float  # seconds


class Description(NamedTuple):
    """A candidate in words that someone understands who knows neither its name nor the package."""

    algorithm: str
    tile: str = ""  # of sums that a kernel keeps in registers
    path: str = ""  # the layouts that the data is reordered to on the way
    saving: float = 1.0  # operations of the problem that it does without: so many times it may pass the machine's peak
    why: str = ""  # how it does without them


class Candidate(NamedTuple):
    """One way to do a problem."""

    name: str  # what the cost table knows it by
    estimate: float  # seconds, by counting what it would execute
    build: Callable[..., Any]  # makes what runs: on contiguous arrays, or on those that its arguments describe
    steps: tuple[PackingStep, ...] = ()
    describe: Callable[[], Description] | None = None  # makes its words; by default its name

    @property
    def words(self) -> Description:
        """What it is, in words."""
        return self.describe() if self.describe else Description(self.name)

    def __repr__(self) -> str:
        return f"Candidate({self.name!r}, estimated {1e6 * self.estimate:.4g} us)"


class Choice(NamedTuple):
    """A candidate and its expected cost, steps included."""

    candidate: Candidate
    seconds: float
    source: str  # "measured" or "estimated"
    basis: str = ""  # what the cost rests on, in words

    def __repr__(self) -> str:
        return f"Choice({self.candidate.name!r}, {self.source} {1e6 * self.seconds:.4g} us)"


class Problem(Protocol):
    """Something that can be done in several ways: hashable, equal to what has the same candidates at the same cost."""

    @property
    def key(self) -> str:
        """What the cost table knows it by."""
        ...

    @property
    def words(self) -> str:
        """What it is, in words that someone understands who does not know its key."""
        return self.key

    @property
    def work(self) -> int:
        """Operations, or bytes moved, whichever the operation is measured in; 0 if there is nothing to do."""
        ...

    def features(self) -> Sequence[float]:
        """Its place in the space where the model looks for neighbours; ValueError if it has none."""
        ...

    def candidates(self) -> Iterable[Candidate]:
        """The ways to do it, for the instruction set in use. Called once: `ranking.candidates_of` keeps them."""
        ...

    def prepare(self) -> Callable[[Any], Callable[[], object]]:
        """Allocate contiguous arrays, touched; returns a function from what a candidate built to a call on them."""
        ...

    @property
    def depends(self) -> bool:
        """Whether its candidates depend on decisions about other problems, and so have to be made anew with those."""
        return False

    def estimates(self) -> Callable[[str], float | None]:
        """A function from candidates' names to estimates; None for no such candidate."""
        return {c.name: c.estimate for c in self.candidates()}.get

    def decided(self, choices: Sequence[Choice]) -> None:
        """Called once with what was decided, best first: for a problem that has something to say to that."""
        return None

    def parts(self) -> Sequence[Problem]:
        """The problems to measure in order to know the cost of this one."""
        return (self,)
