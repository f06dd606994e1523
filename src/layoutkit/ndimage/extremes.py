"""The least and the largest of windows of any form."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import windows as w
from .arguments import array_of, axes_of, filters, mode_of, output_for, warned
from .boxes import boxes, extremes, largest_of, least_of
from .neighbourhoods import footprint_of, ordered


def fold_filter(
    x: np.ndarray, size: Any, footprint: Any, structure: Any, output: Any, mode: Any, cval: Any, origin: Any,
    axes: tuple[int, ...], largest: bool, threads: Any, what: str,
) -> Any:  # fmt: skip
    """The least or the largest of boxes, of elements of a footprint, or of those plus or minus a structure."""
    if size is not None and footprint is not None:
        warned(f"{what}: ignoring size because footprint is set")
    if x.dtype.kind == "c":
        raise TypeError(f"{what}: complex numbers have no order")
    if footprint is not None:
        footprint = np.asarray(footprint, bool)
        if not footprint.any():
            raise ValueError(f"{what}: a footprint of zeros only is not supported")
    if structure is None:
        if footprint is not None:
            if footprint.all():
                if footprint.ndim != len(axes):
                    raise RuntimeError(f"{what}: footprint.ndim ({footprint.ndim}) must match len(axes) ({len(axes)})")
                size, footprint = footprint.shape, None
        elif size is None:
            raise RuntimeError(f"{what}: no footprint provided")
        if footprint is None:
            make = largest_of if largest else least_of
            return extremes(x, output, boxes(size, axes, mode, origin, make, what), cval, threads, what)
    fields: dict[str, Any] = dict(kind=w.LARGEST if largest else w.LEAST)
    if structure is not None:
        structure = np.asarray(structure, np.float64)
        footprint = np.ones(structure.shape, bool) if footprint is None else footprint
        if structure.shape != footprint.shape:
            raise RuntimeError(f"{what}: structure has shape {structure.shape}, its footprint {footprint.shape}")
        order = np.argsort(axes)
        added = structure.transpose(order)[footprint.transpose(order)]
        fields["weight"] = np.ascontiguousarray(added if largest else -added)
    window = footprint_of(footprint, axes, x.ndim, origin, what)
    if not isinstance(mode, str):
        raise RuntimeError(f"{what}: several modes are not supported for windows that are no boxes")
    y = output_for(output, x, what)
    ordered("fold", x, y, window, mode_of(mode, what), float(cval), fields, threads, what)
    return y


@filters
def minimum_filter(
    input, size=None, footprint=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None, channel_axis=None,
    threads=None,
) -> Any:  # fmt: skip
    """The least element of windows: as `scipy.ndimage.minimum_filter`. NaN is left out where there are numbers.

    PARAMETERS
    """
    what = "minimum_filter"
    x = array_of(input, what)
    found = axes_of(axes, x.ndim, channel_axis, what)
    return fold_filter(x, size, footprint, None, output, mode, cval, origin, found, False, threads, what)


@filters
def maximum_filter(
    input, size=None, footprint=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None, channel_axis=None,
    threads=None,
) -> Any:  # fmt: skip
    """The largest element of windows: as `scipy.ndimage.maximum_filter`. NaN is left out where there are numbers.

    PARAMETERS
    """
    what = "maximum_filter"
    x = array_of(input, what)
    found = axes_of(axes, x.ndim, channel_axis, what)
    return fold_filter(x, size, footprint, None, output, mode, cval, origin, found, True, threads, what)
