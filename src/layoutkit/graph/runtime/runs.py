"""Runs of a program: the memory of each, its table of addresses, and the way through the steps."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Mapping
from math import prod
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from ..._core.nests.operation import Operation
from ..._core.nests.step_list import Context, StepFault, StepList
from ..._core.nests.whole_run import WholeRun
from ..._core.runtime.arrays import address
from ..._core.runtime.guard import Turns
from ..._core.runtime.pool import trim
from ...memory.arrays import allocate, empty, nbytes_of
from .arena import lifetimes, placed
from .steps import Binding, Place, Slots, Step
from .tensors import Tensors

CORES = os.cpu_count() or 1
# At the same time, each with an arena. With one run for each processor, a processor would be idle after each of them
# until the next one has been woken.
MAX_RUNS = 4 * CORES
ALIGNMENT = 64  # of arrays and workspaces
SHARED_WORKSPACE_BYTES = 1 << 20  # of a workspace that steps share, at most
BYTE = np.dtype(np.uint8)
BINDINGS_OF_A_TRIM = 8


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
    bindings : dict
        By step that is an operation, what makes it of arrays like those of all tensors; emptied.
    """

    def __init__(self, steps: list[Step], tensors: Tensors, bindings: dict[int, Binding]) -> None:
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
        self._buffers = {p: of for p, of in tensors.buffers.items() if p not in self._owner and p not in self._new}
        self.arena = placed(steps, self._buffers, self._owner, tensors.outputs)
        self._turns = Turns(MAX_RUNS)
        self._idle: list[Memory] = []  # that no run is using
        operations = self._bound(self._placeholders(), bindings)
        workspaces = self._placed_with_workspaces(operations)
        self._index: dict[Place, int] = {}
        for step in steps:
            for place in (*step.reads, *step.writes):
                self._index.setdefault(place, len(self._index))
        for place in (*tensors.inputs, *self._new, *workspaces.values()):
            self._index.setdefault(place, len(self._index))
        self._python = [step for step in steps if step.call is not None]
        self._python_results = self._results_of_python()
        self._dependents = self._offsets()
        self._dead = self._last_uses()
        numbers = {i: self._index[place] for i, place in workspaces.items()}
        self._list = StepList(
            [(*_compiled(s, operations.get(i)), self._places(s), numbers.get(i, -1)) for i, s in enumerate(steps)]
        )
        self._whole = self._whole_run()
        tensors.forget_placeholders()
        self._idle.append(self._memory())

    def run(self, inputs: Mapping[str, np.ndarray], times: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """The outputs, new arrays; `times`, int64 of shape (steps, 2), gets when each step began and ended."""
        return self._in_turn(lambda memory: self._run(memory, inputs, times))

    def run_again(self, inputs: Any) -> dict[str, np.ndarray] | None:
        """The outputs, if all steps are compiled and `inputs` are arrays that they take as they are; else None."""
        if self._whole is None or (arrays := self._whole.taken(inputs)) is None:
            return None
        run = self._whole.run
        return self._in_turn(lambda memory: run(memory.context, arrays))

    def _in_turn(self, run: Callable[[Memory], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        with self._turns.turn():
            try:
                memory = self._idle.pop()
            except IndexError:  # others run
                memory = self._memory()
            try:
                return run(memory)
            except StepFault as fault:
                step = self._steps[fault.step]
                shapes = ", ".join(str(self._tensors.expected(place)[0]) for place in step.reads)
                raise ValueError(f"{step.op} {step.name} on shapes {shapes}: {fault}") from fault
            finally:
                if len(self._idle) < CORES:
                    self._idle.append(memory)

    def _run(self, memory: Memory, inputs: Mapping[str, np.ndarray], times: np.ndarray | None) -> dict[str, np.ndarray]:
        tensors, slots, new_arrays = self._tensors, dict(memory.arrays), {}
        for place in tensors.inputs:
            array = inputs[place[0]]
            self._put(memory.context, slots, place, array if array.flags.aligned else array.copy())
        for place, (shape, dtype) in self._new.items():
            new_arrays[place] = empty(shape, dtype, "graph")
            self._put(memory.context, slots, place, new_arrays[place])
        at, end = 0, len(self._steps)
        while (at := self._list.run(memory.context, at, times)) < end:
            start, step = perf_counter_ns(), self._steps[at]
            assert step.call is not None
            for place in self._dead.get(at, ()):
                slots.pop(place, None)
            step.call(slots)
            for place in step.writes:
                if place in self._python_results:
                    self._put(memory.context, slots, place, self._usable(step, place, slots[place]))
            if times is not None:
                times[at] = start, perf_counter_ns()
            at += 1
        outputs = {}
        for place in tensors.outputs:
            new = self._whose.get(place[0])
            if new is not None:
                outputs[place[0]] = tensors.array_in(place, new_arrays)
            else:
                outputs[place[0]] = np.array(tensors.constants[place] if place in tensors.constants else slots[place])
        return outputs

    def _put(self, context: Context, slots: Slots, place: Place, array: np.ndarray) -> None:
        """Set the address of a tensor, and of all that are parts of its array, for a run, which keeps the array."""
        slots[place] = array
        context.set(self._index[place], array)
        for inside, offset, used in self._dependents.get(place, ()):
            context.set(self._index[inside], array, offset)
            if used:
                slots[inside] = self._tensors.array_in(inside, {place: array})

    def _usable(self, step: Step, place: Place, array: np.ndarray) -> np.ndarray:
        """The result of a step of Python as operations read it: contiguous and aligned."""
        expected = self._tensors.expected(place)
        if (array.shape, array.dtype) != expected:
            raise ValueError(f"{step.op} {step.name}: {place[0]!r} is {array.dtype} {array.shape}, "
                             f"expected {expected[1]} {expected[0]}")  # fmt: skip
        return np.require(array, requirements=["C", "A"])

    # ---- preparing

    def _placeholders(self) -> dict[Place, np.ndarray]:
        """Arrays with the shapes, strides and types of those of all tensors, and as far from each other."""
        untouched = np.empty(self.arena.nbytes + ALIGNMENT, np.uint8)
        arrays = self._in_arena(untouched[-address(untouched) % ALIGNMENT :])
        for step in self._steps:
            for place in (*step.reads, *step.writes):
                if place not in arrays:
                    owner = self._owner.get(place, place)
                    if owner not in arrays:
                        arrays[owner] = self._tensors.placeholder(owner)
                    arrays[place] = self._tensors.array_in(place, arrays)
        return arrays

    def _bound(self, arrays: dict[Place, np.ndarray], bindings: dict[int, Binding]) -> dict[int, object]:
        """By step, its operation; where there is none but a function of arrays, the step becomes one of Python."""
        operations: dict[int, object] = {}
        while bindings:  # a binding holds its filter: it is forgotten once that is packed
            i, bind = bindings.popitem()
            operations[i] = bind(arrays)
            del bind
            if len(bindings) % BINDINGS_OF_A_TRIM == 0:
                trim()  # else packed filters would come on top of those that are forgotten
            if not isinstance(operations[i], Operation):
                self._steps[i] = self._steps[i]._replace(call=_calling(operations[i], self._steps[i]))
        return operations

    def _placed_with_workspaces(self, operations: dict[int, object]) -> dict[int, Place]:
        """By step, what stands for its workspace, which the arena has now, too. A large one has its place for this step
        only; the others share one, which stays in the caches."""
        sizes = {i: of.workspace for i, of in operations.items() if isinstance(of, Operation) and of.workspace}
        places = {i: ("workspace", -2 - i if size > SHARED_WORKSPACE_BYTES else -1) for i, size in sizes.items()}
        for i, place in places.items():
            known = self._buffers.get(place, ((0,), BYTE))
            self._buffers[place] = (max(known[0][0], sizes[i]),), BYTE
        steps = [s._replace(writes=(*s.writes, places[i])) if i in places else s for i, s in enumerate(self._steps)]
        self.arena = placed(steps, self._buffers, self._owner, self._tensors.outputs)
        return places

    def _results_of_python(self) -> set[Place]:
        """The results of steps of Python that operations read, or that other tensors are parts of."""
        results = {place for step in self._python for place in step.writes if place not in self._tensors.buffers}
        read = {place for step in self._steps if step.call is None for place in step.reads}
        return results & (read | set(self._owner.values()))

    def _places(self, step: Step) -> list[int]:
        """Where the table of addresses has the arrays of a step."""
        return [self._index[place] for place in step.places]

    def _offsets(self) -> dict[Place, list[tuple[Place, int, bool]]]:
        """By tensor whose array each run has anew: the tensors that are parts of it, from which byte on, and whether
        Python uses them."""
        used = self._used_by_python()
        dependents: dict[Place, list[tuple[Place, int, bool]]] = {}
        for place, owner in self._owner.items():
            if place in self._index and owner not in self.arena.offsets:
                array = self._tensors.placeholder(owner)
                offset = address(self._tensors.array_in(place, {owner: array})) - address(array)
                dependents.setdefault(owner, []).append((place, offset, place in used))
        return dependents

    def _whole_run(self) -> WholeRun | None:
        """What runs all steps at once: none of them is Python's, and all outputs are new arrays."""
        tensors = self._tensors
        if self._python or any(self._whose.get(place[0]) != (place, place) for place in tensors.outputs):
            return None

        def places(place: Place) -> list[tuple[int, int]]:
            inside = self._dependents.get(place, ())
            return [(self._index[place], 0), *((self._index[each], offset) for each, offset, _ in inside)]

        return WholeRun(
            self._list,
            [(place[0], *tensors.expected(place), places(place)) for place in tensors.inputs],
            [(place[0], shape, dtype, nbytes_of(shape, dtype, "graph"), places(place))
             for place, (shape, dtype) in self._new.items()],
            allocate,
        )  # fmt: skip

    def _last_uses(self) -> dict[int, list[Place]]:
        """By step of Python, the results of Python, with what is part of them, that have been used for the last time
        since the step of Python before it."""
        of_python = [i for i, step in enumerate(self._steps) if step.call is not None]
        results = {place for i in of_python for place in self._steps[i].writes} - self.arena.offsets.keys()
        dead: dict[int, list[Place]] = {}
        steps = [step._replace(views=False) for step in self._steps]  # an array that is a view keeps what it is of
        for place, (_, last) in lifetimes(steps, self._owner, self._tensors.outputs).items():
            at = bisect_right(of_python, last)
            if place in results and place not in self._new and at < len(of_python):
                inside = [each for each, _, _ in self._dependents.get(place, ())]
                dead.setdefault(of_python[at], []).extend([place, *inside])
        return dead

    def _used_by_python(self) -> set[Place]:
        """The tensors whose arrays are used, not only their addresses."""
        copied = {place for place in self._tensors.outputs if place[0] not in self._whose}
        return copied.union(*((*step.reads, *step.writes) for step in self._python))

    def _in_arena(self, memory: np.ndarray) -> dict[Place, np.ndarray]:
        """The arrays of all tensors in the arena."""
        arrays = {}
        for place, at in self.arena.offsets.items():
            shape, dtype = self._buffers[place]
            arrays[place] = memory[at : at + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        for place, owner in self._owner.items():
            if owner in arrays:
                arrays[place] = self._tensors.array_in(place, arrays)
        return arrays

    def _memory(self) -> Memory:
        """New memory for a run."""
        arena, context = _bytes(self.arena.nbytes), Context(len(self._index))
        used = self._used_by_python()
        arrays = {}
        for place, array in self._in_arena(arena).items():
            if place in self._index:
                context.set(self._index[place], array)
            if place in used:
                arrays[place] = array
        return Memory(arena, context, arrays)


def _bytes(count: int) -> np.ndarray:
    return empty((count,), BYTE, "graph") if count else np.empty(0, np.uint8)


def _compiled(step: Step, operation: object) -> tuple[Operation | None, bool]:
    """The operation of a step, None if it has none, and whether the step is Python's."""
    return operation if isinstance(operation, Operation) and step.call is None else None, step.call is not None


def _calling(function: object, step: Step) -> Callable[[Slots], None]:
    """The call of a step that is a function of its arrays."""
    return lambda slots: function(*(slots[place] for place in step.places))  # type: ignore[operator]
