"""What tests of filters draw: images of any shape, type and strides, and what is outside; how results are compared."""

import numpy as np
import scipy.ndimage as scipy
from conftest import NEST_ISAS, using_isa
from hypothesis import assume
from hypothesis import strategies as st
from random_cases.filters import like
from strided import placed, placements

import layoutkit.ndimage as ndi
from layoutkit.choosing.repeats import calls

TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "bool", "float32", "float64"]
MODES = ["reflect", "mirror", "nearest", "wrap", "constant", "grid-wrap", "grid-mirror", "grid-constant"]
LONGEST = [0, 150, 40, 14, 7, 5]  # axes of so many dimensions

types = st.sampled_from(TYPES)
modes = st.sampled_from(MODES)
dtypes = types.map(np.dtype)  # of outputs, for which scipy takes no name of bool
isas = st.sampled_from(NEST_ISAS)
threads = st.sampled_from([1, 1, 2, 3])


@st.composite
def images(draw, dtypes=types, ranks=(1, 2, 3, 4, 5), special=False, empty=True):
    """An array, and numbers from -60 or 0 to 200 in it; `special`: NaN and infinities among floats."""
    rank = draw(st.sampled_from(ranks))
    least = 0 if empty and draw(st.integers(0, 19)) == 0 else 1
    shape = tuple(draw(st.integers(least, LONGEST[rank])) for _ in range(rank))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    dtype = np.dtype(draw(dtypes))
    values = rng.random(shape) * 260 - 60
    if draw(st.integers(0, 3)) == 0:  # as in flat parts of images
        values = np.round(values / 100) * 100
    values = (np.clip(values, 0, 200) if dtype.kind in "bu" else np.clip(values, -60, 120)).astype(dtype)
    if special and dtype.kind == "f" and values.size:
        for value in (np.nan, np.inf, -np.inf)[: draw(st.integers(0, 3))]:
            values.flat[rng.integers(values.size)] = value
    return placed(values, draw(placements(rank)))


@st.composite
def outsides(draw, count):
    """A mode, or one for each of several axes, and a constant."""
    mode = draw(modes | st.lists(modes, min_size=count, max_size=count))
    return dict(mode=mode, cval=draw(st.sampled_from([0.0, 0.0, 3.0, 2.5, -1.0])))


def axes_of(rank):
    """Some axes in any order, of either sign."""
    axis = st.permutations(range(rank)).flatmap(lambda p: st.integers(1, rank).map(lambda n: p[:n]))
    return axis.flatmap(lambda p: st.tuples(*(st.sampled_from([a, a - rank]) for a in p)))


def check(got, want, scale=1.0):
    """Integers are equal, floats within some units of the last place of `scale` times the largest."""
    assert got.shape == want.shape and got.dtype == want.dtype
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)])
    bound = 16 * np.finfo(want.dtype).eps * scale
    np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=bound)


def compare(name, x, *args, isa, threads, scale, **keywords):
    """A filter of ours against scipy's; outputs without negative numbers are drawn for inputs without."""
    dtype = np.dtype(keywords.get("output") or x.dtype)
    assume(dtype.kind not in "bu" or dtype == x.dtype or x.dtype.kind in "bu")
    assume(dtype.kind in "fc" or x.dtype.kind not in "fc" or np.all(np.isfinite(x)))  # no integer is Inf
    if isinstance(keywords.get("mode"), list) and "axes" not in keywords:
        keywords["mode"] = keywords["mode"][0]
    with np.errstate(invalid="ignore"):
        want = getattr(scipy, name)(np.array(x), *args, **keywords)
        with using_isa(isa):
            getattr(ndi, name)(like(x), *args, threads=threads, **keywords)
            again = getattr(ndi, name)(x, *args, threads=threads, **keywords)  # as the call before was made
            calls.clear()
            got = getattr(ndi, name)(x, *args, threads=threads, **keywords)
    np.testing.assert_array_equal(again, got)
    largest = np.max(abs(x), initial=3, where=np.isfinite(x)) if x.dtype.kind == "f" else 300
    check(got, want, float(largest) * scale)
