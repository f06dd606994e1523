"""Steps of operators that compiled kernels run; `operators/kernels.py` says of which nodes, in which layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from math import prod
from typing import Any, Protocol

import numpy as np

from ..._core.nests.add import add
from ..._core.nests.lrn import lrn
from ..._core.nests.pooling import pool
from ...convolutions.conv import CLASSES, Bound, bind
from ...reorders.reorder import reorder
from ..ir import Node
from ..layout.costs import FLOAT, Costs, arguments, array_type, factors_of
from ..operators import Kept, Known
from ..operators.kernels import limits_of, summands
from ..operators.layouts import BLOCKED, LAST, PLAIN, layouts_of
from ..operators.pool import counts, window

Place = tuple[str, int]  # a tensor, in a kind of layout
Slots = MutableMapping[Place, np.ndarray]
SCRATCH: Place = "", -1  # a workspace that all steps share
Call = Callable[[Slots], None]
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # input, output, what is added
SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "uint8": "u8", "int8": "s8"}  # names of rows


class Building(Protocol):
    """What kernels need of the program that they become a part of."""

    known: dict[str, Known]
    costs: Costs

    def operand(self, name: str, kind: int, kept: Kept | None = None) -> Place:
        """A tensor in a kind of layout, and in a type if that is to be another than it is kept in."""

    def result(self, name: str, kind: int, computed: Kept | None = None) -> Place:
        """A buffer for a tensor, in the type in which it is made: it is rounded to the one that it is kept in."""

    def has_buffer(self, place: Place) -> bool:
        """Whether a tensor has a buffer; else what makes it may leave any array."""

    def stand_in(self, place: Place, array: np.ndarray) -> None:
        """Let `workspace` see an array like the one that an operator will leave there."""

    def workspace(self, needed: Callable[[Slots], int]) -> None:
        """Have as many bytes in `SCRATCH` as a step will need on its buffers."""

    def step(self, node: Node, call: Call, reads: tuple[Place, ...], writes: tuple[Place, ...]) -> None:
        """Append a step."""


def _convolution(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known = program.known
    x = known[node.inputs[0]]
    layouts = layouts_of(len(x.shape))
    rank = len(x.shape) - 2
    b = known[node.inputs[2]].value if node.input(2) else None
    f = factors_of(node, known, program.costs.dtype)
    op = CLASSES[rank](
        f.w, b, layout=layouts[kinds[0]], out_layout=layouts[kinds[1]],
        filter_layout="OI" + "DHW"[3 - rank :], activation=node.attributes.get("activation"),
        accuracy=program.costs.accuracy, threads=program.costs.threads, **f.options,
        **arguments(node, known),
    )  # fmt: skip
    at = program.operand(node.inputs[0], kinds[0], f.x)
    add = program.operand(node.inputs[3], kinds[1], f.y) if node.input(3) else None
    to = program.result(node.outputs[0], kinds[1], f.y)
    read, added = _reading(program, at, layouts[kinds[0]].physical_shape(x.shape), f.x), None
    if add is not None:
        added = _reading(program, add, layouts[kinds[1]].physical_shape(known[node.outputs[0]].shape), f.y)

    def arrays(slots: Slots) -> Arrays:
        return read(slots), slots[to], None if added is None else added(slots)

    convolution = _bound(program, op, arrays)

    def convolve(slots: Slots) -> None:
        convolution[0](*arrays(slots), slots[SCRATCH])

    program.step(node, convolve, (at,) if add is None else (at, add), (to,))


def _bound(program: Building, op: Any, arrays: Callable[[Slots], Arrays]) -> list[Bound]:
    """A place for what a convolution does on its arrays, which is known once there are buffers."""
    bound: list[Bound] = []

    def needed(slots: Slots) -> int:
        bound.append(bind(op, *arrays(slots)))
        return bound[0].needs

    program.workspace(needed)
    return bound


def _reading(program: Building, place: Place, shape: tuple[int, ...], kept: Kept) -> Callable[[Slots], np.ndarray]:
    """Reads a tensor: as its buffer holds it, or contiguous if an operator has left it."""
    if program.has_buffer(place):
        return lambda slots: slots[place]
    program.stand_in(place, np.broadcast_to(np.zeros((), array_type(kept.dtype)), shape))
    return lambda slots: np.ascontiguousarray(slots[place])


def _product(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """As a convolution of one tap over the rows."""
    known, a = program.known, node.attributes
    x, f = known[node.inputs[0]], factors_of(node, known, program.costs.dtype)
    w = f.w if a.get("transB") else f.w.T
    bias = known[node.inputs[2]].value if node.input(2) else None
    if bias is not None:
        bias = np.broadcast_to(bias.reshape(-1) * np.float32(a.get("beta", 1.0)), w.shape[:1])
    bias = None if bias is None else np.ascontiguousarray(bias)
    op = CLASSES[1](
        np.ascontiguousarray(w)[:, :, None], bias, layout="NWC",
        filter_layout="OIW", activation=a.get("activation"), accuracy=program.costs.accuracy,
        threads=program.costs.threads, **f.options,
    )  # fmt: skip
    at, to = program.operand(node.inputs[0], PLAIN, f.x), program.result(node.outputs[0], PLAIN, f.y)
    rows = prod(x.shape[:-1])
    read = _reading(program, at, x.shape, f.x)

    def arrays(slots: Slots) -> Arrays:
        return read(slots).reshape(1, rows, -1), slots[to].reshape(1, rows, -1), None

    product = _bound(program, op, arrays)

    def multiply(slots: Slots) -> None:
        product[0](*arrays(slots), slots[SCRATCH])

    program.step(node, multiply, (at,), (to,))


def _real(of: Known) -> Kept:
    """The type in which a tensor is made by a kernel of real numbers."""
    return FLOAT if of.kept.integers else of.kept


def _pooling(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind = program.known, kinds[0]
    x = known[node.inputs[0]].shape
    spatial = x[2:]
    windows = [(1, 1, 1, 0)] * (5 - len(x))
    means: list[np.ndarray] | None = None
    if node.op.startswith("Global"):
        windows += [(n, 1, 1, 0) for n in spatial]
        average = [np.full(1, 1 / n, np.float32) for n in spatial]
    else:
        taps = window(node.attributes, spatial)
        windows += [(k, s, d, p) for k, s, d, (p, _) in zip(taps.kernel, taps.stride, taps.dilation, taps.pads)]
        average = [np.reciprocal(np.maximum(c, 1), dtype=np.float32) for c in counts(node.attributes, spatial)]
    if "Average" in node.op:
        means = [np.ones(1, np.float32)] * (5 - len(x)) + average
    real = _real(known[node.outputs[0]])
    at, to = program.operand(node.inputs[0], kind, real), program.result(node.outputs[0], kind, real)
    threads, types = program.costs.threads, SHORT[real.dtype]

    def six(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """With axes image, run of channels, depth, height, width, channel."""
        spatial = (1,) * (5 - len(shape)) + shape[2:]
        runs = array.shape[1] if kind == BLOCKED else 1
        return array.reshape(shape[0], runs, *spatial, array.shape[-1])

    y = known[node.outputs[0]].shape
    read = _reading(program, at, layouts_of(len(x))[kind].physical_shape(x), real)

    def reduce(slots: Slots) -> None:
        pool(types, six(read(slots), x), six(slots[to], y), windows, means, threads)

    program.step(node, reduce, (at,), (to,))


def _limits(node: Node, known: Mapping[str, Known]) -> tuple[float, float] | None:
    """Those of the result of a sum, and of what follows it."""
    if node.op == "Relu":
        return 0.0, np.inf
    if node.op != "Clip":
        return limits_of(node.attributes.get("activation"))
    values = [known[node.input(i)].value if node.input(i) else None for i in (1, 2)]
    low, high = (none if v is None else float(v.reshape(())) for v, none in zip(values, (-np.inf, np.inf)))
    return low, high


def _sum(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind, names = program.known, kinds[0], summands(node)
    kept = [known[name].kept for name in (*names, *names, node.outputs[0])][-3:]
    real = None if len({k.dtype for k in kept}) == 1 else FLOAT
    types = SHORT[kept[0].dtype if real is None else real.dtype]
    at = [program.operand(name, kind, real) for name in names]
    to = program.result(node.outputs[0], kind, real)
    integers = [(k.scale, k.zero_point) for k in kept]
    limits, threads = _limits(node, known), program.costs.threads

    def compute(slots: Slots) -> None:
        a, b = (np.asarray(slots[place]) for place in (at[0], at[-1]))  # numpy gives single numbers, too
        add(types, a, b if at[1:] else None, slots[to], limits, integers, threads)

    program.step(node, compute, tuple(at), (to,))


def _shuffle(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """As a reorder of groups and the channels of each."""
    kind, of, kept = kinds[0], program.known[node.inputs[0]], program.known[node.outputs[0]].kept
    images, channels, pixels, groups = of.shape[0], of.shape[1], prod(of.shape[2:]), node.attributes["group"]
    each, threads = channels // groups, program.costs.threads
    src, dst = ("abc", "acb") if kind == LAST else ("abcd", "acbd")
    shape = (images * pixels, groups, each) if kind == LAST else (images, groups, each, pixels)
    exchanged = tuple(shape["abcd".index(letter)] for letter in dst)
    at, to = program.operand(node.inputs[0], kind, kept), program.result(node.outputs[0], kind)

    def shuffle(slots: Slots) -> None:
        reorder(np.reshape(slots[at], shape), src, dst, out=slots[to].reshape(exchanged), threads=threads)

    program.step(node, shuffle, (at,), (to,))


def _response(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    a, channels = node.attributes, program.known[node.inputs[0]].shape[1]
    size, alpha, bias = int(a["size"]), float(a.get("alpha", 1e-4)), float(a.get("bias", 1.0))
    real = _real(program.known[node.outputs[0]])
    at, to = program.operand(node.inputs[0], kinds[0], real), program.result(node.outputs[0], kinds[0], real)
    threads, types = program.costs.threads, SHORT[real.dtype]

    def normalise(slots: Slots) -> None:
        lrn(
            types,
            np.ascontiguousarray(slots[at]).reshape(-1, channels),
            slots[to].reshape(-1, channels),
            size,
            alpha,
            bias,
            threads,
        )

    program.step(node, normalise, (at,), (to,))


Build = Callable[[Building, Node, tuple[int, int]], None]

# By operator, what appends the step of a node that `has_kernel` says yes of.
BUILDS: dict[str, Build] = {
    "Conv": _convolution,
    "Gemm": _product,
    "MatMul": _product,
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), _pooling),
    **dict.fromkeys(("Add", "Sum", "Relu", "Clip"), _sum),
    "ChannelShuffle": _shuffle,
    "LRN": _response,
}
