"""Writing results past memory into arrays in files: each chunk by the task that makes it."""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import threading
import uuid
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import dask.array as da
import numpy as np
from dask.array.optimization import optimize
from dask.base import get_scheduler
from dask.callbacks import Callback
from dask.context import globalmethod
from dask.core import flatten
from dask.delayed import Delayed
from dask.diagnostics import ProgressBar
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import Task, TaskRef

from ..choosing.progress import AFTER_SECONDS, on_terminal
from .files import check_open, described, is_h5py, location
from .sources import check_sizes

TILES_PER_COUNT = 4  # tiles that a task of the count waits for
_HDF5 = threading.Lock()  # of all its files in this process

Region = tuple[slice, ...]


class Writes(Delayed):
    """A delayed value whose graph is optimised as that of an array: each tile is made and written by one task."""

    __slots__ = ()
    __dask_optimize__ = globalmethod(optimize, key="array_optimize", falsey=lambda dsk, keys, **options: dsk)


class Target:
    """An array that tasks write into, in other processes too if it is in a file that more than one can write."""

    def __init__(self, array: Any) -> None:
        self._array, self.text = array, described(array)
        self.shape, self.dtype = tuple(map(int, array.shape)), np.dtype(array.dtype)
        self.place = location(array)
        self.local = is_h5py(array) or (isinstance(array, np.ndarray) and self.place is None)

    @property
    def units(self) -> tuple[int, ...] | None:
        """The least that is written, by axis: shards or chunks; None where any part can be written by itself."""
        if isinstance(self._array, np.ndarray) or is_h5py(self._array):
            return None
        sizes = getattr(self._array, "shards", None) or getattr(self._array, "chunks", None)
        fits = isinstance(sizes, Sequence) and all(isinstance(n, Integral) for n in sizes)
        return tuple(map(int, sizes)) if fits and len(sizes) == len(self.shape) else None  # type: ignore[arg-type]

    @property
    def writable(self) -> bool:
        """Whether it was opened for writing."""
        if is_h5py(self._array):
            return self._array.file.mode != "r"
        if isinstance(self._array, np.ndarray):
            return self._array.flags.writeable
        return not getattr(self._array, "read_only", False)

    def write(self, region: Region, tile: np.ndarray) -> None:
        """Write a region; errors name it."""
        try:
            if self._array is None and self.place is not None:
                self._array = self.place.open("r+")
            if is_h5py(self._array):
                with _HDF5:
                    self._array[region] = tile
            else:
                self._array[region] = tile
        except Exception as error:
            at = ", ".join(f"{s.start}:{s.stop}" for s in region)
            raise OSError(f"store: [{at}] of {self.text} cannot be written: {error}") from error

    def __getstate__(self) -> dict[str, Any]:
        if self.local:
            raise TypeError(f"store: {self.text} cannot be written by other processes: {_ALTERNATIVES}")
        return self.__dict__ | ({} if self.place is None else {"_array": None})


_ALTERNATIVES = "store into an array of Zarr, or compute with scheduler='threads'"


def store(y: da.Array, target: Any, *, region: Region | None = None, compute: bool = True) -> Delayed | None:
    """Write a dask array into an array in a file.

    Each chunk is written by the task that makes it, and is gone from memory then. No two tasks write the same chunk of
    the target (of Zarr with shards: the same shard), so none waits for others and nothing is written twice.

    Parameters
    ----------
    y : dask array
    target : array of Zarr, HDF5 or numpy
        That is open for writing. Arrays of h5py are written by one task at a time, and by this process alone.
    region : tuple of slice, optional
        Where in `target`: by axis, with steps of 1. By default all of it.
    compute : bool
        Whether to do it now.

    Returns
    -------
    Delayed or None
        None when it is done; with ``compute=False`` what does it when it is computed: ``store(..).compute()``.

    Raises
    ------
    TypeError
        `y` is no dask array, the types of its elements and of the target's differ, or the target is an array of HDF5,
        or of numpy in memory, and a scheduler with other processes is set.
    ValueError
        The shapes of `y` and `target`, or `region`, differ; the target is read-only; or `y` is cut within a chunk of
        the target: the error says which ``chunks=`` of the operation that makes `y` fit.
    OSError
        When it is computed: a region cannot be written; the error names it.

    Notes
    -----
    Memory is that of the tiles that are made at a time, one for each of dask's threads, and of what they are made of:
    for tiles of 64 MiB and 4 threads less than 1 GiB. `plan` tells it of what ``compute=False`` returns.

    Examples
    --------
    >>> import numpy as np, zarr, layoutkit.dask
    >>> x = zarr.create_array({}, shape=(1, 2, 64, 100), chunks=(1, 2, 16, 100), dtype="f4", fill_value=1)
    >>> y = layoutkit.dask.conv2d(x, np.ones((4, 2, 3, 3), np.float32), padding=1, chunks=(1, 4, 32, -1))
    >>> out = zarr.create_array({}, shape=y.shape, chunks=(1, 4, 32, 50), dtype=y.dtype)
    >>> layoutkit.dask.store(y, out)
    >>> float(out[0, 0, 5, 5])
    18.0

    Chunks that do not fit are said before anything is computed:

    >>> out = zarr.create_array({}, shape=y.shape, chunks=(1, 4, 20, 50), dtype=y.dtype)
    >>> layoutkit.dask.store(y, out)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: store: axis 2 of y is cut at 32, within a chunk of the target, whose chunks are 20: two tasks would
    write it; give the operation that makes y chunks=(-1, -1, 20, -1)
    """
    if not isinstance(y, da.Array):
        raise TypeError(f"store: y: expected a dask array, got {type(y).__name__}")
    check_open(target, "store", "target")
    if not all(hasattr(target, attribute) for attribute in ("shape", "dtype", "__setitem__")):
        raise TypeError(f"store: target: expected an array of Zarr, HDF5 or numpy, got {type(target).__name__}")
    check_sizes(y, "store", "y")
    to = Target(target)
    if not to.writable:
        raise ValueError(f"store: {to.text} is read-only")
    if y.dtype.newbyteorder("=") != to.dtype.newbyteorder("="):
        raise TypeError(f"store: y is of dtype {y.dtype}, target of {to.dtype}")
    starts = _starts(y, to, region)
    _check_cuts(y, to, starts)
    _check_scheduler(y, to)
    writes = _writes(y, to, starts)
    if not compute:
        return writes
    with _bar():
        writes.compute()
    return None


def _bar() -> contextlib.AbstractContextManager:
    """Dask's bar on terminals, after two seconds, unless the caller watches by callbacks."""
    if not on_terminal() or Callback.active:
        return contextlib.nullcontext()
    return ProgressBar(minimum=AFTER_SECONDS, out=sys.stderr)


def _starts(y: da.Array, to: Target, region: Region | None) -> list[int]:
    """Where y begins in the target, by axis."""
    slices = region if isinstance(region, tuple) else () if region is None else (region,)
    if len(slices) > len(to.shape) or not all(isinstance(s, slice) and s.step in (None, 1) for s in slices):
        raise ValueError(f"store: region {region}: expected slices with steps of 1, one for each axis of {to.shape}")
    bounds = [s.indices(n)[:2] for s, n in zip([*slices, *[slice(None)] * len(to.shape)], to.shape)]
    shape = tuple(max(0, stop - start) for start, stop in bounds)
    if y.shape != shape:
        where = "target" if region is None else f"region of target {to.shape}"
        raise ValueError(f"store: y has shape {y.shape}, {where} has {shape}")
    return [start for start, _ in bounds]


def _check_cuts(y: da.Array, to: Target, starts: Sequence[int]) -> None:
    """ValueError if two chunks of y meet the same chunk of the target."""
    if to.units is None:
        return
    for axis, (sizes, unit, start) in enumerate(zip(y.chunks, to.units, starts)):
        cuts = itertools.accumulate(sizes[:-1])
        wrong = next((cut for cut in cuts if 0 < cut < y.shape[axis] and (start + cut) % unit), None)
        if wrong is not None:
            kind = "shard" if getattr(to._array, "shards", None) else "chunk"
            at = f", where y begins at {start}" if start % unit else ""
            chunks = ", ".join(map(str, map(_fitting, y.chunks, to.units, starts)))
            raise ValueError(
                f"store: axis {axis} of y is cut at {wrong}, within a {kind} of the target, whose {kind}s are {unit}"
                f"{at}: two tasks would write it; give the operation that makes y chunks=({chunks})"
            )


def _fitting(sizes: Sequence[int], unit: int, start: int) -> int | tuple[int, ...]:
    """Sizes of chunks of an axis, like those it has, that are cut where the target is; -1: it is not cut."""
    whole, size = sum(sizes), max(1, max(sizes) // unit) * unit
    first = size - start % unit
    if len(sizes) == 1 or first >= whole:
        return -1
    if first == size:
        return size
    more = whole - first
    return first, *[size] * (more // size), *[more % size] * (more % size > 0)


def _check_scheduler(y: da.Array, to: Target) -> None:
    """TypeError if tasks run in processes that cannot write the target."""
    if not to.local:
        return
    get = get_scheduler(collections=[y])
    client = getattr(sys.modules.get("distributed"), "Client", ())
    if isinstance(getattr(get, "__self__", None), client):
        raise TypeError(f"store: {to.text} cannot be written by workers of dask.distributed: {_ALTERNATIVES}")
    if getattr(get, "__module__", "") == "dask.multiprocessing":
        raise TypeError(f"store: {to.text} cannot be written by other processes: {_ALTERNATIVES}")


def _writes(y: da.Array, to: Target, starts: Sequence[int]) -> Writes:
    """A task for each chunk, and a chain of tasks that each wait for a few of them.

    With a single task that waits for all, dask would order all loading of chunks before the first tile. The chain makes
    it compute tiles one after another.
    """
    name = f"store-{uuid.uuid4().hex}"  # it runs each time it is computed
    begins = [[start, *(start + end for end in itertools.accumulate(sizes))] for sizes, start in zip(y.chunks, starts)]
    graph: dict[Any, Any] = {}
    for key in flatten(y.__dask_keys__()):
        region = tuple(slice(ends[k], ends[k + 1]) for ends, k in zip(begins, key[1:]))
        if math.prod(s.stop - s.start for s in region):
            graph[name, *key[1:]] = Task((name, *key[1:]), to.write, region, TaskRef(key))
    counted: list[Any] = []
    for number, batch in enumerate(_batched(list(graph), TILES_PER_COUNT)):
        key = (f"stored-{name}", number)
        graph[key] = Task(key, _done, *map(TaskRef, (*batch, *counted[-1:])))
        counted.append(key)
    graph[name] = Task(name, _done, *map(TaskRef, counted[-1:]))
    arrays: list[Any] = [y]
    return Writes(name, HighLevelGraph.from_collections(name, MaterializedLayer(graph), dependencies=arrays))


def _done(*written: None) -> None:
    """A task that waits for its arguments."""


def _batched(keys: Sequence[Any], count: int) -> list[Sequence[Any]]:
    """A few at a time; itertools has it from Python 3.12 on."""
    return [keys[at : at + count] for at in range(0, len(keys), count)]
