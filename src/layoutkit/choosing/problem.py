"""The interface of operations to choosing, which knows no operation: problems and their candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol


class PackingStep(NamedTuple):
    """Work of a candidate that is a problem of its own: packing a filter that is used in one call only."""

    problem: Problem
    name: str
    estimate: float  # seconds


class Description(NamedTuple):
    """A candidate in words that need no knowledge of its name or of the package."""

    algorithm: str
    tile: str = ""  # of sums that a kernel keeps in registers
    path: str = ""  # the layouts that the data is reordered to on the way
    saving: float = 1.0  # of the problem's operations to its own: by so much it may exceed the machine's peak
    why: str = ""  # it may exceed the peak


class Candidate(NamedTuple):
    """One way to compute a problem."""

    name: str  # what the cost table knows it by
    estimate: float  # seconds, by counting what it would execute
    build: Callable[..., Any]  # returns what runs on contiguous arrays, or on those that its arguments describe
    steps: tuple[PackingStep, ...] = ()
    describe: Callable[[], Description] | None = None  # by default its name

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
    """An operation of exact sizes, layouts, types and threads: hashable, equal to those with the same candidates."""

    @property
    def key(self) -> str:
        """What the cost table knows it by."""
        ...

    @property
    def words(self) -> str:
        """A description that needs no knowledge of its key."""
        return self.key

    @property
    def work(self) -> int:
        """Operations or bytes moved, whichever rates of it are given in; 0 if there is nothing to do."""
        ...

    def features(self) -> Sequence[float]:
        """Its coordinates in the space where the model looks for neighbours; ValueError if it has none."""
        ...

    def candidates(self) -> Iterable[Candidate]:
        """Its candidates, for the instruction set in use. Called once: `ranking.candidates_of` caches them."""
        ...

    def prepare(self) -> Callable[[Any], Callable[[], object]]:
        """Allocate and touch contiguous arrays; returns a function from what a candidate built to a call on them."""
        ...

    @property
    def depends_on_others(self) -> bool:
        """Whether its candidates depend on the choices of other problems, and change with those."""
        return False

    @property
    def rests_on(self) -> Sequence[Problem]:
        """The problems whose choices its candidates are made of."""
        return ()

    def estimates(self) -> Callable[[str], float | None]:
        """A function from candidates' names to estimates; None for no such candidate."""
        return {c.name: c.estimate for c in self.candidates()}.get

    def on_ranked(self, choices: Sequence[Choice]) -> None:
        """Called once with the ranked candidates, best first, for warnings."""
        return None

    def measured_parts(self) -> Sequence[Problem]:
        """The problems to measure in order to know the cost of this one."""
        return (self,)
