"""Processes of chunked.py: ``python chunked_workers.py others NAME THREADS``, driven by JSON lines over a pipe, and
``python chunked_workers.py write|memory CASE ..``, which do one thing and end."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from pipes import answering
from typing import Any

import dask
import dask.array as da
import numpy as np
from chunked_cases import physical_chunks

import layoutkit as lk
import layoutkit.dask as lazy

Ways = dict[str, Callable[[], Any]]
SAMPLES = 1000  # numbers of a result that are compared


def numbers(case: dict) -> tuple[np.ndarray, np.ndarray]:
    """The input as it lies in its layout, and the filter: the same in every process."""
    rng = np.random.default_rng(0)
    shape = lk.Layout(case["layout"]).physical_shape(case["shape"])
    w = rng.standard_normal((case["out"], case["shape"][1], *case["kernel"]), np.float32)
    return rng.standard_normal(shape, np.float32), w / math.sqrt(w[0].size)


def chunked(x: np.ndarray, chunks: Any) -> da.Array:
    """The array in chunks that are arrays of their own, in memory."""
    return da.from_array(x, chunks, name=False).map_blocks(np.array, dtype=x.dtype).persist(scheduler="sync")


def eager(case: dict, w: np.ndarray, threads: int) -> Callable[[np.ndarray], np.ndarray]:
    """The operation on whole arrays, its filter packed beforehand."""
    kind, rank, layout = case["kind"], case["rank"], case["layout"]
    if kind == "conv":
        op = getattr(lk, f"Conv{rank}d")(w, padding=case["padding"], layout=layout, threads=threads)
        return lambda x: op(x, shape=case["shape"])
    if kind == "reorder":
        return lambda x: lk.reorder(x, layout, case["target"], shape=case["shape"], threads=threads)
    pool = getattr(lk, f"{kind}{rank}d")
    more = dict(stride=1, padding=case["padding"], layout=layout, shape=case["shape"], threads=threads)
    return lambda x: pool(x, case["kernel"], **more)


def lazily(case: dict, x: Any, w: np.ndarray, threads: int = 1) -> da.Array:
    """The operation on a dask array or an array in a file; `threads` of each task."""
    kind, rank, layout = case["kind"], case["rank"], case["layout"]
    more = dict(layout=layout, shape=case["shape"], threads=threads)
    if kind == "conv":
        return getattr(lazy, f"conv{rank}d")(x, w, padding=case["padding"], **more)
    if kind == "reorder":
        return lazy.reorder(x, layout, case["target"], shape=case["shape"], threads=threads)
    return getattr(lazy, f"{kind}{rank}d")(x, case["kernel"], stride=1, padding=case["padding"], **more)


def digest(result: Any) -> list[float]:
    """A sample of a result."""
    flat = np.ascontiguousarray(result).reshape(-1)
    return flat[:: max(1, flat.size // SAMPLES)].astype(float).tolist()


def persisted(y: da.Array, workers: int) -> da.Array:
    """Compute a dask array on threads of this process; each chunk of the result is new."""
    return y.persist(scheduler="threads", num_workers=workers)


class Layoutkit:
    """layoutkit.dask."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def ways(self, case: dict) -> Ways:
        """What is timed, by name."""
        x, w = numbers(case)
        y = lazily(case, chunked(x, physical_chunks(case)), w)
        return {"layoutkit": lambda: persisted(y, self.threads)}


class Scipy:
    """map_overlap with scipy.ndimage, of single channels."""

    def __init__(self, threads: int) -> None:
        from scipy import ndimage

        self.ndimage, self.threads = ndimage, threads

    def ways(self, case: dict) -> Ways:
        if case["shape"][1] * case["out"] != 1:
            return {}
        x, w = numbers(case)
        source = chunked(x[0, 0], physical_chunks(case)[2:])
        kernel, function = w[0, 0], self.ndimage.correlate
        if case["flipped"]:
            kernel, function = kernel[(slice(None, None, -1),) * case["rank"]].copy(), self.ndimage.convolve
        y = da.map_overlap(
            function, source, depth=tuple(case["padding"]), boundary=0, dtype=x.dtype, meta=source._meta,
            weights=kernel, mode="constant",
        )  # fmt: skip
        return {"scipy": lambda: persisted(y, self.threads)}


class Torch:
    """map_overlap with torch's convolutions on each block, which read the overlap as their padding."""

    def __init__(self, threads: int) -> None:
        import torch

        self.torch, self.threads = torch, threads
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)

    def ways(self, case: dict) -> Ways:
        torch, (x, w) = self.torch, numbers(case)
        source = chunked(x[0], physical_chunks(case)[1:])
        weights, conv = torch.from_numpy(w), getattr(torch.nn.functional, f"conv{case['rank']}d")

        def block(of: np.ndarray) -> np.ndarray:
            torch.set_num_threads(1)  # of this thread of dask's
            with torch.inference_mode():
                return conv(torch.from_numpy(np.ascontiguousarray(of))[None], weights)[0].numpy()

        y = da.map_overlap(
            block, source, depth=(0, *case["padding"]), boundary={d: 0 for d in range(1, case["rank"] + 1)}, trim=False,
            dtype=x.dtype, meta=source._meta, chunks=((case["out"],), *source.chunks[1:]),
        )  # fmt: skip
        return {"torch": lambda: persisted(y, self.threads)}


CONTENDERS = {"layoutkit": Layoutkit, "scipy": Scipy, "torch": Torch}


def serve(name: str, threads: int) -> None:
    """Answer requests until the pipe closes."""
    answer = answering()
    try:
        contender = CONTENDERS[name](threads)
    except ImportError as error:
        answer(missing=str(error))
        return
    answer()
    ways: Ways = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "prepare":
            ways = {}  # what was held goes before there is more
            ways = contender.ways(request["case"])
            answer(digests={way: digest(call().compute(scheduler="sync")) for way, call in ways.items()})
        else:
            start = time.perf_counter()
            result = ways[request["way"]]()
            answer(seconds=time.perf_counter() - start)
            del result


def write(case: dict, folder: str) -> None:
    """Fill the Zarr array that `memory` reads."""
    import zarr

    more = {} if case["compressed"] else {"compressors": None}
    shape, chunks = _zarr_shapes(case)
    array = zarr.create_array(str(Path(folder) / "x"), shape=shape, chunks=chunks, dtype="f4", overwrite=True, **more)
    slab = np.random.default_rng(0).integers(0, 100, chunks).astype(np.float32)
    for at in np.ndindex(*(-(-n // c) for n, c in zip(shape, chunks))):
        region = tuple(slice(k * c, min(n, (k + 1) * c)) for k, c, n in zip(at, chunks, shape))
        array[region] = slab[tuple(slice(0, r.stop - r.start) for r in region)]


def _zarr_shapes(case: dict) -> tuple[tuple[int, ...], tuple[int, ...]]:
    chunks = physical_chunks(case)
    return tuple(map(sum, chunks)), tuple(map(max, chunks))


def generated(block_info: Any = None) -> np.ndarray:
    """A chunk of numbers."""
    shape = block_info[None]["chunk-shape"]
    return np.full(shape, np.float32(1 + sum(block_info[None]["chunk-location"])))


def unfinished(case: dict, x: Any, target: str) -> Any:
    """A case on x that nothing is computed of yet: stored in a new Zarr array, or summed."""
    import zarr

    w = np.full((case["out"], case["shape"][1], *case["kernel"]), np.float32(0.5))
    y = lazily(case, x, w)
    if case["way"] == "generated":
        return y.sum(dtype=np.float64)
    more = {} if case["compressed"] else {"compressors": None}
    chunks = tuple(max(sizes) for sizes in y.chunks)
    array = zarr.create_array(target, shape=y.shape, chunks=chunks, dtype="f4", overwrite=True, **more)
    return da.store(y, array, lock=False, compute=False)


def memory(case: dict, folder: str, threads: int) -> None:
    """Run a case in this process; tell what it took of memory, and what `plan` says."""
    import zarr

    warnings.simplefilter("ignore", lk.SlowPathWarning)

    def source(case: dict) -> da.Array:
        meta = np.empty((0,) * len(physical_chunks(case)), "f4")
        return da.map_blocks(generated, chunks=physical_chunks(case), dtype="f4", meta=meta)

    def run(y: Any) -> None:
        dask.compute(y, scheduler="threads", num_workers=threads)

    small = case | {"shape": [1, case["shape"][1], *[32] * case["rank"]], "pieces": [1, 1, *[2] * case["rank"]]}
    run(unfinished(small, source(small), str(Path(folder) / "small")))  # imports, threads, code
    x = source(case) if case["way"] == "generated" else zarr.open_array(str(Path(folder) / "x"), mode="r")
    y = unfinished(case, x, str(Path(folder) / "y"))
    plan = lazy.plan(y, threads=threads)
    lk.release_memory()
    before = resident()
    start = time.perf_counter()
    run(y)
    seconds = time.perf_counter() - start
    print(json.dumps({
        "measured": status("VmHWM") - before, "predicted": plan.peak_bytes, "seconds": seconds, "tasks": plan.tasks,
        "read": plan.bytes_read, "overlap": plan.overlap_bytes,
    }))  # fmt: skip


def status(name: str) -> int:
    """Bytes of an entry of this process's status, as Linux tells it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"no {name} in /proc/self/status: Linux alone has it")


def resident() -> int:
    """Bytes that this process holds now; the most that it held is counted anew from here."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return status("VmRSS")


if __name__ == "__main__":
    if sys.argv[1] == "others":
        serve(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "write":
        write(json.loads(sys.argv[2]), sys.argv[3])
    else:
        memory(json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
