"""Steps: what runs of a graph whose layouts are chosen, and the memory that it runs in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..choosing.threads import check_threads
from ..choosing.watching import Ran, executed, watchers
from ..formats.layout import Layout
from ..memory.arrays import empty
from ..reorders.reorder import reorder
from .arena import placed
from .concat import Part, axis_of, parts_of
from .costs import FLOAT, Costs, array_type, between
from .ir import Node
from .kernels import F32, Call, Place, Slots, kernel_of
from .layouts import NAMES, PLAIN, laid_out, layouts_of
from .operators import OPERATORS, Kept, run
from .plan import Laid

LETTERS = "abcdefghijkl"


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

    def __init__(self, laid: Laid, costs: Costs) -> None:
        self.laid, self.known, self.costs = laid, laid.known, costs
        self.scratch = np.empty(0, np.uint8)  # a workspace that all steps share
        self._buffers: dict[Place, tuple[tuple[int, ...], np.dtype]] = {}
        self._parts = parts_of(laid)
        self._wholes = {*self._parts, *(part.whole for part in self._parts.values())}
        self._needs: list[Callable[[Slots], int]] = []  # bytes of scratch
        self.steps: list[Step] = []
        self._made: dict[str, int] = dict.fromkeys(laid.graph.inputs, PLAIN)
        self._to_round: dict[str, tuple[int, Kept]] = {}  # results of a node: where, and in which type they are made
        self._there: set[Place] = {(name, PLAIN) for name in laid.graph.inputs}
        for node, kinds in zip(laid.graph.nodes, laid.kinds):
            self._add(node, kinds)
        for name in laid.graph.outputs:
            self.brought(name, PLAIN)
        self._slots: Slots = {}
        self.arena_bytes = self._allocated()
        results = {name: laid.graph.constants[name] for name in laid.graph.outputs if name in laid.graph.constants}
        self._slots.update(((name, PLAIN), value) for name, value in results.items())
        laid.forget_values()
        nbytes = 0
        while self._needs:  # a filter is forgotten once it is packed
            nbytes = max(nbytes, self._needs.pop()(self._slots))
        if nbytes:
            self.scratch = empty((nbytes,), np.dtype(np.uint8), "graph")

    def run(self, inputs: Mapping[str, np.ndarray], times: list[float] | None = None) -> dict[str, np.ndarray]:
        """The outputs, new arrays; `times` gets the seconds of every step."""
        slots = dict(self._slots)
        slots.update(((name, PLAIN), value) for name, value in inputs.items())
        for step in self.steps:
            start = time.perf_counter() if times is not None else 0.0
            if watchers:
                executed(partial(self._ran, step), step.call, slots)
            else:
                step.call(slots)
            if times is not None:
                times.append(time.perf_counter() - start)
        return {name: np.array(slots[name, PLAIN]) for name in self.laid.graph.outputs}

    def _ran(self, step: Step) -> Ran:
        return Ran(f"network {step.op}", step.name, step.written(), check_threads(self.costs.threads))

    # ---- building

    def brought(self, name: str, kind: int, kept: Kept | None = None) -> Place:
        """A tensor in a kind of layout, by a reorder if it is not there yet, and in a type other than it is kept in."""
        if kept not in (None, self.known[name].kept):
            return self._converted(name, kind, kept)
        place = name, self._kind(name, kind)
        if name in self.laid.graph.constants or place in self._there:
            return place
        made, shape = (name, self._made[name]), self.known[name].shape
        src, dst = (layouts_of(len(shape))[k] for k in (made[1], kind))

        def move(slots: Slots) -> None:
            reorder(slots[made], src, dst, shape=shape, out=slots[place], threads=self.costs.threads)

        self.result(name, kind)
        self.steps.append(Step(f"{src} > {dst}", "reorder", move, (made,), (place,)))
        self._there.add(place)
        return place

    def _converted(self, name: str, kind: int, kept: Kept) -> Place:
        """A tensor in a kind of layout, its numbers in another type."""
        place, made = (f"{name} as {kept}", self._kind(name, kind)), (name, self._made[name])
        if place not in self._there:
            self._convert(name, made, self.known[name].kept, place, kept)
        return place

    def _convert(self, name: str, made: Place, have: Kept, place: Place, kept: Kept) -> None:
        """Append a step that brings the numbers of a tensor from one type and layout to others."""
        shape = self.known[name].shape
        src, dst = (_layout(len(shape), k) for k in (made[1], place[1]))
        options = between(have, kept)

        def convert(slots: Slots) -> None:
            out = slots[place]
            reorder(slots[made], src, dst, shape=shape, out=out, threads=self.costs.threads, **options)

        self._buffers[place] = dst.physical_shape(shape), array_type(kept.dtype)
        self.steps.append(Step(f"{src} > {dst} as {kept}", "reorder", convert, (made,), (place,)))
        self._there.add(place)

    def result(self, name: str, kind: int, made: Kept | None = None) -> Place:
        """A buffer for a tensor in a kind of layout, in the type in which it is made, from which it is rounded."""
        known, place = self.known[name], (name, self._kind(name, kind))
        if made not in (None, known.kept):
            self._to_round[name] = place[1], made
            place = f"{name} as {made}", place[1]
            self._buffers[place] = _layout(len(known.shape), kind).physical_shape(known.shape), array_type(made.dtype)
            return place
        layouts = layouts_of(len(known.shape))
        shape = layouts[kind].physical_shape(known.shape) if layouts else known.shape
        self._buffers[place] = shape, array_type(known.stored.dtype) if known.stored else known.dtype
        return place

    def workspace(self, needed: Callable[[Slots], int]) -> None:
        """Have as many bytes in `scratch` as a step will need on its buffers."""
        self._needs.append(needed)

    def lies(self, place: Place) -> bool:
        """Whether a tensor lies in a buffer; else what makes it may leave any array."""
        return place in self._buffers

    def step(
        self, node: Node, call: Call, reads: tuple[Place, ...], writes: tuple[Place, ...], views: bool = False
    ) -> None:
        """Append a step; `views`: what it writes may be views of what it reads."""
        self.steps.append(Step(node.name or node.outputs[0], node.op, call, reads, writes, views))

    def _add(self, node: Node, kinds: tuple[int, int]) -> None:
        kernel = kernel_of(node, self.known, kinds[0])
        if kernel is not None:
            kernel.build(self, node, kinds)
        elif node.op == "Concat" and (node.outputs[0], kinds[0]) in self._wholes:
            self._concat(node, kinds[0])
        elif node.op == "Split" and all((name, self._kind(name, kinds[0])) in self._parts for name in node.outputs):
            self._split(node, kinds[0])
        else:
            self._other(node, kinds[0])
        for name, (kind, made) in self._to_round.items():
            kept = self.known[name].kept
            self._convert(name, (f"{name} as {made}", kind), made, (name, kind), kept)
        self._to_round.clear()
        for name in node.outputs:
            if name:
                self._made[name] = kind = self._kind(name, kinds[1])
                self._there.add((name, kind))

    def _kind(self, name: str, kind: int) -> int:
        """The kind of layout that a tensor has of this kind: plain where there is only one."""
        return kind if layouts_of(len(self.known[name].shape)) else PLAIN

    def _concat(self, node: Node, kind: int) -> None:
        """A concatenation of which some inputs are made in place: the others are copied."""
        kept, whole = self.known[node.outputs[0]].kept, self.result(node.outputs[0], kind)
        given = [self.brought(name, kind, kept) for name in node.inputs]
        layout = layouts_of(len(self.known[node.outputs[0]].shape))[kind]
        axis = axis_of(node, self.known, layout)
        copied, at = [], 0
        for name, place in zip(node.inputs, given):
            part = Part(whole, axis, at, at + layout.physical_shape(self.known[name].shape)[axis])
            at = part.end
            if self._parts.get(place) != part:
                copied.append((place, part))

        def join(slots: Slots) -> None:
            for place, part in copied:
                part_in(slots[whole], part)[...] = slots[place]

        self.step(node, join, tuple(given), (whole,))

    def _split(self, node: Node, kind: int) -> None:
        """A division into parts of the array that is divided: nothing is to do."""
        given = self.brought(node.inputs[0], kind)
        self.step(node, lambda slots: None, (given,), tuple(self.result(name, kind) for name in node.outputs))

    def _other(self, node: Node, kind: int) -> None:
        known, constants = self.known, self.laid.graph.constants
        of, y = OPERATORS[node.op], known[node.outputs[0]]
        told = {**node.attributes, "op": node.op, "accuracy": self.costs.accuracy}
        attributes: Mapping[str, Any] | None = told
        layout = None if kind == PLAIN else layouts_of(len(y.shape))[kind]
        if of.follow is not None and layout is not None:
            attributes = of.follow(told, layout, [known[n].shape for n in node.given()])
        reals = [name for name in node.given() if known[name].dtype == F32]
        moves = of.moves and y.stored is not None and all(known[name].value is None for name in reals)
        moves = moves and all(known[name].stored == y.stored for name in node.outputs if name)
        given: list[Place | np.ndarray | None] = []
        for name in node.inputs:
            value = constants.get(name)
            if not name:
                given.append(None)
            elif value is not None:
                given.append(laid_out(value, layout, y.shape) if of.spread and layout is not None else value)
            else:
                own = Kept(str(known[name].dtype))
                given.append(self.brought(name, kind, y.kept if moves and name in reals else own))
        to = [(name, self._kind(name, kind)) if name else None for name in node.outputs]
        stored = [known[name].stored if name and not moves else None for name in node.outputs]

        def compute(slots: Slots) -> None:
            found = run(node, [slots[x] if isinstance(x, tuple) else x for x in given], attributes)
            for place, value, kept in zip(to, found, stored):
                if place is not None:
                    slots[place] = value if kept is None else _rounded(value, kept)

        places = tuple(x for x in given if isinstance(x, tuple))
        self.step(node, compute, places, tuple(p for p in to if p), views=True)

    def _allocated(self) -> int:
        """Allocate the buffers; the bytes of them."""
        wholes = {}
        for place in self._parts:
            whole = place
            while whole in self._parts:
                whole = self._parts[whole].whole
            wholes[place] = whole
        buffers = {place: of for place, of in self._buffers.items() if place not in self._parts}
        arena = placed(self.steps, buffers, wholes, [(name, PLAIN) for name in self.laid.graph.outputs])
        memory = empty((arena.nbytes,), np.dtype(np.uint8), "graph") if arena.nbytes else np.empty(0, np.uint8)
        for place, (shape, dtype) in buffers.items():
            at = arena.offsets[place]
            self._slots[place] = memory[at : at + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        for place in self._parts:
            self._slots[place] = self._view(place)
        return arena.nbytes

    def _view(self, place: Place) -> np.ndarray:
        """The array of a tensor that is a part of another, which may be a part itself."""
        parts = []
        while place in self._parts:
            parts.append(self._parts[place])
            place = self._parts[place].whole
        array = self._slots[place]
        for part in reversed(parts):
            array = part_in(array, part)
        return array


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
