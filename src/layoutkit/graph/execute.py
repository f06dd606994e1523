"""Steps: what runs of a graph whose layouts are chosen, and the memory that it runs in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..memory.arrays import empty
from ..reorders.reorder import reorder
from .costs import Costs
from .ir import Node
from .kernels import Call, Place, Slots, kernel_of
from .layouts import PLAIN, laid_out, layouts_of
from .operators import OPERATORS, run
from .plan import Laid

ALIGNMENT = 4096
# Their results may be views of their inputs.
VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Identity", "Expand", "Dropout",
         "Gather", "Cast", "Clip", "Where", "Concat"}  # fmt: skip


class Step(NamedTuple):
    """What one node does, or a reorder between two."""

    name: str
    op: str
    call: Call
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]


class Program:
    """The steps of a graph, for inputs of one shape."""

    def __init__(self, laid: Laid, costs: Costs) -> None:
        self.laid, self.known, self.costs = laid, laid.known, costs
        self.scratch = np.empty(0, np.uint8)  # a workspace that all steps share
        self._buffers: dict[Place, tuple[tuple[int, ...], np.dtype]] = {}
        self.steps: list[Step] = []
        self._made: dict[str, int] = dict.fromkeys(laid.graph.inputs, PLAIN)
        self._there: set[Place] = {(name, PLAIN) for name in laid.graph.inputs}
        for node, kinds in zip(laid.graph.nodes, laid.kinds):
            self._add(node, kinds)
        for name in laid.graph.outputs:
            self.brought(name, PLAIN)
        self.arena_bytes, offsets = self._placed()
        arena = empty((self.arena_bytes,), np.dtype(np.uint8), "graph") if self.arena_bytes else np.empty(0, np.uint8)
        self._slots: Slots = {}
        for place, (shape, dtype) in self._buffers.items():
            at = offsets[place]
            self._slots[place] = arena[at : at + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
        for name in laid.graph.outputs:
            if name in laid.graph.constants:
                self._slots[name, PLAIN] = laid.graph.constants[name]

    def run(self, inputs: Mapping[str, np.ndarray], times: list[float] | None = None) -> dict[str, np.ndarray]:
        """The outputs, new arrays; `times` gets the seconds of every step."""
        slots = dict(self._slots)
        slots.update(((name, PLAIN), value) for name, value in inputs.items())
        for step in self.steps:
            start = time.perf_counter() if times is not None else 0.0
            step.call(slots)
            if times is not None:
                times.append(time.perf_counter() - start)
        return {name: np.array(slots[name, PLAIN]) for name in self.laid.graph.outputs}

    # ---- building

    def brought(self, name: str, kind: int) -> Place:
        """A tensor in a kind of layout, by a reorder if it is not there yet."""
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

    def result(self, name: str, kind: int) -> Place:
        """A buffer for a tensor in a kind of layout."""
        known, place = self.known[name], (name, self._kind(name, kind))
        layouts = layouts_of(len(known.shape))
        shape = layouts[kind].physical_shape(known.shape) if layouts else known.shape
        self._buffers[place] = shape, known.dtype
        return place

    def workspace(self, nbytes: int) -> None:
        """Have as many bytes in `scratch` at the least."""
        if nbytes > self.scratch.nbytes:
            self.scratch = empty((nbytes,), np.dtype(np.uint8), "graph")

    def step(self, node: Node, call: Call, reads: tuple[Place, ...], writes: tuple[Place, ...]) -> None:
        """Append a step."""
        self.steps.append(Step(node.name or node.outputs[0], node.op, call, reads, writes))

    def _add(self, node: Node, kinds: tuple[int, int]) -> None:
        kernel = kernel_of(node, self.known, kinds[0])
        if kernel is not None:
            kernel.build(self, node, kinds)
        else:
            self._other(node, kinds[0])
        for name in node.outputs:
            if name:
                self._made[name] = kind = self._kind(name, kinds[1])
                self._there.add((name, kind))

    def _kind(self, name: str, kind: int) -> int:
        """The kind of layout that a tensor has of this kind: plain where there is only one."""
        return kind if layouts_of(len(self.known[name].shape)) else PLAIN

    def _other(self, node: Node, kind: int) -> None:
        known, constants = self.known, self.laid.graph.constants
        of, y = OPERATORS[node.op], known[node.outputs[0]]
        attributes: Mapping[str, Any] | None = {**node.attributes, "op": node.op}
        layout = None if kind == PLAIN else layouts_of(len(y.shape))[kind]
        if of.follow is not None and layout is not None:
            attributes = of.follow({**node.attributes, "op": node.op}, layout, [known[n].shape for n in node.given()])
        given: list[Place | np.ndarray | None] = []
        for name in node.inputs:
            value = constants.get(name)
            if not name:
                given.append(None)
            elif value is not None:
                given.append(laid_out(value, layout, y.shape) if of.spread and layout is not None else value)
            else:
                given.append(self.brought(name, kind))
        to = [(name, self._kind(name, kind)) if name else None for name in node.outputs]

        def compute(slots: Slots) -> None:
            found = run(node, [slots[x] if isinstance(x, tuple) else x for x in given], attributes)
            for place, value in zip(to, found):
                if place is not None:
                    slots[place] = value

        places = tuple(x for x in given if isinstance(x, tuple))
        self.step(node, compute, places, tuple(p for p in to if p))

    # ---- memory

    def _placed(self) -> tuple[int, dict[Place, int]]:
        """Bytes of the arena, and where in it each buffer is: the largest first, each where it fits lowest among those
        that are alive at the same time."""
        first: dict[Place, int] = {}
        last: dict[Place, int] = {}
        base: dict[Place, set[Place]] = {}
        for i, step in enumerate(self.steps):
            for place in step.writes:
                first[place] = last[place] = i
                base[place] = {place}
                if step.op in VIEWS:
                    base[place].update(*(base.get(p, {p}) for p in step.reads))
            for place in step.reads:
                for p in base.get(place, {place}):
                    last[p] = i
        for name in self.laid.graph.outputs:
            for p in base.get((name, PLAIN), ()):
                last[p] = len(self.steps)
        placed: list[tuple[int, int, Place]] = []
        offsets: dict[Place, int] = {}
        sizes = {p: -(-prod(s) * d.itemsize // ALIGNMENT) * ALIGNMENT for p, (s, d) in self._buffers.items()}
        for place in sorted(sizes, key=lambda p: -sizes[p]):
            at = 0
            for begin, end, other in sorted(placed):
                meets = first[other] <= last[place] and first[place] <= last[other]
                if meets and begin < at + sizes[place] and at < end:
                    at = end
            offsets[place] = at
            placed.append((at, at + sizes[place], place))
        return max((end for _, end, _ in placed), default=0), offsets
