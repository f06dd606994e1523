"""Filters for those who call scipy.ndimage or scikit-image: in place of scipy's functions, and as a backend."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def _with_fallback(ours: Callable[..., Any], theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Ours, or theirs for what ours does not have."""

    @functools.wraps(theirs)
    def called(*args: Any, **keywords: Any) -> Any:
        try:
            return ours(*args, **keywords)
        except (NotImplementedError, BufferError):
            return theirs(*args, **keywords)

    called.__layoutkit__ = True  # type: ignore[attr-defined]
    return called


@contextlib.contextmanager
def in_place_of_scipy() -> Iterator[list[str]]:
    """A context in which scipy.ndimage's functions of the same names are these, for all code that looks them up there.

    scikit-image does (``ndi.gaussian_filter``), so that its filters, morphology and resizing run on these, too. What is
    not here, such as splines of order 5, is scipy's as before. It changes a module of the process: for all threads.

    Yields
    ------
    list of str
        The names.

    Raises
    ------
    ImportError
        scipy is not installed.

    Examples
    --------
    >>> import numpy as np, scipy.ndimage, layoutkit.ndimage as ndi
    >>> with ndi.in_place_of_scipy():
    ...     scipy.ndimage.median_filter(np.array([1, 9, 2, 3]), 3).tolist()
    [1, 2, 3, 3]
    """
    import layoutkit.ndimage as ours

    scipy = importlib.import_module("scipy.ndimage")
    names = [n for n in ours.__all__ if hasattr(scipy, n) and n != "generate_binary_structure"]
    before = {name: getattr(scipy, name) for name in names}
    for name in names:
        setattr(scipy, name, _with_fallback(getattr(ours, name), before[name]))
    try:
        yield names
    finally:
        for name in names:
            setattr(scipy, name, before[name])


def _gaussian(
    image, sigma=1, *, mode="nearest", cval=0, preserve_range=False, truncate=4.0, channel_axis=None, out=None
):
    """`skimage.filters.gaussian` of floating-point images."""
    from .gaussian import gaussian_filter

    return gaussian_filter(
        image, sigma, output=out, mode=mode, cval=cval, truncate=truncate, channel_axis=channel_axis
    )  # fmt: skip


def _median(image, footprint=None, out=None, mode="nearest", cval=0.0, behavior="ndimage"):
    """`skimage.filters.median`."""
    from .binary import generate_binary_structure
    from .ranks import median_filter

    if footprint is None:
        footprint = generate_binary_structure(image.ndim, image.ndim)
    return median_filter(image, footprint=footprint, output=out, mode=mode, cval=cval)


_FUNCTIONS: dict[str, Callable[..., Any]] = {"skimage.filters:gaussian": _gaussian, "skimage.filters:median": _median}


def can_has(name: str, *args: Any, **keywords: Any) -> bool:
    """Whether the backend takes a call of scikit-image: its protocol."""
    image = args[0] if args else keywords.get("image")
    if name not in _FUNCTIONS or type(image) is not np.ndarray or image.dtype.kind not in "fiu":
        return False
    if name == "skimage.filters:gaussian":
        return image.dtype.kind == "f" and image.dtype.itemsize in (4, 8)
    return (args[5] if len(args) > 5 else keywords.get("behavior", "ndimage")) == "ndimage"


def get_implementation(name: str) -> Callable[..., Any]:
    """The function that takes the call: scikit-image's protocol."""
    return _FUNCTIONS[name]


class Information:
    """What scikit-image asks a backend for."""

    supported_functions = tuple(_FUNCTIONS)


def information() -> Information:
    """The entry point ``skimage_backend_infos``."""
    return Information()
