"""Steps: what runs of a graph whose layouts are chosen, and the memory that it runs in."""

from __future__ import annotations

import os
import time
from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..._core.nests.operation import Operation
from ..._core.runtime.guard import Turns
from ...choosing.threads import check_threads
from ...choosing.watching import Ran, executed, watchers
from ...formats.layout import Layout
from ...memory.arrays import empty
from ...reorders.reorder import reorder
from ..ir import Node
from ..layout.costs import FLOAT, Costs, array_type, between
from ..layout.plan import LayoutPlan
from ..operators import OPERATORS, Kept, run
from ..operators.base import own_type
from ..operators.kernels import F32, kernel_of
from ..operators.layouts import NAMES, PLAIN, in_layout, layouts_of
from .arena import placed
from .concat import Part, axis_of, parts_of, whole_of
from .steps import BUILDS, SCRATCH, Call, Place, Slots

LETTERS = "abcdefghijkl"
MOST_RUNS = os.cpu_count() or 1  # at the same time: more only wait for one another, and for the GIL


class Step(NamedTuple):
    """What one node does, or a reorder between two."""

    name: str
    op: str
    call: Call
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    views: bool = False  # whether what it writes may be views of what it reads

    def written(self) -> str:
        """The tensors that it writes, and in which layouts."""
        return ", ".join(f"{name} ({NAMES[kind]})" for name, kind in self.writes)


class Program:
    """The steps of a graph, for inputs of one shape."""

    def __init__(self, plan: LayoutPlan, costs: Costs) -> None:
        self.plan, self.known, self.costs = plan, plan.known, costs
        self._buffers: dict[Place, tuple[tuple[int, ...], np.dtype]] = {}
        self._parts = parts_of(plan)
        self._wholes = {*self._parts, *(part.whole for part in self._parts.values())}
        self._needs: list[Callable[[Slots], int]] = []  # bytes of scratch
        self._stand_ins: dict[Place, np.ndarray] = {}  # for tensors without a buffer, while nothing has run
        self.steps: list[Step] = []
        self._made_in: dict[str, int] = dict.fromkeys(plan.graph.inputs, PLAIN)
        self._to_round: dict[str, tuple[int, Kept]] = {}  # results of a node: where, and in which type they are made
        self._available: set[Place] = {(name, PLAIN) for name in plan.graph.inputs}
        for node, kinds in zip(plan.graph.nodes, plan.kinds):
            self._add(node, kinds)
        for name in plan.graph.outputs:
            self.operand(name, PLAIN)
        buffers = {place: of for place, of in self._buffers.items() if place not in self._parts}
        wholes = {place: part.whole for place, part in self._parts.items()}
        wholes = {place: whole_of(place, wholes) for place in self._parts}
        self._arena = placed(self.steps, buffers, wholes, [(name, PLAIN) for name in plan.graph.outputs])
        self._scratch_bytes = 0
        self._turns = Turns(MOST_RUNS)
        self._idle: list[dict[Place, np.ndarray]] = []  # memory that no run is using
        self._constants = {
            (name, PLAIN): plan.graph.constants[name] for name in plan.graph.outputs if name in plan.graph.constants
        }
        plan.forget_values()
        first = self._memory()
        slots = ChainMap(first, self._stand_ins)
        while self._needs:  # a filter is forgotten once it is packed
            self._scratch_bytes = max(self._scratch_bytes, self._needs.pop()(slots))
        self._stand_ins.clear()
        first[SCRATCH] = _bytes(self._scratch_bytes)
        self._idle.append(first)

    @property
    def arena_bytes(self) -> int:
        """Of all buffers: each run that goes on at the same time has its own."""
        return self._arena.nbytes

    def run(self, inputs: Mapping[str, np.ndarray], times: list[float] | None = None) -> dict[str, np.ndarray]:
        """The outputs, new arrays; `times` gets the seconds of every step."""
        with self._turns.turn():
            try:
                memory = self._idle.pop()
            except IndexError:  # others run
                memory = self._memory()
            try:
                return self._run(dict(memory), inputs, times)
            finally:
                self._idle.append(memory)

    def _run(
        self, slots: dict[Place, np.ndarray], inputs: Mapping[str, np.ndarray], times: list[float] | None
    ) -> dict[str, np.ndarray]:
        slots.update(((name, PLAIN), value) for name, value in inputs.items())
        for step in self.steps:
            start = time.perf_counter() if times is not None else 0.0
            if watchers:
                executed(partial(self._ran, step), step.call, slots)
            else:
                step.call(slots)
            if times is not None:
                times.append(time.perf_counter() - start)
        return {name: np.array(slots[name, PLAIN]) for name in self.plan.graph.outputs}

    def _ran(self, step: Step) -> Ran:
        return Ran(f"network {step.op}", step.name, step.written(), check_threads(self.costs.threads))

    # ---- building

    def operand(self, name: str, kind: int, kept: Kept | None = None) -> Place:
        """A tensor in a kind of layout, by a reorder if it is not there yet, and in a type other than it is kept in."""
        if kept not in (None, self.known[name].kept):
            return self._converted(name, kind, kept)
        place = name, self._kind(name, kind)
        if name in self.plan.graph.constants or place in self._available:
            return place
        source, shape = (name, self._made_in[name]), self.known[name].shape
        src, dst = (layouts_of(len(shape))[k] for k in (source[1], kind))

        def move(slots: Slots) -> None:
            reorder(slots[source], src, dst, shape=shape, out=slots[place], threads=self.costs.threads)

        self.result(name, kind)
        self.steps.append(Step(f"{src} > {dst}", "reorder", move, (source,), (place,)))
        self._available.add(place)
        return place

    def _converted(self, name: str, kind: int, kept: Kept) -> Place:
        """A tensor in a kind of layout, its numbers in another type."""
        place, source = (f"{name} as {kept}", self._kind(name, kind)), (name, self._made_in[name])
        if place not in self._available:
            self._convert(name, source, self.known[name].kept, place, kept)
        return place

    def _convert(self, name: str, source: Place, before: Kept, place: Place, kept: Kept) -> None:
        """Append a step that brings the numbers of a tensor from one type and layout to others."""
        shape = self.known[name].shape
        src, dst = (_layout(len(shape), k) for k in (source[1], place[1]))
        options = between(before, kept)

        def convert(slots: Slots) -> None:
            out = slots[place]
            reorder(slots[source], src, dst, shape=shape, out=out, threads=self.costs.threads, **options)

        self._buffers[place] = dst.physical_shape(shape), array_type(kept.dtype)
        self.steps.append(Step(f"{src} > {dst} as {kept}", "reorder", convert, (source,), (place,)))
        self._available.add(place)

    def result(self, name: str, kind: int, computed: Kept | None = None) -> Place:
        """A buffer for a tensor in a kind of layout, in the type in which it is made, from which it is rounded."""
        known, place = self.known[name], (name, self._kind(name, kind))
        if computed not in (None, known.kept):
            self._to_round[name] = place[1], computed
            place = f"{name} as {computed}", place[1]
            shape = _layout(len(known.shape), kind).physical_shape(known.shape)
            self._buffers[place] = shape, array_type(computed.dtype)
            return place
        layouts = layouts_of(len(known.shape))
        shape = layouts[kind].physical_shape(known.shape) if layouts else known.shape
        self._buffers[place] = shape, array_type(known.stored.dtype) if known.stored else known.dtype
        return place

    def stand_in(self, place: Place, array: np.ndarray) -> None:
        """Let `workspace` see an array like the one that an operator will leave there."""
        self._stand_ins[place] = array

    def workspace(self, needed: Callable[[Slots], int]) -> None:
        """Have as many bytes in `SCRATCH` as a step will need on its buffers."""
        self._needs.append(needed)

    def has_buffer(self, place: Place) -> bool:
        """Whether a tensor has a buffer; else what makes it may leave any array."""
        return place in self._buffers

    def step(
        self, node: Node, call: Call, reads: tuple[Place, ...], writes: tuple[Place, ...], views: bool = False
    ) -> None:
        """Append a step; `views`: what it writes may be views of what it reads."""
        self.steps.append(Step(node.name or node.outputs[0], node.op, call, reads, writes, views))

    def operation(
        self, node: Node, make: Callable[..., Operation], reads: tuple[Place, ...], writes: tuple[Place, ...]
    ) -> None:
        """Append a step that is an operation: of `make(*arrays)`, for arrays like those of `reads` and `writes`."""
        places, made = (*reads, *writes), []
        for place in reads:
            if not self.has_buffer(place) and place not in self._stand_ins:
                name, kind = place
                of = self.known[name]
                layouts = layouts_of(len(of.shape))
                shape = layouts[kind].physical_shape(of.shape) if layouts else of.shape
                self.stand_in(place, np.empty(shape, array_type(of.kept.dtype)))

        def needed(slots: Slots) -> int:
            made.append(make(*(slots[place] for place in places)))
            return 0

        def call(slots: Slots) -> None:
            made[0](
                *(slots[place] if place in self._buffers else np.ascontiguousarray(slots[place]) for place in places)
            )

        self.workspace(needed)
        self.step(node, call, reads, writes)

    def _add(self, node: Node, kinds: tuple[int, int]) -> None:
        if kernel_of(node, self.known, kinds[0]) is not None:
            BUILDS[node.op](self, node, kinds)
        elif node.op == "Concat" and (node.outputs[0], kinds[0]) in self._wholes:
            self._concat(node, kinds[0])
        elif node.op == "Split" and all((name, self._kind(name, kinds[0])) in self._parts for name in node.outputs):
            self._split(node, kinds[0])
        else:
            self._other(node, kinds[0])
        for name, (kind, computed) in self._to_round.items():
            kept = self.known[name].kept
            self._convert(name, (f"{name} as {computed}", kind), computed, (name, kind), kept)
        self._to_round.clear()
        for name in node.outputs:
            if name:
                self._made_in[name] = kind = self._kind(name, kinds[1])
                self._available.add((name, kind))

    def _kind(self, name: str, kind: int) -> int:
        """The kind of layout that a tensor has of this kind: plain where there is only one."""
        return kind if layouts_of(len(self.known[name].shape)) else PLAIN

    def _concat(self, node: Node, kind: int) -> None:
        """A concatenation of which some inputs are made in place: the others are copied."""
        kept, whole = self.known[node.outputs[0]].kept, self.result(node.outputs[0], kind)
        operands = [self.operand(name, kind, kept) for name in node.inputs]
        layout = layouts_of(len(self.known[node.outputs[0]].shape))[kind]
        axis = axis_of(node, self.known, layout)
        copied, at = [], 0
        for name, place in zip(node.inputs, operands):
            part = Part(whole, axis, at, at + layout.physical_shape(self.known[name].shape)[axis])
            at = part.end
            if self._parts.get(place) != part:
                copied.append((place, part))

        def join(slots: Slots) -> None:
            for place, part in copied:
                part_in(slots[whole], part)[...] = slots[place]

        self.step(node, join, tuple(operands), (whole,))

    def _split(self, node: Node, kind: int) -> None:
        """A division into parts of the array that is divided: nothing is to do."""
        whole = self.operand(node.inputs[0], kind)
        self.step(node, lambda slots: None, (whole,), tuple(self.result(name, kind) for name in node.outputs))

    def _other(self, node: Node, kind: int) -> None:
        known, constants = self.known, self.plan.graph.constants
        of, y = OPERATORS[node.op], known[node.outputs[0]]
        plain = {**node.attributes, "op": node.op, "accuracy": self.costs.accuracy}
        attributes: Mapping[str, Any] | None = plain
        layout = None if kind == PLAIN else layouts_of(len(y.shape))[kind]
        if of.follow is not None and layout is not None:
            attributes = of.follow(plain, layout, [known[n].shape for n in node.present_inputs()])
        reals = [name for name in node.present_inputs() if known[name].dtype == F32]
        moves = of.moves and y.stored is not None and all(known[name].value is None for name in reals)
        moves = moves and all(known[name].stored == y.stored for name in node.outputs if name)
        operands: list[Place | np.ndarray | None] = []
        for name in node.inputs:
            value = constants.get(name)
            if not name:
                operands.append(None)
            elif value is not None:
                operands.append(in_layout(value, layout, y.shape) if of.spread and layout is not None else value)
            else:
                dtype = known[name].dtype
                operands.append(self.operand(name, kind, y.kept if moves and dtype == F32 else own_type(dtype)))
        to = [(name, self._kind(name, kind)) if name else None for name in node.outputs]
        stored = [known[name].stored if name and not moves else None for name in node.outputs]

        def compute(slots: Slots) -> None:
            results = run(node, [slots[x] if isinstance(x, tuple) else x for x in operands], attributes)
            for place, value, kept in zip(to, results, stored):
                if place is not None:
                    slots[place] = value if kept is None else _rounded(value, kept)

        places = tuple(x for x in operands if isinstance(x, tuple))
        self.step(node, compute, places, tuple(p for p in to if p), views=True)

    def _memory(self) -> dict[Place, np.ndarray]:
        """New memory for a run: the buffers, and scratch."""
        memory = _bytes(self._arena.nbytes)
        slots = dict(self._constants)
        for place, at in self._arena.offsets.items():
            shape, dtype = self._buffers[place]
            slots[place] = memory[at : at + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        for place in self._parts:
            inner = []
            while place not in slots:  # a part of another, which may be a part itself
                inner.append(place)
                place = self._parts[place].whole
            for each in reversed(inner):
                part = self._parts[each]
                slots[each] = part_in(slots[part.whole], part)
        slots[SCRATCH] = _bytes(self._scratch_bytes)
        return slots


def _bytes(count: int) -> np.ndarray:
    return empty((count,), np.dtype(np.uint8), "graph") if count else np.empty(0, np.uint8)


def _rounded(value: np.ndarray, kept: Kept) -> np.ndarray:
    """What an operator has made, in the type in which it is kept."""
    layout = _layout(value.ndim, PLAIN)
    return np.asarray(reorder(value, layout, layout, **between(FLOAT, kept)))


def _layout(rank: int, kind: int) -> Layout:
    """Of tensors with so many dimensions; those without channels are as they are."""
    return layouts_of(rank)[kind] if layouts_of(rank) else Layout(LETTERS[:rank])


def part_in(array: np.ndarray, part: Part) -> np.ndarray:
    """A part of the array that it is a part of."""
    return array[(slice(None),) * part.axis + (slice(part.begin, part.end),)]
