"""Products of matrices, and attention. Narrow numbers and integers are multiplied by a constant as convolutions, and
tensors of bytes by one another."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...._core.nests.operation import Operation
from ...._core.nests.products.attention import Attention
from ...._core.nests.products.byte_matmul import ByteMatmul
from ...._core.nests.products.matmul import Matmul
from ....convolutions.conv import CLASSES, bind
from ....convolutions.epilogue import parse
from ...ir import Node
from ...layout.factors import FLOAT, factors_of
from ...operators.kernels import F32, is_product, shape_of_rows
from ...operators.kernels.products import filter_of_integers, scale_of_bytes
from ...operators.layouts import PLAIN
from .building import Build, Building, contiguously


def _bias(node: Node, program: Building, columns: int) -> np.ndarray | None:
    """The constant that is added to each column of a product."""
    c = program.known[node.inputs[2]].value if node.input(2) else None
    if c is None:
        return None
    return np.ascontiguousarray(np.broadcast_to(c.reshape(-1) * np.float32(node.attributes.get("beta", 1.0)), columns))


def _product(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    narrow = program.costs.dtype != "float32" or "integers" in node.attributes
    if narrow and is_product(node, program.known):
        _as_convolution(program, node)
    elif (scale := scale_of_bytes(node, program.known)) is not None:
        _of_bytes(program, node, scale)
    else:
        _matmul(program, node)


def _matrices(node: Node, a: np.ndarray, b: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The operands and the result of a product as (batches of) matrices, of the arrays that have them."""
    attributes = node.attributes
    a, b = (x if view is None else view.of(x) for x, view in zip((a, b), attributes.get("views", (None, None))))
    y = attributes["into"].of(y) if "into" in attributes else y
    columns = b.shape[-1] if b.ndim > 1 else 1
    y = y.reshape(y.shape + (1,) * (b.ndim == 1)) if a.ndim > 1 else y.reshape((*y.shape[: b.ndim - 2], 1, columns))
    a, b = np.atleast_2d(a), b[:, None] if b.ndim == 1 else b
    a, b = (x.swapaxes(-1, -2) if attributes.get(key) else x for x, key in ((a, "transA"), (b, "transB")))
    return a, b, y


def _of_bytes(program: Building, node: Node, scale: float) -> None:
    """A product of tensors of bytes, rounded to bytes."""
    names, threads = (*node.inputs[:2], node.outputs[0]), program.costs.threads
    zeros = [program.known[name].stored_type.zero_point for name in names]
    reads = tuple(program.operand(name, PLAIN) for name in names[:2])

    def make(*arrays: np.ndarray) -> ByteMatmul:
        return ByteMatmul(*_matrices(node, *arrays), zeros, scale, arrays=arrays, threads=threads)

    moves = "views" in node.attributes or "into" in node.attributes
    program.operation(node, contiguously(make, threads) if moves else make, reads, (program.result(names[2], PLAIN),))


def _matmul(program: Building, node: Node) -> None:
    known, attributes = program.known, node.attributes
    names, result = node.inputs[:2], program.result(node.outputs[0], PLAIN, FLOAT)
    values = [known[name].value for name in names]
    constant = "" if values[0] is values[1] is None else "a" if values[1] is None else "b"
    alpha = np.float32(attributes.get("alpha", 1.0))
    if constant and alpha != 1:
        values = [None if v is None else v * alpha for v in values]
        alpha = np.float32(1)
    reads = tuple(program.operand(name, PLAIN, FLOAT) for name, v in zip(names, values) if v is None)
    residuals = (program.operand(node.inputs[3], PLAIN, FLOAT),) if node.input(3) else ()
    into = attributes.get("into")
    columns = ((into or known[node.outputs[0]]).shape or (1,))[-1] if len(known[names[1]].shape) > 1 else 1
    bias = _bias(node, program, columns)
    steps: list[Any] = []
    if alpha != 1:
        steps.append(("linear", alpha, 0))
        if bias is not None:
            steps.append(("add", bias))
            bias = None
    activation = attributes.get("activation")
    steps += [] if activation is None else activation if isinstance(activation, list) else [activation]
    epilogue = parse(steps or None, columns, F32, str(node)).epilogue if columns else None

    def make(*arrays: np.ndarray) -> Matmul:
        *operands, y = arrays
        a, b = (operands.pop(0) if v is None else np.asarray(v) for v in values)
        add = operands.pop(0) if operands else None
        add = add if add is None or into is None else into.of(add)
        a, b, y = _matrices(node, a, b, y)
        return Matmul(
            a, b, y, bias=bias, epilogue=epilogue, add=add, constant=constant, arrays=arrays,
            threads=program.costs.threads,
        )  # fmt: skip

    contiguous = any(attributes.get("views", ())) or into is not None or bool(residuals)
    made = contiguously(make, program.costs.threads) if contiguous else make
    program.operation(node, made, (*reads, *residuals), (result,))


def _attention(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    views, into, scale = (node.attributes[key] for key in ("views", "into", "scale"))
    known, result = program.known, program.result(node.outputs[0], PLAIN, FLOAT)
    mask = known[node.inputs[3]].value if node.input(3) else None
    constant = mask is not None
    reads = tuple(program.operand(name, PLAIN, FLOAT) for name in node.inputs[: 3 if constant else 4])

    def make(*arrays: np.ndarray) -> Attention:
        *operands, y = arrays
        q, k, v = (view.of(x) for view, x in zip(views, operands))
        return Attention(
            q, k, v, into.of(y), mask if constant else (*operands[3:], None)[0], scale=scale, constant_mask=constant,
            arrays=arrays, threads=program.costs.threads, pairs=program.costs.dtype == "bfloat16",
        )  # fmt: skip

    program.operation(node, contiguously(make, program.costs.threads), reads, (result,))


def _as_convolution(program: Building, node: Node) -> None:
    """A product of rows with a constant matrix as a convolution of one tap."""
    known, a = program.known, node.attributes
    shape, f = shape_of_rows(node, known), factors_of(node, known, program.costs.dtype)
    assert shape is not None
    w = f.w if a.get("transB") else f.w.T
    b = f.bias(_bias(node, program, len(w)))
    op = CLASSES[1].of_constant(
        w[:, :, None], b, layout="NWC", filter_layout="OIW",
        activation=f.activation(a.get("activation")), accuracy=program.costs.accuracy,
        threads=program.costs.threads, **f.options,
    )  # fmt: skip
    operand = program.operand(node.inputs[0], PLAIN, f.x)
    residuals = (program.operand(node.inputs[3], PLAIN, f.y),) if node.input(3) else ()
    result = program.result(node.outputs[0], PLAIN, f.y)
    rows = prod(shape[:-1])

    def as_rows(*arrays: np.ndarray) -> list[np.ndarray]:
        return [array.reshape(1, rows, -1) for array in arrays]

    def multiply(x: np.ndarray, *others: np.ndarray) -> None:
        x, *residual, y = as_rows(x, *others)
        op(x, y, *residual)

    def make(*arrays: np.ndarray) -> Operation | Callable[..., None]:
        if not all(array.flags.c_contiguous for array in arrays[:-1]):  # a part of another tensor
            return multiply
        x, *residual, y = as_rows(*arrays)
        operation = bind(op, x, y, residual[0] if residual else None)
        return operation if isinstance(operation, Operation) else multiply

    program.operation(node, make, (operand, *residuals), (result,))


def _of_integers(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """A MatMulInteger as a convolution of one tap; a zero point that varies is subtracted afterwards."""
    known, w = program.known, filter_of_integers(node, program.known)
    assert w is not None
    x, zero = known[node.inputs[0]], known[node.inputs[2]] if node.input(2) else None
    constant = 0 if zero is None else None if zero.value is None else int(zero.value.reshape(()))
    op = CLASSES[1](
        np.ascontiguousarray(w.T)[:, :, None], layout="NWC", filter_layout="OIW", dtype=(str(x.dtype), "int32"),
        zero_point=constant or 0, threads=program.costs.threads,
    )  # fmt: skip
    reads = tuple(
        program.operand(name, PLAIN) for name in (node.inputs[0], *node.inputs[2:3])[: 1 + (constant is None)]
    )
    rows, sums = prod(x.shape[:-1]), w.sum(0, dtype=np.int32)

    def multiply(x: np.ndarray, *others: np.ndarray) -> None:
        *zero, y = others
        x, y = x.reshape(1, rows, -1), y.reshape(1, rows, -1)
        op(x, y)
        if zero:
            y -= zero[0].astype(np.int32).reshape(()) * sums

    def make(*arrays: np.ndarray) -> Operation | Callable[..., None]:
        x, y = arrays[0], arrays[-1]
        if constant is None or not (x.flags.c_contiguous and y.flags.c_contiguous):
            return multiply
        operation = bind(op, x.reshape(1, rows, -1), y.reshape(1, rows, -1), None)
        return operation if isinstance(operation, Operation) else multiply

    program.operation(node, make, reads, (program.result(node.outputs[0], PLAIN),))


BUILDS: dict[str, Build] = {
    "Gemm": _product,
    "MatMul": _product,
    "MatMulInteger": _of_integers,
    "TiledAttention": _attention,
}
