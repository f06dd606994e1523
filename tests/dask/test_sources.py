"""What tiles read: regions of arrays in files, in other processes too, and chunks that are not what they say."""

import contextlib
import os
import pickle
import re

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import zarr

import layoutkit as lk
import layoutkit.dask as lazy
from layoutkit.dask.axes import ranges
from layoutkit.dask.sources import Regions

RNG = np.random.default_rng(4)
PLANES = RNG.standard_normal((2, 4, 24, 36), dtype=np.float32)
VOLUME = RNG.standard_normal((1, 4, 10, 12, 18), dtype=np.float32)
W2 = RNG.standard_normal((3, 4, 3, 3), dtype=np.float32)
W3 = RNG.standard_normal((3, 4, 3, 3, 3), dtype=np.float32)

CALLS = {
    "conv2d": (PLANES, lambda of, x, **more: of.conv2d(x, W2, padding=1, accuracy="strict", **more)),
    "conv3d": (VOLUME, lambda of, x, **more: of.conv3d(x, W3, padding=1, stride=(1, 2, 1), accuracy="strict", **more)),
    "reorder": (PLANES, lambda of, x, **more: of.reorder(x, "NCHW", "nChw8c", **more)),
    "max_pool2d": (PLANES, lambda of, x, **more: of.max_pool2d(x, 3, stride=2, padding=1, **more)),
}
ARGUMENTS = [("conv2d", "x"), ("reorder", "array"), ("max_pool2d", "x")]


def zarr_of(path, x, **more):
    made = zarr.create_array(path / "x.zarr", shape=x.shape, dtype=x.dtype, **more)
    made[:] = x
    return zarr.open_array(path / "x.zarr", mode="r")


def read_unit(x):
    return (1, *[max(1, n // 3) for n in x.shape[1:]])


@contextlib.contextmanager
def zarr2(path, x):
    yield zarr_of(path, x, chunks=read_unit(x), zarr_format=2)


@contextlib.contextmanager
def zarr3(path, x):
    yield zarr_of(path, x, chunks=read_unit(x), compressors=None)


@contextlib.contextmanager
def shards(path, x):
    yield zarr_of(path, x, chunks=read_unit(x), shards=tuple(2 * n for n in read_unit(x)))


@contextlib.contextmanager
def hdf5(path, x, **more):
    with h5py.File(path / "x.h5", "w") as file:
        file.create_dataset("group/x", data=x, **more)
    with h5py.File(path / "x.h5", "r") as file:
        yield file["group/x"]


def hdf5_in_chunks(path, x):
    return hdf5(path, x, chunks=read_unit(x), compression="gzip")


@contextlib.contextmanager
def memmap(path, x):
    x.tofile(path / "x")
    yield np.memmap(path / "x", x.dtype, "r", shape=x.shape)


@contextlib.contextmanager
def memmap_at_an_offset(path, x):
    (path / "x").write_bytes(bytes(5000) + x.tobytes())
    yield np.memmap(path / "x", x.dtype, "r", offset=5000, shape=x.shape)


@contextlib.contextmanager
def view_of_a_memmap(path, x):
    whole = np.memmap(path / "x", x.dtype, "w+", offset=4, shape=(3, x.shape[0], *x.shape[1:]), order="F")
    whole[1] = x[..., ::-1]
    whole.flush()
    yield whole[1, ..., ::-1]


FILES = [
    zarr2, zarr3, shards, hdf5, hdf5_in_chunks, memmap, memmap_at_an_offset, view_of_a_memmap
]  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.__name__)
def test_any_file_has_the_bits_of_the_call_in_memory(tmp_path, processes, file, name):
    x, call = CALLS[name]
    want = call(lk, x)
    with file(tmp_path, x) as stored, dask.config.set({"array.chunk-size": x.nbytes}):
        y = call(lazy, stored)
        assert y.npartitions > 1 and len(dask.optimize(y)[0].dask) <= 2 * y.npartitions + 3  # no task reads all
        assert np.array_equal(y.compute(scheduler="threads"), want)
        cut = call(lazy, stored, chunks=tuple(-1 if axis in (1, want.ndim - 1) else 2 for axis in range(want.ndim)))
        with processes:
            assert np.array_equal(y.compute(), want)
        assert np.array_equal(cut.compute(scheduler="threads"), want)


@pytest.mark.parametrize("file", FILES[3:], ids=lambda file: file.__name__)
def test_other_processes_open_or_map_the_file(tmp_path, file):
    with file(tmp_path, PLANES) as stored:
        sent = pickle.dumps(Regions(stored, "conv2d", "x"))
        assert len(sent) < 2000
        at = (slice(0, 2), slice(1, 3), slice(20, 4, -1), slice(3, 7))
        assert np.array_equal(pickle.loads(sent).read(at), PLANES[at])
        if isinstance(stored, np.memmap):
            read = pickle.loads(sent).read((slice(0, 2), *[slice(0, n) for n in PLANES.shape[1:]]))
            assert not read.flags.owndata and not read.flags.writeable


def test_memmaps_whose_changes_are_their_own_travel_whole(tmp_path):
    PLANES.tofile(tmp_path / "x")
    private = np.memmap(tmp_path / "x", np.float32, "c", shape=PLANES.shape)
    private[0] = 1
    copied = np.memmap(tmp_path / "x", np.float32, "r", shape=PLANES.shape).copy()
    for array in (private, copied):
        sent = pickle.loads(pickle.dumps(Regions(array, "conv2d", "x")))
        assert np.array_equal(sent.read(tuple(slice(0, n) for n in PLANES.shape)), array)


def test_a_file_that_has_changed_has_other_keys(tmp_path):
    PLANES.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", np.float32, "r", shape=PLANES.shape)
    before = [lazy.max_pool2d(mapped, 2).name for _ in range(2)]
    os.utime(tmp_path / "x", (1e9, 1e9))
    assert before[0] == before[1] != lazy.max_pool2d(mapped, 2).name


@pytest.mark.parametrize("name, argument", ARGUMENTS)
def test_a_damaged_chunk_is_named(tmp_path, processes, name, argument):
    x, call = CALLS[name]
    with dask.config.set({"array.chunk-size": 4096}):
        y = call(lazy, zarr_of(tmp_path, x, chunks=(1, 4, 12, 36)))
    (tmp_path / "x.zarr" / "c" / "1" / "0" / "1" / "0").write_bytes(b"no Zstandard")
    message = rf"{name}: {argument}\[1:2, 0:4, \d+:\d+, 0:36\] of <Array file://.*x.zarr.*> cannot be read: "
    with pytest.raises(OSError, match=message):
        y.compute(scheduler="threads")
    with processes, pytest.raises(OSError, match=message):
        y.compute()


@pytest.mark.parametrize("name, argument", ARGUMENTS)
def test_a_closed_hdf5_file_is_named(tmp_path, processes, name, argument):
    x, call = CALLS[name]
    with hdf5_in_chunks(tmp_path, x) as stored:
        y = call(lazy, stored)
    with pytest.raises(OSError, match=f"{name}: {argument}: the HDF5 file of this dataset is closed"):
        call(lazy, stored)
    with pytest.raises(OSError, match=rf"{name}: {argument}\[.*\] of dataset /group/x of .*x.h5 cannot be read"):
        y.compute(scheduler="threads")
    with processes:
        assert np.array_equal(y.compute(), call(lk, x))  # they open it again
        os.remove(tmp_path / "x.h5")
        with pytest.raises(OSError, match=rf"{name}: {argument}\[.*\] of dataset /group/x of .*x.h5 cannot be read"):
            y.compute()


def test_other_closed_arguments_are_named(tmp_path):
    with hdf5(tmp_path, lk.conv2d(PLANES, W2, padding=1)) as add:
        pass
    with pytest.raises(OSError, match="conv2d: add: the HDF5 file of this dataset is closed"):
        lazy.conv2d(da.from_array(PLANES), W2, padding=1, add=add)


def test_a_file_that_has_become_smaller_is_named(tmp_path):
    zarr_of(tmp_path, PLANES, chunks=(1, 4, 12, 36))
    stored = zarr.open_array(tmp_path / "x.zarr")
    y = lazy.max_pool2d(stored, 2)
    stored.resize((2, 4, 13, 36))
    message = r"max_pool2d: x\[0:2, 0:4, 0:24, 0:36\] of .* cannot be read: expected float32 of shape \(2, 4, 24, 36\)"
    with pytest.raises(OSError, match=message):
        y.compute(scheduler="threads")


@pytest.mark.parametrize("name, argument", ARGUMENTS)
@pytest.mark.parametrize(
    "made, error, message",
    [
        (lambda: np.zeros((1, 4, 12, 35), np.float32), ValueError,
         "has shape (1, 4, 12, 35), its array says (1, 4, 12, 36)"),
        (lambda: np.zeros((4, 12, 36), np.float32), ValueError, "has shape (4, 12, 36), its array says"),
        (lambda: np.zeros((1, 4, 12, 36)), TypeError, "is of dtype float64, its array says float32"),
        (lambda: None, ValueError, "has shape (), its array says (1, 4, 12, 36)"),
    ],
)  # fmt: skip
def test_chunks_that_are_not_what_they_say_are_named(name, argument, made, error, message):
    def chunk(block_id):
        return np.zeros((1, 4, 12, 36), np.float32) if block_id != (1, 0, 1, 0) else made()

    meta = np.empty((0,) * 4, np.float32)
    x = da.map_blocks(lambda block_id=None: chunk(block_id), chunks=((1, 1), (4,), (12, 12), (36,)), meta=meta)
    with pytest.raises(
        error, match=re.escape(f"{name}: chunk (1, 0, 1, 0) of {argument} ") + ".*" + re.escape(message)
    ):
        CALLS[name][1](lazy, x).compute(scheduler="threads")


@pytest.mark.parametrize("name, argument", ARGUMENTS)
def test_chunks_of_unknown_sizes(name, argument):
    x = da.from_array(PLANES, (1, 4, 24, 36))
    x = x[x[:, 0, 0, 0] > -9]
    message = rf"{name}: {argument} has chunks of unknown sizes; call its compute_chunk_sizes\(\) first"
    with pytest.raises(ValueError, match=message):
        CALLS[name][1](lazy, x)
    y = CALLS[name][1](lazy, x.compute_chunk_sizes())
    assert np.array_equal(y.compute(scheduler="threads"), CALLS[name][1](lk, PLANES))


@pytest.mark.parametrize(
    "name, argument", [("conv2d", "x"), ("conv3d", "x"), ("reorder", "array"), ("max_pool2d", "x")]
)
@pytest.mark.parametrize("given", [[[1.0]], "x.zarr", None, 3])
def test_what_is_no_array(name, argument, given):
    with pytest.raises(TypeError, match=rf"{name}: {argument}: expected a dask array, or an array of Zarr"):
        CALLS[name][1](lazy, given)


class Grid:
    """Stands for an array in a file, with what is read of it in whole chunks."""

    def __init__(self, shape, chunks):
        self.shape, self.chunks, self.dtype, self.ndim = shape, chunks, np.dtype(np.float32), len(shape)

    def __getitem__(self, region):
        raise AssertionError

    def __reduce__(self):
        return Grid, (self.shape, self.chunks)

    def read(self, y):
        """How often all of it is read by the tiles of an operation, in whole chunks."""
        (about,) = (layer.info for layer in y.dask.layers.values())
        (reads,), chunks, found = about.reads, self.chunks or (1,) * self.ndim, 1
        for dim, cuts in enumerate(about.result.cuts):
            windows = [reads.window(dim, outputs) for outputs in ranges(cuts)]
            read_unit = chunks[dim]
            ends = [(a // read_unit, min(self.shape[dim], -(-b // read_unit) * read_unit)) for a, b in windows]
            found *= sum(end - first * read_unit for first, end in ends)
        return found / np.prod(self.shape)


W44 = np.ones((4, 4, 3, 3, 3), np.float32)
TIMES = {  # by chunks: how often a convolution may read a volume of 3.4 GB by tiles of 128 MiB, and of 16 MiB
    None: (1.1, 1.3), (1, 4, 1, 1024, 1024): (1.7, 3), (1, 4, 200, 16, 16): (1.8, 4), (1, 4, 32, 128, 128): (8, 22),
    (1, 1, 64, 64, 64): (6, 24), (1, 4, 8, 1024, 128): (5, 9),
}  # fmt: skip


@pytest.mark.parametrize("size, which", [("128MiB", 0), ("16MiB", 1)])
@pytest.mark.parametrize("chunks", TIMES, ids=str)
def test_tiles_of_files_are_whole_chunks_as_many_as_fit(chunks, size, which):
    x = Grid((1, 4, 200, 1024, 1024), chunks)
    with dask.config.set({"array.chunk-size": size}):
        moved, y = lazy.reorder(x, "NCDHW", "NDHWC"), lazy.conv3d(x, W44, padding=1)
    assert x.read(moved) == 1
    assert x.read(y) < TIMES[chunks][which]
    assert y.chunksize[1] == 4  # otherwise every tile would read all channels
    limit, read_unit = dask.utils.parse_bytes(size), (chunks or (1, 1, 1, 1, 1024))
    one = 8 * int(np.prod((1, 4, *read_unit[2:])))  # bytes of an input and a result that are as large as a chunk
    assert limit / 4 <= 8 * np.prod(y.chunksize) <= limit or np.prod(y.chunksize) * 8 == one
    for found, dims in ((y, (0, 1, 2, 3, 4)), (moved, (0, 2, 3, 4, 1))):
        for sizes, dim in zip(found.chunks, dims):
            assert all(n % read_unit[dim] == 0 for n in sizes[:-1])


def test_a_small_file_is_one_tile():
    y = lazy.conv3d(Grid((1, 4, 40, 64, 64), (1, 4, 8, 8, 8)), W44, padding=1)
    assert y.npartitions == 1
