"""Tiles of an output: which window of the input a model needs for one, and where the tile is in what it then gives.

An array that is too large for a model is computed tile by tile: the same model runs on overlapping windows of its
input, and of each result the part is kept that is what the whole would have given. Along each spatial axis every
operator says which pixels of its input a pixel of its result reads (`Reads`, by the rules in `RULES`). Going back
through the graph, that gives the window of a tile; going forth, it tells which pixels of every tensor are right when
the model runs on the window alone, where the padding of its operators is at the edges of the window. Only at edges
that are those of the input, too, is that padding the right one.

Windows begin at multiples of a step, the product of the strides, so that strided operators take the same pixels; and
they lack a multiple of it at the end, so that sizes are rounded, and "SAME" padding is divided, as in the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, lcm
from typing import NamedTuple

from .ir import Graph, Node
from .operators import OPERATORS, Known, Unsupported
from .operators.axes import REDUCTIONS
from .operators.base import Given, constants, normal, there
from .operators.windows import pads_of, per_axis, window
from .shapes import infer

MAX_BYTES = 1 << 62  # of a tensor of the whole: it is never there
STILL = "; the model can still run over a batch"


class Reads(NamedTuple):
    """Pixel i of a result reads pixels ``(times*i + first) // over`` to ``(times*i + last) // over``, both included."""

    times: int = 1
    over: int = 1
    first: int = 0
    last: int = 0

    def needed(self, begin: int, end: int) -> tuple[int, int]:
        """What pixels [begin, end) of the result read, as far as the first and the last reach."""
        low = (self.times * begin + self.first) // self.over
        return low, (self.times * (end - 1) + self.last) // self.over + 1

    def right(self, begin: int, end: int) -> tuple[int, int]:
        """The pixels of the result that read none but [begin, end)."""
        return -((self.first - self.over * begin) // self.times), -((self.last - self.over * end) // self.times)


SAME = Reads()  # each its own pixel


class Tensor(NamedTuple):
    """Along an axis, the size of a tensor of the whole, and how many pixels of the input there are to one of it."""

    size: int
    pitch: Fraction


class Link(NamedTuple):
    """Along an axis, what a tensor reads of another; both by number."""

    made: int
    read: int
    reads: Reads


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
        """How many pixels of the input a tile reads before and after those below it, if it is of whole steps."""
        count = int(self.step / self.tensors[-1].pitch)
        low, high = self._needed(0, count, False)
        return max(0, -low), max(0, high - self.step)

    def _needed(self, begin: int, end: int, inside: bool) -> tuple[int, int]:
        """The pixels of the input that those of the output read; `inside`: of those that there are."""
        found: dict[int, tuple[int, int]] = {len(self.tensors) - 1: (begin, end)}
        for made, read, reads in reversed(self.links):
            low, high = reads.needed(*found[made])
            if inside:
                low, high = (min(max(x, 0), self.tensors[read].size) for x in (low, high))
            before = found.get(read, (low, high))
            found[read] = min(low, before[0]), max(high, before[1])
        return found[0]

    def _is_right(self, start: int, stop: int, begin: int, end: int) -> bool:
        """Whether a run on the window [start, stop) of the input gives pixels [begin, end) of the output."""
        lacks = start + self.tensors[0].size - stop
        held = []  # by tensor, the pixels of the whole that the run has
        for size, pitch in self.tensors:
            first = int(start / pitch)
            held.append((first, first + size - int(lacks / pitch)))
        if any(first >= last for first, last in held):
            return False
        right = list(held)
        for made, read, reads in self.links:
            low, high = reads.right(*right[read])
            if right[read][0] == 0:  # before it is the padding of the whole
                low = 0
            if right[read][1] == self.tensors[read].size:
                high = self.tensors[made].size
            right[made] = max(low, right[made][0]), min(high, right[made][1])
            if right[made][0] >= right[made][1]:
                return False
        return right[-1][0] <= begin and end <= right[-1][1]


class Tiling(NamedTuple):
    """How the output of a model can be computed tile by tile, see `tiling`."""

    shape: tuple[int, ...]  # of the input, (N, C, spatial axes)
    out_shape: tuple[int, ...]
    axes: tuple[Axis, ...]  # the spatial ones

    @property
    def step(self) -> tuple[int, ...]:
        """By spatial axis, of what windows of the input begin at multiples."""
        return tuple(axis.step for axis in self.axes)

    @property
    def out_step(self) -> tuple[int, ...]:
        """By spatial axis, how many pixels of the output a step of the input is: tiles that begin at multiples of it
        need the smallest windows."""
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
    to: a graph without them is `needed(graph, output)`.

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
        An operator of which a tile of the result is not that of a tile of the input, as far as `RULES` knows.
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
    graph = needed(graph, output)
    known = infer(graph, {name: shape}, MAX_BYTES)
    if known[output].value is not None:
        raise Unsupported(f"tiling: output {output!r} does not depend on the pixels of the input{STILL}")
    pitches, links = {name: (Fraction(1),) * (len(shape) - 2)}, []
    nodes, used = _from_data(graph, known)
    for node in nodes:
        reads, data = _reads_of(node, known, pitches), _data(node, known)
        pitch = tuple(p * r.times / r.over for p, r in zip(pitches[data[0]], reads))
        made = [each for each in node.outputs if each in used]
        pitches.update((each, pitch) for each in made)
        links += [(each, read, reads) for each in made for read in dict.fromkeys(data)]
    steps = [lcm(*(p[axis].numerator for p in pitches.values())) for axis in range(len(shape) - 2)]
    _check_larger(graph, nodes, known, pitches, steps)
    at = {each: i for i, each in enumerate(pitches)}
    axes = []
    for axis, step in enumerate(steps):
        tensors = tuple(Tensor(known[each].shape[axis + 2], pitch[axis]) for each, pitch in pitches.items())
        axes.append(Axis(tensors, tuple(Link(at[each], at[read], reads[axis]) for each, read, reads in links), step))
    return Tiling(shape, known[output].shape, tuple(axes))


def needed(graph: Graph, output: str) -> Graph:
    """The part of a graph that makes one of its tensors."""
    makers = graph.makers()
    if output not in makers and output not in graph.inputs and output not in graph.constants:
        raise ValueError(f"graph: no operator makes an output {output!r}")
    wanted, kept = {output}, []
    for node in reversed(graph.nodes):
        if wanted & set(node.outputs):
            kept.append(node)
            wanted.update(node.given())
    return Graph(kept[::-1], graph.inputs, (output,), {k: v for k, v in graph.constants.items() if k in wanted})


def _from_data(graph: Graph, known: Mapping[str, Known]) -> tuple[list[Node], set[str]]:
    """The nodes through which the output depends on the input's pixels, not only on its shape; the tensors between."""
    used, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if used & set(node.outputs):
            kept.append(node)
            used.update(_data(node, known))
    return kept[::-1], used


def _data(node: Node, known: Mapping[str, Known]) -> list[str]:
    """The inputs of a node that depend on the model's."""
    return [name for name in node.given() if known[name].value is None]


def _reads_of(node: Node, known: Mapping[str, Known], pitches: Mapping[str, tuple[Fraction, ...]]) -> Sequence[Reads]:
    """By spatial axis, what a node reads of its inputs, which must all have the same pixels."""
    rule, data = RULES.get(node.op), _data(node, known)
    if rule is None:
        raise _refused(node, "of it, a tile of the result is not known to be that of a tile of the input")
    if not rule.several and data != list(node.inputs[:1]):
        raise _refused(node, "an operand other than the first is not constant")
    if len({(pitches[name], known[name].shape[2:]) for name in data}) > 1:
        raise _refused(node, "its operands have different pixels")
    given = [known[name] if name else None for name in node.inputs]
    made = next(known[name] for name in node.outputs if name in known)
    try:
        found = rule.reads(node, given, made)
    except _Why as why:
        raise _refused(node, str(why)) from None
    if len(made.shape) != len(known[data[0]].shape):
        raise _refused(node, "its result has other axes than its input")
    return found


def _refused(node: Node, why: str) -> Unsupported:
    return Unsupported(f"tiling: {node}: {why}{STILL}")


def _check_larger(
    graph: Graph, nodes: Sequence[Node], known: Mapping[str, Known], pitches: Mapping[str, tuple[Fraction, ...]],
    steps: Sequence[int],
) -> None:  # fmt: skip
    """Refuse what does not get larger with the input, step by step: sizes that are constant, or computed otherwise."""
    ((name, of),) = ((name, known[name]) for name in graph.inputs)
    larger = (*of.shape[:2], *(n + step for n, step in zip(of.shape[2:], steps)))
    try:
        then = infer(graph, {name: larger}, MAX_BYTES)
    except ValueError as error:
        raise Unsupported(f"tiling: the model does not run on an input of shape {larger}: {error}{STILL}") from error
    for node in nodes:
        for i, operand in enumerate(node.inputs):
            sizes = node.op == "Resize" and i in (2, 3)  # its result tells
            if operand and not sizes and not _alike(known[operand], then[operand]):
                raise _refused(node, f"its operand {operand!r} depends on the size of the input")
        for made in node.outputs:
            if made in pitches:
                grown = (n + int(step / p) for n, step, p in zip(known[made].shape[2:], steps, pitches[made]))
                if then[made].shape != (*known[made].shape[:2], *grown):
                    raise _refused(node, "the size of its result is not in proportion to that of the input")


def _alike(a: Known, b: Known) -> bool:
    """Whether two values are the same, if they are there."""
    if a.value is None or b.value is None:
        return a.value is None and b.value is None
    return a.value is b.value or (a.shape == b.shape and a.value.tobytes() == b.value.tobytes())


# ---- what operators read


class _Why(Exception):
    """Why a node cannot be computed tile by tile."""


class Rule(NamedTuple):
    """What operators read, by spatial axis; `several`: whether inputs other than the first may be data."""

    reads: Callable[[Node, Given, Known], Sequence[Reads]]
    several: bool = False


RULES: dict[str, Rule] = {}


def _rule(*names: str, several: bool = False):
    """Register the function below as the rule of operators."""

    def register(function):
        RULES.update(dict.fromkeys(names, Rule(function, several)))
        return function

    return register


def _same(made: Known) -> list[Reads]:
    return [SAME] * (len(made.shape) - 2)


@_rule("BatchNormalization", "LRN", "ChannelShuffle")
def _pixels(node: Node, given: Given, made: Known) -> list[Reads]:
    return _same(made)


@_rule(*(name for name, of in OPERATORS.items() if of.spread), several=True)
def _elements(node: Node, given: Given, made: Known) -> list[Reads]:
    """Constants are those of every pixel."""
    rank = len(made.shape)
    if any(n != 1 for x in given if x is not None and x.value is not None for n in x.shape[2 - rank :]):
        raise _Why("a constant differs from pixel to pixel")
    return _same(made)


AXES = {"Split": 0, "Gather": 0, "ArgMax": 0, "ArgMin": 0}  # by default; of others -1


@_rule("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "Split", "Gather", "ArgMax", "ArgMin")
def _along_channels(node: Node, given: Given, made: Known) -> list[Reads]:
    axis = node.attributes.get("axis", AXES.get(node.op, -1))
    if normal(axis, len(there(given[0]).shape), node.op) > 1:
        raise _Why("it goes along a spatial axis")
    return _same(made)


@_rule("Concat", several=True)
def _joined(node: Node, given: Given, made: Known) -> list[Reads]:
    if any(there(x).value is not None for x in given):
        raise _Why("it joins a constant")
    return _along_channels(node, given, made)


@_rule(*REDUCTIONS)
def _reduced(node: Node, given: Given, made: Known) -> list[Reads]:
    rank, axes = len(there(given[0]).shape), constants(node, given, 1, "axes")
    if not axes and node.attributes.get("noop_with_empty_axes"):
        return _same(made)
    if any(normal(int(axis), rank, node.op) > 1 for axis in axes or range(rank)):
        raise _Why("it goes along a spatial axis")
    return _same(made)


@_rule("Slice")
def _cut(node: Node, given: Given, made: Known) -> list[Reads]:
    axes = constants(node, given, 3, "axes")
    if axes is None:
        axes = list(range(len(constants(node, given, 1, "starts") or ())))
    if any(normal(int(axis), len(made.shape), node.op) > 1 for axis in axes):
        raise _Why("it cuts a spatial axis")
    return _same(made)


@_rule("Transpose")
def _turned(node: Node, given: Given, made: Known) -> list[Reads]:
    if node.attributes.get("perm") not in ([0, 1, *range(2, len(made.shape))], [1, 0, *range(2, len(made.shape))]):
        raise _Why("it moves spatial axes")
    return _same(made)


@_rule("QuantizeLinear", "DequantizeLinear")
def _quantised(node: Node, given: Given, made: Known) -> list[Reads]:
    """By one scale, or one a channel."""
    several = any(x is not None and len(there(x).shape) > 0 and there(x).shape != (1,) for x in given[1:])
    if several and normal(node.attributes.get("axis", 1), len(made.shape), node.op) > 1:
        raise _Why("its scales are along a spatial axis")
    return _same(made)


FILTERS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}  # which input


@_rule(*FILTERS, "MaxPool", "AveragePool", "LpPool")
def _windows(node: Node, given: Given, made: Known) -> list[Reads]:
    if len([name for name in node.outputs if name]) > 1:
        raise _Why("the indices of its maxima count the pixels of all")
    kernel = there(given[FILTERS[node.op]]).shape[2:] if node.op in FILTERS else None
    w = window(node.attributes, there(given[0]).shape[2:], kernel)
    return [Reads(s, 1, -before, d * (k - 1) - before)
            for s, k, d, (before, _) in zip(w.stride, w.kernel, w.dilation, w.pads)]  # fmt: skip


@_rule("ConvTranspose")
def _transposed(node: Node, given: Given, made: Known) -> list[Reads]:
    """Tap t of pixel j is pixel ``stride*j + dilation*t - pad`` of the result."""
    a, size, kernel = node.attributes, there(given[0]).shape[2:], there(given[1]).shape[2:]
    if a.get("output_shape"):
        raise _Why("its output_shape is constant")
    stride, dilation = per_axis(a, "strides", len(size)), per_axis(a, "dilations", len(size))
    extra = a.get("output_padding") or [0] * len(size)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    auto = a.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        total = [r + int(e) - s for r, e, s in zip(reach, extra, stride)]
        before = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]
    else:
        before = [pair[0] for pair in pads_of(a, size, kernel, stride, dilation)]
    return [Reads(1, s, p - r + s, p) for s, r, p in zip(stride, reach, before)]


@_rule("Resize")
def _resized(node: Node, given: Given, made: Known) -> list[Reads]:
    a, x = node.attributes, there(given[0])
    for name in ("antialias", "exclude_outside"):
        if a.get(name):
            raise _Why(f"{name} is not supported")
    if a.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise _Why("it keeps the aspect ratio")
    scales = constants(node, given, 2)
    axes = [int(axis) % len(x.shape) for axis in a.get("axes") or range(len(x.shape))]
    told = {} if constants(node, given, 3) else dict(zip(axes, scales or ()))
    ratios = [Fraction(told.get(i, Fraction(made.shape[i], x.shape[i]))) for i in range(2, len(x.shape))]
    return [_scaled(a, ratio) for ratio in ratios]


def _scaled(a: Mapping, ratio: Fraction) -> Reads:
    """Of one axis; the pixels around each place, by the places of as many pixels as repeat."""
    up, down, kind = ratio.numerator, ratio.denominator, a.get("mode", "nearest")
    place = a.get("coordinate_transformation_mode", "half_pixel")
    if ratio == 1:
        return SAME
    if place not in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric"):
        raise _Why(f"its places, {place}, depend on the size of all")
    if 1 not in (up, down):
        raise _Why(f"its scale is {float(ratio):g}: neither it nor its inverse is a whole number")
    if down > 1 and place not in ("half_pixel", "asymmetric"):
        raise _Why(f"its places, {place}, depend on the size of all")
    if (kind != "nearest" or down > 1) and (up * down) & (up * down - 1):
        raise _Why(f"its scale is {float(ratio):g}: weights are exact for powers of two only")
    half = Fraction(place != "asymmetric", 2)
    places = [(i + half) / ratio - half for i in range(up)]
    if kind == "nearest":
        nearest = NEAREST.get(a.get("nearest_mode", "round_prefer_floor"), floor)
        first = last = [nearest(at) for at in places]
    else:
        low, high = {"linear": (0, 1)}.get(kind, (-1, 2))
        first, last = ([floor(at) + k for at in places] for k in (low, high))
    least = min(up * (f + 1) - 1 - down * i for i, f in enumerate(first))
    return Reads(down, up, least, max(up * l - down * i for i, l in enumerate(last)))


NEAREST: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda at: ceil(at - Fraction(1, 2)),
    "round_prefer_ceil": lambda at: floor(at + Fraction(1, 2)),
    "floor": floor,
    "ceil": ceil,
}


@_rule("Pad")
def _padded(node: Node, given: Given, made: Known) -> list[Reads]:
    """Pads are at the edges of a window, as those of convolutions; reflected pixels are as far from these on both
    sides."""
    mode, rank = node.attributes.get("mode", "constant"), len(made.shape)
    if mode not in ("constant", "edge", "reflect"):
        raise _Why(f"its mode is {mode}")
    pads, axes = constants(node, given, 1, "pads") or [], constants(node, given, 3)
    axes = list(range(rank)) if axes is None else [normal(int(axis), rank, node.op) for axis in axes]
    pairs = {axis: (int(pads[i]), int(pads[i + len(axes)])) for i, axis in enumerate(axes)}
    found = []
    for before, after in (pairs.get(axis, (0, 0)) for axis in range(2, rank)):
        if min(before, after) < 0 < max(before, after):
            raise _Why("it pads one end of an axis and cuts the other")
        low, high = (2 * max(0, after), 2 * max(0, before)) if mode == "reflect" else (0, 0)
        found.append(Reads(1, 1, -before - low, -before + high))
    return found


@_rule("DepthToSpace")
def _apart(node: Node, given: Given, made: Known) -> list[Reads]:
    return [Reads(over=int(node.attributes["blocksize"]))] * 2


@_rule("SpaceToDepth")
def _together(node: Node, given: Given, made: Known) -> list[Reads]:
    b = int(node.attributes["blocksize"])
    return [Reads(times=b, last=b - 1)] * 2
