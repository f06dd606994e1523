"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...._core.nests.operation import Operation
from ....choosing.best import choices
from ....convolutions.conv import CLASSES, bind, task_of
from ....convolutions.task import ConvTask
from ....convolutions.transposed_operation import operation
from ....formats.layout import Layout
from ...ir import Node
from ...layout.costs import arguments, sides_of, transposed_of
from ...layout.factors import factors_of
from ...operators import Known
from ...operators.kernels.convolution import filter_of_integers
from ...operators.layouts import PLAIN
from .building import Build, Building


def _convolution(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known = program.known
    x = known[node.inputs[0]]
    (src, dst), rank = _between(node, known, kinds), len(x.shape) - 2
    f = factors_of(node, known, program.costs.dtype)
    b = f.bias(known[node.inputs[2]].value if node.input(2) else None)
    op = CLASSES[rank].of_constant(
        f.w, b, layout=src, out_layout=dst,
        filter_layout="OI" + "DHW"[3 - rank :], activation=f.activation(node.attributes.get("activation")),
        accuracy=program.costs.accuracy, threads=program.costs.threads, **f.options,
        **arguments(node, known),
    )  # fmt: skip
    operand = program.operand(node.inputs[0], kinds[0], f.x)
    residuals = (program.operand(node.inputs[3], kinds[1], f.y),) if node.input(3) else ()
    result = program.result(node.outputs[0], kinds[1], f.y)

    def make(x: np.ndarray, *others: np.ndarray) -> Operation | Callable[..., None]:
        *residual, y = others
        return bind(op, x, y, residual[0] if residual else None)

    how = partial(_algorithm, task_of(op, x.shape))  # which does not hold the filter, as `op` does
    program.operation(node, make, (operand, *residuals), (result,), how)


def _between(node: Node, known: Mapping[str, Known], kinds: tuple[int, int]) -> tuple[Layout, Layout]:
    """The layouts of input and result, of these kinds."""
    sources, results = sides_of(node, known)
    return sources[kinds[0]], results[kinds[1]]


def _algorithm(task: ConvTask) -> str:
    return choices(task)[0].candidate.name


def _transposed(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    x, f = program.known[node.inputs[0]], factors_of(node, program.known, program.costs.dtype)
    src, dst = _between(node, program.known, kinds)
    op = transposed_of(node, program.known, src, dst, program.costs)
    operand = program.operand(node.inputs[0], kinds[0], f.x)
    result = program.result(node.outputs[0], kinds[1], f.y)
    if f.x.integers or np.isfinite(f.w).all():
        program.operation(node, lambda source, y: operation(op, source, y, x.shape), (operand,), (result,))
    else:  # its phases are summed tap by tap
        program.step(node, lambda slots: op(slots[operand], slots[result], shape=x.shape), (operand,), (result,))


def _tap_sums(op: Any, x: Known) -> np.ndarray:
    """The sums of the taps that lie inside, of each output; one for all of a channel where they are the same."""
    sums = op(np.ones((1, *x.shape[1:]), x.dtype))
    first = sums[(slice(None), slice(None), *[slice(0, 1)] * (sums.ndim - 2))]
    return np.ascontiguousarray(first) if (sums == first).all() else sums


def _of_integers(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """A ConvInteger; of a zero point that varies, its product with the sums of the taps inside is subtracted."""
    known, w = program.known, filter_of_integers(node, program.known)
    assert w is not None
    x, zero = known[node.inputs[0]], known[node.inputs[2]] if node.input(2) else None
    constant = 0 if zero is None else None if zero.value is None else int(zero.value.reshape(()))
    letters = "DHW"[5 - len(x.shape) :]
    op = CLASSES[len(letters)](
        w, layout=f"NC{letters}", filter_layout=f"OI{letters}", dtype=(str(x.dtype), "int32"),
        zero_point=constant or 0, threads=program.costs.threads, **arguments(node, known),
    )  # fmt: skip
    source = program.operand(node.inputs[0], PLAIN)
    if constant is not None:
        result = program.result(node.outputs[0], PLAIN)
        program.operation(node, lambda x, y: bind(op, x, y, None), (source,), (result,))
        return
    taps = _tap_sums(op, x)

    def convolve(x: np.ndarray, zero: np.ndarray, y: np.ndarray) -> None:
        op(x, y)
        y -= zero.astype(np.int32).reshape(()) * taps

    reads = source, program.operand(node.inputs[2], PLAIN)
    program.operation(node, lambda *arrays: convolve, reads, (program.result(node.outputs[0], PLAIN),))


BUILDS: dict[str, Build] = {"Conv": _convolution, "ConvInteger": _of_integers, "ConvTranspose": _transposed}
