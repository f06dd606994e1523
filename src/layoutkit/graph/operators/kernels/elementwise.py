"""Elementwise operators on real numbers, and chains of them, as steps of the kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...ir import Node
from ..base import Known
from ..layouts import PLAIN
from .base import F32, Kernel

F64, BOOL = np.dtype(np.float64), np.dtype(bool)
MAX_STEPS = 24  # of a chain
MAX_INPUTS = 16  # tensors that a chain reads
MAX_AXES = 10

Op = tuple[Any, ...]  # a name of `convolutions.epilogue.ACTIVATIONS` or `registry.STEPS`, and its numbers


class Step(NamedTuple):
    """An operation on the running value; `operand` is the name of a tensor, if there is one."""

    op: Op
    operand: str = ""


class Chain(NamedTuple):
    """A tensor, and the steps that are applied to it."""

    x: str
    steps: tuple[Step, ...]


# The steps of a node whose input `i` is the running value, None if there are none.
Steps = Callable[[Node, Mapping[str, Known], int], "list[Step] | None"]


def single_number(of: Known) -> float | None:
    """The value of a constant that is one number."""
    return None if of.value is None or of.value.size != 1 else float(of.value.reshape(()))


def _unary(name: str, **attributes: float) -> Steps:
    """An operator of one input, with these attributes and their defaults as numbers."""

    def steps(node: Node, known: Mapping[str, Known], i: int) -> list[Step]:
        numbers = (float(np.float32(node.attributes.get(key, default))) for key, default in attributes.items())
        return [Step((name, *numbers))]

    return steps


def _binary(name: str, mirrored: str = "") -> Steps:
    """An operator of two inputs; `mirrored` if the running value is the second: "" if it is none then."""

    def steps(node: Node, known: Mapping[str, Known], i: int) -> list[Step] | None:
        if len(node.inputs) != 2 or (i and not mirrored):
            return None
        return [Step((mirrored if i else name,), node.inputs[1 - i])]

    return steps


def _commutative(name: str) -> Steps:
    """An operator of any number of inputs, in any order."""
    return lambda node, known, i: [Step((name,), other) for k, other in enumerate(node.inputs) if k != i]


def _clip(node: Node, known: Mapping[str, Known], i: int) -> list[Step] | None:
    if i:
        return None
    low = single_number(known[node.inputs[1]]) if node.input(1) else -np.inf
    high = single_number(known[node.inputs[2]]) if node.input(2) else np.inf
    if low is not None and high is not None and low <= high:
        return [Step(("clip", low, high))]
    return [Step((name,), node.inputs[k]) for k, name in ((1, "max"), (2, "min")) if node.input(k)]


def _pow(node: Node, known: Mapping[str, Known], i: int) -> list[Step] | None:
    exponent = None if i else single_number(known[node.inputs[1]])
    if exponent is None:
        return None
    return [Step(("square",) if exponent == 2 else ("pow", 1.0, exponent))]


def _where(node: Node, known: Mapping[str, Known], i: int) -> list[Step] | None:
    """Where one of the branches is a number."""
    if not i:
        return None
    number = single_number(known[node.inputs[3 - i]])
    return None if number is None else [Step(("keep" if i == 1 else "fill", number), node.inputs[0])]


def _affine(node: Node, known: Mapping[str, Known], i: int) -> list[Step] | None:
    """A product and a sum, without factors of 1 and summands of 0."""
    if i:
        return None
    pairs = ("mul", node.inputs[1], 1), ("add", node.inputs[2], 0)
    return [Step((name,), x) for name, x, neutral in pairs if np.any(known[x].value != neutral)]


def _celu(node: Node, known: Mapping[str, Known], i: int) -> list[Step] | None:
    return _unary("celu", alpha=1.0)(node, known, i) if node.attributes.get("alpha", 1.0) > 0 else None


def _gelu(node: Node, known: Mapping[str, Known], i: int) -> list[Step]:
    return [Step(("gelu_tanh" if node.attributes.get("approximate", "none") == "tanh" else "gelu",))]


def _swish(node: Node, known: Mapping[str, Known], i: int) -> list[Step]:
    alpha = float(np.float32(node.attributes.get("alpha", 1.0)))
    return [Step(("silu",) if alpha == 1 else ("swish", alpha))]


def _mean(node: Node, known: Mapping[str, Known], i: int) -> list[Step]:
    """Of all inputs: their sum, times a number."""
    others = [Step(("add",), other) for k, other in enumerate(node.inputs) if k != i]
    return [*others, Step(("linear", 1 / len(node.inputs), 0.0))] if others else []


def _requantise(node: Node, known: Mapping[str, Known], i: int) -> list[Step]:
    """Rounded to the integers of a scale, and what these stand for; of chains only."""
    scale, low, high = (node.attributes[key] for key in ("scale", "low", "high"))
    return [Step(("linear", 1 / scale, 0.0)), Step(("round",)), Step(("clip", low, high)), Step(("linear", scale, 0.0))]


STEPS: dict[str, Steps] = {
    **{name: _unary(name.lower()) for name in ("Relu", "Sigmoid", "Tanh", "Softplus", "Mish", "HardSwish", "Exp", "Log",
                                               "Sqrt", "Abs", "Round", "Neg", "Reciprocal", "Erf", "Floor", "Ceil",
                                               "Sign", "Softsign", "Sin", "Cos")},
    "LeakyRelu": _unary("leaky_relu", alpha=0.01), "Elu": _unary("elu", alpha=1.0),
    "HardSigmoid": _unary("hardsigmoid", alpha=0.2, beta=0.5), "ThresholdedRelu": _unary("thresholded_relu", alpha=1.0),
    "Selu": _unary("selu", alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    "Shrink": _unary("shrink", bias=0.0, lambd=0.5), "Celu": _celu, "Clip": _clip, "Gelu": _gelu, "Swish": _swish,
    "Add": _commutative("add"), "Sum": _commutative("add"), "Mul": _commutative("mul"), "Max": _commutative("max"),
    "Min": _commutative("min"), "Sub": _binary("sub", "rsub"), "Div": _binary("div", "rdiv"),
    "PRelu": _binary("prelu"), "Mean": _mean, "Pow": _pow, "Where": _where, "Affine": _affine,
    "Requantise": _requantise,
    "Equal": _binary("equal", "equal"), "Less": _binary("less", "greater"), "Greater": _binary("greater", "less"),
    "LessOrEqual": _binary("less_equal", "greater_equal"),
    "GreaterOrEqual": _binary("greater_equal", "less_equal"),
}  # fmt: skip
COMPARISONS = "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"  # their results are no real numbers


def steps_of(node: Node, known: Mapping[str, Known], i: int) -> list[Step] | None:
    """The steps of a node whose input `i` is the running value, float32 or float64; None if there are none."""
    find = STEPS.get(node.op) if len(node.inputs) <= MAX_INPUTS else None
    real = known[node.inputs[i]].dtype
    steps = find(node, known, i) if find is not None and real in (F32, F64) and len(node.outputs) == 1 else None
    if steps is None or (real == F64 and node.op in COMPARISONS):  # bytes are made of float32 only
        return None
    return steps if all(_takes_operand(step, known, real) for step in steps) else None


def _takes_operand(step: Step, known: Mapping[str, Known], real: np.dtype) -> bool:
    """Whether the operand of a step is of a type that it reads."""
    if not step.operand:
        return True
    dtype = known[step.operand].dtype
    return (dtype == BOOL and real == F32) if step.op[0] in ("fill", "keep") else dtype == real


def links(node: Node) -> Iterator[tuple[Node, int]]:
    """The operators of an `Elementwise`, and which of their inputs is the running value: "" for all but the first."""
    names = iter(node.inputs[1:])
    running = node.inputs[0]
    for op, attributes, i, count in node.attributes["links"]:
        yield Node(op, tuple(running if k == i else next(names) for k in range(count)), node.outputs, attributes), i
        running = ""


def chain_of(node: Node, known: Mapping[str, Known]) -> Chain | None:
    """The steps of a node on a tensor of float32 or float64; None if there are none."""
    if node.op == "Elementwise":
        x, steps = node.inputs[0], []
        known = {**{name: known[name] for name in node.inputs if name}, "": known[x]}
        for link, i in links(node):
            steps += steps_of(link, known, i) or []
        return Chain(x, tuple(steps))
    first = running_input(node, known)
    return None if first is None else Chain(node.inputs[first], tuple(steps_of(node, known, first) or ()))


def running_input(node: Node, known: Mapping[str, Known]) -> int | None:
    """Which input of an operator goes through its steps, one like the result if there is one; None if none can."""
    shape = known[node.outputs[0]].shape
    variable = [i for i, name in enumerate(node.inputs) if name and known[name].value is None]
    variable.sort(key=lambda i: known[node.inputs[i]].shape != shape)
    return next((i for i in variable if steps_of(node, known, i) is not None), None)


def is_elementwise(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> bool:
    """An operator that is made of steps of the kernels, on float32 or float64."""
    if len(known[node.outputs[0]].shape) > MAX_AXES or len(node.inputs) > MAX_INPUTS:
        return False
    chain = chain_of(node, known)
    return chain is not None and len(chain.steps) <= MAX_STEPS


def is_table(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Bytes by bytes; `passes/tables.py` makes no other."""
    return len(known[node.outputs[0]].shape) <= MAX_AXES


KERNELS = {
    **dict.fromkeys((*STEPS, "Elementwise"), Kernel(is_elementwise, strided=True, any_reals=True)),
    "Table": Kernel(is_table, strided=True),
}
