"""An ONNX model without its large tensors, which stay where they are until they are asked for.

Once a program has packed a filter, it has no use for the model's own numbers: only a program for other shapes has. So
those of a file are read when it is loaded, handed over once, to the first program, and read again for another one.
`without_large` walks through the fields of the message (protobuf's wire format) and leaves the numbers out, so that
they are never in memory twice. What it does not understand is left to protobuf.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

LARGE_BYTES = 1 << 12  # of a tensor that is left out
WINDOW_BYTES = 1 << 16  # read at once where fields are looked at
PART_BYTES = 1 << 17  # read at once of a tensor: it is copied from the caches
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5  # wire types
GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9  # fields of ModelProto, GraphProto and TensorProto
PLAIN_FIELDS = {1, 2, 8, RAW_DATA, 12}  # of a tensor: shape, type, name, numbers, a text


class Source:
    """Bytes in memory, or a file, which is held open: it may be removed, but must stay as it is."""

    def __init__(self, model: bytes | Path) -> None:
        self._data: bytes | None = model if isinstance(model, bytes) else None
        self._path: Path | None = None if isinstance(model, bytes) else model
        self._begin, self._window = 0, b""
        if self._path is not None:
            self._file = os.open(self._path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)
        self._state = self._current()
        self.size = self._state[0]

    @property
    def in_memory(self) -> bool:
        """Whether it is no file."""
        return self._path is None

    def _current(self) -> tuple[int, int]:
        if self._data is not None:
            return len(self._data), 0
        status = os.fstat(self._file)
        return status.st_size, status.st_mtime_ns

    def fill(self, offset: int, array: np.ndarray) -> None:
        """Read an array of bytes; OSError if the file is not as it was."""
        into = memoryview(array)  # type: ignore[arg-type]
        if self._data is not None:
            into[:] = memoryview(self._data)[offset : offset + len(into)]
            return
        done = 0
        while done < len(into):
            part = os.pread(self._file, min(len(into) - done, PART_BYTES), offset + done)
            if not part:
                break
            into[done : done + len(part)] = part
            done += len(part)
        if done < len(into) or self._current() != self._state:
            raise OSError(f"onnx: {self._path} has changed since it was loaded: load it again")

    def part(self, begin: int, end: int) -> bytes:
        """Some of the bytes."""
        array = np.empty(end - begin, np.uint8)
        if array.size:
            self.fill(begin, array)
        return array.tobytes()

    def byte(self, at: int) -> int:
        """One of the bytes; ValueError behind the last."""
        if not self._begin <= at < self._begin + len(self._window):
            if at >= self.size:
                raise ValueError("the message ends within a field")
            self._begin, self._window = at, self.part(at, min(at + WINDOW_BYTES, self.size))
        return self._window[at - self._begin]


class Stored(NamedTuple):
    """Where the numbers of a tensor lie."""

    source: Source
    begin: int
    end: int

    def read(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """The numbers, which must be as many."""
        array = np.empty(shape, dtype)
        self.source.fill(self.begin, array.reshape(-1).view(np.uint8))
        array.flags.writeable = False
        return array


class Large:
    """A tensor that lies in a source: that of a file is also in memory, until it is asked for."""

    def __init__(self, stored: Stored, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self._stored, self._dtype, self._shape = stored, dtype, shape
        self._held = None if stored.source.in_memory else self._read()

    def _read(self) -> np.ndarray:
        return self._stored.read(self._dtype, self._shape)

    def array(self) -> np.ndarray:
        """The numbers."""
        held, self._held = self._held, None
        return self._read() if held is None else held


class Constants(MutableMapping[str, np.ndarray]):
    """Constants by name, some of them large."""

    def __init__(self) -> None:
        self._values: dict[str, np.ndarray | Large] = {}

    def put(self, name: str, value: np.ndarray | Large) -> None:
        """Add a constant."""
        self._values[name] = value

    def __getitem__(self, name: str) -> np.ndarray:
        value = self._values[name]
        return value.array() if isinstance(value, Large) else value

    def __setitem__(self, name: str, value: np.ndarray) -> None:
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> tuple:  # copies have the numbers
        return dict, (dict(self),)


class _Field(NamedTuple):
    """A field of a message, from `begin` to `end`, and where its value begins."""

    number: int
    wire: int
    begin: int
    value: int
    end: int


def without_large(source: Source) -> tuple[bytes, dict[int, Stored]]:
    """A model without the numbers of large tensors, and where these are, by the place of the tensor's initializer."""
    try:
        return _without_large(source) if sys.byteorder == "little" else (source.part(0, source.size), {})
    except ValueError:  # not as expected: what is wrong, if anything is, protobuf will say
        return source.part(0, source.size), {}


def _without_large(source: Source) -> tuple[bytes, dict[int, Stored]]:
    fields = list(_fields(source, 0, source.size))
    graphs = [f for f in fields if f.number == GRAPH]
    if len(graphs) != 1 or graphs[0].wire != LENGTH:
        raise ValueError("not one graph")
    (graph,) = graphs
    parts, stored, count = [], {}, 0
    copied = graph.value  # up to here
    for f in _fields(source, graph.value, graph.end):
        if f.number != INITIALIZER or f.wire != LENGTH:
            continue
        raw = _raw_data(source, f) if f.end - f.value >= LARGE_BYTES else None
        if raw is not None:
            stored[count] = Stored(source, raw.value, raw.end)
            rest = source.part(f.value, raw.begin) + source.part(raw.end, f.end)
            parts += [source.part(copied, f.begin), _length_field(INITIALIZER, rest)]
            copied = f.end
        count += 1
    parts.append(source.part(copied, graph.end))
    head, tail = source.part(0, graph.begin), source.part(graph.end, source.size)
    return b"".join((head, _length_field(GRAPH, b"".join(parts)), tail)), stored


def _raw_data(source: Source, tensor: _Field) -> _Field | None:
    """The numbers of a tensor that has them in this field, and nothing that is unusual."""
    fields = list(_fields(source, tensor.value, tensor.end))
    raw = [f for f in fields if f.number == RAW_DATA]
    plain = {f.number for f in fields} <= PLAIN_FIELDS and len(raw) == 1 and raw[0].wire == LENGTH
    return raw[0] if plain and raw[0].end - raw[0].value >= LARGE_BYTES else None


def _fields(source: Source, begin: int, end: int) -> Iterator[_Field]:
    """The fields of a message; ValueError if it is none."""
    at = begin
    while at < end:
        key, value = _varint(source, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            _, after = _varint(source, value)
        elif wire == LENGTH:
            length, value = _varint(source, value)
            after = value + length
        elif wire in (FIXED32, FIXED64):
            after = value + (4 if wire == FIXED32 else 8)
        else:
            raise ValueError(f"a field of wire type {wire}")
        if after > end:
            raise ValueError("a field ends behind its message")
        yield _Field(number, wire, at, value, after)
        at = after


def _varint(source: Source, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = 0
    for i in range(10):
        byte = source.byte(at + i)
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value, at + i + 1
    raise ValueError("a number of more than ten bytes")


def _length_field(number: int, value: bytes) -> bytes:
    """A field that holds bytes."""
    head = bytearray([number << 3 | LENGTH])
    length = len(value)
    while length >= 128:
        head.append(length & 127 | 128)
        length >>= 7
    head.append(length)
    return bytes(head) + value
