"""The sources of tiles: chunks of a dask array, or regions of an array in a file."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.task_spec import DataNode, GraphNode, Task, TaskRef

from ..memory.tensor import Tensor
from .axes import ChunkSlice, Range, Run, parts
from .files import check_open, described, location, version
from .physical_windows import PieceLocation

CONCURRENT_CHUNKS = 10  # chunks that Zarr reads at a time, its ``async.concurrency``
COPIED_SHARE = 0.5  # of a chunk: less is copied, so that the chunk is freed, and only the copies are sent
PAGE = 4096  # bytes of a file that are read together

ChunkSlices = tuple[ChunkSlice, ...]  # by physical axis, what one piece of a window is


class ChunkedArray:
    """A dask array: tiles read whole chunks, and copies of the parts of their neighbours' that they need.

    All that is copied of a chunk is copied by one task.
    """

    def __init__(self, array: da.Array, what: str, name: str) -> None:
        check_sizes(array, what, name)
        self.array, self.what, self.name = array, what, name
        self.shape, self.dtype = tuple(map(int, array.shape)), array.dtype
        self.chunks = tuple(tuple(map(int, sizes)) for sizes in array.chunks)
        self.ends = [list(itertools.accumulate(sizes)) for sizes in self.chunks]
        self._cut: dict[tuple[int, ...], dict[Any, tuple[int, ChunkSlices]]] = {}  # by chunk, the parts that tiles need
        self._copied = functools.cache(self._is_copied)

    @property
    def token(self) -> str:
        """A name that no other source has."""
        return self.array.name

    def split(self, axis: int, runs: Sequence[Run]) -> list[ChunkSlice]:
        """The parts of chunks that runs along a physical axis meet."""
        return parts(runs, self.ends[axis])

    def need(self, slices: ChunkSlices) -> None:
        """Register a piece of a window; all are registered before `piece` is called."""
        if not all(part.whole for part in slices):
            cut = self._cut.setdefault(_index(slices), {})
            cut.setdefault(_box(slices), (len(cut), slices))

    def piece(self, slices: ChunkSlices, token: str) -> tuple[TaskRef, PieceLocation]:
        """The task or data that has a piece of a window, and its location there."""
        index, take, part = _index(slices), None, None
        chunk_shape = tuple(sizes[i] for sizes, i in zip(self.chunks, index))
        key: tuple = (self.array.name, *index)
        if not all(p.whole for p in slices):
            take = tuple(p.take for p in slices)
            if self._copied(index):
                key, part, chunk_shape = self._key(index, token), self._cut[index][_box(slices)][0], _shape(slices)
                take = None
        return TaskRef(key), PieceLocation(
            tuple(p.at for p in slices), tuple(p.length for p in slices), take, part, chunk_shape, index
        )  # fmt: skip

    def nodes(self, token: str) -> dict[Any, GraphNode]:
        """Of the graph, beside the array's own: what copies parts of chunks."""
        nodes: dict[Any, GraphNode] = {}
        for index, cut in self._cut.items():
            if self._copied(index):
                chunk_shape = tuple(sizes[i] for sizes, i in zip(self.chunks, index))
                whole = PieceLocation((0,) * len(chunk_shape), chunk_shape, None, None, chunk_shape, index)
                takes = [tuple(part.take for part in slices) for _, slices in cut.values()]
                key, checked = self._key(index, token), ChunkCheck(self.what, self.name, self.dtype, len(chunk_shape))
                nodes[key] = Task(key, parts_of, TaskRef((self.array.name, *index)), checked, whole, takes)
        return nodes

    def copied_bytes(self, chunk: tuple[int, ...] | None = None) -> int:
        """Of the parts that are copied of a chunk, or of all."""
        chunks = self._cut if chunk is None else [chunk]
        cut = (slices for index in chunks if self._copied(index) for _, slices in self._cut[index].values())
        return self.dtype.itemsize * sum(math.prod(_shape(slices)) for slices in cut)

    def _is_copied(self, index: tuple[int, ...]) -> bool:
        """Whether what tiles need of a chunk is copied."""
        elements = sum(math.prod(_shape(slices)) for _, slices in self._cut[index].values())
        return elements <= COPIED_SHARE * math.prod(sizes[i] for sizes, i in zip(self.chunks, index))

    def _key(self, index: tuple[int, ...], token: str) -> tuple:
        return (self.parts_name(token), *index)

    def parts_name(self, token: str) -> str:
        """Of the tasks that copy parts of chunks."""
        return f"{self.what}-parts-{self.name}-{token}".replace(" ", "-")


def check_sizes(array: da.Array, what: str, name: str) -> None:
    """ValueError if sizes of chunks are unknown."""
    if any(math.isnan(n) for sizes in array.chunks for n in sizes):
        raise ValueError(f"{what}: {name} has chunks of unknown sizes; call its compute_chunk_sizes() first")


def _index(slices: ChunkSlices) -> tuple[int, ...]:
    return tuple(part.chunk for part in slices)


def _box(slices: ChunkSlices) -> tuple:
    return tuple((part.take.start, part.take.stop, part.take.step) for part in slices)


def _shape(slices: ChunkSlices) -> tuple[int, ...]:
    """The shape of the part of a chunk that a piece is; a repeated index counts once."""
    return tuple(1 if part.repeats else part.length for part in slices)


class StoredArray:
    """An array in a file, such as Zarr's or HDF5's: tiles read the regions that they need."""

    def __init__(self, array: Any, what: str, name: str) -> None:
        self.shape, self.dtype = tuple(map(int, array.shape)), np.dtype(array.dtype)
        self.what, self.name = what, name
        self.region = Regions(array, what, name)
        self.read_unit = _read_unit(array)
        self._at_a_time = CONCURRENT_CHUNKS if type(array).__module__.startswith("zarr") else 1
        self.key = f"{name}-{da.core.tokenize(self.region)}"

    @property
    def token(self) -> str:
        """A name that no other source has."""
        return self.key

    def split(self, axis: int, runs: Sequence[Run]) -> list[ChunkSlice]:
        """The parts of the axis that runs are."""
        return parts(runs, [self.shape[axis]])

    def need(self, slices: ChunkSlices) -> None:
        """Nothing to register."""

    def piece(self, slices: ChunkSlices, token: str) -> tuple[TaskRef, PieceLocation]:
        """The task or data that has a piece of a window, and its location there."""
        starts, shape = tuple(part.at for part in slices), tuple(part.length for part in slices)
        return TaskRef(self.key), PieceLocation(
            starts, shape, tuple(part.take for part in slices), None, self.shape, ()
        )

    def nodes(self, token: str) -> dict[Any, GraphNode]:
        """Of the graph: the array, without its elements."""
        return {self.key: DataNode(self.key, self.region)}

    def buffers(self, ranges: Sequence[Range]) -> int:
        """Bytes of the chunks of the file that its library holds while it reads a region."""
        count = math.prod(-(-stop // n) - start // n for n, (start, stop) in zip(self.read_unit, ranges))
        return min(count, self._at_a_time) * math.prod(self.read_unit) * self.dtype.itemsize

    def copied_bytes(self, chunk: tuple[int, ...] | None = None) -> int:
        """Of the parts that are copied of a chunk, or of all."""
        return 0


def _read_unit(array: Any) -> tuple[int, ...]:
    """The least that is read, by axis: a chunk of the file (not a shard of Zarr), or a page."""
    chunks = getattr(array, "chunks", None)
    if chunks and len(chunks) == len(array.shape):
        return tuple(map(int, chunks))
    strides = getattr(array, "strides", None) or range(len(array.shape), 0, -1)
    inner = min(range(len(array.shape)), key=lambda axis: abs(strides[axis]), default=0)
    page = max(1, PAGE // max(1, np.dtype(array.dtype).itemsize))
    return tuple(max(1, min(int(n), page)) if axis == inner else 1 for axis, n in enumerate(array.shape))


Source = ChunkedArray | StoredArray


def source_of(array: Any, what: str, name: str) -> Source:
    """What tiles of an argument read."""
    check_open(array, what, name)
    if isinstance(array, da.Array):
        return ChunkedArray(array, what, name)
    if isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        return ChunkedArray(da.from_array(array), what, name)
    if isinstance(array, Tensor):
        raise TypeError(f"{what}: {name} is a Tensor, which is in memory: give its array, and its layout")
    if hasattr(array, "shape") and hasattr(array, "__getitem__") and _has_dtype(array):
        return StoredArray(array, what, name)
    expected = "a dask array, or an array of Zarr, HDF5 or numpy"
    raise TypeError(f"{what}: {name}: expected {expected}, got {type(array).__name__}")


def _has_dtype(array: Any) -> bool:
    """Whether it is of one of numpy's types; torch has types of its own."""
    try:
        return np.dtype(array.dtype) is not None
    except (AttributeError, TypeError):
        return False


class Regions:
    """Reads regions of an array in a file, also in other processes, where it is opened or mapped again."""

    def __init__(self, array: Any, what: str, name: str) -> None:
        self._array, self.what, self.name, self.dtype = array, what, name, np.dtype(array.dtype)
        self.place, self.text = location(array), described(array)

    @property
    def array(self) -> Any:
        """The array, open in this process."""
        if self._array is None and self.place is not None:
            self._array = self.place.open()
        return self._array

    def read(self, region: tuple[slice, ...]) -> np.ndarray:
        """Read a region, whose slices may go backwards; errors name it."""
        forwards = tuple(s if s.step in (None, 1) else slice(0 if s.stop is None else s.stop + 1, s.start + 1)
                      for s in region)  # fmt: skip
        try:
            elements = np.asarray(self.array[forwards])
            if elements.dtype != self.dtype or elements.shape != (shape := tuple(s.stop - s.start for s in forwards)):
                raise ValueError(f"expected {self.dtype} of shape {shape}, got {elements.dtype} of {elements.shape}")
        except Exception as error:
            at = ", ".join(f"{s.start}:{s.stop}" for s in forwards)
            raise OSError(f"{self.what}: {self.name}[{at}] of {self.text} cannot be read: {error}") from error
        steps = tuple(slice(None, None, s.step) for s in region)
        return elements if forwards == region else elements[steps]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | ({} if self.place is None else {"_array": None})

    def __dask_tokenize__(self):
        what = self._array if self.place is None else (self.place, version(self.place))
        return self.what, self.name, what


class ChunkCheck(NamedTuple):
    """Checks that chunks are as their array says; errors name the chunk."""

    what: str
    name: str
    dtype: np.dtype
    ndim: int

    def __call__(self, value: Any, place: PieceLocation) -> np.ndarray:
        where = f"{self.what}: chunk {place.chunk} of {self.name}"
        array = value if isinstance(value, np.ndarray) else _array(value, where)
        if array.shape != place.source_shape:
            raise ValueError(f"{where} has shape {array.shape}, its array says {place.source_shape}")
        if array.dtype != self.dtype:
            raise TypeError(f"{where} is of dtype {array.dtype}, its array says {self.dtype}")
        return array


def _array(value: Any, where: str) -> np.ndarray:
    try:
        return np.asarray(value)
    except Exception as error:
        raise TypeError(f"{where}: expected an array, got {type(value).__name__}: {error}") from error


def parts_of(
    chunk: Any, checked: ChunkCheck, place: PieceLocation, takes: Sequence[tuple[slice, ...]]
) -> list[np.ndarray]:
    """Copies of parts of a chunk."""
    array = checked(chunk, place)
    return [array[take].copy() for take in takes]


def piece_of(chunk: Any, checked: ChunkCheck, place: PieceLocation) -> np.ndarray:
    """The array of a piece: read from a file, or cut from what the task is given."""
    if isinstance(chunk, Regions):
        array = chunk.read(place.take or ())
    else:
        array = checked(chunk if place.part is None else chunk[place.part], place)
        array = array if place.take is None else array[place.take]
    return array if array.shape == place.shape else np.broadcast_to(array, place.shape)
