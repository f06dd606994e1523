"""What convolutions and products multiply: numbers of a type, or integers with the scales of their sums."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...convolutions.epilogue import chain_of, step_of
from ...formats.layout import Layout
from ...reorders.reorder import reorder
from ..ir import Node
from ..operators import Known, StoredType
from ..operators.filters import numbers_of

FLOAT = StoredType("float32")


class Factors(NamedTuple):
    """What a convolution or product multiplies, and how its input and result are stored."""

    w: np.ndarray
    x: StoredType
    y: StoredType
    options: dict[str, Any]  # of a convolution
    unit: float = 1.0  # of results: they are integers in steps of it, and what is added to sums and limits them is, too
    integer_bias: np.ndarray | None = None  # which is part of the sums, instead of that of the node

    def bias(self, values: np.ndarray | None) -> np.ndarray | None:
        """What is added to the sums, for the bias of the node."""
        if self.integer_bias is not None:
            return self.integer_bias
        return values if values is None or self.unit == 1 else values / np.float32(self.unit)

    def activation(self, activation: Any) -> Any:
        """That of the node, in units of the results."""
        if activation is None or self.unit == 1:
            return activation
        return [("clip", *(limit / self.unit for limit in limits)) for limits in _clips(activation) or ()]


def factors_of(node: Node, known: Mapping[str, Known], dtype: str) -> Factors:
    """Integers where the model has them on both sides, else numbers of `dtype`."""
    x, y, integers = known[node.inputs[0]].stored, known[node.outputs[0]].stored_type, node.attributes.get("integers")
    alpha = np.float32(node.attributes.get("alpha", 1.0))
    if integers is None or x is None or not x.integers:
        y = FLOAT if y.integers else y
        w = known[node.inputs[1]].value if integers is None else numbers_of(node)
        assert w is not None
        return Factors(
            in_type(w if alpha == 1 else w * alpha, dtype), StoredType(dtype), y, {"dtype": (dtype, y.dtype)}
        )
    w, scale = integers
    if node.op == "ConvTranspose":  # its filter has the output channels of a group
        scale = np.tile(scale, node.attributes.get("group", 1))
    y, unit = y if y.integers else FLOAT, 1.0
    options = {"dtype": (x.dtype, y.dtype), "scale": np.float32(x.scale) * scale * alpha, "zero_point": x.zero_point}
    if y.integers:
        options |= {"out_scale": y.scale, "out_zero_point": y.zero_point}
        activation = node.attributes.get("activation")
        if not node.input(3) and (activation is None or _clips(activation) is not None):
            # sums are multiplied once, and are rounded as they leave the registers
            unit = y.scale
            options |= {"scale": options["scale"] / np.float32(unit), "out_scale": 1.0}
    return Factors(w, x, y, options, unit, _integer_bias(node, x, scale))


def _clips(activation: Any) -> list[tuple[float, float]] | None:
    """The limits that an activation consists of, None if it is another one."""
    steps = [step_of(*((each,) if isinstance(each, str) else each)) for each in chain_of(activation)]
    if any(name != "clip" or operand is not None for name, _, operand in steps):
        return None
    return [(float(low), float(high)) for _, (low, high), _ in steps]


def _integer_bias(node: Node, x: StoredType, scale: np.ndarray) -> np.ndarray | None:
    """The bias of a node in int32, if its scale is that of the products."""
    name, values, of_bias = node.attributes.get("integer_bias", ("", None, None))
    if not name or node.input(2) != name or any(node.attributes.get(key, 1) != 1 for key in ("alpha", "beta")):
        return None
    alike = np.allclose(np.float32(x.scale) * scale, of_bias, rtol=1e-6, atol=0)
    return values if alike and values.shape == scale.shape else None


def in_type(w: np.ndarray, dtype: str) -> np.ndarray:
    """A float32 filter in the type that convolutions multiply."""
    if dtype == "float32":
        return w
    plain = Layout("abcde"[: w.ndim])
    return np.asarray(reorder(w, plain, plain, dtype=dtype))


def conversion(source: StoredType, target: StoredType) -> dict[str, Any]:
    """The arguments of `reorder` that convert numbers from one stored type to another."""
    options: dict[str, Any] = {"dtype": (source.dtype, target.dtype)}
    if source.integers:
        options |= {"scale": source.scale, "zero_point": source.zero_point}
    if target.integers:
        options |= {"out_scale": target.scale, "out_zero_point": target.zero_point}
    return options


@lru_cache(8)
def array_type(dtype: str) -> np.dtype:
    """The dtype of arrays of a stored type; numpy itself has no bfloat16."""
    if dtype != "bfloat16":
        return np.dtype(dtype)
    return reorder(np.zeros(1, np.float32), "a", "a", dtype=dtype).dtype
