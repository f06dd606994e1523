"""Epilogues: the residual and the activation, applied to each output after its sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._core.nests.convolutions.route import TENSOR, Epilogue
from ..formats.nearest import near
from ..memory.arrays import as_array
from ..memory.tensor import Tensor

NO_ACTIVATION = Epilogue()  # no activation: only the residual is added
MIN_TENSOR_RANK = 3  # of an array that may be a tensor like the result


class Activation(NamedTuple):
    """How an activation with so many numbers is computed."""

    numbers: int
    kernel: str  # one of registry.STEPS
    parameters: Callable[..., tuple] = lambda *numbers: numbers  # those of the kernel
    operand: str = ""  # "number", "any" (its number may be an array), or "add": the residual; "": it has none


# The forms of each, by the numbers that they take.
ACTIVATIONS: dict[str, tuple[Activation, ...]] = {
    "relu": (Activation(0, "clip", lambda: (0, math.inf)),),
    "relu6": (Activation(0, "clip", lambda: (0, 6)),),
    "clip": (Activation(2, "clip"),),
    "leaky_relu": (Activation(1, "prelu", operand="number"),),
    "prelu": (Activation(1, "prelu", operand="any"),),
    "elu": (Activation(1, "elu"),),
    "silu": (Activation(0, "silu"),),
    "swish": (Activation(1, "swish"),),
    "mish": (Activation(0, "mish"),),
    "gelu": (Activation(0, "gelu"),),
    "gelu_tanh": (Activation(0, "gelu_tanh"),),
    "hardswish": (Activation(0, "hardswish"), Activation(2, "hardswish_of")),
    "hardsigmoid": (Activation(2, "hardsigmoid"),),
    "sigmoid": (Activation(0, "sigmoid"),),
    "tanh": (Activation(0, "tanh"),),
    "softplus": (Activation(0, "softplus"),),
    "exp": (Activation(0, "exp"),),
    "log": (Activation(0, "log"),),
    "sqrt": (Activation(0, "sqrt"),),
    "square": (Activation(0, "square"),),
    "abs": (Activation(0, "abs"),),
    "round": (Activation(0, "round"),),
    "floor": (Activation(0, "floor"),),
    "ceil": (Activation(0, "ceil"),),
    "sign": (Activation(0, "sign"),),
    "neg": (Activation(0, "neg"),),
    "reciprocal": (Activation(0, "reciprocal"),),
    "erf": (Activation(0, "erf"),),
    "sin": (Activation(0, "sin"),),
    "cos": (Activation(0, "cos"),),
    "selu": (Activation(2, "selu", lambda alpha, gamma: (alpha * gamma, gamma)),),
    "celu": (Activation(1, "celu"),),
    "softsign": (Activation(0, "softsign"),),
    "thresholded_relu": (Activation(1, "thresholded_relu"),),
    "shrink": (Activation(2, "shrink"),),
    "linear": (Activation(2, "linear"),),
    "pow": (Activation(2, "pow", lambda alpha, beta: (alpha, beta, *mirrors(float(beta)))),),
    "add": (Activation(1, "add", operand="any"),),
    "sub": (Activation(1, "sub", operand="any"),),
    "rsub": (Activation(1, "rsub", operand="any"),),
    "div": (Activation(1, "div", operand="any"),),
    "rdiv": (Activation(1, "rdiv", operand="any"),),
    "mul": (Activation(1, "mul", operand="any"),),
    "max": (Activation(1, "max", operand="any"),),
    "min": (Activation(1, "min", operand="any"),),
    "sum": (Activation(0, "sum", lambda: (1,), operand="add"), Activation(1, "sum", operand="add")),
}

COMMON = ("relu", "relu6", "leaky_relu", "silu", "gelu", "hardswish", "sigmoid", "tanh", "clip")  # that errors name
# Names that other libraries have for some of them.
OTHER_NAMES = {"hardtanh": "clip", "clamp": "clip", "lrelu": "leaky_relu", "hard_silu": "hardswish",
             "logistic": "sigmoid", "softmax": "", "identity": "", "maximum": "max", "minimum": "min",
             "multiply": "mul", "subtract": "sub", "divide": "div", "negative": "neg"}  # fmt: skip


class Operand(NamedTuple):
    """A tensor operand of a step: an array or Tensor; None: the residual."""

    name: str
    value: np.ndarray | Tensor | None


class ParsedActivation(NamedTuple):
    """An activation, parsed.

    Attributes
    ----------
    epilogue : Epilogue or None
        Its steps, without a first one that adds the residual with scale 1: that is the default.
    operands : tuple of Operand
        The tensor operands of these steps.
    uses_residual : bool
        Whether it says where the residual is added, which must then exist.
    """

    epilogue: Epilogue | None = None
    operands: tuple[Operand, ...] = ()
    uses_residual: bool = False


def step_of(name: str, *numbers: float) -> tuple[str, tuple[float, ...], float | None]:
    """The step of `registry.STEPS` that an activation is, without an operand that is an array: its name, its numbers
    and the number that is its operand, if it has one."""
    for row in ACTIVATIONS.get(name, ()):
        if row.operand == "any" and not numbers:
            return row.kernel, (), None
        if row.numbers == len(numbers):
            return (row.kernel, (), numbers[0]) if row.operand else (row.kernel, row.parameters(*numbers), None)
    return name, numbers, None


def mirrors(beta: float) -> tuple[float, float]:
    """The factors of |x|^beta for negative x, and for -0 or -Inf."""
    whole = not math.isfinite(beta) or beta == math.floor(beta)
    odd = -1.0 if math.isfinite(beta) and beta % 2 == 1 else 1.0
    return odd if whole else math.nan, odd


def parse(activation: Any, channels: int, dtype: np.dtype, what: str, **quantisation: Any) -> ParsedActivation:
    """Parse a name of ACTIVATIONS, a (name, number, ..), or a list of these, for so many output channels, computed in
    `dtype`.

    `quantisation`: how sums of integers become results, see `core.route.Epilogue`.
    """
    if activation is None:
        return ParsedActivation(Epilogue(**quantisation) if quantisation else None)
    steps: list[tuple[str, np.ndarray | None, Any]] = []
    operands: list[Operand] = []
    uses_residual = False
    for number, written in enumerate(chain_of(activation)):
        name, step, value = _step(written, channels, dtype, what)
        adds = step[0] == "sum"
        uses_residual |= adds
        if adds and number == 0 and step[1] == 1:
            continue
        steps.append(step)
        if step[2] is TENSOR:
            operands.append(Operand(name, value))
    return ParsedActivation(Epilogue(steps, **quantisation), tuple(operands), uses_residual)


def with_own_array(operand: Operand) -> Operand:
    """The same with a copy of its array."""
    value = operand.value
    if isinstance(value, Tensor):
        return operand._replace(value=Tensor(value.array.copy(), value.layout, value.shape))
    return operand if value is None else operand._replace(value=value.copy())


def chain_of(activation: Any) -> list:
    """The steps of an activation as they were written."""
    if isinstance(activation, list) and activation and all(map(_is_step, activation)):
        return activation
    return [activation]


def in_words(activation: Any) -> str:
    """An activation in few words."""

    def one(written: Any) -> str:
        if not isinstance(written, (tuple, list)):
            return str(written)
        name, *numbers = written
        texts = [
            str(v) if np.ndim(v) == 0 and not isinstance(v, Tensor) else f"array of {np.shape(v)}" for v in numbers
        ]
        return f"{name}({', '.join(texts)})" if texts else name

    return ", ".join(map(one, chain_of(activation)))


def _is_step(written: Any) -> bool:
    """Whether this looks like a step of a chain, not like the number or array of one."""
    return isinstance(written, str) or (
        isinstance(written, (tuple, list)) and bool(written) and isinstance(written[0], str)
    )


def _step(written: Any, channels: int, dtype: np.dtype, what: str) -> tuple[str, tuple, Any]:
    """Parse a step: its name, the step, and its tensor operand."""
    name, *arguments = written if isinstance(written, (tuple, list)) and written else (written,)
    rows = ACTIVATIONS.get(name, ()) if isinstance(name, str) else ()
    matching = next((row for row in rows if row.numbers == len(arguments)), None)
    if matching is None:
        raise ValueError(f"{what}: activation {written!r}{_why_not(name)}")
    if matching.operand == "any" and is_tensor(arguments[0], channels):
        value = arguments[0] if isinstance(arguments[0], Tensor) else as_array(arguments[0], f"{what}: {name}")
        return name, (matching.kernel, None, TENSOR), value
    try:
        arguments = [np.array(value, dtype, order="C") for value in arguments]
    except (TypeError, ValueError):
        raise TypeError(f"{what}: activation {written!r}: expected numbers") from None
    if matching.operand == "any":
        operand = arguments[0].reshape(-1)
        if operand.size not in (1, channels):
            numbers = "slopes" if name == "prelu" else "numbers"
            raise ValueError(
                f"{what}: {name} has {operand.size} {numbers}, expected 1 or {channels}, or a tensor like the result"
            )
        return name, (matching.kernel, None, operand), None
    if any(value.ndim for value in arguments):
        raise ValueError(f"{what}: activation {written!r}: expected numbers, not sequences of them")
    if matching.operand == "number":
        return name, (matching.kernel, None, np.array(arguments, dtype)), None
    if name == "clip" and not arguments[0] <= arguments[1]:
        raise ValueError(f"{what}: clip from {arguments[0]} to {arguments[1]} leaves nothing")
    parameters = np.array(matching.parameters(*arguments), dtype)
    return name, (matching.kernel, parameters, TENSOR if matching.operand else None), None


def is_tensor(value: Any, channels: int) -> bool:
    """Whether an operand is a tensor like the result: not one number, nor one for each channel."""
    if isinstance(value, Tensor):
        return True
    shape = np.shape(value)
    size = math.prod(shape)
    return len(shape) >= MIN_TENSOR_RANK and not (size in (1, channels) and max(shape) == size)


def _why_not(name: Any) -> str:
    """What is wrong with an activation of this name, and what may have been meant."""
    if isinstance(name, str) and name in ACTIVATIONS:
        return f" is written {' or '.join(_forms(name))}"
    close = near(name, ACTIVATIONS, OTHER_NAMES)
    hint = f": did you mean {' or '.join(_forms(close))}? There are " if close else " is unknown: there are "
    usual = ", ".join(form for usual in COMMON for form in _forms(usual))
    return f"{hint}{usual} and others, see help(layoutkit.conv2d)"


def _forms(name: str) -> Iterator[str]:
    """How an activation is written."""
    for row in ACTIVATIONS[name]:
        arguments = ", array" if row.operand == "any" else ", number" * row.numbers
        yield f"({name!r}{arguments})" if row.numbers else repr(name)
