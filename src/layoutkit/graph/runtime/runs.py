"""Runs of a program: the memory of each, its table of addresses, and the way through the steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from math import prod
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np

from ..._core.nests.operation import Operation
from ..._core.nests.step_list import Context, StepList
from ..._core.runtime.arrays import address
from ..._core.runtime.guard import Turns
from ...memory.arrays import empty
from .arena import placed
from .steps import SCRATCH, Place, Slots, Step
from .tensors import Tensors

MOST_RUNS = os.cpu_count() or 1  # at the same time: more only wait for one another
ALIGNMENT = 64  # of the workspace


class Memory(NamedTuple):
    """What a run has of its own; `arrays`: those that steps of Python use, and outputs that are copied."""

    arena: np.ndarray
    context: Context
    arrays: dict[Place, np.ndarray]


class Runs:
    """The steps of a program, ready to run.

    Parameters
    ----------
    steps : list of Step
    tensors : Tensors
    needs : sequence of callable
        Each, given arrays like those of all tensors, prepares a step, and returns how many bytes of scratch that needs.
    made : dict
        By step, the operation that one of `needs` has put there, or a function of its arrays.
    """

    def __init__(
        self, steps: list[Step], tensors: Tensors, needs: list[Callable[[Slots], int]], made: dict[int, object]
    ) -> None:
        self._steps, self._tensors = steps, tensors
        self._owner = tensors.owners()
        # Outputs are new arrays, which steps write to, unless another output is the same array, or a part.
        self._new: dict[Place, tuple[tuple[int, ...], np.dtype]] = {}
        self._whose: dict[str, tuple[Place, Place]] = {}  # of outputs, by name: the place, and the new array
        for place in tensors.outputs:
            owner = self._owner.get(place, place)
            inside = place
            while inside in tensors.views:
                inside = tensors.views[inside][0]
            if inside == owner and owner in tensors.buffers and owner not in self._new:
                self._new[owner] = tensors.buffers[owner]
                self._whose[place[0]] = place, owner
        own = {p: of for p, of in tensors.buffers.items() if p not in self._owner and p not in self._new}
        self.arena = placed(steps, own, self._owner, tensors.outputs)
        self._turns = Turns(MOST_RUNS)
        self._idle: list[Memory] = []  # that no run is using
        self._scratch_bytes = 0
        arena = _bytes(self.arena.nbytes)
        self._prepare(self._imagined(arena), needs, made)
        self._index: dict[Place, int] = {}
        for step in steps:
            for place in (*step.reads, *step.writes):
                self._index.setdefault(place, len(self._index))
        for place in (*tensors.inputs, *self._new):
            self._index.setdefault(place, len(self._index))
        self._python = [step for step in steps if step.call is not None]
        self._left = self._left_by_python()
        self._dependents = self._offsets()
        self._list = StepList([(*_compiled(step, made.get(i)), self._places(step)) for i, step in enumerate(steps)])
        tensors.forget_imagined()
        self._idle.append(self._memory(arena))

    def run(self, inputs: Mapping[str, np.ndarray], times: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """The outputs, new arrays; `times`, int64 of shape (steps, 2), gets when each step began and ended."""
        with self._turns.turn():
            try:
                memory = self._idle.pop()
            except IndexError:  # others run
                memory = self._memory(_bytes(self.arena.nbytes))
            try:
                return self._run(memory, inputs, times)
            finally:
                self._idle.append(memory)

    def _run(self, memory: Memory, inputs: Mapping[str, np.ndarray], times: np.ndarray | None) -> dict[str, np.ndarray]:
        tensors, slots, made = self._tensors, dict(memory.arrays), {}
        for place in tensors.inputs:
            array = inputs[place[0]]
            self._put(memory.context, slots, place, array if array.flags.aligned else array.copy())
        for place, (shape, dtype) in self._new.items():
            made[place] = empty(shape, dtype, "graph")
            self._put(memory.context, slots, place, made[place])
        at, end = 0, len(self._steps)
        while (at := self._list.run(memory.context, at, times)) < end:
            start, step = perf_counter_ns(), self._steps[at]
            assert step.call is not None
            step.call(slots)
            for place in step.writes:
                if place in self._left:
                    self._put(memory.context, slots, place, self._usable(step, place, slots[place]))
            if times is not None:
                times[at] = start, perf_counter_ns()
            at += 1
        outputs = {}
        for place in tensors.outputs:
            new = self._whose.get(place[0])
            if new is not None:
                outputs[place[0]] = tensors.array_in(place, made)
            else:
                outputs[place[0]] = np.array(tensors.constants[place] if place in tensors.constants else slots[place])
        return outputs

    def _put(self, context: Context, slots: Slots, place: Place, array: np.ndarray) -> None:
        """Let a tensor, and all that lie in its array, be in this one during a run, which keeps it."""
        slots[place] = array
        context.set(self._index[place], array)
        for inside, offset, seen in self._dependents.get(place, ()):
            context.set(self._index[inside], array, offset)
            if seen:
                slots[inside] = self._tensors.array_in(inside, {place: array})

    def _usable(self, step: Step, place: Place, array: np.ndarray) -> np.ndarray:
        """What a step of Python has left, as operations read it."""
        expected = self._tensors.expected(place)
        if (array.shape, array.dtype) != expected:
            raise ValueError(f"{step.op} {step.name}: {place[0]!r} is {array.dtype} {array.shape}, "
                             f"expected {expected[1]} {expected[0]}")  # fmt: skip
        return np.require(array, requirements=["C", "A"])

    # ---- preparing

    def _imagined(self, arena: np.ndarray) -> dict[Place, np.ndarray]:
        """Arrays like those of all tensors."""
        arrays = self._in_arena(arena)
        for step in self._steps:
            for place in (*step.reads, *step.writes):
                if place not in arrays:
                    owner = self._owner.get(place, place)
                    if owner not in arrays:
                        arrays[owner] = self._tensors.imagined(owner)
                    arrays[place] = self._tensors.array_in(place, arrays)
        return arrays

    def _prepare(
        self, arrays: dict[Place, np.ndarray], needs: list[Callable[[Slots], int]], made: dict[int, object]
    ) -> None:
        while needs:  # a filter is forgotten once it is packed
            self._scratch_bytes = max(self._scratch_bytes, needs.pop()(arrays))
        for i, of in made.items():
            if not isinstance(of, Operation):
                self._steps[i] = self._steps[i]._replace(call=_calling(of, self._steps[i]))

    def _left_by_python(self) -> set[Place]:
        """The tensors that steps of Python leave and operations read, or that others lie in."""
        left = {place for step in self._python for place in step.writes if place not in self._tensors.buffers}
        read = {place for step in self._steps if step.call is None for place in step.reads}
        return left & (read | set(self._owner.values()))

    def _places(self, step: Step) -> list[int]:
        """Where the table of addresses has the arrays of a step."""
        return [self._index[place] for place in step.places]

    def _offsets(self) -> dict[Place, list[tuple[Place, int, bool]]]:
        """By tensor whose array each run has anew: the tensors that lie in it, from which byte on, and whether Python
        sees them."""
        seen = self._seen()
        dependents: dict[Place, list[tuple[Place, int, bool]]] = {}
        for place, owner in self._owner.items():
            if place in self._index and owner not in self.arena.offsets:
                array = self._tensors.imagined(owner)
                offset = address(self._tensors.array_in(place, {owner: array})) - address(array)
                dependents.setdefault(owner, []).append((place, offset, place in seen))
        return dependents

    def _seen(self) -> set[Place]:
        """The tensors whose arrays are used, not only their addresses."""
        copied = {place for place in self._tensors.outputs if place[0] not in self._whose}
        return copied.union(*((*step.reads, *step.writes) for step in self._python))

    def _in_arena(self, memory: np.ndarray) -> dict[Place, np.ndarray]:
        """The arrays of all tensors in the arena."""
        arrays = {}
        for place, at in self.arena.offsets.items():
            shape, dtype = self._tensors.buffers[place]
            arrays[place] = memory[at : at + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        for place, owner in self._owner.items():
            if owner in arrays:
                arrays[place] = self._tensors.array_in(place, arrays)
        return arrays

    def _memory(self, arena: np.ndarray) -> Memory:
        """New memory for a run, in a new arena."""
        nbytes = max(self._scratch_bytes, self._list.workspace + ALIGNMENT)
        context, seen = Context(len(self._index), _bytes(nbytes)), self._seen()
        arrays = {}
        for place, array in self._in_arena(arena).items():
            if place in self._index:
                context.set(self._index[place], array)
            if place in seen:
                arrays[place] = array
        arrays[SCRATCH] = context.scratch
        return Memory(arena, context, arrays)


def _bytes(count: int) -> np.ndarray:
    return empty((count,), np.dtype(np.uint8), "graph") if count else np.empty(0, np.uint8)


def _compiled(step: Step, made: object) -> tuple[Operation | None, bool]:
    """The operation of a step, None if it has none, and whether the step is Python's."""
    return made if isinstance(made, Operation) and step.call is None else None, step.call is not None


def _calling(function: object, step: Step) -> Callable[[Slots], None]:
    """The call of a step that is a function of its arrays."""
    return lambda slots: function(*(slots[place] for place in step.places))  # type: ignore[operator]
