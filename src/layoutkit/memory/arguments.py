"""Tensors as arguments: an array with its layout and shape as further arguments, or a `Tensor`, which has both.

Arguments that contradict a Tensor are errors: its array, read in another layout or shape, would be another tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..formats.families import check_names
from ..formats.layout import Layout
from .arrays import as_array, as_out, check_out, check_pitches, empty, shape_held
from .tensor import UNDEFINED, Tensor, satisfies, text_of


class Argument(NamedTuple):
    """A tensor in memory."""

    array: np.ndarray  # one axis for each factor of the layout
    layout: Layout
    shape: tuple[int, ...]  # the logical one


def tensor_argument(value: Any, layout: str | Layout | None, shape: Sequence[int] | None, what: str) -> Argument:
    """The tensor of an argument: a Tensor, or an array in `layout`, of all its elements unless a `shape` is given.

    Raises
    ------
    TypeError, ValueError
        No array; array, layout and shape do not fit; a Tensor is in another layout, or of another shape.
    """
    if isinstance(value, Tensor):
        if layout is not None:
            check_layout(value, Layout(layout), what)
        if shape is not None and value.layout.check_shape(shape) != value.shape:
            raise ValueError(f"{what} is a Tensor of shape {value.shape}, expected {tuple(shape)}")
        return Argument(value.array, value.layout, value.shape)
    array = as_array(value, what)
    if layout is None:
        raise TypeError(f"{what} is an array: expected its layout too (a Tensor brings its own)")
    layout = Layout(layout)
    return Argument(array, layout, shape_held(array, layout, shape, what))


def layout_for(value: Any, layout: str | Layout | None) -> str | Layout | None:
    """The layout given, else that of `value` if it is a Tensor, else None."""
    return value.layout if layout is None and isinstance(value, Tensor) else layout


def check_layout(tensor: Tensor, layout: Layout, what: str) -> None:
    """Raise ValueError unless `tensor` is in `layout`, its dimensions of the same names."""
    if tensor.layout.dense != layout.dense:
        raise ValueError(f"{what} is a Tensor in {tensor.layout}, expected {layout}")
    check_names(tensor.layout, layout, what)
    check_pitches(tensor.array, layout, what)


def logical(value: Any, what: str) -> np.ndarray:
    """The logical array of an argument of one dimension, such as a bias."""
    return value.numpy() if isinstance(value, Tensor) else as_array(value, what)


def target(out: Any, layout: Layout, shape: Sequence[int], pad_value: Any, what: str) -> np.ndarray:
    """The array behind `out`, an array or a Tensor, for a result of logical `shape` in `layout`.

    A Tensor must be in that layout, of that shape, and its padding contract must allow `pad_value` (`UNDEFINED`: no
    pads are written). Whether the array fits is checked by `arrays.check_out`.
    """
    if not isinstance(out, Tensor):
        return as_out(out, what)
    check_layout(out, layout, f"{what}: out")
    if out.shape != tuple(shape):
        raise ValueError(f"{what}: out is a Tensor of shape {out.shape}, the result is of {tuple(shape)}")
    if pad_value is not UNDEFINED and not satisfies(pad_value, out.pad_value) and layout.full_shape(shape) != out.shape:
        raise ValueError(
            f"{what}: out is a Tensor whose pads are {text_of(out.pad_value)}, those of the result are "
            f"{text_of(pad_value)}"
        )
    return out.array


def result_array(
    out: Any, layout: Layout, shape: Sequence[int], dtype: np.dtype, inputs: Sequence[np.ndarray], what: str
) -> np.ndarray:
    """The array of a result of logical `shape`: that of `out`, which must not overlap `inputs`, or a new one."""
    physical = layout.physical_shape(shape)
    if out is None:
        return empty(physical, dtype, what)
    array = target(out, layout, shape, 0, what)
    check_out(array, physical, dtype, inputs, what)
    return array


def returned(array: np.ndarray, layout: Layout, shape: tuple[int, ...], like: Any, out: Any) -> Any:
    """What a call returns: `out`, or without one the array of its result, as a Tensor if `like` is one."""
    if out is not None:
        return out
    return Tensor(array, layout, shape) if isinstance(like, Tensor) else array
