"""Arguments of gradients: their types, shapes and layouts."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..convolutions.filter import check_dimensions
from ..convolutions.problem import out_sizes
from ..convolutions.types import BITS, ConvTypes, types_of
from ..formats.families import meaning_of_activations
from ..formats.layout import Layout
from ..memory.arguments import Argument, layout_for, tensor_argument

FLOATS = "float32", "float64", "float16", "bfloat16"


def activations(
    value: Any, layout: Any, shape: Any, rank: int, what: str, names: tuple[str, str], default: Layout | None = None
) -> Argument:
    """A tensor of N, C and `rank` spatial axes, "NCHW" by default; `names` of its argument and its layout's."""
    layout, dimensions = layout_for(value, layout), meaning_of_activations(rank)
    layout = Layout((default or dimensions) if layout is None else layout)
    check_dimensions(layout, dimensions, f"{what}: {names[1]}")
    return tensor_argument(value, layout, shape, f"{what}: {names[0]}")


def float_types(array: np.ndarray, dtype: Any, what: str) -> ConvTypes:
    """The types of an operation on floats whose result is of their type."""
    if array.dtype.name not in FLOATS and array.dtype != BITS:
        raise TypeError(
            f"{what}: x: expected dtype {', '.join(FLOATS[:-1])} or {FLOATS[-1]}, got {array.dtype}; "
            "x.astype('float32') converts"
        )
    types = types_of(array, dtype, f"{what}: x").types
    if types.integers or types.src != types.dst:
        raise TypeError(f"{what}: x of {array.dtype}: expected floats, and a result of their type")
    return types


def check_same_type(gradient: np.ndarray, x: np.ndarray, what: str) -> None:
    """Raise TypeError unless grad_output is of the type of x."""
    if gradient.dtype != x.dtype:
        raise TypeError(f"{what}: grad_output is of {gradient.dtype}, x of {x.dtype}")


def exchanged(layout: Layout) -> Layout:
    """The layout of a filter whose logical outputs and inputs change places, without its strides."""
    return Layout.from_factors([({0: 1, 1: 0}.get(f.dim, f.dim), f.size) for f in layout.factors])


@lru_cache(64)
def split_groups(layout: Layout) -> Layout:
    """A plain layout of a filter (O, I/groups, *kernel) as that of (groups, O/groups, I/groups, *kernel)."""
    following = {c: chr(ord(c) + 1) for c in "bcde"} | {"a": "ab"}
    return Layout("".join(following[c] for c in layout.tag))


@lru_cache(64)
def without_groups(layout: Layout) -> Layout:
    """The layout of (groups, O/groups, ..), its first factor the groups, as that of (O, ..)."""
    return Layout(layout.tag[1:].translate({ord(c): ord(c) - 1 for c in "bcdefBCDEF"}))


def sizes(value, rank: int, what: str) -> tuple[int, ...]:
    """The shape of a tensor or a filter with so many spatial axes; ValueError that `what` is none."""
    try:
        numbers = tuple(int(n) for n in value)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != rank + 2 or min(numbers) < 0 or min(numbers[2:]) < 1:
        raise ValueError(f"{what}: expected {rank + 2} numbers of at least 0, and 1 along spatial axes, got {value!r}")
    return numbers


def outputs(size, kernel, stride, pads, dilation, what: str) -> tuple[int, ...]:
    """The spatial size of what such a convolution gives; ValueError if there is none."""
    out = out_sizes(size, kernel, stride, pads, dilation)
    if min(out) < 1:
        raise ValueError(f"{what}: kernel {kernel} with dilation {dilation} does not fit into {size} padded by {pads}")
    return out
