"""What the steps of all families build on: the program that they become a part of, and how they read tensors."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import NamedTuple, Protocol

import numpy as np

from ...._core.nests.operation import Operation
from ...ir import Node
from ...layout.costs import FLOAT, Costs, array_type
from ...operators import Kept, Known
from ...operators.layouts import NAMES

Place = tuple[str, int]  # a tensor, in a kind of layout
Slots = MutableMapping[Place, np.ndarray]
SCRATCH: Place = "", -1  # a workspace that all steps share
Call = Callable[[Slots], None]
Make = Callable[..., Operation | Callable[..., None]]
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # input, output, what is added
SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "uint8": "u8", "int8": "s8"}  # names of rows


class Step(NamedTuple):
    """What one node does, or a reorder between two."""

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
    """What kernels need of the program that they become a part of."""

    known: dict[str, Known]
    costs: Costs

    def operand(self, name: str, kind: int, kept: Kept | None = None) -> Place:
        """A tensor in a kind of layout, and in a type if that is to be another than it is kept in."""

    def result(self, name: str, kind: int, computed: Kept | None = None) -> Place:
        """A buffer for a tensor, in the type in which it is made: it is rounded to the one that it is kept in."""

    def has_buffer(self, place: Place) -> bool:
        """Whether a tensor has a buffer; else what makes it may leave any array."""

    def stand_in(self, place: Place, array: np.ndarray) -> None:
        """Let `workspace` see an array like the one that an operator will leave there."""

    def workspace(self, needed: Callable[[Slots], int]) -> None:
        """Have as many bytes in `SCRATCH` as a step will need on its buffers."""

    def step(self, node: Node, call: Call, reads: tuple[Place, ...], writes: tuple[Place, ...]) -> None:
        """Append a step."""

    def operation(
        self, node: Node, make: Make, reads: tuple[Place, ...], writes: tuple[Place, ...],
        how: Callable[[], str] | None = None,
    ) -> None:  # fmt: skip
        """Append a step that is an operation: of `make(*arrays)`, for arrays like those of `reads` and `writes`.

        Where that needs Python, `make` may return a function of the arrays instead. `how` tells its algorithm.
        """


Build = Callable[[Building, Node, tuple[int, int]], None]


def reading(program: Building, place: Place, shape: tuple[int, ...], kept: Kept) -> Callable[[Slots], np.ndarray]:
    """Reads a tensor: as its buffer holds it, or contiguous if an operator has left it."""
    if program.has_buffer(place):
        return lambda slots: slots[place]
    program.stand_in(place, np.empty(shape, array_type(kept.dtype)))
    return lambda slots: np.ascontiguousarray(slots[place])


def made_in(of: Known) -> Kept:
    """The type in which a tensor is made by a kernel of real numbers."""
    return FLOAT if of.kept.integers else of.kept
