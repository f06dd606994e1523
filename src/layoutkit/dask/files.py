"""Arrays in files: how other processes open them, and whether they are open."""

from __future__ import annotations

import mmap
import os
from typing import Any, NamedTuple

import numpy as np


class Dataset(NamedTuple):
    """A dataset of h5py, to be opened again in another process."""

    filename: str
    name: str

    def open(self, mode: str = "r") -> Any:
        """The dataset."""
        import h5py

        return h5py.File(self.filename, mode)[self.name]

    def __str__(self) -> str:
        return f"dataset {self.name} of {self.filename}"


class Mapping(NamedTuple):
    """An array of `numpy.memmap`, or a view of one, to be mapped again in another process.

    `offset` is that of its first element in the file.
    """

    filename: str
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def open(self, mode: str = "r") -> Any:
        """The array."""
        whole = np.memmap(self.filename, np.uint8, "r" if mode == "r" else "r+")
        return np.ndarray(self.shape, self.dtype, whole, self.offset, self.strides)  # type: ignore[call-overload]

    def __str__(self) -> str:
        return f"array {self.shape} mapped from {self.filename}"


def location(array: Any) -> Dataset | Mapping | None:
    """How another process opens the array; None: it is pickled."""
    if is_h5py(array):
        return Dataset(os.path.abspath(array.file.filename), array.name) if array.name else None
    if isinstance(array, np.memmap) and array.filename is not None and array.mode != "c":  # private
        first = array.offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        mapped = np.frombuffer(array._mmap, np.uint8)  # type: ignore[attr-defined]
        offset = first + array.__array_interface__["data"][0] - mapped.__array_interface__["data"][0]
        return Mapping(str(array.filename), array.dtype, array.shape, array.strides, offset)
    return None


def is_h5py(array: Any) -> bool:
    """Whether it is a dataset of h5py."""
    return type(array).__module__.partition(".")[0] == "h5py"


def check_open(array: Any, what: str, name: str) -> None:
    """OSError if it is a dataset of a file that was closed."""
    if is_h5py(array) and not array:
        raise OSError(f"{what}: {name}: the HDF5 file of this dataset is closed")


def version(file: Dataset | Mapping) -> float | None:
    """The time at which the file was written last, as its version."""
    try:
        return os.stat(file.filename).st_mtime
    except OSError:
        return None


def described(array: Any) -> str:
    """The array in a line, for errors."""
    if isinstance(array, np.ndarray) and location(array) is None:
        return f"array {array.shape} of {array.dtype} in memory"
    return " ".join(str(location(array) or repr(array)).split())
