"""Which nodes have compiled kernels, in which layouts: a file for each family, with its rows in `KERNELS`.

All others run their operator's numpy function. The steps that call the kernels are in `runtime/steps/`, under the same
names.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Node
from ..base import Known
from ..layouts import BLOCKED, LAST, PLAIN
from . import (
    casts,
    convolution,
    elementwise,
    indexed,
    joins,
    moves,
    normalise,
    pooling,
    products,
    recurrent,
    response,
    rotary,
    running,
)  # fmt: skip
from .base import F32, Kernel
from .convolution import is_convolution
from .products import is_matmul, is_product, shape_of_rows

__all__ = ["F32", "KERNELS", "Kernel", "in_its_type", "is_convolution", "is_matmul", "is_product", "kernel_of",
           "shape_of_rows"]  # fmt: skip

FAMILIES = (
    convolution, products, pooling, elementwise, casts, indexed, moves, joins, response, normalise, recurrent, rotary,
    running,
)  # fmt: skip
KERNELS: dict[str, Kernel] = {op: kernel for family in FAMILIES for op, kernel in family.KERNELS.items()}


def kernel_of(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> Kernel | None:
    """The kernel that runs a node in a kind of layout, None if there is none."""
    kernel = KERNELS.get(node.op)
    return kernel if kernel is not None and kernel.suits(node, known, kind) else None


def in_its_type(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether there is a kernel, in some layout, that stores the result in the type of the input, narrow or not."""
    kernel = KERNELS.get(node.op)
    return (
        kernel is not None
        and kernel.any_reals
        and any(kernel.suits(node, known, kind) for kind in (PLAIN, LAST, BLOCKED))
    )
