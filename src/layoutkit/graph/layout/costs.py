"""What nodes cost in each layout, and reorders between layouts: measured or estimated, as the operations know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..._core.runtime.registry import STEPS
from ...choosing import tuning
from ...choosing.best import choices
from ...choosing.machine_profile import scaled
from ...choosing.packaged import this_machine
from ...choosing.plan import SlowPathWarning
from ...choosing.ranking import candidates_of
from ...choosing.table import cost_table
from ...choosing.threads import check_threads
from ...choosing.warn import without
from ...convolutions import transposed
from ...convolutions.epilogue import step_of
from ...convolutions.filter import Filter
from ...convolutions.problem import ConvProblem
from ...convolutions.task import ConvTask
from ...formats.layout import Layout
from ...formats.view import is_view
from ...reorders.problem import ReorderProblem, useful_threads
from ..ir import Node
from ..operators import Known
from ..operators.kernels import elementwise
from ..operators.kernels.elementwise import chain_of
from ..operators.layouts import LAST, PLAIN, layouts_of, share_layout
from ..operators.moves import TO_LAST, channels_moved
from ..operators.neural import geometry, transposed_geometry
from .factors import factors_of

BYTES_PER_SECOND = 4e9  # read and written by an operator that numpy runs, roughly
TAP_SECONDS = 0.3e-9  # of pooling by numpy, for an output and a tap of its window
KERNEL_BYTES_PER_SECOND = 18e9  # the same where a kernel runs it, or tensors are concatenated in place
KERNEL_TAP_SECONDS = 0.08e-9
FUNCTION_SECONDS = 0.3e-9  # of an element, where a step of an elementwise kernel is no mere sum, product or comparison
VIEWS = "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"  # they copy nothing
STEP_SECONDS = 5e-6  # overhead of a step of a program
# Threads have bands of pixels of their own from step to step. What else they read or write another core holds:
HANDED_BYTES_PER_SECOND = 8e9  # and comes so fast to each of them
CACHE_BYTES = 1 << 20  # of a core, roughly: what does not fit comes from memory, whoever wrote it
SEAM_BYTES = 1 << 10  # that are read ahead beyond the end of a band, in each piece of memory that it consists of
ROUNDED_ONCE = 0.5  # ulp
FEW_CHANNELS = 4  # a convolution of at most so many is also costed with other layouts of its result


class Costs:
    """Costs on so many threads; those of equal problems are looked up once."""

    def __init__(self, threads: int | None, accuracy: str, dtype: str = "float32") -> None:
        self.threads, self.accuracy, self.dtype = check_threads(threads), accuracy, dtype
        self._moves: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}
        self._measured = frozenset(cost_table.problems())
        self._convolutions: dict[tuple, np.ndarray] = {}

    def moves(self, of: Known) -> np.ndarray:
        """Seconds of reordering a tensor from each layout to each other, those without a price at least."""
        return self._moves_of(of)[0]

    def price(self, of: Known, pairs: Sequence[tuple[int, int]]) -> int:
        """Give reorders of a tensor between such kinds of layouts their real costs; returns how many had none."""
        seconds, priced = self._moves_of(of)
        new = [pair for pair in pairs if not priced[pair]]
        for pair in new:
            seconds[pair], priced[pair] = _move_seconds(self._move(of, *pair)) + self._handed(of), True
        return len(new)

    def _moves_of(self, of: Known) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of reorders, and which of them have a price: those that were measured, or are now, from the start."""
        key = *of.shape, of.itemsize, layouts_of(of)
        found = self._moves.get(key)
        if found is None:
            layouts, measuring = layouts_of(of), tuning.mode() == "measure"
            n = len(layouts)
            same = np.zeros((n, n), bool)
            for i, j in product(range(n), repeat=2):
                same[i, j] = same_bytes(layouts[i], layouts[j], of.shape)
            with scaled(this_machine()):
                least = self._move(of, PLAIN, PLAIN).least_estimate() + self._handed(of)
            found = self._moves[key] = np.where(same, 0.0, least), same
            if measuring or self._measured:
                pairs = [(i, j) for i in range(n) for j in range(n) if not same[i, j]]
                self.price(of, [pair for pair in pairs if measuring or self._move(of, *pair).key in self._measured])
        return found

    def _handed(self, of: Known) -> float:
        """Seconds of a reorder, whose threads share other pieces of a tensor than those of the steps around it."""
        nbytes = of.itemsize * prod(of.shape)
        return _foreign_seconds(nbytes, self.threads, useful_threads(nbytes, self.threads))

    def _seams(self, of: Known) -> np.ndarray:
        """Seconds by layout that threads wait at the ends of their bands of a tensor, which a step reads or writes."""
        nbytes, seconds = of.itemsize * prod(of.shape), []
        for i, layout in enumerate(layouts_of(of)):
            pieces = of.shape[0] * (1 if i == LAST else -(-of.shape[1] // layout.block(1)))
            seconds.append(
                _foreign_seconds(min(nbytes, pieces * self.threads * SEAM_BYTES), self.threads, self.threads)
            )
        return np.array(seconds)

    def _move(self, of: Known, source: int, result: int) -> ReorderProblem:
        layouts = layouts_of(of)
        threads = useful_threads(of.itemsize * prod(of.shape), self.threads)
        return ReorderProblem(layouts[source], layouts[result], of.shape, of.itemsize, threads)

    def convolution(self, node: Node, known: Mapping[str, Known]) -> np.ndarray:
        """Seconds by the layouts of input and result; infinite for pairs that are not considered."""
        if node.op == "ConvTranspose":
            return self._transposed(node, known)
        x, (sources, results) = known[node.inputs[0]], sides_of(node, known)
        # the problem also says what the filter's values rule out: all that costs depend on, except the layouts
        f = filter_of(node, known, sources[PLAIN], results[PLAIN], self.accuracy, self.dtype)
        alike = f.problem(x.shape)
        key = x.shape, sources, results, alike
        seconds = self._convolutions.get(key)
        if seconds is None:
            seconds = self._estimated(f, alike, node, known)
            seconds += self._seams(x)[:, None] + self._seams(known[node.outputs[0]])
            self._convolutions[key] = seconds
        return seconds

    def _transposed(self, node: Node, known: Mapping[str, Known]) -> np.ndarray:
        """As `convolution`, of a transposed one."""
        x, (sources, results) = known[node.inputs[0]], sides_of(node, known)
        op = transposed_of(node, known, sources[PLAIN], results[PLAIN], self)
        task = transposed.task_of(op, x.shape)
        key = x.shape, sources, results, task
        seconds = self._convolutions.get(key)
        if seconds is None:
            seconds = self._convolutions[key] = np.full((len(sources), len(results)), np.inf)
            with without(SlowPathWarning):  # there are other layouts
                for i, j in convolution_kinds(node, known):
                    seconds[i, j] = choices(replace(task, src=sources[i], dst=results[j]))[0].seconds
        return seconds

    def _estimated(self, f: Filter, alike: ConvProblem, node: Node, known: Mapping[str, Known]) -> np.ndarray:
        """As `convolution`, not cached, of this filter and problem between plain layouts."""
        x = known[node.inputs[0]]
        bordered = f.border(x.shape)[0] is not None  # in a way that depends on the layout
        sources, results = sides_of(node, known)
        seconds = np.full((len(sources), len(results)), np.inf)
        for i, j in convolution_kinds(node, known):
            src, dst = sources[i], results[j]
            p = alike.between(src, dst)
            if bordered:
                p = filter_of(node, known, src, dst, self.accuracy, self.dtype).problem(x.shape)
            seconds[i, j] = choices(ConvTask(p, self.threads, f.algorithm, of_network=True))[0].seconds
        return seconds

    def relabelled(self, node: Node, known: Mapping[str, Known]) -> np.ndarray:
        """Seconds by the layouts of input and result of a Transpose that moves the channels behind the pixels, or back:
        none where one of them has channels last, as both are the same array then."""
        x = known[node.inputs[0]]
        seconds = np.full((len(layouts_of(x)),) * 2, np.inf)
        moving, free = relabelled_kinds(node, x)
        self.price(x, [free[::-1]])
        seconds[moving] = self.moves(x)[free[::-1]]
        seconds[free] = 0
        return seconds

    def other(self, node: Node, known: Mapping[str, Known], kernels: Sequence[bool]) -> list[float]:
        """Seconds of other nodes by layout; `kernels` says in which layouts a kernel runs the node instead of numpy."""
        moved = [] if node.op in VIEWS else [known[name] for name in (*node.present_inputs(), *node.outputs) if name]
        nbytes = sum(prod(x.shape) * x.itemsize for x in moved)
        taps = prod(node.attributes.get("kernel_shape", ())) * prod(known[node.outputs[0]].shape)
        of_numpy = nbytes / BYTES_PER_SECOND + taps * TAP_SECONDS
        computed = _functions(node, known) * prod(known[node.outputs[0]].shape) * FUNCTION_SECONDS
        of_kernel = (nbytes / KERNEL_BYTES_PER_SECOND + taps * KERNEL_TAP_SECONDS + computed) / self.threads
        return [of_kernel if kernel else of_numpy for kernel in kernels]


def same_bytes(src: Layout, dst: Layout, shape: Sequence[int]) -> bool:
    """Whether a tensor of this shape is the same array in both layouts: one of one pixel, channel or block may be."""
    small = shape[1] == 1 or prod(shape[2:]) == 1 or shape[1] in (src.block(1), dst.block(1))
    if src == dst or not small:
        return src == dst
    return prod(src.physical_shape(shape)) == prod(dst.physical_shape(shape)) and is_view(src, dst, shape)


def sides_of(node: Node, known: Mapping[str, Known]) -> tuple[tuple[Layout, ...], tuple[Layout, ...]]:
    """By kind, the layouts of the input of a convolution, and of its result."""
    return layouts_of(known[node.inputs[0]]), layouts_of(known[node.outputs[0]])


def convolution_kinds(node: Node, known: Mapping[str, Known]) -> list[tuple[int, int]]:
    """The kinds of layouts of input and result that are considered for a convolution; what it adds has that of the
    result."""
    x, added = known[node.inputs[0]], [known[name] for name in (node.input(3), node.outputs[0]) if name]
    kinds = range(len(layouts_of(x)))
    few = x.shape[1] <= FEW_CHANNELS
    return [(i, j) for i in kinds for j in kinds if (i == j or few) and share_layout(added, j)]


def relabelled_kinds(node: Node, x: Known) -> list[tuple[int, int]]:
    """Those of a Transpose that moves the channels behind the pixels, or back: where elements move, and where not."""
    return [(PLAIN, PLAIN), (LAST, PLAIN) if channels_moved(node, len(x.shape)) == TO_LAST else (PLAIN, LAST)]


def _foreign_seconds(nbytes: int, threads: int, readers: int) -> float:
    """Seconds that each of so many readers of these bytes waits, if each of `threads` holds its part of them."""
    return min(nbytes, threads * CACHE_BYTES) * (threads - 1) / threads / readers / HANDED_BYTES_PER_SECOND


def _functions(node: Node, known: Mapping[str, Known]) -> int:
    """How many steps of an elementwise operator take more than a few instructions."""
    chain = chain_of(node, known) if node.op in elementwise.KERNELS else None
    return 0 if chain is None else sum(STEPS[step_of(*step.op)[0]] > ROUNDED_ONCE for step in chain.steps)


def _move_seconds(problem: ReorderProblem) -> float:
    """Seconds of a reorder whose result is read next: as measured, else the plain estimate, as correcting it by similar
    problems is slow."""
    if tuning.mode() == "measure" or cost_table.costs(problem.key):
        seconds = {c.candidate.name: c.seconds for c in choices(problem)}
    else:
        seconds = {c.name: c.estimate for c in candidates_of(problem)}
    return min(seconds[name] for name in [name for name in seconds if not problem.evicts(name)] or seconds)


def filter_of(node: Node, known: Mapping[str, Known], src, dst, accuracy: str, dtype: str) -> Filter:
    """The convolution that a node is, between two layouts."""
    f, rank = factors_of(node, known, dtype), len(known[node.inputs[0]].shape) - 2
    b = f.bias(known[node.inputs[2]].value if node.input(2) else None)
    return Filter(
        "conv", rank, f.w, b, layout=src, out_layout=dst, filter_layout=f"OI{'DHW'[3 - rank:]}", accuracy=accuracy,
        activation=f.activation(node.attributes.get("activation")), **f.options, **arguments(node, known),
    )  # fmt: skip


def transposed_of(node: Node, known: Mapping[str, Known], src, dst, costs: Costs) -> Any:
    """The transposed convolution that a node is, between two layouts."""
    f, rank = factors_of(node, known, costs.dtype), len(known[node.inputs[0]].shape) - 2
    b = f.bias(known[node.inputs[2]].value if node.input(2) else None)
    of = transposed_geometry(node.attributes, known[node.inputs[0]].shape[2:], known[node.inputs[1]].shape[2:])
    return transposed.CLASSES[rank](
        f.w, b, layout=src, out_layout=dst, filter_layout=f"IO{'DHW'[3 - rank:]}", accuracy=costs.accuracy,
        activation=f.activation(node.attributes.get("activation")), threads=costs.threads, **f.options, **of,
    )  # fmt: skip


def arguments(node: Node, known: Mapping[str, Known]) -> dict:
    """Stride, padding and so on, hashable."""
    options = geometry(node.attributes, known[node.inputs[0]].shape[2:], known[node.inputs[1]].shape[2:])
    padding = tuple(tuple(pair) for pair in options.pop("padding"))
    return {"padding": padding, **{k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}}
