"""Convolve and reorder a volume that is larger than memory: a Zarr or HDF5 array, by layoutkit.dask. In this folder:

    python3 -m venv .venv && .venv/bin/pip install 'layoutkit[dask]' zarr h5py && .venv/bin/python volume.py

It makes its own data, 12 GB of float32, and needs twice that of disk; ``--gigabytes 0.05`` takes seconds. The result is
compared with the in-memory call in a few places, and the exit code is 1 if memory went over ``--memory-gigabytes``.
"""

import argparse
import contextlib
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import dask
import numpy as np
from dask.diagnostics import ProgressBar

import layoutkit
import layoutkit.dask

CHANNELS = 4
RNG = np.random.default_rng(0)
FILTER = RNG.standard_normal((CHANNELS, CHANNELS, 3, 3, 3), dtype=np.float32)


def shape_of(gigabytes: float) -> tuple[int, ...]:
    """Of a volume NCDHW of this size, about as deep as it is high and wide."""
    voxels = gigabytes * 1e9 / (4 * CHANNELS)
    side = max(16, round(voxels ** (1 / 3) / 16) * 16)
    return 1, CHANNELS, max(3, round(voxels / side**2)), side, side


def create(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...]):
    """An array of float32 in a file, of the format that its suffix says, without compression."""
    if path.suffix == ".h5":
        import h5py

        return h5py.File(path, "w").create_dataset("volume", shape, np.float32, chunks=chunks)
    import zarr

    return zarr.create_array(path, shape=shape, chunks=chunks, dtype="float32", compressors=None)


def fill(volume) -> None:
    """One random slice, brighter from slice to slice: each is a chunk."""
    first = RNG.standard_normal((1, CHANNELS, 1, *volume.shape[3:]), dtype=np.float32)
    for d in range(volume.shape[2]):
        volume[:, :, d : d + 1] = first + np.float32(d / 100)


def convolved(volume):
    """The lazy result, NDHWC."""
    y = layoutkit.dask.conv3d(volume, FILTER, padding=1, accuracy="strict")
    return layoutkit.dask.reorder(y, "NCDHW", "NDHWC")


def check(volume, result, places: int = 5, size: int = 24) -> None:
    """Compare the result, bit by bit, with the in-memory call in a few places."""
    for _ in range(places):
        starts = [int(RNG.integers(0, max(1, n - size))) for n in volume.shape[2:]]
        stops = [min(n, start + size) for n, start in zip(volume.shape[2:], starts)]
        window = [slice(max(0, a - 1), b + 1) for a, b in zip(starts, stops)]
        edges = [(int(a == 0), int(b == n)) for a, b, n in zip(starts, stops, volume.shape[2:])]
        x = np.pad(volume[:, :, window[0], window[1], window[2]], [(0, 0), (0, 0), *edges])
        want = layoutkit.conv3d(x, FILTER, accuracy="strict", out_layout="NDHWC")
        d, h, w = map(slice, starts, stops)
        if not np.array_equal(result[:, d, h, w], want):
            raise SystemExit(f"the result differs from {starts} on")


def peak(pid: int | str = "self") -> int:
    """Bytes of memory that a process has held at most."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextlib.contextmanager
def scheduler(workers: str, memory: float) -> Iterator[list[int]]:
    """Compute by threads or processes, in tiles so large that all of them together fit; gives their peaks, at the end.

    A tile's input and result are of ``array.chunk-size`` together. A worker holds copies of both at most; of processes,
    the one that gives them their tasks holds what they pass on, too.
    """
    count, peaks = os.cpu_count() or 1, []
    copies = 5 if workers == "threads" else 10
    with dask.config.set({"array.chunk-size": f"{int(memory / (copies * count))}B", "scheduler": workers}):
        if workers == "threads":
            yield peaks
            peaks.append(peak())
            return
        with ProcessPoolExecutor(count, get_context("spawn")) as pool, dask.config.set(pool=pool, chunksize=1):
            yield peaks
            peaks += [peak(), *(peak(process) for process in pool._processes)]


@contextlib.contextmanager
def folder(parent: Path | None, gigabytes: float, keep: bool) -> Iterator[Path]:
    """A folder with room for the volume and its result, which is deleted at the end."""
    parent = parent or Path.cwd()
    parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(parent).free / 1e9
    if free < 2.1 * gigabytes:
        raise SystemExit(
            f"{parent} has {free:.1f} GB free, the volume and its result take {2.1 * gigabytes:.1f} GB: "
            "choose another --folder, or fewer --gigabytes"
        )
    made = Path(tempfile.mkdtemp(prefix="volume-", dir=parent))
    try:
        yield made
    finally:
        if keep:
            print(f"kept in {made}")
        else:
            shutil.rmtree(made)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=12, help="of the volume; default 12")
    parser.add_argument("--folder", type=Path, help="where the data is made; default: the current folder")
    parser.add_argument("--format", choices=["zarr", "hdf5"], default="zarr")
    parser.add_argument("--memory-gigabytes", type=float, default=2, help="that all processes take; default 2")
    parser.add_argument("--workers", choices=["threads", "processes"], default="threads")
    parser.add_argument("--keep", action="store_true", help="do not delete the data")
    given = parser.parse_args()
    if (given.format, given.workers) == ("hdf5", "processes"):
        parser.error("an HDF5 file is written by one process: choose --workers threads, or --format zarr")
    suffix, memory = {"zarr": ".zarr", "hdf5": ".h5"}[given.format], given.memory_gigabytes * 1e9
    shape = shape_of(given.gigabytes)
    with folder(given.folder, given.gigabytes, given.keep) as into, scheduler(given.workers, memory) as peaks:
        begin = time.perf_counter()
        volume = create(into / f"volume{suffix}", shape, (1, CHANNELS, 1, *shape[3:]))
        fill(volume)
        filled = time.perf_counter()
        size = volume.size * 4 / 1e9
        print(f"volume {shape}: {size:.3g} GB written in {filled - begin:.1f} s")

        y = convolved(volume)
        result = create(into / f"result{suffix}", y.shape, tuple(max(sizes) for sizes in y.chunks))
        writes = layoutkit.dask.store(y, result, compute=False)
        plan = layoutkit.dask.plan(writes)
        print(plan.explain())
        begin = time.perf_counter()
        with ProgressBar():
            writes.compute()
        seconds = time.perf_counter() - begin
        check(volume, result)
    read = plan.bytes_read / 1e9 - size  # the reorder reads what is in memory
    print(f"{read:.3g} GB read and {size:.3g} GB written in {seconds:.1f} s: {(read + size) / seconds:.2f} GB/s")
    print(
        f"peak memory {sum(peaks) / 1e9:.2f} GB of {given.memory_gigabytes:g} GB; the result is bit-equal where checked"
    )
    if sum(peaks) > memory:
        print("that is more memory than there should be")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
