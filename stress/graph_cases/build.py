"""Models that grow node by node; what fits is asked of onnx's own schemas and rules of shapes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

MOST = 4096  # elements of a tensor
TYPES = {
    f"tensor({name})": np.dtype(dtype)
    for name, dtype in {
        "float": "float32", "float16": "float16", "double": "float64", "bool": "bool", "int8": "int8",
        "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8", "uint16": "uint16",
        "uint32": "uint32", "uint64": "uint64",
    }.items()
}  # fmt: skip
USUAL = [np.dtype(t) for t in ("float32", "float32", "float32", "float16", "float64")]

# Results that have no rounding, or one that all implementations make alike: as exact as the operands.
EXACT = set(
    """
    Abs Neg Relu Max Min Clip Identity Dropout Concat Split Slice Pad Gather Reshape Flatten Transpose Squeeze
    Unsqueeze Expand Tile DepthToSpace SpaceToDepth Where MaxPool GlobalMaxPool ReduceMax ReduceMin Shape Size Constant
    ConstantOfShape Hardmax Sign Floor Ceil Round Cast CastLike ThresholdedRelu QuantizeLinear DequantizeLinear
    GatherElements ScatterElements Scatter GatherND ScatterND NonZero Compress Unique TopK OneHot ReverseSequence Trilu
    EyeLike BitShift CenterCropPad MaxUnpool MaxRoiPool NonMaxSuppression
    """.split()
)
# Steps: the least difference of an operand may change the result a lot. They are drawn of exact operands only.
STEPS = set(
    """
    Sign Floor Ceil Round Cast CastLike Hardmax ArgMax ArgMin Equal Less Greater LessOrEqual GreaterOrEqual Mod Shrink
    ThresholdedRelu QuantizeLinear DynamicQuantizeLinear NonZero Unique TopK IsNaN IsInf Not And Or Xor Range
    """.split()
)


class Dropped(Exception):
    """A node that onnx itself refuses, or whose result is too large or of unknown shape."""


class Tensor(NamedTuple):
    """A tensor of the model; `exact`: whether all implementations agree on its bits."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    exact: bool = True


@cache
def schema(op: str, opset: int):
    """Of an operator as an operator set has it; None if it has none."""
    try:
        found = onnx.defs.get_schema(op, max_inclusive_version=opset)
    except onnx.defs.SchemaError:
        return None
    return None if found.deprecated else found


@cache
def allowed(op: str, opset: int, i: int) -> tuple[np.dtype, ...]:
    """The element types that an operator takes as an input."""
    of = schema(op, opset)
    if of is None:
        raise Dropped
    inputs = of.inputs
    return tuple(sorted((TYPES[t] for t in inputs[min(i, len(inputs) - 1)].types if t in TYPES), key=str))


@cache
def _schemas(opset: int):
    """For `onnx.checker`, an operator set."""
    found = type(onnx.checker.DEFAULT_CONTEXT)()
    found.ir_version, found.opset_imports = 10, {"": opset}
    return found


def reads(node: onnx.NodeProto) -> list[str]:
    """What a node reads: its inputs, and what the graphs inside of it read from around them."""
    found = dict.fromkeys(name for name in node.input if name)
    for a in node.attribute:
        made = {v.name for v in a.g.input} | {t.name for t in a.g.initializer}
        made |= {name for inner in a.g.node for name in inner.output}
        inside = [name for inner in a.g.node for name in reads(inner)] + [v.name for v in a.g.output]
        found |= dict.fromkeys(name for name in inside if name not in made)
    return list(found)


class Build:
    """A model and the numbers that it is run on."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.opset = rng, int(rng.integers(7, 24))
        self.tensors: list[Tensor] = []
        self.open: list[Tensor] = []  # of shapes that are not known
        self.inputs: dict[str, np.ndarray] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.types: dict[str, Tensor] = {}
        self.special = bool(rng.integers(12) == 0)  # NaN and Inf among the numbers
        self.strict = False  # whether convolutions must be summed directly, for sums that are exact

    # ---- drawing

    def maybe(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def int(self, low: int, high: int) -> int:
        """One of low .. high."""
        return int(self.rng.integers(low, high + 1))

    def ints(self, low: int, high: int, count: int) -> list[int]:
        return [self.int(low, high) for _ in range(count)]

    def one(self, values: Sequence[Any]) -> Any:
        return values[self.int(0, len(values) - 1)]

    def extent(self) -> int:
        return self.one((0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9))

    def shape(self, low: int = 0, high: int = 5) -> tuple[int, ...]:
        found = tuple(self.extent() for _ in range(self.int(low, high)))
        return found if prod(found) <= MOST else found[:low] or found[:1]

    def axis(self, rank: int) -> int:
        return self.int(-rank, rank - 1)

    def numbers(self, dtype: np.dtype, shape: Sequence[int], low: float = -4, high: float = 4) -> np.ndarray:
        """Whole numbers, or others; few, so that there are ties."""
        if dtype.kind == "b":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            return self.rng.integers(0 if dtype.kind == "u" else int(low), int(high) + 1, shape).astype(dtype)
        values = self.rng.uniform(low, high, shape)
        values = np.asarray(np.rint(values * 2) / 2 if self.maybe() else values).astype(dtype)
        if self.special and low < 0:
            odd = self.rng.random(shape) < 0.2
            values = np.where(odd, self.rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], shape), values).astype(dtype)
        return values

    # ---- tensors

    def new(self, dtype: Any, shape: Sequence[int], low: float = -4, high: float = 4) -> Tensor:
        """An input of the model."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = np.asarray(self.numbers(np.dtype(dtype), tuple(shape), low, high))
        return self.has(Tensor(name, np.dtype(dtype), tuple(shape)))

    def constant(self, values: Any, dtype: Any = np.int64) -> Tensor:
        """A constant: an initializer, the output of a Constant, or now and then an input of the model."""
        value = np.asarray(values, dtype)
        how = self.int(0, 9)
        if how == 0:
            name = f"x{len(self.inputs)}"
            self.inputs[name] = value
            return self.has(Tensor(name, value.dtype, value.shape), among=False)
        name = f"c{len(self.types)}"
        if how == 1:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value, name)))
        self.constants[name] = value
        return self.has(Tensor(name, value.dtype, value.shape), among=False)

    def has(self, tensor: Tensor, among: bool = True) -> Tensor:
        self.types[tensor.name] = tensor
        if among:
            self.tensors.append(tensor)
        return tensor

    def pick(self, op: str, low: int = 0, high: int = 5, i: int = 0, types: Sequence[np.dtype] | None = None) -> Tensor:
        """A tensor of so many axes that the operator takes as an input, most often one that is there."""
        taken = [t for t in allowed(op, self.opset, i) if types is None or t in types]
        there = [t for t in self.tensors[-6:] if t.dtype in taken and low <= len(t.shape) <= high]
        there = [t for t in there if t.exact or op not in STEPS]
        if there and self.maybe(0.85):
            return self.one(there)
        if not taken:
            raise Dropped
        usual = [t for t in USUAL if t in taken]
        return self.new(self.one(usual if usual and self.maybe(0.8) else taken), self.shape(low, high))

    def operand(self, dtype: np.dtype, shape: Sequence[int], low: float = -4, high: float = 4) -> Tensor:
        """A tensor of this type and shape: one that is there, a constant or an input."""
        there = [t for t in self.tensors if t.dtype == dtype and t.shape == tuple(shape) and low == -4]
        if there and self.maybe(0.6):
            return self.one(there)
        if self.maybe(0.6):
            return self.constant(self.numbers(dtype, tuple(shape), low, high), dtype)
        return self.new(dtype, shape, low, high)

    def broadcast(self, t: Tensor) -> Tensor:
        """An operand that is broadcast to a tensor, or that it is broadcast to."""
        shape = [1 if self.maybe(0.25) else n for n in t.shape]
        shape = shape[self.int(0, len(shape)) if self.maybe(0.3) else 0 :]
        if len(shape) == len(t.shape) and self.maybe(0.15):
            shape = [self.int(1, 3) if n == 1 else n for n in shape]
        return self.operand(t.dtype, shape)

    # ---- nodes

    def add(
        self, op: str, *operands: Tensor | None, outputs: int = 1, open: bool = False, **named: Any
    ) -> list[Tensor]:  # fmt: skip
        """A node; what is named becomes an attribute or a constant, as the operator set has it, or is left out.

        `open`: the shapes of its results may depend on what is in the operands. Nothing else reads such results.
        """
        of = schema(op, self.opset)
        if of is None:
            raise Dropped
        inputs, attributes = [t.name if t else "" for t in operands], {}
        places = {formal.name: i for i, formal in enumerate(of.inputs)}
        for name, value in named.items():
            if value is None:
                continue
            if name in of.attributes:
                attributes[name] = value
            elif name in places:
                inputs += [""] * (places[name] + 1 - len(inputs))
                t = value if isinstance(value, Tensor) else self.constant(value)
                inputs[places[name]] = t.name
        names = [f"t{len(self.types)}_{i}" for i in range(outputs)]
        node = helper.make_node(op, inputs, names, name=f"n{len(self.nodes)}", **attributes)
        found = self._inferred(node, open)
        given = [self.types[name] for name in reads(node)]
        self.nodes.append(node)
        exact = all(t.exact for t in given)
        made = [t._replace(exact=exact and (op in EXACT or t.dtype.kind in "iub")) for t in found]
        for t in made:
            self.has(t, among=not open)
        self.open += made if open else []
        return made

    def _inferred(self, node: onnx.NodeProto, open: bool) -> list[Tensor]:
        """What onnx says of the results of a node; Dropped if it refuses it."""
        names = reads(node)
        held = {**self.inputs, **self.constants}
        tensors = [numpy_helper.from_array(held[n], n) for n in names if n in held and held[n].size <= 64]
        values = [self._declared(self.types[n]) for n in names]
        outputs = [onnx.ValueInfoProto(name=n) for n in node.output]
        graph = helper.make_graph([node], "g", values, outputs, tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        try:
            if len(names) == len([name for name in dict.fromkeys(node.input) if name]):
                onnx.checker.check_node(node, _schemas(self.opset))  # it knows nothing around graphs inside
            graph = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True).graph
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError) as error:
            raise Dropped from error
        found = []
        for value in graph.output:
            of = value.type.tensor_type
            if open:
                dtype = helper.tensor_dtype_to_np_dtype(of.elem_type)
                found.append(Tensor(value.name, dtype, ()))
                continue
            if not of.HasField("shape") or not all(d.HasField("dim_value") for d in of.shape.dim):
                raise Dropped
            shape = tuple(d.dim_value for d in of.shape.dim)
            dtype = helper.tensor_dtype_to_np_dtype(of.elem_type)
            if dtype not in TYPES.values() or prod(shape) > MOST or min(shape, default=0) < 0 or len(shape) > 6:
                raise Dropped
            found.append(Tensor(value.name, dtype, shape))
        return found

    # ---- the whole

    def _declared(self, t: Tensor) -> onnx.ValueInfoProto:
        """How the graph declares a tensor, without a shape where none is known."""
        if all(t.name != o.name for o in self.open):
            return value_of(t)
        return helper.make_tensor_value_info(t.name, helper.np_dtype_to_tensor_dtype(t.dtype), None)

    def model(self) -> onnx.ModelProto:
        """The model; what nothing reads is an output, and now and then more."""
        read = {name for node in self.nodes for name in reads(node)}
        made = [t for t in self.tensors if t.name not in self.inputs]
        outputs = [t for t in [*made, *self.open] if t.name not in read or self.maybe(0.15)]
        given = {name: self.types[name] for name in self.inputs if name in read}
        values = [value_of(t, symbolic=self.maybe(0.3)) for t in given.values()]
        made_here = {name for node in self.nodes for name in node.output}
        tensors = [numpy_helper.from_array(v, n) for n, v in self.constants.items() if n in read and n not in made_here]
        inner = [value_of(t) for t in made]
        graph = helper.make_graph(
            self.nodes, "g", values, [self._declared(t) for t in outputs], tensors, value_info=inner
        )
        self.inputs = {name: self.inputs[name] for name in given}
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def value_of(t: Tensor, symbolic: bool = False) -> onnx.ValueInfoProto:
    """How a graph declares a tensor; `symbolic`: without its extents."""
    shape = [f"{t.name}_{i}" for i in range(len(t.shape))] if symbolic else t.shape
    return helper.make_tensor_value_info(t.name, helper.np_dtype_to_tensor_dtype(t.dtype), shape)
