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

Written = tuple[Any, ...]  # a name of `convolutions.epilogue.ACTIVATIONS` or `registry.STEPS`, and its numbers


class Step(NamedTuple):
    """What is done to the running value; `operand` is the name of a tensor, if there is one."""

    written: Written
    operand: str = ""


class Chain(NamedTuple):
    """A tensor and the steps that it goes through."""

    x: str
    steps: tuple[Step, ...]


Steps = Callable[
    [Node, Mapping[str, Known], int], "list[Step] | None"
]  # of a node whose input `at` is the running value


def single_number(of: Known) -> float | None:
    """The value of a constant that is one number."""
    return None if of.value is None or of.value.size != 1 else float(of.value.reshape(()))


def _alone(name: str, **attributes: float) -> Steps:
    """An operator of one input, with these attributes and their defaults as numbers."""

    def steps(node: Node, known: Mapping[str, Known], at: int) -> list[Step]:
        numbers = (float(np.float32(node.attributes.get(key, default))) for key, default in attributes.items())
        return [Step((name, *numbers))]

    return steps


def _pair(name: str, mirrored: str = "") -> Steps:
    """An operator of two inputs; `mirrored` if the running value is the second: "" if it is none then."""

    def steps(node: Node, known: Mapping[str, Known], at: int) -> list[Step] | None:
        if len(node.inputs) != 2 or (at and not mirrored):
            return None
        return [Step((mirrored if at else name,), node.inputs[1 - at])]

    return steps


def _several(name: str) -> Steps:
    """An operator of any number of inputs, in any order."""
    return lambda node, known, at: [Step((name,), other) for i, other in enumerate(node.inputs) if i != at]


def _clip(node: Node, known: Mapping[str, Known], at: int) -> list[Step] | None:
    if at:
        return None
    numbers = [
        single_number(known[node.inputs[i]]) if node.input(i) else none for i, none in ((1, -np.inf), (2, np.inf))
    ]
    low, high = numbers
    if low is not None and high is not None and low <= high:
        return [Step(("clip", low, high))]
    return [Step((name,), node.inputs[i]) for i, name in ((1, "max"), (2, "min")) if node.input(i)]


def _pow(node: Node, known: Mapping[str, Known], at: int) -> list[Step] | None:
    exponent = None if at else single_number(known[node.inputs[1]])
    if exponent is None:
        return None
    return [Step(("square",) if exponent == 2 else ("pow", 1.0, exponent))]


def _where(node: Node, known: Mapping[str, Known], at: int) -> list[Step] | None:
    """Where one of the branches is a number."""
    if not at:
        return None
    number = single_number(known[node.inputs[3 - at]])
    return None if number is None else [Step(("keep" if at == 1 else "fill", number), node.inputs[0])]


def _affine(node: Node, known: Mapping[str, Known], at: int) -> list[Step] | None:
    """A product and a sum, without factors of 1 and summands of 0."""
    if at:
        return None
    pairs = ("mul", node.inputs[1], 1), ("add", node.inputs[2], 0)
    return [Step((name,), x) for name, x, none in pairs if np.any(known[x].value != none)]


def _celu(node: Node, known: Mapping[str, Known], at: int) -> list[Step] | None:
    return _alone("celu", alpha=1.0)(node, known, at) if node.attributes.get("alpha", 1.0) > 0 else None


def _gelu(node: Node, known: Mapping[str, Known], at: int) -> list[Step]:
    return [Step(("gelu_tanh" if node.attributes.get("approximate", "none") == "tanh" else "gelu",))]


def _swish(node: Node, known: Mapping[str, Known], at: int) -> list[Step]:
    alpha = float(np.float32(node.attributes.get("alpha", 1.0)))
    return [Step(("silu",) if alpha == 1 else ("swish", alpha))]


STEPS: dict[str, Steps] = {
    **{name: _alone(name.lower()) for name in ("Relu", "Sigmoid", "Tanh", "Softplus", "Mish", "HardSwish", "Exp", "Log",
                                               "Sqrt", "Abs", "Round", "Neg", "Reciprocal", "Erf", "Floor", "Ceil",
                                               "Sign", "Softsign")},
    "LeakyRelu": _alone("leaky_relu", alpha=0.01), "Elu": _alone("elu", alpha=1.0),
    "HardSigmoid": _alone("hardsigmoid", alpha=0.2, beta=0.5), "ThresholdedRelu": _alone("thresholded_relu", alpha=1.0),
    "Selu": _alone("selu", alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    "Shrink": _alone("shrink", bias=0.0, lambd=0.5), "Celu": _celu, "Clip": _clip, "Gelu": _gelu, "Swish": _swish,
    "Add": _several("add"), "Sum": _several("add"), "Mul": _several("mul"), "Max": _several("max"),
    "Min": _several("min"),
    "Sub": _pair("sub", "rsub"), "Div": _pair("div", "rdiv"), "PRelu": _pair("prelu"), "Pow": _pow, "Where": _where,
    "Affine": _affine,
    "Equal": _pair("equal", "equal"), "Less": _pair("less", "greater"), "Greater": _pair("greater", "less"),
    "LessOrEqual": _pair("less_equal", "greater_equal"), "GreaterOrEqual": _pair("greater_equal", "less_equal"),
}  # fmt: skip
COMPARISONS = "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"  # their results are no real numbers


def steps_of(node: Node, known: Mapping[str, Known], at: int) -> list[Step] | None:
    """The steps of a node whose input `at` is the running value, float32 or float64; None if there are none."""
    find = STEPS.get(node.op) if len(node.inputs) <= MAX_INPUTS else None
    real = known[node.inputs[at]].dtype
    steps = find(node, known, at) if find is not None and real in (F32, F64) and len(node.outputs) == 1 else None
    if steps is None or (real == F64 and node.op in COMPARISONS):  # bytes are made of float32 only
        return None
    return steps if all(_takes(step, known, real) for step in steps) else None


def _takes(step: Step, known: Mapping[str, Known], real: np.dtype) -> bool:
    """Whether the operand of a step is of a type that it reads."""
    if not step.operand:
        return True
    dtype = known[step.operand].dtype
    return (dtype == BOOL and real == F32) if step.written[0] in ("fill", "keep") else dtype == real


def links(node: Node) -> Iterator[tuple[Node, int]]:
    """The operators of an `Elementwise`, and which of their inputs is the running value: "" for all but the first."""
    names = iter(node.inputs[1:])
    running = node.inputs[0]
    for op, attributes, at, count in node.attributes["links"]:
        yield Node(op, tuple(running if i == at else next(names) for i in range(count)), node.outputs, attributes), at
        running = ""


def chain_of(node: Node, known: Mapping[str, Known]) -> Chain | None:
    """What a node does to a tensor of float32 or float64, step by step; None if no kernel does that."""
    if node.op == "Elementwise":
        x, steps = node.inputs[0], []
        known = {**{name: known[name] for name in node.inputs if name}, "": known[x]}
        for one, at in links(node):
            steps += steps_of(one, known, at) or []
        return Chain(x, tuple(steps))
    first = running_input(node, known)
    return None if first is None else Chain(node.inputs[first], tuple(steps_of(node, known, first) or ()))


def running_input(node: Node, known: Mapping[str, Known]) -> int | None:
    """Which input of an operator goes through its steps, one like the result if there is one; None if none can."""
    shape = known[node.outputs[0]].shape
    places = [i for i, name in enumerate(node.inputs) if name and known[name].value is None]
    places.sort(key=lambda i: known[node.inputs[i]].shape != shape)
    return next((i for i in places if steps_of(node, known, i) is not None), None)


def is_elementwise(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> bool:
    """An operator that is made of steps of the kernels, on float32 or float64."""
    if len(known[node.outputs[0]].shape) > MAX_AXES or len(node.inputs) > MAX_INPUTS:
        return False
    chain = chain_of(node, known)
    return chain is not None and len(chain.steps) <= MAX_STEPS


KERNELS = dict.fromkeys((*STEPS, "Elementwise"), Kernel(is_elementwise, strided=True, any_reals=True))
