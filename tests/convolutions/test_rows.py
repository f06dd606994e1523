"""Which rows of kernels are candidates, and what a thread runs around them."""

import ctypes
import threading
from itertools import groupby

import harness
import numpy as np
import pytest
from conftest import EMULATED, fewer, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from random_cases.deciding import any_costs

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.convolutions.algorithms import base
from layoutkit.convolutions.task import ConvTask
from layoutkit.grad import task as grad_task

BEST = registry.best("gemm", "f32")[0]
ALIVE = []  # rows that plans may still name


def test_lower_sets_are_left_out_where_they_say_nothing_new():
    """So the candidates are those of the best set that has any, as all sets but those of tile units read A alike."""
    for isa in registry.isas():
        if "amx" in isa:
            continue
        with using_isa(isa):
            for (family, types), rows in groupby(
                sorted(registry.kernels(), key=lambda k: k[1:4:2]), lambda k: k[1:4:2]
            ):
                if next(rows).tile is not None:
                    assert list(base.rows_of(family, types, isa)) == registry.best(family, types)


@pytest.mark.parametrize("change", [{"k_tile": 32}, {"fills_k": True}, {"strided_a": True}, {"alignment": 64}])
def test_a_row_that_asks_for_something_else_leaves_lower_sets_theirs(change):
    """A tile unit's row is not the best for every problem; which is, costs tell."""
    tiles = BEST._replace(name="tiles", isa="tiles", tile=BEST.tile._replace(**change))
    assert base.worth_trying([tiles, BEST]) == [tiles, BEST]
    assert base.worth_trying([tiles._replace(tile=BEST.tile), BEST]) == [tiles._replace(tile=BEST.tile)]
    short = tiles._replace(tile=BEST.tile, lanes=BEST.lanes // 2)
    assert base.worth_trying([short, BEST]) == [short, BEST], "shorter vectors may take longer"
    other = BEST._replace(name="other", mr=BEST.mr // 2)
    assert base.worth_trying([BEST, other]) == [BEST, other], "all rows of a set are worth it"


class Watched:
    """A copy of a row that tells which threads entered and left regions, in order; `tile` is what it says otherwise."""

    def __init__(self, monkeypatch, kernel, name, **tile):
        self.kernel, self.calls = kernel._replace(name=name, tile=kernel.tile._replace(**tile)), []
        self.row, self.tile = harness.contract("lk_kernel")(), harness.contract("lk_tile")()
        ctypes.memmove(ctypes.addressof(self.row), registry._by_name[kernel.name], ctypes.sizeof(self.row))
        ctypes.memmove(ctypes.addressof(self.tile), self.row.tile, ctypes.sizeof(self.tile))
        for field, value in tile.items():
            setattr(self.tile, field, value)
        self.row.tile = ctypes.addressof(self.tile)
        callback = ctypes.CFUNCTYPE(None)
        self.functions = [callback(lambda way=way: self.calls.append((threading.get_ident(), way))) for way in (1, -1)]
        self.row.enter, self.row.leave = (ctypes.cast(f, ctypes.c_void_p) for f in self.functions)
        monkeypatch.setitem(registry._by_name, name, ctypes.addressof(self.row))
        ALIVE.append(self)

    def check(self, threads):
        by_thread = {}
        for thread, way in self.calls:
            by_thread.setdefault(thread, []).append(way)
        assert 1 <= len(by_thread) <= threads
        assert all(ways == [1, -1] * (len(ways) // 2) for ways in by_thread.values()), self.calls


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("algorithm", ["direct", "im2col", "winograd", "planes"])
def test_each_thread_enters_and_leaves_a_region(monkeypatch, algorithm, threads):
    watched = Watched(monkeypatch, BEST, f"watched {algorithm} {threads}")
    monkeypatch.setattr(base.Algorithm, "kernels", lambda self, p: [watched.kernel])
    monkeypatch.setattr("layoutkit.convolutions.algorithms.winograd.Winograd.kernels", lambda self, p: [watched.kernel])
    x, w = np.ones((1, 35, 37, 41), np.float32), np.ones((36, 35, 3, 3), np.float32)
    accuracy = "standard" if algorithm == "winograd" else "strict"  # no components, whose rows are others
    y = lk.conv2d(x, w, algorithm=algorithm, threads=threads, accuracy=accuracy)
    np.testing.assert_allclose(y, 35 * 9, rtol=1e-4)
    watched.check(threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_so_it_does_where_a_filter_has_its_gradient_summed(monkeypatch, threads):
    rows = registry.best("outer", "f32")
    watched = Watched(monkeypatch, rows[0], f"watched sums {threads}")
    monkeypatch.setattr(grad_task, "rows_of", lambda *_: [watched.kernel])
    x, dy = np.ones((2, 35, 37, 41), np.float32), np.ones((2, 36, 35, 39), np.float32)
    dw = lk.grad.conv2d_weight(x, (36, 35, 3, 3), dy, algorithm="direct", threads=threads)
    np.testing.assert_allclose(dw, 2 * 35 * 39, rtol=1e-4)
    watched.check(threads)


@pytest.mark.parametrize("channels", [33, 36])
@pytest.mark.parametrize("algorithm", ["direct", "im2col", "winograd", "planes", "folded"])
def test_whole_k_tiles_are_filled_with_zeros_or_the_row_is_no_candidate(monkeypatch, algorithm, channels):
    """NaN of neighbours would tell: 0 times NaN is NaN."""
    x = np.full((1, 19, 23, 2 * channels), np.nan, np.float32)[..., :channels]
    x[...] = numbers = np.random.default_rng(0).integers(-4, 5, x.shape)
    w = np.random.default_rng(1).integers(-4, 5, (40, channels, 3, 3)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(numbers, (3, 3), (1, 2))
    want = np.einsum("nhwcij,ocij->nhwo", windows, w)
    watched = Watched(monkeypatch, BEST, f"tiles {algorithm} {channels}", k_tile=12, fills_k=True)
    monkeypatch.setattr(base.Algorithm, "kernels", lambda self, p: [watched.kernel])
    monkeypatch.setattr("layoutkit.convolutions.algorithms.winograd.Winograd.kernels", lambda self, p: [watched.kernel])

    def result():
        accuracy = "standard" if algorithm == "winograd" else "strict"
        return lk.conv2d(x, w, layout="NHWC", algorithm=algorithm, accuracy=accuracy)

    if algorithm != "im2col" and (channels % 12 or algorithm == "folded"):
        with pytest.raises(ValueError, match=algorithm):
            result()
    else:
        np.testing.assert_allclose(result(), want, atol=1e-3)
        assert watched.calls


@pytest.mark.parametrize(("alignment", "strided"), [(64, False), (1, True), (64, True)])
def test_what_a_row_needs_of_a_is_a_matter_of_where_it_lies(monkeypatch, alignment, strided):
    row = BEST._replace(tile=BEST.tile._replace(alignment=alignment, strided_a=strided))
    monkeypatch.setattr(base.Algorithm, "kernels", lambda self, p: [row])
    for channels in (35, 64):
        task = ConvTask.parse(f"conv n1 c{channels} 9x11 o32 k3x3 s1x1 p0+0,0+0 d1x1 g1 NHWC>NHWC f32 standard t1")
        names = {c.name.partition(" ")[0] for c in task.candidates() if row.name in c.name}
        staged = {"im2col"} if alignment == 1 or channels == 64 else set()
        assert names - {"winograd", "blas"} == staged


@pytest.mark.parametrize("isa", registry.isas() + EMULATED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8", "int8"])
@given(st.data())
@fewer(4)
def test_rows_of_pixels_longer_than_a_tile(dtype, isa, data):
    """A run of pixels without padding may fill a tile, of up to 32 rows, or several."""
    width, kernel, before = data.draw(st.integers(1, 100)), data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2))
    stride, layout = data.draw(st.integers(1, 2)), data.draw(st.sampled_from(["NWC", "nCw16c", "NCW"]))
    algorithm = data.draw(st.sampled_from(["auto", "direct", "im2col"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    of_x, of_w = (dtype, "int8") if dtype.endswith("int8") else ("float32", "float32")
    x = rng.integers(0 if dtype == "uint8" else -9, 9, (1, 16, width)).astype(of_x)
    w = rng.integers(-8, 9, (5, 16, kernel)).astype(of_w)
    padding = ((before, kernel),)
    want = reference.conv(x.astype(float), w.astype(float), None, (stride,), padding, (1,), 1)
    stored = reference.to_physical(x, lk.Layout(layout))
    if dtype == "bfloat16":  # whole numbers that it holds, summed in float32
        stored, w = (
            lk.reorder(a, plain, plain, dtype=dtype) for a, plain in ((stored, "abcd"[: stored.ndim]), (w, "abc"))
        )
    of_y = "int32" if dtype.endswith("int8") else "float32"
    with using_isa(isa), any_costs(int(rng.integers(2**31))):
        got = lk.conv1d(
            stored, w, shape=x.shape, layout=layout, out_layout="NCW", stride=stride, padding=padding, threads=1,
            algorithm=algorithm, dtype=None if dtype == "float32" else (dtype, of_y),
        )  # fmt: skip
    np.testing.assert_array_equal(got, want)
