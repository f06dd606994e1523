"""Operations on arrays past memory: arguments, chunks and errors. Random cases of everything are a kind of
`tests/random_cases`, see test_campaign.py."""

import dask
import dask.array as da
import numpy as np
import pytest
from conftest import LONG
from random_cases import chunked

import layoutkit as lk
import layoutkit.dask as lazy

RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 6, 20, 30), dtype=np.float32)
W = RNG.standard_normal((4, 6, 3, 3), dtype=np.float32)
BIAS = RNG.standard_normal(4, dtype=np.float32)


def chunks_of(array, *chunks):
    return da.from_array(array, chunks)


def same(y, want):
    return np.array_equal(y.compute(), want)


@pytest.fixture(autouse=True)
def scheduler():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("index", range(40 if LONG else 20))
def test_any_operation_has_the_bits_of_the_one_in_memory(index):
    assert chunked.case(20261125, index) is None


def test_tiles_follow_the_chunks_and_no_chunk_is_changed():
    y = lazy.conv2d(chunks_of(X, 1, 2, (7, 13), 10), W, BIAS, padding=1, accuracy="strict")
    assert y.chunks == ((1, 1), (4,), (7, 13), (10, 10, 10)) and y.dtype == np.float32
    assert same(y, lk.conv2d(X, W, BIAS, padding=1, accuracy="strict"))
    assert not any("rechunk" in layer for layer in y.dask.layers)


def test_chunks_of_one_pixel_take_no_other_way():
    y = lazy.conv2d(chunks_of(X[:1, :, :6, :5], 1, 6, 1, 1), W, padding=1, accuracy="strict")
    assert y.numblocks == (1, 1, 6, 5)
    assert same(y, lk.conv2d(X[:1, :, :6, :5], W, padding=1, accuracy="strict"))


def test_a_tile_depends_on_no_other_chunks_than_it_reads():
    y = lazy.conv2d(chunks_of(X, 2, 6, 5, 30), W)
    tile = y.dask[(y.name, 0, 0, 0, 0)]
    chunks = {key[1:] for key in tile.dependencies if key[0].startswith("array")}
    assert chunks == {(0, 0, 0, 0)}
    (parts,) = [key for key in tile.dependencies if "parts" in key[0]]
    assert parts[1:] == (0, 0, 1, 0)
    copied = y.dask[parts]({key: X[:, :, 5:10] for key in y.dask[parts].dependencies})
    assert [array.shape for array in copied] == [(2, 6, 1, 30)] * 2  # of the tile before it and of the one after


def test_chunks_of_the_result_can_be_asked_for():
    x = chunks_of(X, 1, 6, 10, 30)
    y = lazy.conv2d(x, W, chunks=(2, 4, 7, -1))
    assert y.chunks == ((2,), (4,), (7, 7, 4), (28,))
    assert np.allclose(y.compute(), lk.conv2d(X, W), atol=1e-4)
    y = lazy.reorder(x, "NCHW", "nChw16c", chunks=(1, 1, 4, 30, 16))
    assert y.chunks == ((1, 1), (1,), (4,) * 5, (30,), (16,))
    assert same(y, lk.reorder(X, "NCHW", "nChw16c"))
    assert lazy.conv2d(x, W, chunks="auto").shape == (2, 4, 18, 28)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: lazy.conv2d(x, W, chunks=(1, 4, 10)), r"conv2d: chunks \(1, 4, 10\) are none of a result of shape"),
        (
            lambda x: lazy.conv2d(x, W, out_layout="nChw16c", chunks=(1, 1, 18, 28, 8)),
            "blocks of nChw16c cannot be cut",
        ),
        (lambda x: lazy.conv2d(x, W, layout="NCHW", groups=2), "conv2d: x of shape"),
        (lambda x: lazy.conv2d(x, W[:, :3], groups=2, chunks=(1, 1, 18, 28)), "dimension c at 1: it cannot be cut"),
        (lambda x: lazy.reorder(x, "NCHW", "NHWC", region=[(0, 1)] * 3), "reorder NCHW -> NHWC: region must say"),
        (lambda x: lazy.conv2d(x, da.from_array(W)), r"w is a dask array, .*w\.compute\(\)"),
        (lambda x: lazy.conv2d(x, W, out=np.empty(3)), "the result is a new dask array; layoutkit.dask.store"),
        (lambda x: lazy.conv2d(x, W, strid=2), "unexpected keyword argument 'strid'"),
        (lambda x: lazy.conv2d(x.astype("f8"), W), "expected dtype float32, got float64"),
        (lambda x: lazy.conv2d(x, W, add=np.zeros((1, 2), np.float32)), r"add has shape \(1, 2\), expected"),
        (lambda x: lazy.conv2d([[1.0]], W), "x: expected a dask array, or an array of Zarr"),
        (lambda x: lazy.max_pool2d(x, 30), "max_pool2d: a kernel of"),
        (lambda x: lazy.reorder(x, "NCHW", "NHWC", dtype="int4x2"), "packed pairs are not for arrays past memory"),
        (lambda x: lazy.reorder(x, "NCHW", "nhwc:(*,900,30,1)"), "explicit strides"),
        (lambda x: lazy.reorder(x, "NCHW", "NHWC", at=(0,) * 4), "at: the result is a new dask array; .*store"),
        (lambda x: lazy.reorder(x, "NCHW", "NHWC", region=[None, None, slice(0, 9, 2), None]), "has steps: take them"),
        (lambda x: lazy.conv2d(x, W, chunks=3.5), "conv2d: chunks: expected sizes by physical axis.* got 3.5"),
        (lambda x: lazy.conv2d(x, W, chunks=(1, 4, 0, 28)), r"conv2d: chunks \(1, 4, 0, 28\) are none of"),
        (lambda x: lazy.conv2d(x, W, activation=["sum"]), "conv2d: activation sum sums up with add"),
        (lambda x: lazy.conv2d(lk.Tensor(X, "NCHW"), W), "x is a Tensor, which is in memory: give its array"),
        (lambda x: lazy.plan(x, threads=0), "plan: threads: expected a positive number, got 0"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_at_once(call, text):
    with pytest.raises((TypeError, ValueError), match=text):
        call(chunks_of(X, 1, 6, 10, 30))


def test_unknown_chunks_are_refused():
    x = chunks_of(X, 2, 6, 10, 30)
    with pytest.raises(ValueError, match="chunks of unknown sizes"):
        lazy.conv2d(x[x[:, 0, 0, 0] > -9], W)


@pytest.mark.parametrize("what", ["shape", "dtype", "none"])
def test_a_bad_chunk_is_named(what):
    def spoilt(chunk, block_info=None):
        if block_info[0]["chunk-location"] != (1, 0, 1, 0):
            return chunk
        return {"shape": chunk[:, :, 1:], "dtype": chunk.astype("f8"), "none": object()}[what]

    x = chunks_of(X, 1, 6, 10, 30).map_blocks(spoilt, dtype=np.float32, meta=np.empty((0,) * 4, np.float32))
    for y in (lazy.conv2d(x, W, padding=1), lazy.reorder(x, "NCHW", "NHWC")):
        with pytest.raises((ValueError, TypeError), match=r": chunk \(1, 0, 1, 0\) of (x|array)"):
            y.compute()


def test_single_inputs_need_no_batch():
    x = da.from_array(X[0], (6, 8, 8))
    y = lazy.conv2d(x, W, padding=1, accuracy="strict", add=np.ones((4, 20, 30), np.float32))
    assert y.shape == (4, 20, 30)
    want = lk.conv2d(X[0], W, padding=1, accuracy="strict", add=np.ones((4, 20, 30), np.float32))
    assert same(y, want)
    assert same(lazy.max_pool2d(x, 2), lk.max_pool2d(X[0], 2))


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_empty_inputs(groups):
    w = RNG.standard_normal((6, 6 // groups, 3, 3), dtype=np.float32)
    x = np.empty((0, 6, 20, 30), np.float32)
    y = lazy.conv2d(da.from_array(x), w, groups=groups)
    assert y.compute().shape == (0, 6, 18, 28)
    assert lazy.reorder(da.from_array(x), "NCHW", "NHWC").compute().shape == (0, 20, 30, 6)
    assert lazy.avg_pool2d(da.from_array(x), 2).compute().shape == (0, 6, 10, 15)


def test_integers():
    x = RNG.integers(0, 255, (1, 8, 12, 12), np.uint8)
    w = RNG.integers(-127, 127, (4, 8, 3, 3)).astype(np.int8)
    given = dict(padding=1, zero_point=3, scale=np.full(4, 0.01, np.float32), dtype=("uint8", "uint8"), out_scale=0.5)
    y = lazy.conv2d(da.from_array(x, (1, 8, 5, 7)), w, **given)
    assert y.dtype == np.uint8 and same(y, lk.conv2d(x, w, **given))


def test_reproducible_holds_for_tiles_as_it_was_when_they_were_asked_for():
    before = lk.reproducible(True)
    try:
        want, y = lk.conv2d(X, W, padding=1), lazy.conv2d(chunks_of(X, 1, 6, 7, 30), W, padding=1)
    finally:
        lk.reproducible(before)
    assert same(y, want)


def test_names_tell_computations_apart():
    x = chunks_of(X, 1, 6, 10, 30)
    first = lazy.conv2d(x, W).name
    assert lazy.conv2d(x, W).name == first
    others = [lazy.conv2d(x, W + 1), lazy.conv2d(x, W, BIAS), lazy.conv2d(x + 1, W)]
    others += [lazy.conv2d(x, W, **one) for one in (dict(stride=2), dict(activation="relu"), dict(accuracy="fast"))]
    assert len({first, *(y.name for y in others)}) == 7


def test_signatures_are_those_in_memory():
    import inspect

    for name in ("conv1d", "conv2d", "conv3d", "reorder", "max_pool2d", "avg_pool3d"):
        there, here = (inspect.signature(getattr(m, name)).parameters for m in (lk, lazy))
        missing = {"out", "at", "beta"} & set(there)
        assert set(here) == set(there) - missing | {"chunks"}, name
        assert "chunks : optional" in getattr(lazy, name).__doc__ and "\nout :" not in getattr(lazy, name).__doc__


def test_slow_ways_are_warned_of_once_where_they_are_asked_for():
    x = da.zeros((1, 61, 64, 58, 8), dtype=np.float32, chunks=(1, 61, 32, 29, 8))
    w = np.ones((1, 61, 7, 7, 5), np.float32)
    with pytest.warns(lk.SlowPathWarning, match="only slow ways") as found:
        lazy.conv3d(x, w, layout="NCDHW", groups=1, algorithm="auto")
    assert [warning.filename for warning in found] == [__file__]


def test_tiles_of_tiles_are_one_task():
    x = chunks_of(X, 1, 6, 10, 30)
    (best,) = dask.optimize(lazy.reorder(lazy.conv2d(x, W, padding=1), "NCHW", "NHWC"))
    fused = [key for key in best.dask if "conv2d-reorder" in str(key)]
    assert len(fused) == 4


@pytest.mark.parametrize("dst", ["NHWC", "CHWN", "nChw2c"])
def test_a_tile_of_many_chunks_is_put_together_once(dst, monkeypatch):
    from layoutkit.dask.reorders import Reordering

    tiles = []
    moved = Reordering._of_pieces
    monkeypatch.setattr(Reordering, "_of_pieces", lambda *given: tiles.append(1) or moved(*given))
    y = lazy.reorder(chunks_of(X, 1, 2, 7, 30), "NCHW", dst, chunks=-1, dtype="float64", scale=2.0)
    assert same(y, lk.reorder(X, "NCHW", dst, dtype="float64", scale=2.0)) and tiles == [1]


def test_tensors_of_torch_are_no_arrays_past_memory():
    torch = pytest.importorskip("torch", reason="torch is an extra")
    with pytest.raises(TypeError, match="x: expected a dask array, or an array of Zarr, HDF5 or numpy, got Tensor"):
        lazy.conv2d(torch.zeros(1, 6, 20, 30), W)


def test_much_padding_is_planned_at_once():
    x = da.zeros((1, 1, 8, 1), dtype=np.float32, chunks=(1, 1, 4, 1))
    padding = ((3_000_000, 0), (0, 0))
    y = lazy.conv2d(x, np.ones((1, 1, 3, 1), np.float32), padding=padding, chunks=(1, 1, 300_000, 1))
    assert y.numblocks[2] == 11 and y.shape[2] == 3_000_006
