"""Results past memory are written into arrays in files, by chunks that no two tasks share."""

import contextlib
import io
import re
import subprocess
import sys
import threading

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import zarr
from dask.callbacks import Callback
from dask.delayed import Delayed
from dask.diagnostics import ProgressBar

import layoutkit as lk
import layoutkit.dask as lazy
from layoutkit.dask import storing

RNG = np.random.default_rng(9)
X = RNG.standard_normal((1, 2, 32, 20), dtype=np.float32)
W = RNG.standard_normal((4, 2, 3, 3), dtype=np.float32)
WANT = lk.conv2d(X, W, padding=1, accuracy="strict")


def result(*chunks):
    return lazy.conv2d(da.from_array(X, (1, 2, 8, 20)), W, padding=1, accuracy="strict", chunks=chunks or None)


def target(tmp_path, chunks=(1, 4, 8, 10), shards=None, shape=WANT.shape, **more):
    return zarr.create_array(
        tmp_path / "y.zarr", shape=shape, chunks=chunks, shards=shards, **{"dtype": "f4", "fill_value": 7} | more
    )


@pytest.mark.parametrize("version", [2, 3])
def test_into_zarr(tmp_path, version):
    out = target(tmp_path, zarr_format=version)
    assert lazy.store(result(), out) is None
    assert np.array_equal(out[:], WANT)


def test_into_shards(tmp_path):
    out = target(tmp_path, (1, 4, 4, 10), (1, 4, 16, 20))
    lazy.store(result(1, 4, 16, 20), out)
    assert np.array_equal(out[:], WANT)


@pytest.mark.parametrize("layout", [{"chunks": (1, 2, 5, 7), "compression": "gzip"}, {}])
def test_into_hdf5_at_any_cuts(tmp_path, layout):
    with h5py.File(tmp_path / "y.h5", "w") as file:
        out = file.create_dataset("y", WANT.shape, "f4", **layout)
        lazy.store(result(), out)
        assert np.array_equal(out[:], WANT)


def test_into_memory_and_memmaps(tmp_path):
    out = np.zeros(WANT.shape, np.float32)
    lazy.store(result(), out)
    assert np.array_equal(out, WANT)
    mapped = np.memmap(tmp_path / "y", np.float32, "w+", offset=12, shape=WANT.shape, order="F")
    lazy.store(result(), mapped)
    assert np.array_equal(mapped, WANT)


def test_a_result_in_another_byte_order(tmp_path):
    out = target(tmp_path, dtype=">f4")
    lazy.store(result(), out)
    assert np.array_equal(out[:], WANT)


def test_a_region_of_the_target(tmp_path):
    out = target(tmp_path, shape=(3, 4, 48, 30))
    lazy.store(result(), out, region=(slice(1, 2), slice(None), slice(-40, -8), slice(5, 25)))
    assert np.array_equal(out[1:2, :, 8:40, 5:25], WANT)
    assert (out[0] == 7).all() and (out[:, :, :8] == 7).all() and (out[..., 25:] == 7).all()


def test_each_tile_is_made_and_written_by_one_task(tmp_path):
    writes = lazy.store(result(), target(tmp_path), compute=False)
    assert isinstance(writes, Delayed)
    nodes = dict(dask.optimize(writes)[0].__dask_graph__())
    fused = [node for key, node in nodes.items() if isinstance(key, tuple) and key[0].startswith("conv2d-store")]
    assert len(fused) == 4 and all(node.has_subgraph() for node in fused)


def test_tiles_are_gone_when_they_are_written():
    held = []

    class Watch(Callback):
        def _posttask(self, key, value, dsk, state, worker):
            held.append(sum(v.nbytes for v in state["cache"].values() if isinstance(v, np.ndarray)))

    x = zarr.create_array({}, shape=(1, 2, 640, 20), chunks=(1, 2, 8, 20), dtype="f4")
    y = lazy.conv2d(x, W, padding=1, chunks=(1, 4, 8, 20))
    out = zarr.create_array({}, shape=y.shape, chunks=(1, 4, 8, 20), dtype="f4")
    writes = lazy.store(y, out, compute=False)
    with Watch():
        writes.compute(scheduler="synchronous")
    assert len(held) > 80 and not any(held)
    assert lazy.plan(writes, threads=1).peak_bytes < y.nbytes / 10


def test_no_two_tasks_write_into_hdf5_at_a_time(tmp_path, monkeypatch):
    within, seen = [0], []

    class Lock:
        lock = threading.Lock()

        def __enter__(self):
            self.lock.acquire()
            within[0] += 1
            seen.append(within[0])

        def __exit__(self, *error):
            within[0] -= 1
            self.lock.release()

    monkeypatch.setattr(storing, "_HDF5", Lock())
    with h5py.File(tmp_path / "y.h5", "w") as file:
        lazy.store(result(), file.create_dataset("y", WANT.shape, "f4"))
    assert seen == [1] * 4


def test_it_is_done_each_time_and_shows_progress(tmp_path, capsys):
    out = target(tmp_path)
    for _ in range(2):
        writes = lazy.store(result(), out, compute=False)
        assert (out[:] == 7).all()
        with ProgressBar():
            assert writes.compute() is None
        assert np.array_equal(out[:], WANT)
        out[:] = 7
    assert "100% Completed" in capsys.readouterr().out


def test_results_of_dask_and_several_at_once(tmp_path):
    first, second = target(tmp_path / "1"), target(tmp_path / "2")
    y = result()
    dask.compute(lazy.store(y, first, compute=False), lazy.store(-y, second, compute=False))
    assert np.array_equal(first[:], WANT) and np.array_equal(second[:], -WANT)


@pytest.mark.parametrize(
    "chunks, target_chunks, shards, region, message",
    [
        ((1, 4, 12, 20), (1, 4, 8, 20), None, None, "axis 2 of y is cut at 12, within a chunk of the target, whose "
         "chunks are 8: two tasks would write it; give the operation that makes y chunks=(-1, -1, 8, -1)"),
        ((1, 2, 16, 20), (1, 4, 8, 20), None, None, "axis 1 of y is cut at 2, within a chunk of the target, whose "
         "chunks are 4: two tasks would write it; give the operation that makes y chunks=(-1, -1, 16, -1)"),
        ((1, 4, 8, 20), (1, 4, 8, 20), (1, 4, 16, 20), None, "axis 2 of y is cut at 8, within a shard of the target, "
         "whose shards are 16: two tasks would write it; give the operation that makes y chunks=(-1, -1, 16, -1)"),
        ((1, 4, 16, 20), (1, 4, 8, 20), None, (slice(None), slice(None), slice(6, 38)), "axis 2 of y is cut at 16, "
         "within a chunk of the target, whose chunks are 8, where y begins at 6: two tasks would write it; give the "
         "operation that makes y chunks=(-1, -1, (10, 16, 6), -1)"),
        ((1, 4, 32, 5), (1, 4, 8, 20), None, None, "axis 3 of y is cut at 5, within a chunk of the target, whose "
         "chunks are 20: two tasks would write it; give the operation that makes y chunks=(-1, -1, -1, -1)"),
    ],
)  # fmt: skip
def test_cuts_within_chunks_are_errors_that_say_what_fits(tmp_path, chunks, target_chunks, shards, region, message):
    out = target(tmp_path, target_chunks, shards, shape=(1, 4, 48, 20) if region else WANT.shape)
    with pytest.raises(ValueError, match=re.escape(f"store: {message}")):
        lazy.store(result(*chunks), out, region=region)
    fitting = eval(message.rsplit("chunks=", 1)[1])
    lazy.store(result(*fitting), out, region=region)
    assert np.array_equal(out[region or slice(None)], WANT)


def test_an_axis_that_is_not_cut_may_begin_anywhere(tmp_path):
    out = target(tmp_path, (1, 3, 16, 7), shape=(1, 5, 40, 25))
    lazy.store(result(1, 4, 16, 20), out, region=(slice(0, 1), slice(1, 5), slice(0, 32), slice(3, 23)))
    assert np.array_equal(out[:, 1:5, :32, 3:23], WANT)


@pytest.mark.parametrize(
    "error, message, change",
    [
        (ValueError, "y has shape (1, 4, 32, 20), target has (1, 4, 32, 21)", {"shape": (1, 4, 32, 21)}),
        (ValueError, "y has shape (1, 4, 32, 20), region of target (1, 4, 32, 20) has (1, 4, 31, 20)",
         {"region": (slice(None), slice(None), slice(1, None))}),
        (ValueError, "slices with steps of 1", {"region": (slice(None), slice(None), slice(None, None, 2))}),
        (ValueError, "slices with steps of 1", {"region": (slice(None),) * 5}),
        (ValueError, "slices with steps of 1", {"region": 0}),
        (TypeError, "y is of dtype float32, target of float64", {"dtype": "f8"}),
        (TypeError, "y: expected a dask array, got ndarray", {"y": WANT}),
        (TypeError, "target: expected an array of Zarr, HDF5 or numpy, got str", {"target": "y.zarr"}),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_at_once(tmp_path, error, message, change):
    region, y, given = change.pop("region", None), change.pop("y", result()), change.pop("target", None)
    with pytest.raises(error, match=re.escape(message)):
        lazy.store(y, given or target(tmp_path, **change), region=region, compute=False)


def test_unknown_chunks_and_read_only_targets(tmp_path):
    x = da.from_array(np.arange(8.0), 4)
    with pytest.raises(ValueError, match=r"store: y has chunks of unknown sizes; call its compute_chunk_sizes\(\)"):
        lazy.store(x[x > 2], np.zeros(5))
    out = np.zeros(WANT.shape, np.float32)
    out.flags.writeable = False
    target(tmp_path)
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file.create_dataset("y", WANT.shape, "f4")
    with h5py.File(tmp_path / "y.h5", "r") as file:
        for to in (out, file["y"], zarr.open_array(tmp_path / "y.zarr", mode="r")):
            with pytest.raises(ValueError, match="is read-only"):
                lazy.store(result(), to)
        closed = file["y"]
    with pytest.raises(OSError, match="store: target: the HDF5 file of this dataset is closed"):
        lazy.store(result(), closed)


def test_what_cannot_be_written_is_named():
    class Full:
        shape, dtype = WANT.shape, WANT.dtype

        def __setitem__(self, region, tile):
            raise OSError("no space left")

        def __repr__(self):
            return "<full disk>"

    with pytest.raises(OSError, match=r"store: \[0:1, 0:4, .*:.*, 0:20\] of <full disk> cannot be written: no space"):
        lazy.store(result(), Full())


def test_other_processes_write_zarr_and_memmaps_alone(tmp_path, processes):
    out, mapped = target(tmp_path), np.memmap(tmp_path / "y", np.float32, "w+", shape=(2, *WANT.shape))
    with processes:
        lazy.store(result(), out)
        lazy.store(result(), mapped[1])
    assert np.array_equal(out[:], WANT)
    assert np.array_equal(mapped[1], WANT) and not mapped[0].any()
    with h5py.File(tmp_path / "y.h5", "w") as file:
        for to in (file.create_dataset("y", WANT.shape, "f4"), np.zeros(WANT.shape, np.float32)):
            with processes, pytest.raises(TypeError, match=r"cannot be written by other processes: .* Zarr"):
                lazy.store(result(), to)
            writes = lazy.store(result(), to, compute=False)
            with processes, pytest.raises(TypeError, match=r"cannot be written by other processes: .* Zarr"):
                writes.compute()


@pytest.mark.filterwarnings("ignore")  # what distributed warns of is not ours
def test_distributed_workers_do_not_write_hdf5(tmp_path):
    distributed = pytest.importorskip("distributed")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        out = file.create_dataset("y", WANT.shape, "f4")
        with distributed.Client(processes=False, n_workers=1, dashboard_address=None, silence_logs=50):
            with pytest.raises(TypeError, match=r"cannot be written by workers of dask.distributed: .* Zarr"):
                lazy.store(result(), out)
            written = target(tmp_path)
            lazy.store(result(), written)
            assert np.array_equal(written[:], WANT)
            with dask.config.set(scheduler="threads"):
                lazy.store(result(), out)
        assert np.array_equal(out[:], WANT)


def test_distributed_is_not_imported_for_it():
    code = """
import sys, numpy as np, dask.array as da
sys.modules["distributed"] = None
import layoutkit.dask
out = np.zeros(4)
layoutkit.dask.store(da.ones(4, chunks=2), out)
assert out.sum() == 4
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_bar_on_terminals_only(monkeypatch):
    x = da.ones((4, 4), chunks=2)
    for terminal in (False, True):
        stream = io.StringIO()
        stream.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(storing, "AFTER_SECONDS", 0)
        out = np.zeros((4, 4))
        lazy.store(x, out)
        assert (out == 1).all() and ("100%" in stream.getvalue()) == terminal
        with Callback():
            assert isinstance(storing._bar(), contextlib.nullcontext)
