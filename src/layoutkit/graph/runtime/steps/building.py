"""What the steps of all families have in common: `Step`, and the program that they are appended to."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ...._core.nests.moves.reorder_operation import OnContiguousCopies
from ...._core.nests.moves.reordering import Reordering
from ...._core.nests.operation import Operation
from ...._core.nests.with_constants import WithConstants
from ....reorders.binding import compiled
from ...ir import Node
from ...layout.costs import Costs
from ...layout.factors import FLOAT
from ...operators import Known, StoredType
from ...operators.layouts import NAMES

LETTERS = "abcdefghijkl"  # of the axes of arrays that are copied
Place = tuple[str, int]  # a tensor, in a kind of layout
Slots = MutableMapping[Place, np.ndarray]
Call = Callable[[Slots], None]
Make = Callable[..., Operation | Callable[..., None]]
Binding = Callable[[Slots], object]  # makes the operation of a step, or a function of its arrays
ROW_TYPES = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "uint8": "u8",
    "int8": "s8",
}  # as kernels are named


class Part(NamedTuple):
    """The indices [begin, end) along an axis of the array of another tensor."""

    whole: Place
    axis: int
    begin: int
    end: int

    def of(self, array: np.ndarray) -> np.ndarray:
        """This part of that array."""
        return array[(slice(None),) * self.axis + (slice(self.begin, self.end),)]


class Step(NamedTuple):
    """A step of a program: a node, or a reorder between two."""

    name: str
    op: str
    call: Call | None  # of Python; None: it is an operation, or there is nothing to do
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    views: bool = False  # whether what it writes may be views of what it reads
    how: Callable[[], str] | None = None  # tells its algorithm

    @property
    def places(self) -> tuple[Place, ...]:
        """Its tensors, as an operation takes them."""
        return *self.reads, *self.writes

    def written(self) -> str:
        """The tensors that it writes, and in which layouts."""
        return ", ".join(f"{name} ({NAMES[kind]})" for name, kind in self.writes)


class Building(Protocol):
    """The program, as the files of this folder append steps to it."""

    known: dict[str, Known]
    costs: Costs

    def operand(self, name: str, kind: int, stored: StoredType | None = None) -> Place:
        """A tensor in a kind of layout, and in a type if that is another one than it is stored in."""

    def result(self, name: str, kind: int, computed: StoredType | None = None) -> Place:
        """A buffer for a tensor, in the type in which it is computed; then it is rounded to the one it is stored in."""

    def part_of(self, place: Place) -> Part | None:
        """The part of another tensor that one is, None if it has an array of its own."""

    def nothing(self, node: Node, reads: tuple[Place, ...], writes: tuple[Place, ...], views: bool = False) -> None:
        """Append a step that has nothing to do; `views`: what it writes are views of what it reads."""

    def step(self, node: Node, call: Call, reads: tuple[Place, ...], writes: tuple[Place, ...]) -> None:
        """Append a step of Python."""

    def operation(
        self, node: Node, make: Make, reads: tuple[Place, ...], writes: tuple[Place, ...],
        how: Callable[[], str] | None = None,
    ) -> None:  # fmt: skip
        """Append a step that is an operation.

        `make(*arrays)` returns it for arrays with the shapes and strides of those of `reads` and `writes`, or, where it
        needs Python, a function of such arrays. `how()` is the name of its algorithm.
        """


Build = Callable[[Building, Node, tuple[int, int]], None]


def real_type(of: Known) -> StoredType:
    """The type in which kernels of real numbers compute a tensor; integers are rounded afterwards."""
    return FLOAT if of.stored_type.integers else of.stored_type


def copying(x: np.ndarray, y: np.ndarray, threads: int) -> tuple[Reordering, int] | None:
    """What copies an array to one of the same shape, and on how many threads; None: there is nothing to copy."""
    axes = LETTERS[: x.ndim]
    return compiled(x, axes, axes, x.shape, y, threads)


def with_constants(make: Callable[..., Operation], values: Sequence[np.ndarray | None]) -> Make:
    """As `make`, which is also given the constants among what is read: None in `values` where one varies."""
    held = [None if value is None else np.ascontiguousarray(value) for value in values]
    constant = [value is not None for value in values]

    def bound(*arrays: np.ndarray) -> Operation:
        given = iter(arrays)
        whole = [next(given) if value is None else value for value in held] + [arrays[-1]]
        operation = make(*whole)
        return WithConstants(operation, whole, [*constant, False]) if any(constant) else operation

    return bound


def contiguously(make: Make, threads: int) -> Make:
    """As `make`, where it takes contiguous arrays only: others are copied."""

    def bound(*arrays: np.ndarray) -> Operation | Callable[..., None]:
        if all(x.flags.c_contiguous for x in arrays):
            return make(*arrays)
        copies = [x if x.flags.c_contiguous else np.empty(x.shape, x.dtype) for x in arrays]
        operation = make(*copies)
        if isinstance(operation, Operation):
            pairs = [*zip(arrays[:-1], copies[:-1]), (copies[-1], arrays[-1])]
            moves = [(i, *(copying(x, y, threads) or ())) for i, (x, y) in enumerate(pairs) if x is not y]
            return OnContiguousCopies(arrays, operation, [move for move in moves if len(move) > 1])

        def run(*arrays: np.ndarray) -> None:
            copies = [np.ascontiguousarray(x) for x in arrays]
            operation(*copies)
            if copies[-1] is not arrays[-1]:
                arrays[-1][...] = copies[-1]

        return run

    return bound
