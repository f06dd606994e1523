"""Steps: what runs of a graph whose layouts are chosen, and the memory that it runs in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..convolutions.conv import CLASSES
from ..memory.arrays import empty
from ..reorders.reorder import reorder
from .costs import Costs, arguments
from .ir import Node
from .layouts import PLAIN, laid_out, layouts_of
from .operators import OPERATORS, run
from .plan import Laid

ALIGNMENT = 4096
Place = tuple[str, int]  # a tensor, in a kind of layout
Slots = dict[Place, np.ndarray]
# Their results may be views of their inputs.
VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Identity", "Expand", "Dropout",
         "Gather", "Cast", "Clip", "Where", "Concat"}  # fmt: skip


class Step(NamedTuple):
    """What one node does, or a reorder between two."""

    name: str
    op: str
    call: Callable[[Slots], None]
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]


class Program:
    """The steps of a graph, for inputs of one shape."""

    def __init__(self, laid: Laid, costs: Costs) -> None:
        self.laid, self._costs = laid, costs
        self._buffers: dict[Place, tuple[tuple[int, ...], np.dtype]] = {}
        self._workspace = np.empty(0, np.uint8)
        self.steps: list[Step] = []
        self._made: dict[str, int] = dict.fromkeys(laid.graph.inputs, PLAIN)
        self._there: set[Place] = {(name, PLAIN) for name in laid.graph.inputs}
        for node, kinds in zip(laid.graph.nodes, laid.kinds):
            self._add(node, kinds)
        for name in laid.graph.outputs:
            self._brought(name, PLAIN)
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

    def _brought(self, name: str, kind: int) -> Place:
        """A tensor in a layout, by a reorder if it is not there yet."""
        known = self.laid.known[name]
        layouts = layouts_of(len(known.shape))
        place = name, self._kind(name, kind)
        if name in self.laid.graph.constants or place in self._there:
            return place
        made = name, self._made[name]
        src, dst, threads = layouts[made[1]], layouts[kind], self._costs.threads
        shape = known.shape

        def move(slots: Slots) -> None:
            reorder(slots[made], src, dst, shape=shape, out=slots[place], threads=threads)

        self._buffers[place] = dst.physical_shape(shape), known.dtype
        self.steps.append(Step(f"{src} > {dst}", "reorder", move, (made,), (place,)))
        self._there.add(place)
        return place

    def _add(self, node: Node, kinds: tuple[int, int]) -> None:
        if node.op == "Conv" and self._is_kernel(node):
            self._convolution(node, kinds)
        else:
            self._other(node, kinds[0])
        for name in node.outputs:
            if name:
                self._made[name] = kind = self._kind(name, kinds[1])
                self._there.add((name, kind))

    def _kind(self, name: str, kind: int) -> int:
        """The kind of layout that a tensor has of this kind: plain where there is only one."""
        return kind if layouts_of(len(self.laid.known[name].shape)) else PLAIN

    def _is_kernel(self, node: Node) -> bool:
        from .plan import _has_channels

        return _has_channels(node, self.laid.known)

    def _convolution(self, node: Node, kinds: tuple[int, int]) -> None:
        known = self.laid.known
        x, y = known[node.inputs[0]], known[node.outputs[0]]
        layouts = layouts_of(len(x.shape))
        src, dst = (layouts[k] for k in kinds)
        b = known[node.inputs[2]].value if node.input(2) else None
        rank = len(x.shape) - 2
        op = CLASSES[rank](
            known[node.inputs[1]].value, b, layout=src, out_layout=dst, filter_layout=f"OI{'DHW'[3 - rank:]}",
            activation=node.attributes.get("activation"), accuracy=self._costs.accuracy, threads=self._costs.threads,
            **arguments(node, known),
        )  # fmt: skip
        at, add = self._brought(node.inputs[0], kinds[0]), None
        if node.input(3):
            add = self._brought(node.inputs[3], kinds[1])
        to = node.outputs[0], kinds[1]
        self._buffers[to] = dst.physical_shape(y.shape), y.dtype
        needed = op.workspace(x.shape, add=add is not None)
        if needed > self._workspace.nbytes:
            self._workspace = empty((needed,), np.dtype(np.uint8), "graph")

        def convolve(slots: Slots) -> None:
            x = np.ascontiguousarray(slots[at])  # operators may have left a view
            op(x, slots[to], None if add is None else np.ascontiguousarray(slots[add]), self._workspace)

        reads = (at,) if add is None else (at, add)
        self.steps.append(Step(node.name or node.outputs[0], "Conv", convolve, reads, (to,)))

    def _other(self, node: Node, kind: int) -> None:
        known, constants = self.laid.known, self.laid.graph.constants
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
                given.append(self._brought(name, kind))
        to = [(name, self._kind(name, kind)) if name else None for name in node.outputs]

        def compute(slots: Slots) -> None:
            found = run(node, [slots[x] if isinstance(x, tuple) else x for x in given], attributes)
            for place, value in zip(to, found):
                if place is not None:
                    slots[place] = value

        places = tuple(x for x in given if isinstance(x, tuple))
        self.steps.append(Step(node.name or node.outputs[0], node.op, compute, places, tuple(p for p in to if p)))

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
