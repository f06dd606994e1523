"""The compiled program of a graph whose layouts are chosen: its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..._core.nests.moves.reorder_operation import ReorderOperation
from ...choosing import progress
from ...choosing.threads import check_threads
from ...choosing.watching import CallInfo, watched_in_steps, watchers
from ...formats.layout import Layout
from ...memory.arrays import reshaped
from ...reorders.binding import UNCHANGED, compiled
from ...reorders.convert import Numbers
from ...reorders.reorder import reorder
from ..ir import Node
from ..layout.costs import VIEWS, Costs, same_bytes
from ..layout.factors import FLOAT, array_type, conversion
from ..layout.plan import LayoutPlan
from ..operators import OPERATORS, Known, StoredType, run
from ..operators.base import own_type
from ..operators.kernels import F32, kernel_of
from ..operators.layouts import PLAIN, in_layout, layouts_of, physical_shape
from ..report import Timed, family_of, work_of
from .concat import parts_of
from .runs import Runs
from .steps import BUILDS, LETTERS, Binding, Call, Make, Part, Place, Slots, Step, copying
from .tensors import Tensors


class Program:
    """The steps of a graph, for inputs of one shape."""

    def __init__(self, plan: LayoutPlan, costs: Costs) -> None:
        self.plan, self.known, self.costs = plan, plan.known, costs
        self._tensors = Tensors(plan, parts_of(plan))
        self._bindings: dict[int, Binding] = {}  # by step that is an operation
        self.steps: list[Step] = []
        self._kinds: dict[str, int] = dict.fromkeys(plan.graph.inputs, PLAIN)  # of layouts that tensors are computed in
        # Results of a node that are to be rounded: the kind of their layout, and the type in which they are computed.
        self._to_round: dict[str, tuple[int, StoredType]] = {}
        self._available: set[Place] = {(name, PLAIN) for name in plan.graph.inputs}
        self._to_convert: dict[str, str] = {}  # tensors that are inputs in another type, until a step reads them
        for node, kinds in zip(plan.graph.nodes, plan.kinds):
            progress.step(f"{node.op} {node.name}")
            self._add(node, kinds)
        for name in plan.graph.outputs:
            self.operand(name, PLAIN)
        plan.forget_values()
        self._runs = Runs(self.steps, self._tensors, self._bindings)

    @property
    def arena_bytes(self) -> int:
        """Of all buffers: each run that goes on at the same time has its own."""
        return self._runs.arena.nbytes

    def run(self, inputs: Mapping[str, np.ndarray], times: list[float] | None = None) -> dict[str, np.ndarray]:
        """The outputs, new arrays; `times` gets the seconds of every step."""
        if not watchers and times is None:
            return self._runs.run(inputs)
        clock = np.zeros((len(self.steps), 2), np.int64)

        def steps() -> Iterator[tuple[CallInfo, float, float]]:
            threads = check_threads(self.costs.threads)
            for step, (begin, end) in zip(self.steps, clock.tolist()):
                info = CallInfo(f"network {step.op}", step.name, step.written(), threads)
                yield info, begin * 1e-9, (end - begin) * 1e-9

        outputs = watched_in_steps(partial(self._runs.run, inputs, clock), steps)
        if times is not None:
            times += ((clock[:, 1] - clock[:, 0]) * 1e-9).tolist()
        return outputs

    def run_again(self, inputs: Any) -> dict[str, np.ndarray] | None:
        """The outputs for inputs that the steps take as they are, by the shortest way; None if there is no such way."""
        return None if watchers else self._runs.run_again(inputs)

    def timed(self, seconds: Sequence[float]) -> Iterator[Timed]:
        """The steps, each with its work and the seconds that it took."""
        makers, known = self.plan.graph.makers(), self.known
        for step, took in zip(self.steps, seconds):
            node = makers.get(step.writes[0][0]) if step.writes and step.op != "reorder" else None
            sizes = [self._tensors.expected(place) for place in step.places]
            moved = sum(prod(shape) * dtype.itemsize for shape, dtype in sizes)
            read, written = (next((name for name, _ in places), "") for places in (step.reads, step.writes))
            shapes = " > ".join("x".join(map(str, known[n].shape)) for n in (read, written) if n in known)
            family = family_of(step.op, step.call is None)
            yield Timed(step.op, step.name, took, family, work_of(node, known), moved, shapes, step.how)

    # ---- building

    def operand(self, name: str, kind: int, stored: StoredType | None = None) -> Place:
        """A tensor in a kind of layout, by a reorder if it has another one so far, and in a type if it is stored in
        another one."""
        if name in self._to_convert:
            self._convert_input(name, kind)
        if stored not in (None, self.known[name].stored_type):
            return self._converted(name, kind, stored)
        place = name, self._kind(name, kind)
        if name in self.plan.graph.constants or place in self._available:
            return place
        source, of = (name, self._kinds[name]), self.known[name]
        (src, dst), shape = (layouts_of(of)[k] for k in (source[1], kind)), of.shape
        if same_bytes(src, dst, shape) and self._tensors.contiguous(source):
            self._tensors.views[place] = source, dst.physical_shape(shape)
            self.steps.append(Step(f"{src} > {dst}", "reorder", None, (source,), (place,), views=True))
        else:
            self.result(name, kind)
            self._reorder(f"{src} > {dst}", (src, dst), shape, source, place, UNCHANGED)
        self._available.add(place)
        return place

    def _reorder(
        self, name: str, layouts: tuple[Layout, Layout], shape: tuple[int, ...], source: Place, to: Place,
        numbers: Numbers,
    ) -> None:  # fmt: skip
        """Append a step that reorders a tensor."""

        def make(x: np.ndarray, y: np.ndarray) -> ReorderOperation:
            move = compiled(x, *layouts, shape, y, self.costs.threads, numbers)
            return ReorderOperation((x, y), [] if move is None else [(move[0], 0, 0, 1, 0, move[1])])

        self._operate(Step(name, "reorder", None, (source,), (to,)), make)

    def _converted(self, name: str, kind: int, stored: StoredType) -> Place:
        """A tensor in a kind of layout, its numbers in another type."""
        place, source = (f"{name} as {stored}", self._kind(name, kind)), (name, self._kinds[name])
        if place not in self._available:
            self._convert(name, source, self.known[name].stored_type, place, stored)
        return place

    def _convert_input(self, name: str, kind: int) -> None:
        """A tensor that is an input of the graph in another type, converted and reordered in one step to the layout
        in which it is read first."""
        x, self._kinds[name] = self._to_convert.pop(name), self._kind(name, kind)
        place = name, self._kinds[name]
        self._convert(name, (x, PLAIN), self.known[x].stored_type, place, self.known[name].stored_type)

    def _convert(self, name: str, source: Place, before: StoredType, place: Place, stored: StoredType) -> None:
        """Append a step that converts the numbers of a tensor to another type and layout."""
        of = self.known[name]
        shape, src, dst = of.shape, _layout(of, source[1]), _layout(of, place[1])
        self._tensors.buffers[place] = dst.physical_shape(shape), array_type(stored.dtype)
        numbers = Numbers(**conversion(before, stored))
        self._reorder(f"{src} > {dst} as {stored}", (src, dst), shape, source, place, numbers)
        self._available.add(place)

    def result(self, name: str, kind: int, computed: StoredType | None = None) -> Place:
        """A buffer for a tensor in a kind of layout, in the type in which it is computed, from which it is rounded."""
        known, place = self.known[name], (name, self._kind(name, kind))
        if computed not in (None, known.stored_type):
            self._to_round[name] = place[1], computed
            place = f"{name} as {computed}", place[1]
            self._tensors.buffers[place] = physical_shape(known, kind), array_type(computed.dtype)
            return place
        dtype = array_type(known.stored.dtype) if known.stored else known.dtype
        self._tensors.buffers[place] = physical_shape(known, kind), dtype
        return place

    def step(
        self, node: Node, call: Call, reads: tuple[Place, ...], writes: tuple[Place, ...], views: bool = False
    ) -> None:
        """Append a step; `views`: what it writes may be views of what it reads."""
        self.steps.append(Step(node.name or node.outputs[0], node.op, call, reads, writes, views))

    def operation(
        self, node: Node, make: Make, reads: tuple[Place, ...], writes: tuple[Place, ...],
        how: Callable[[], str] | None = None,
    ) -> None:  # fmt: skip
        """Append a step that is an operation: of `make(*arrays)`, for arrays like those of `reads` and `writes`.

        Where that needs Python, `make` may return a function of the arrays instead. `how` tells its algorithm.
        """
        self._operate(Step(node.name or node.outputs[0], node.op, None, reads, writes, how=how), make)

    def _operate(self, step: Step, make: Make) -> None:
        """Append a step that is an operation."""
        self._bindings[len(self.steps)] = lambda slots: make(*(slots[place] for place in step.places))
        self.steps.append(step)

    def _add(self, node: Node, kinds: tuple[int, int]) -> None:
        if self._view(node, kinds):
            pass
        elif node.op == "Identity" and node.inputs[0] in self.plan.graph.inputs and self.known[node.outputs[0]].stored:
            self._to_convert[node.outputs[0]] = node.inputs[0]
        elif kernel_of(node, self.known, kinds[0]) is not None:
            BUILDS[node.op](self, node, kinds)
        else:
            self._other(node, kinds[0])
        for name, (kind, computed) in self._to_round.items():
            stored = self.known[name].stored_type
            self._convert(name, (f"{name} as {computed}", kind), computed, (name, kind), stored)
        self._to_round.clear()
        for name in node.outputs:
            if name and name not in self._to_convert:
                self._kinds[name] = kind = self._kind(name, kinds[1])
                self._available.add((name, kind))

    def _kind(self, name: str, kind: int) -> int:
        """The kind of layout that a tensor has of this kind: plain where there is only one."""
        return kind if layouts_of(self.known[name]) else PLAIN

    def part_of(self, place: Place) -> Part | None:
        """The part of another tensor that one is, None if it has an array of its own."""
        return self._tensors.parts.get(place)

    def nothing(self, node: Node, reads: tuple[Place, ...], writes: tuple[Place, ...], views: bool = False) -> None:
        """Append a step that has nothing to do; `views`: what it writes are views of what it reads."""
        self.steps.append(Step(node.name or node.outputs[0], node.op, None, reads, writes, views))

    def _view(self, node: Node, kinds: tuple[int, int]) -> bool:
        """Whether a node only gives a contiguous tensor another shape: then its result has the memory of its input, and
        a step that does nothing is appended."""
        if kinds[0] != kinds[1] and node.op == "Transpose":
            return self._relabelled(node, kinds)
        if node.op not in (*VIEWS, "Transpose"):
            return False
        x, y = self.known[node.inputs[0]], self.known[node.outputs[0]]
        kinds_of = {self._kind(node.inputs[0], kinds[0]), self._kind(node.outputs[0], kinds[1])}
        if node.inputs[0] in self.plan.graph.constants or kinds_of != {PLAIN} or x.stored_type != y.stored_type:
            return False
        if node.op not in VIEWS and not (node.op == "Transpose" and _keeps_order(node, x.shape)):
            return False
        source, to = self.operand(node.inputs[0], PLAIN), (node.outputs[0], PLAIN)
        if not self._tensors.contiguous(source):
            self._copied(node, source, self.result(*to))
            return True
        self._tensors.views[to] = source, y.shape
        self.nothing(node, (source,), (to,), views=True)
        return True

    def _copied(self, node: Node, source: Place, to: Place) -> None:
        """Append a step that copies the elements of a tensor in their order to one of another shape."""

        def make(x: np.ndarray, y: np.ndarray) -> ReorderOperation:
            move = copying(x, reshaped(y, x.shape), self.costs.threads)
            return ReorderOperation((x, y), [] if move is None else [(move[0], 0, 0, 1, 0, move[1])])

        self.operation(node, make, (source,), (to,))

    def _relabelled(self, node: Node, kinds: tuple[int, int]) -> bool:
        """Append a Transpose between two layouts in which the arrays of its input and its result are the same."""
        source, to = self.operand(node.inputs[0], kinds[0]), (node.outputs[0], kinds[1])
        shape = self._tensors.expected(source)[0]
        if self._tensors.contiguous(source):
            self._tensors.views[to] = source, shape
        else:
            self._tensors.parts[self.result(*to)] = Part(source, 0, 0, shape[0])
        self.nothing(node, (source,), (to,), views=True)
        return True

    def _other(self, node: Node, kind: int) -> None:
        """Append a step of Python: the operator's numpy function."""
        known, constants = self.known, self.plan.graph.constants
        of, y = OPERATORS[node.op], known[node.outputs[0]]
        plain = {**node.attributes, "op": node.op, "accuracy": self.costs.accuracy, "threads": self.costs.threads}
        attributes: Mapping[str, Any] | None = plain
        layout = None if kind == PLAIN else layouts_of(y)[kind]
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
                operands.append(in_layout(value, layout, y.shape) if of.elementwise and layout is not None else value)
            else:
                dtype = known[name].dtype
                keeps_type = moves and dtype == F32
                operands.append(self.operand(name, kind, y.stored_type if keeps_type else own_type(dtype)))
        if of.into and not any(known[name].stored for name in node.outputs if name):
            self._into(node, kind, operands, attributes)
            return
        to = [(name, self._kind(name, kind)) if name else None for name in node.outputs]
        stored = [known[name].stored if name and not moves else None for name in node.outputs]

        def compute(slots: Slots) -> None:
            results = run(node, [slots[x] if isinstance(x, tuple) else x for x in operands], attributes)
            for place, value, of_result in zip(to, results, stored):
                if place is not None:
                    slots[place] = value if of_result is None else _rounded(value, of_result)

        places = tuple(x for x in operands if isinstance(x, tuple))
        self.step(node, compute, places, tuple(p for p in to if p), views=True)

    def _into(
        self, node: Node, kind: int, operands: list[Place | np.ndarray | None], attributes: Mapping[str, Any] | None
    ) -> None:
        """Append a step of Python whose function writes its results to the arrays of the program."""
        to = [self.result(name, kind) if name else None for name in node.outputs]

        def call(*arrays: np.ndarray) -> None:
            given = iter(arrays)
            inputs = [next(given) if isinstance(x, tuple) else x for x in operands]
            out = [None if place is None else next(given) for place in to]
            for y, value in zip(out, run(node, inputs, attributes, out)):
                if y is not None and value is not y:
                    if value.shape != y.shape:
                        raise ValueError(f"{node}: a result of shape {value.shape}, expected {y.shape}")
                    np.copyto(y, value, casting="equiv")

        reads = tuple(x for x in operands if isinstance(x, tuple))
        self.operation(node, lambda *arrays: call, reads, tuple(place for place in to if place is not None))


def _rounded(value: np.ndarray, stored: StoredType) -> np.ndarray:
    """A result of an operator in the type in which it is stored."""
    layout = Layout(LETTERS[: value.ndim])
    return np.asarray(reorder(value, layout, layout, **conversion(FLOAT, stored)))


def _layout(of: Known, kind: int) -> Layout:
    """Of a tensor; those without channels are as they are."""
    layouts = layouts_of(of)
    return layouts[kind] if layouts else Layout(LETTERS[: len(of.shape)])


def _keeps_order(node: Node, shape: tuple[int, ...]) -> bool:
    """Whether a transposition leaves all elements in their order."""
    order = node.attributes.get("perm") or tuple(range(len(shape)))[::-1]
    moved = [axis for axis in order if shape[axis] != 1]
    return moved == sorted(moved)
