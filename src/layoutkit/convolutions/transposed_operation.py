"""A transposed convolution as steps that run without Python: of the C interface, and as an operation of networks."""

from __future__ import annotations

import numpy as np

from .._core.nests.convolutions.transposed import TransposedConvolution
from ..choosing.best import choices
from .route import Arrays
from .transposed import _ConvTranspose


def compiled(op: _ConvTranspose, x: np.ndarray, y: np.ndarray, shape: tuple[int, ...]) -> tuple[list[tuple], int]:
    """The steps of a call on arrays like these, as `TransposedConvolution` has them, and the bytes that they keep.

    ValueError if the filter holds Inf or NaN where there is padding: such phases are summed tap by tap, in Python.
    """
    task = op._task(shape)
    if any(part.accumulates for part in task.convolutions):
        raise ValueError(f"{op._filter.what}: the filter holds Inf or NaN")
    route = choices(task)[0].candidate.build(Arrays(x.strides, y.strides), True)
    packed = [op._pack(route, part, step) for part, step in route.steps]
    return route.compiled_steps(packed, op._filter.epilogue)


def operation(op: _ConvTranspose, x: np.ndarray, y: np.ndarray, shape: tuple[int, ...]) -> TransposedConvolution:
    """`op` as an operation on arrays like these, of which the input has this logical shape.

    It keeps only the packed form of the filter. As for `compiled`, ValueError if the filter holds Inf or NaN.
    """
    assert not op._filter.operands and not op._filter.uses_residual
    return TransposedConvolution((x, y), *(compiled(op, x, y, shape) if y.size else ((), 0)))
