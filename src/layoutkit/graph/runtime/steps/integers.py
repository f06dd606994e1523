"""Elementwise steps from bytes to bytes as sums and products of the bytes themselves.

Integers q stand for (q - zero) * scale. Between two steps that are not linear, scales and constants are one factor and
one summand, so that a sum of two tensors is ``round(a * p + b * q + c) + zero``: what takes fewest
instructions, and what kernels keep in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Step = tuple[str, np.ndarray | None, Any]  # as `Elementwise` takes them
Element = tuple[str, float, int]
BYTES = "u8", "s8"
MOST_STEPS = 32


class _Linear:
    """A running value as factor * value + summand + sum of weights[k] * q[k], and the steps before it."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.factor: Any = np.float64(1)  # or an array, as the summand
        self.summand: Any = np.float64(0)
        self.weights: dict[int, float] = {}

    def scale(self, by: Any) -> None:
        """Multiply it by a number or by a constant array."""
        if np.size(by) == 1:
            by = np.asarray(by).reshape(())
        elif self.weights:  # of several numbers, or of none where the tensor is empty
            self.settle()
        self.factor, self.summand = self.factor * by, self.summand * by
        self.weights = {k: float(weight * by) for k, weight in self.weights.items()}

    @property
    def is_settled(self) -> bool:
        """Whether the steps so far compute it."""
        return not self.weights and bool(np.all(self.factor == 1) and np.all(self.summand == 0))

    def settle(self) -> None:
        """Append the steps that compute it."""
        factor, summand = (np.asarray(n, np.float32) for n in (self.factor, self.summand))
        if factor.size == summand.size == 1:
            numbers = np.array([factor.reshape(()), summand.reshape(())])
            self.steps += [("linear", numbers, None)] if numbers.tolist() != [1, 0] else []
        else:
            if np.any(factor != 1) and np.any(summand != 0):  # of one shape: kernels do them as one step
                factor, summand = map(np.array, np.broadcast_arrays(factor, summand))
            self.steps += [("mul", None, factor)] if np.any(factor != 1) else []
            self.steps += [("add", None, summand)] if np.any(summand != 0) else []
        self.steps += [("sum", np.array([weight]), k) for k, weight in self.weights.items()]
        self.factor, self.summand, self.weights = np.float64(1), np.float64(0), {}


def in_bytes(steps: Sequence[Step], elements: Sequence[Element]) -> tuple[list[Step], list[Element]] | None:
    """The same on bytes whose scale is 1; None where a step is of another kind, or arrays are of other types."""
    if any(element not in BYTES for element, _, _ in elements):
        return None
    # zero points are part of the summand, but of factors
    factors = {operand for name, _, operand in steps if name == "mul" and isinstance(operand, int)}
    zeros = [zero if k in factors else 0 for k, (_, _, zero) in enumerate(elements[:-1])]
    value = _Linear()
    value.summand = np.float64(zeros[0] - elements[0][2])
    value.scale(elements[0][1])
    for i, (name, numbers, operand) in enumerate(steps):
        if not _append(value, name, numbers, operand, elements, _scale_after(steps[i + 1 :], elements[-1])):
            return None
        if isinstance(operand, int) and name != "mul":
            weight = -elements[operand][1] if name == "sub" else elements[operand][1]
            value.summand = value.summand + weight * (zeros[operand] - elements[operand][2])
    value.scale(1 / elements[-1][1])
    value.settle()
    if len(value.steps) > MOST_STEPS:
        return None
    zeros.append(elements[-1][2])
    return value.steps, [(element, 1.0, zero) for (element, _, _), zero in zip(elements, zeros)]


def _append(value: _Linear, name: str, numbers: Any, operand: Any, elements: Sequence[Element], after: float) -> bool:
    """Append a step; whether that is possible. `after`: by what the value is multiplied next."""
    tensor = isinstance(operand, int)
    if name == "linear":
        value.scale(np.float64(numbers[0]))
        value.summand = value.summand + np.float64(numbers[1])
    elif name == "neg":
        value.scale(-1.0)
    elif name in ("add", "sub", "rsub"):
        if name == "rsub":
            value.scale(-1.0)
        sign = -1.0 if name == "sub" else 1.0
        if tensor:
            value.weights[operand] = value.weights.get(operand, 0.0) + sign * elements[operand][1]
        else:
            value.summand = value.summand + sign * np.asarray(operand, np.float64)
    elif name == "mul" and not tensor:
        value.scale(np.asarray(operand, np.float64))
    elif name == "mul":
        value.scale(elements[operand][1])
        value.settle()
        value.steps.append((name, None, operand))
    elif name == "round":
        value.settle()
        value.steps.append((name, numbers, None))
    elif name == "clip":
        if value.is_settled:  # by a rounding: its limits are in the same steps
            value.steps.append((name, np.asarray(numbers, np.float64), None))
            return True
        value.scale(after)
        value.settle()
        value.steps.append((name, np.asarray(numbers, np.float64) * after, None))
        value.scale(1 / after)
    else:
        return False
    return True


def _scale_after(steps: Sequence[Step], y: Element) -> float:
    """What a value is multiplied by in the step that follows, if it is a positive number, else 1."""
    if not steps:
        return 1 / y[1]
    name, numbers, _ = steps[0]
    return float(numbers[0]) if name == "linear" and numbers is not None and numbers[0] > 0 else 1.0
