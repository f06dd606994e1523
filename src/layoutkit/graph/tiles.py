"""Tiling of an output: which window of the input a model needs for a tile, and where the tile is in its result.

An array that is too large for a model is computed tile by tile: the model runs on overlapping windows of its input, and
of each result only the part is kept that equals the result of the whole. Along each spatial axis every operator says
which pixels of its input a pixel of its result reads (`operators/receptive.py`). Followed backwards through the graph,
this gives the window of a tile. Followed forwards, it says which pixels of every tensor are right when the model runs
on the window alone: operators then pad at the edges of the window, which is right only where those are edges of the
whole input as well.

Windows begin at multiples of a step, the product of the strides, so that strided operators read the same pixels. They
also end a multiple of the step before the end of the input, so that sizes are rounded, and "SAME" padding is divided,
as in the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from ..convolutions.receptive import ReceptiveField
from .ir import Graph, Node
from .operators import Known, Unsupported
from .operators.receptive import FIELDS, Whole
from .shapes import infer

MAX_BYTES = 1 << 62  # of a tensor of the whole, which is never allocated
STILL = "; the model can still run over a batch"


class Tensor(NamedTuple):
    """Along an axis, the size of a tensor of the whole, and how many pixels of the input one of its pixels spans."""

    size: int
    pitch: Fraction


class Link(NamedTuple):
    """Along an axis, which pixels of tensor `read` the tensor `result` depends on; both are indices."""

    result: int
    read: int
    field: ReceptiveField


class Axis(NamedTuple):
    """A spatial axis of a graph: tensor 0 is the input, the last one the output, and each reads those before it."""

    tensors: tuple[Tensor, ...]
    links: tuple[Link, ...]
    step: int

    def window(self, begin: int, end: int) -> tuple[int, int, int]:
        """The window [start, stop) of the input for pixels [begin, end) of the output, and where in the result they
        begin."""
        size, out = self.tensors[0].size, self.tensors[-1]
        if not 0 <= begin < end <= out.size:
            raise ValueError(f"window: pixels {begin} to {end} of {out.size}")
        low, high = self._needed(begin, end, True)
        start, stop = low // self.step * self.step, size - (size - high) // self.step * self.step
        while not self._is_right(start, stop, begin, end):
            if (start, stop) == (0, size):
                raise AssertionError(f"window: the whole input does not give pixels {begin} to {end}")
            start, stop = max(0, start - self.step), min(size, stop + self.step)
        return start, stop, begin - int(start / out.pitch)

    def halo(self) -> tuple[int, int]:
        """How many pixels of the input a tile of whole steps reads before and after its own."""
        count = int(self.step / self.tensors[-1].pitch)
        low, high = self._needed(0, count, False)
        return max(0, -low), max(0, high - self.step)

    def _needed(self, begin: int, end: int, inside: bool) -> tuple[int, int]:
        """The pixels of the input that those of the output read; `inside`: without those in the padding."""
        ranges: dict[int, tuple[int, int]] = {len(self.tensors) - 1: (begin, end)}
        for result, read, field in reversed(self.links):
            low, high = field.inputs(*ranges[result])
            if inside:
                low, high = (min(max(x, 0), self.tensors[read].size) for x in (low, high))
            before = ranges.get(read, (low, high))
            ranges[read] = min(low, before[0]), max(high, before[1])
        return ranges[0]

    def _is_right(self, start: int, stop: int, begin: int, end: int) -> bool:
        """Whether a run on the window [start, stop) of the input gives pixels [begin, end) of the output."""
        lacks = start + self.tensors[0].size - stop
        parts = []  # by tensor, the range of pixels of the whole that the run computes
        for size, pitch in self.tensors:
            first = int(start / pitch)
            parts.append((first, first + size - int(lacks / pitch)))
        if any(first >= last for first, last in parts):
            return False
        right = list(parts)
        for result, read, field in self.links:
            low, high = field.outputs(*right[read])
            if right[read][0] == 0:  # what comes before is the padding of the whole
                low = 0
            if right[read][1] == self.tensors[read].size:
                high = self.tensors[result].size
            right[result] = max(low, right[result][0]), min(high, right[result][1])
            if right[result][0] >= right[result][1]:
                return False
        return right[-1][0] <= begin and end <= right[-1][1]


class Tiling(NamedTuple):
    """How the output of a model can be computed tile by tile, see `tiling`."""

    shape: tuple[int, ...]  # of the input, (N, C, spatial axes)
    out_shape: tuple[int, ...]
    axes: tuple[Axis, ...]  # the spatial ones

    @property
    def step(self) -> tuple[int, ...]:
        """By spatial axis, the step that windows of the input begin at multiples of."""
        return tuple(axis.step for axis in self.axes)

    @property
    def out_step(self) -> tuple[int, ...]:
        """By spatial axis, how many pixels of the output correspond to a step of the input: tiles that begin at
        multiples of it need the smallest windows."""
        return tuple(int(axis.step / axis.tensors[-1].pitch) for axis in self.axes)

    @property
    def halo(self) -> tuple[tuple[int, int], ...]:
        """By spatial axis, how many pixels before and after its own a tile of whole steps reads of the input; its
        window is up to a step wider on each side."""
        return tuple(axis.halo() for axis in self.axes)

    def window(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """What to run the model on for a tile of the output.

        Parameters
        ----------
        ranges : sequence of pair of int
            By spatial axis, the pixels [begin, end) of the output.

        Returns
        -------
        list of (start, stop, crop)
            By spatial axis: the model on pixels [start, stop) of the input gives those of the tile from `crop` on.

        Raises
        ------
        ValueError
            Ranges that are empty, or reach out of the output.
        """
        if len(ranges) != len(self.axes):
            raise ValueError(f"window: {len(ranges)} ranges of {len(self.axes)} spatial axes")
        return [axis.window(int(begin), int(end)) for axis, (begin, end) in zip(self.axes, ranges)]


def tiling(graph: Graph, shape: Sequence[int], output: str | None = None) -> Tiling:
    """How an output of a model can be computed tile by tile.

    Only the operators that the output needs are looked at. Those of other outputs run on the windows as well, and have
    to: a graph without them is `graph.needed([output])`.

    Parameters
    ----------
    graph : Graph
        With one input, of the axes (N, C, one to three spatial axes).
    shape : sequence of int
        Of the input; it may be larger than memory.
    output : str, optional
        By default the only one.

    Returns
    -------
    Tiling

    Raises
    ------
    Unsupported
        An operator whose result cannot be computed tile by tile, or is not known to be.
    ValueError
        Shapes that do not fit, or no such output.
    """
    shape = tuple(int(n) for n in shape)
    if output is None:
        if len(graph.outputs) != 1:
            raise ValueError(f"tiling: which output is it? {', '.join(graph.outputs)}")
        (output,) = graph.outputs
    if len(graph.inputs) != 1:
        raise Unsupported(f"tiling: a model of the inputs {', '.join(graph.inputs)}: expected one{STILL}")
    (name,) = graph.inputs
    if not 3 <= len(shape) <= 5 or len(graph.inputs[name].shape) != len(shape):
        raise Unsupported(f"tiling: input {name!r} of shape {shape}: expected N, C, one to three spatial axes{STILL}")
    graph = graph.needed([output])
    known = infer(graph, {name: shape}, MAX_BYTES)
    if known[output].value is not None:
        raise Unsupported(f"tiling: output {output!r} does not depend on the pixels of the input{STILL}")
    pitches, links = {name: (Fraction(1),) * (len(shape) - 2)}, []
    nodes, used = _from_data(graph, known)
    for node in nodes:
        fields, data = _fields_of(node, known, pitches), _data(node, known)
        pitch = tuple(p * r.times / r.over for p, r in zip(pitches[data[0]], fields))
        results = [each for each in node.outputs if each in used]
        pitches.update((each, pitch) for each in results)
        links += [(each, read, fields) for each in results for read in dict.fromkeys(data)]
    steps = [lcm(*(p[axis].numerator for p in pitches.values())) for axis in range(len(shape) - 2)]
    _check_larger(graph, nodes, known, pitches, steps)
    at = {each: i for i, each in enumerate(pitches)}
    axes = []
    for axis, step in enumerate(steps):
        tensors = tuple(Tensor(known[each].shape[axis + 2], pitch[axis]) for each, pitch in pitches.items())
        axes.append(Axis(tensors, tuple(Link(at[each], at[read], fields[axis]) for each, read, fields in links), step))
    return Tiling(shape, known[output].shape, tuple(axes))


def _from_data(graph: Graph, known: Mapping[str, Known]) -> tuple[list[Node], set[str]]:
    """The nodes through which the output depends on the values of the input, not only on its shape, and the tensors
    between them."""
    used, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if used & set(node.outputs):
            kept.append(node)
            used.update(_data(node, known))
    return kept[::-1], used


def _data(node: Node, known: Mapping[str, Known]) -> list[str]:
    """The inputs of a node that depend on those of the model."""
    return [name for name in node.present_inputs() if known[name].value is None]


def _fields_of(
    node: Node, known: Mapping[str, Known], pitches: Mapping[str, tuple[Fraction, ...]]
) -> Sequence[ReceptiveField]:
    """By spatial axis, what a node reads of its inputs, which must all have the same pixels."""
    rule, data = FIELDS.get(node.op), _data(node, known)
    if rule is None:
        raise _refused(node, "of it, a tile of the result is not known to be that of a tile of the input")
    if not rule.several and data != list(node.inputs[:1]):
        raise _refused(node, "an operand other than the first is not constant")
    if len({(pitches[name], known[name].shape[2:]) for name in data}) > 1:
        raise _refused(node, "its operands have different pixels")
    inputs = [known[name] if name else None for name in node.inputs]
    result = next(known[name] for name in node.outputs if name in known)
    try:
        fields = rule.fields(node, inputs, result)
    except Whole as why:
        raise _refused(node, str(why)) from None
    if len(result.shape) != len(known[data[0]].shape):
        raise _refused(node, "its result has other axes than its input")
    return fields


def _refused(node: Node, why: str) -> Unsupported:
    return Unsupported(f"tiling: {node}: {why}{STILL}")


def _check_larger(
    graph: Graph, nodes: Sequence[Node], known: Mapping[str, Known], pitches: Mapping[str, tuple[Fraction, ...]],
    steps: Sequence[int],
) -> None:  # fmt: skip
    """Refuse graphs in which sizes do not grow in proportion to the input, such as constant ones."""
    ((name, of),) = ((name, known[name]) for name in graph.inputs)
    larger = (*of.shape[:2], *(n + step for n, step in zip(of.shape[2:], steps)))
    try:
        then = infer(graph, {name: larger}, MAX_BYTES)
    except ValueError as error:
        raise Unsupported(f"tiling: the model does not run on an input of shape {larger}: {error}{STILL}") from error
    for node in nodes:
        for i, operand in enumerate(node.inputs):
            sizes = node.op == "Resize" and i in (2, 3)  # may differ: the size of its result is checked below
            if operand and not sizes and not _alike(known[operand], then[operand]):
                raise _refused(node, f"its operand {operand!r} depends on the size of the input")
        for result in node.outputs:
            if result in pitches:
                grown = (n + int(step / p) for n, step, p in zip(known[result].shape[2:], steps, pitches[result]))
                if then[result].shape != (*known[result].shape[:2], *grown):
                    raise _refused(node, "the size of its result is not in proportion to that of the input")


def _alike(a: Known, b: Known) -> bool:
    """Whether two constants are equal, or neither tensor is constant."""
    if a.value is None or b.value is None:
        return a.value is None and b.value is None
    return a.value is b.value or (a.shape == b.shape and a.value.tobytes() == b.value.tobytes())
