"""Calls that are made again run what is kept of the first; what differs between them counts."""

import gc
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from random_cases.filters import like

import layoutkit as lk
import layoutkit.ndimage as ndi
from layoutkit.choosing import repeats
from layoutkit.ndimage import binary

rng = np.random.default_rng(5)
IMAGE = rng.random((20, 30)).astype("float32")
KEPT = {
    "gaussian": lambda x, **k: ndi.gaussian_filter(x, 1.5, **k),
    "each sigma": lambda x, **k: ndi.gaussian_filter(x, [1, 2.5], **k),
    "mean": lambda x, **k: ndi.uniform_filter(x, size=(3, 5), mode="constant", cval=1.0, **k),
    "weights": lambda x, **k: ndi.convolve(x, np.arange(9.0).reshape(3, 3), **k),
    "a list": lambda x, **k: ndi.correlate1d(x, [1, -2, 1], 0, **k),
    "median": lambda x, **k: ndi.median_filter(x, 3, **k),
    "footprint": lambda x, **k: ndi.maximum_filter(x, footprint=np.eye(3, dtype=bool), **k),
    "derivative": lambda x, **k: ndi.sobel(x, 1, **k),
    "moved, with its outside": lambda x, **k: ndi.shift(x, 0.5, order=1, cval=np.float32(7), **k),
    "of another size": lambda x, **k: ndi.zoom(x, 1.5, order=1, **k),
    "of a type": lambda x, **k: ndi.zoom(x, 2, **{"output": "float64", "order": 1} | k),
    "prefiltered": lambda x, **k: ndi.shift(x, 0.3, **k),
}
STEPS = {  # of which parts are kept, or nothing
    "magnitude": lambda x, **k: ndi.gaussian_gradient_magnitude(x, 1.0, **k),
    "second derivatives": lambda x, **k: ndi.gaussian_laplace(x, 1.0, **k),
    "opening": lambda x, **k: ndi.grey_opening(x, 3, **k),
    "top hat": lambda x, **k: ndi.white_tophat(x, (3, 5), **k),
    "gradient": lambda x, **k: ndi.morphological_gradient(x, 3, **k),
    "eroded": lambda x, **k: ndi.binary_erosion(x > 0.5, **k),
    "eroded twice": lambda x, **k: ndi.binary_erosion(x > 0.5, iterations=2, **k),
    "eroded to the end": lambda x, **k: ndi.binary_dilation(x > 0.8, iterations=0, mask=x > 0.3, **k),
    "recursive": lambda x, **k: ndi.gaussian_filter(x, 5.0, recursive=True, **k),
    "spectra": lambda x, **k: ndi.correlate(x, np.ones((9, 9)), fft=True, **k),
    "by way of another type": lambda x, **k: ndi.gaussian_filter(x, 1.0, **{"output": "float16"} | k),
    "a line": lambda x, **k: ndi.gaussian_gradient_magnitude(x[0], 1.0, **k),
}


def fresh(call, x, **keywords):
    repeats.calls.clear()
    return call(x, **keywords)


@pytest.fixture
def made(monkeypatch):
    """The names of the nests that are made."""
    names = []
    for module, name in (
        ("passes", "Separable"), ("neighbourhoods", "Neighbourhood"), ("grids", "Interpolation"), ("grids", "Zooming"),
        ("interpolation", "Sampling"),
    ):  # fmt: skip
        where = f"layoutkit.ndimage.{module}.{name}"
        nest = pytest.importorskip(f"layoutkit.ndimage.{module}").__dict__[name]
        monkeypatch.setattr(where, lambda *a, nest=nest, name=name, **k: (names.append(name), nest(*a, **k))[1])
    repeats.calls.clear()
    return names


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int16", "bool"])
def test_nests_are_made_once(name, dtype, made):
    x, other = ((IMAGE * 99 * f).astype(dtype) for f in (1, 0.5))
    call = KEPT[name]
    if call(x).dtype == bool and name in ("moved, with its outside", "of another size"):
        pytest.skip("values between elements of bool take a copy of them")
    first = len(made)
    got = call(other)
    assert first and len(made) == first
    np.testing.assert_array_equal(got, fresh(call, other))


@pytest.mark.parametrize("name", [*KEPT, *STEPS])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_other_arrays_have_their_own_results(name, turned, given):
    call = (KEPT | STEPS)[name]
    images = [rng.random((30, 20)).astype("float32").T if turned else rng.random((20, 30)).astype("float32")
              for _ in range(3)]  # fmt: skip
    want = [fresh(call, x) for x in images]
    repeats.calls.clear()
    for x, result in zip(images, want):
        out = dict(output=np.full_like(result, 3)) if given else {}
        before, got = x.copy(), call(x, **out)
        assert not given or got is out["output"]
        np.testing.assert_array_equal(got, result)
        np.testing.assert_array_equal(x, before)
        assert not np.may_share_memory(got, x)


def test_values_count_by_type_and_sign():
    ndi.gaussian_filter(IMAGE, 1, 1)
    with pytest.raises(TypeError):
        ndi.gaussian_filter(IMAGE, 1, 1.0)
    zeros = [ndi.minimum_filter(np.ones((2, 2), "f4"), 3, mode="constant", cval=c)[0, 0] for c in (0.0, -0.0)]
    assert [bool(np.signbit(z)) for z in zeros] == [False, True]
    for cval in (0.0, float("nan"), 0.0):
        got = ndi.uniform_filter(IMAGE, 3, mode="constant", cval=cval)
        assert np.isnan(got[0, 0]) == (cval != cval)
    assert [ndi.zoom(IMAGE, z, order=0).shape for z in (2, 2.0, (2, 1), [1, 2])] == [
        (40, 60),
        (40, 60),
        (40, 30),
        (20, 60),
    ]
    weights = np.array([1, 2, 1])
    first = ndi.correlate1d(IMAGE, weights)
    weights[:] = 2, 0, 2
    assert not np.array_equal(first, ndi.correlate1d(IMAGE, weights))


def test_what_was_refused_is_refused_again():
    x = IMAGE.copy()
    want = fresh(KEPT["gaussian"], x, output=np.empty_like(x))
    out = np.empty_like(x)
    out.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            KEPT["gaussian"](x, output=out)
        with pytest.raises(RuntimeError, match="shape"):
            KEPT["gaussian"](x, output=np.empty((3, 3), "f4"))
    np.testing.assert_array_equal(KEPT["gaussian"](x, output=x), want)  # onto itself
    assert KEPT["gaussian"](like(IMAGE)).max() == 0


def test_too_many_arguments_are_refused_again():
    everything = IMAGE, 3, None, "reflect", 0.0, 0, None, None, None
    ndi.uniform_filter(*everything[:6])
    for more in ((), (1,), (1, 2, 3)):
        with pytest.raises(TypeError):
            ndi.uniform_filter(*everything, *more)

    @repeats.repeated
    def step(x, output=None):
        y = np.empty_like(x)
        repeats.run(lambda x, y: np.copyto(y, x), x, y)
        return y

    step(IMAGE, None)
    with pytest.raises(TypeError):
        step(IMAGE, None, 5)


def test_warnings_come_each_time():
    for _ in range(2):
        with pytest.warns(UserWarning, match="ignoring size") as told:
            ndi.median_filter(IMAGE, 3, footprint=np.ones((3, 3)))
        assert told[0].filename == __file__
        with pytest.warns(UserWarning, match="becomes complex") as told:
            ndi.gaussian_filter(IMAGE + 1j, 1, output=np.float32)
        assert told[0].filename == __file__


def test_settings_count(made, monkeypatch):
    x = np.zeros((300, 300), "float32")
    for threads in (dict(threads=1), dict(threads=2), {}):
        ndi.gaussian_filter(x, 2.0, **threads)
    assert len(made) == 3
    mode = lk.tuning("estimate")
    ndi.gaussian_filter(x, 2.0)
    lk.tuning(mode)
    assert len(made) == 4
    monkeypatch.setattr(repeats, "get_num_threads", lambda: 77)
    ndi.gaussian_filter(x, 2.0)
    assert len(made) == 5


def test_large_arguments_are_not_kept():
    repeats.calls.clear()
    ndi.correlate1d(IMAGE, [1.0] * 300)
    ndi.correlate(IMAGE[None], [[[1.0] * 15] * 15] * 3)
    ndi.uniform_filter1d(np.zeros(5000, "float32"), 3)
    ndi.zoom(IMAGE, (1, 300), order=1)
    ndi.maximum_filter(IMAGE, footprint=np.eye(65, dtype=bool))
    ndi.gaussian_filter(np.zeros((1100, 1000), "float32"), 1.0)
    assert not repeats.calls


def test_calls_are_watched(made):
    ndi.median_filter(IMAGE, 3)
    with lk.profile() as seen:
        ndi.median_filter(IMAGE, 3)
    assert [e.operation for e in seen.events] == ["median_filter"]


def test_threads_share_what_is_kept():
    images = [np.random.default_rng(i).random((60, 70)).astype("float32") for i in range(16)]
    for name in ("gaussian", "median", "moved, with its outside", "prefiltered"):
        want = [fresh(KEPT[name], x) for x in images]
        with ThreadPoolExecutor(8) as pool:
            for _ in range(5):
                for got, result in zip(pool.map(KEPT[name], images), want):
                    np.testing.assert_array_equal(got, result)


@pytest.mark.parametrize("name", [*KEPT, *STEPS, "pool of planes", "pool of pixels"])
def test_arrays_are_not_kept(name):
    pools = {"pool of planes": lambda x: lk.max_pool2d(x[None, None], 2),
             "pool of pixels": lambda x: lk.avg_pool2d(x[None, ..., None], 2, layout="NHWC")}  # fmt: skip
    x = IMAGE.copy()
    result = (KEPT | STEPS | pools)[name](x)
    ends = [weakref.ref(x), weakref.ref(result)]
    del x, result
    gc.collect()
    assert [end() for end in ends] == [None, None]


def test_no_warning_of_ours():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (KEPT | STEPS).values():
            call(IMAGE), call(IMAGE)


def test_a_call_consists_of_others_or_is_not_kept():
    @repeats.repeated
    def twice(input, output=None):
        return ndi.gaussian_filter(ndi.uniform_filter(input, 3), 1.0, output=output)

    @repeats.repeated
    def both(input, output=None):
        y = ndi.uniform_filter(input, 3, output=output)
        repeats.not_again()
        y += ndi.gaussian_filter(input, 1.0)
        return y

    repeats.calls.clear()
    twice(rng.random((5, 6)))
    assert [key[0] for key in repeats.calls] == [
        f.__wrapped__ for f in (ndi.uniform_filter, ndi.gaussian_filter, twice)
    ]
    for _ in range(3):  # an inner call is recorded, then kept
        x = rng.random((5, 6))
        for call in (twice, both):
            np.testing.assert_array_equal(call(x), call.__wrapped__(x))
    assert both.__wrapped__ not in [key[0] for key in repeats.calls]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c", "CHWN"])
@pytest.mark.parametrize("pool", [lk.max_pool2d, lk.avg_pool2d])
@pytest.mark.parametrize("channels", [16, 20])
def test_pools(pool, layout, channels):
    images = [lk.reorder(rng.random((2, channels, 9, 8)).astype("float32"), "NCHW", layout) for _ in range(3)]
    shape = (2, channels, 9, 8)
    if layout == "nChw16c" and channels % 16:
        for x in images:
            x[:, -1, ..., channels % 16 :] = 7  # pads are anything
    for attributes in (dict(kernel=3, stride=2), dict(kernel=(2, 3), padding=1, ceil_mode=True)):
        want = [fresh(pool, x, layout=layout, shape=shape, **attributes) for x in images]
        for x, result in zip(images, want):
            np.testing.assert_array_equal(pool(x, layout=lk.Layout(layout), shape=shape, **attributes), result)
            out = np.full_like(result, 3)
            assert pool(x, layout=layout, shape=shape, out=out, **attributes) is out
            np.testing.assert_array_equal(out, result)
    pool(images[0], kernel=1, layout=layout, shape=shape, out=images[1])
    with pytest.raises(ValueError, match="overlaps"):
        pool(images[0], kernel=1, layout=layout, shape=shape, out=images[0])


def test_a_pooling_is_made_once(monkeypatch):
    import layoutkit.grad.pool as module

    nests, x = [], rng.random((1, 4, 9, 8)).astype("float32")
    made = module.PlanePooling
    monkeypatch.setattr(module, "PlanePooling", lambda *a: nests.append(a) or made(*a))
    repeats.calls.clear()
    for _ in range(3):
        lk.max_pool2d(x, 3)
    assert len(nests) == 1


def test_names_of_layouts_count():
    x = rng.random((1, 2, 8, 6)).astype("float32")
    lk.max_pool2d(x, 2, layout=lk.Layout("NCHW"))
    with pytest.raises(ValueError, match="O I H W"):
        lk.max_pool2d(x, 2, layout=lk.Layout("OIHW"))


def test_intermediate_images_are_not_held(monkeypatch):
    ends, ordered = [], binary.ordered
    monkeypatch.setattr(
        binary, "ordered", lambda kind, x, y, *rest: (ends.append(weakref.ref(y)), ordered(kind, x, y, *rest))
    )
    held = []
    monkeypatch.setattr(binary.np, "array_equal", lambda a, b: held.append(sum(end() is not None for end in ends)))
    ndi.binary_erosion(np.ones((20, 30), bool), iterations=6)
    assert max(held) <= 2


@pytest.mark.filterwarnings("error")
def test_points_that_are_not_finite():
    for _ in range(2):
        assert not ndi.shift(IMAGE, np.inf, order=1).any()
