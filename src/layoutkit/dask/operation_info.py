"""What `plan` knows of an operation: bytes read and copied, and the results and scratch memory of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .axes import ranges
from .reads import Reads, Result, TileMaker
from .sources import ChunkedArray, StoredArray


class OperationInfo:
    """What `plan` knows of an operation.

    Attributes
    ----------
    name : str
        Of the tasks that make its tiles.
    read, touched, copied : int
        Bytes that tiles read, that they read at least once, and that are copied from chunks for other tiles.
    """

    def __init__(
        self, name: str, work: TileMaker, reads: Sequence[Reads], result: Result, maker_key: str, token: str
    ) -> None:
        self.name, self.work, self.reads, self.result, self.maker_key = name, work, reads, result, maker_key
        self._parts = {r.source.parts_name(token): r.source for r in reads if isinstance(r.source, ChunkedArray)}
        self._chunks = {r.source.array.name: r.source for r in reads if isinstance(r.source, ChunkedArray)}
        self.names = [name, *self._parts, *self._chunks]
        self.shared_bytes = work.nbytes
        by_dim = [ranges(cuts) for cuts in result.cuts]
        lengths = [[r.lengths(dim, of) for dim, of in enumerate(r.outputs(by_dim))] for r in reads]
        whole = [r.source.dtype.itemsize * prod(f.size or 1 for f in r.layout.factors) for r in reads]
        self.read = sum(n * prod(sum(of) for of, _ in dims) for n, dims in zip(whole, lengths))
        self.touched = sum(n * prod(once for _, once in dims) for n, dims in zip(whole, lengths))
        self.copied = sum(r.source.copied_bytes() for r in reads)
        self.from_files = sum(
            n * prod(r.in_read_units(by_dim)) for n, r in zip(whole, reads) if isinstance(r.source, StoredArray)
        )
        self._scratch: dict[tuple[int, ...], int] = {}

    def nbytes(self, key: tuple) -> int:
        """Of the result of a task that is one of `names`."""
        name, *index = key
        if name in self._parts:
            return self._parts[name].copied_bytes(tuple(index))
        chunks, dtype = self.result.chunks, self.result.dtype
        if name in self._chunks:
            chunks, dtype = self._chunks[name].chunks, self._chunks[name].dtype
        return dtype.itemsize * prod(sizes[i] for sizes, i in zip(chunks, index))

    def scratch(self, key: tuple) -> int:
        """Bytes of scratch memory for making a tile, as for other tiles of its size."""
        size = tuple(sizes[i] for sizes, i in zip(self.result.chunks, key[1:]))
        nbytes = self._scratch.get(size)
        if nbytes is None:
            at = [key[1 + self.result.layout.digits(dim)[0]] for dim in range(self.result.layout.rank)]
            outputs = [ranges(cuts)[k] for cuts, k in zip(self.result.cuts, at)]
            windows = [r.box(outputs) for r in self.reads]
            files = [
                prod(b.sizes) * r.source.dtype.itemsize + r.source.buffers(b.ranges)
                for r, b in zip(self.reads, windows)
                if isinstance(r.source, StoredArray)
            ]
            nbytes = self._scratch[size] = sum(files) + self.work.scratch(outputs, not files)
        return nbytes

    def line(self) -> str:
        """The operation in a line."""
        source, count = self.reads[0].source, prod(len(sizes) for sizes in self.result.chunks)
        where = "regions of a file"
        if isinstance(source, ChunkedArray):
            where = f"{prod(len(sizes) for sizes in source.chunks)} chunks"
        else:
            times = self.from_files / max(1, prod(source.shape) * source.dtype.itemsize)
            where += f", whose chunks are read {times:.1f} times"
        of = f"{self.result.shape} {self.result.dtype} {self.result.layout}"
        return f"{self.work.what}: {count} tiles of {of}, from {where}"
