"""Packed pairs: two integers of 4 bits in a byte, in any layout, to and from any type, as numpy does it by hand."""

import itertools

import harness
import ml_dtypes
import numpy as np
import pytest
from conftest import NEST_ISAS, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from strategies import laid_out, layouts

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing.cache import plans
from layoutkit.reorders import conversions, convert, pairs
from layoutkit.reorders.box import Box
from layoutkit.reorders.program import Transfer

HELD = {"int4x2": np.dtype(ml_dtypes.int4), "uint4x2": np.dtype(ml_dtypes.uint4)}
OTHERS = [
    *map(np.dtype, ("f4", "f2", "i1", "u1", "f8", "i4", "i2", "i8", "?")),
    *map(np.dtype, (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4)),
]
ROWS = [k for k in registry.kernels(all_isas=True) if k.family in ("pack", "unpack") and k.isa in registry.isas()]


def unpacked(array, count, name):
    """The first `count` elements, as numbers of ml_dtypes."""
    halves = np.stack([array & 15, array >> 4], -1).reshape(-1)[:count].astype(np.int8)
    return np.where((halves > 7) & (name == "int4x2"), halves - 16, halves).astype(HELD[name])


def packed(numbers):
    """Pairs of numbers from -8 to 15; half a byte of 0 behind an odd number of them."""
    halves = np.asarray(numbers).reshape(-1).astype(np.int16).astype(np.uint8) & 15
    halves = np.append(halves, np.zeros(halves.size % 2, np.uint8))
    return halves[::2] | halves[1::2] << 4


def any_pairs(rng, count):
    """Bytes of any content: what is behind an odd number of elements is not 0 either."""
    return rng.integers(0, 256, -(-count // 2), np.uint8)


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    bits = f"u{got.itemsize}"
    wrong = got.view(bits) != want.view(bits)
    assert not wrong.any(), f"{wrong.sum()} of {wrong.size}, first at {tuple(np.argwhere(wrong)[0])}"


def on_guard(array, end):
    """A copy between pages that must not be touched."""
    buffer = guarded(np.ascontiguousarray(array).reshape(-1).view(np.uint8), end)
    return buffer.array.view(array.dtype).reshape(array.shape)


@st.composite
def cases(draw):
    a, b = draw(st.sampled_from([*HELD, *OTHERS])), draw(st.sampled_from([*HELD, *OTHERS]))
    if a not in HELD and b not in HELD:
        a = draw(st.sampled_from([*HELD]))
    src, shape = draw(laid_out(min_rank=1, most=draw(st.sampled_from([40, 900, 3000]))))
    rank = src.rank
    region = None
    if draw(st.integers(0, 3)) == 0:
        starts = [draw(st.integers(0, n)) for n in shape]
        region = tuple((s, draw(st.integers(s, n))) for s, n in zip(starts, shape))
    kept = shape if region is None else tuple(e - s for s, e in region)
    axes = draw(st.permutations(range(rank)))[: draw(st.integers(1, min(rank, 2)))]
    blocks = tuple(draw(st.sampled_from([1, 1, 2, 3, 16, 50])) for _ in axes)
    counts = tuple(-(-kept[d] // n) for d, n in zip(axes, blocks))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    how = {"axis": tuple(axes), "block_size": blocks}
    for name in ("scale", "out_scale", "offset"):
        if draw(st.integers(0, 2)) == 0:
            how[name] = rng.uniform(0.2, 3, counts if draw(st.booleans()) else ())
    for name in ("zero_point", "out_zero_point"):
        if draw(st.integers(0, 2)) == 0:
            most = draw(st.sampled_from([1, 7, 7, 1000]))
            how[name] = rng.integers(0, most, counts if draw(st.booleans()) else (), endpoint=True)
    how |= {"alpha": draw(st.sampled_from([1, 1, 1, -0.7])), "beta": draw(st.sampled_from([0, 0, 0, 1, 0.6]))}
    return dict(
        a=a, b=b, src=src, shape=shape, dst=draw(layouts(rank, rank, max_blocks=2)), region=region, how=how, rng=rng,
        pad=draw(st.sampled_from([0, 1])), isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 3)),
        end=draw(st.sampled_from(["low", "high"])), halved=draw(st.tuples(st.booleans(), st.booleans())),
        slices=draw(st.sampled_from([1, 7, 60, 1 << 18])), tiles=draw(st.sampled_from([512, 1 << 15])),
        given_out=draw(st.booleans()),
    )  # fmt: skip


def numbers(rng, shape, dtype):
    return reference.convert(rng.standard_normal(shape) * 9, dtype)


def in_array(halved, physical, flat):
    """Packed pairs as an array of one of the shapes that hold them."""
    return flat.reshape(pairs.shapes_of(physical)[-1] if halved else flat.shape)


@given(cases())
def test_any_layout_and_type(c):
    rng, how = c["rng"], c["how"]
    physical = c["src"].physical_shape(c["shape"])
    if c["a"] in HELD:
        flat = any_pairs(rng, int(np.prod(physical)))
        array, bits = in_array(c["halved"][0], physical, flat), unpacked(flat, int(np.prod(physical)), c["a"])
        tensor = reference.to_logical(bits.reshape(physical), c["src"], c["shape"])
    else:
        tensor = numbers(rng, c["shape"], c["a"])
        array = reference.to_physical(tensor, c["src"], 1)
    if c["region"]:
        tensor = tensor[tuple(slice(*part) for part in c["region"])]
    made = c["dst"].physical_shape(tensor.shape)
    dtype = HELD.get(c["b"], c["b"])
    if c["b"] in HELD:
        out = any_pairs(rng, int(np.prod(made)))
        old = reference.to_logical(unpacked(out, int(np.prod(made)), c["b"]).reshape(made), c["dst"], tensor.shape)
        out = in_array(c["halved"][1], made, out)
    else:
        old = numbers(rng, tensor.shape, dtype)
        out = reference.to_physical(old, c["dst"])
    want = reference.to_physical(reference.convert(tensor, dtype, **how, old=old), c["dst"], c["pad"])
    want = packed(want).reshape(out.shape) if c["b"] in HELD else want
    given = dict(shape=c["shape"], dtype=(c["a"], c["b"]), pad_value=c["pad"], threads=c["threads"], **how)
    given |= {"region": c["region"]}
    with pytest.MonkeyPatch.context() as patch, using_isa(c["isa"]):
        patch.setattr(pairs, "SLICE_ELEMENTS", c["slices"])
        patch.setattr(conversions, "MAX_UNPACKED", c["tiles"])
        plans.clear()
        held, out = on_guard(array, c["end"]), on_guard(out, c["end"])
        if tensor.size:
            kept = out.copy()
            run = lk.plan(lk.reorder, held, c["src"], c["dst"], out=kept, **given).run
            run(held, kept)
            same(kept, want)
        if c["given_out"] or how["beta"]:
            assert lk.reorder(held, c["src"], c["dst"], out=out, **given) is out
            same(out, want)
        else:
            got = lk.reorder(held, c["src"], c["dst"], **given)
            same(got, want.reshape(-1) if c["b"] in HELD else want)
        plans.clear()


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 511, 512])
def test_every_byte_at_every_place(name, count, isa):
    array = np.resize(np.arange(256, dtype=np.uint8), -(-count // 2))
    want = unpacked(array, count, name)
    with using_isa(isa):
        for dtype in (np.int8, np.float32, ml_dtypes.bfloat16):
            same(lk.reorder(array, "a", "a", shape=(count,), dtype=(name, dtype)), want.astype(dtype))
        same(lk.reorder(want.astype("i4"), "a", "a", dtype=name), packed(want))
        same(lk.reorder(want, "a", "a", dtype=name), packed(want))


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("name", HELD)
def test_rounded_to_even_and_saturated_once(name, isa):
    """Ties, infinities, NaN and numbers far beyond any narrow integer, of every type and with every zero point."""
    steps = np.concatenate(
        [np.arange(-40, 41) / 2, [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e6, -1e6, 200, -200, 1e-40]]
    )
    low, high = reference.limits_of(HELD[name])
    for zero, scale in itertools.product((None, low, high, 0, 3), (None, 1.0, 0.3, np.float32(1 / 3), -2.0)):
        with np.errstate(over="ignore"):
            x = np.float32(steps * (scale or 1))
        for near in (x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))):
            how = dict(scale=scale, zero_point=zero)
            want = packed(reference.convert(near, HELD[name], **how))
            with using_isa(isa):
                same(lk.reorder(near, "a", "a", dtype=name, **how), want)
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8"):
        limits = np.iinfo(dtype)
        x = np.array([limits.min, limits.max, *range(max(limits.min, -20), 40)], dtype)
        with using_isa(isa):
            same(lk.reorder(x, "a", "a", dtype=(dtype, name)), packed(reference.convert(x, HELD[name])))


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", ROWS, ids=lambda k: k.name)
def test_rows_touch_nothing_else(kernel, end):
    rng = np.random.default_rng(0)
    for (n,), at, signed in itertools.product(harness.cases("PAIR_CASES"), (0, 1, 7), (0, 1)):
        name = "int4x2" if signed else "uint4x2"
        if kernel.family == "pack":
            x = rng.integers(0, 256, n, np.uint8)
            want = packed(x.view(np.int8).clip(-8, 7) if signed else x.clip(0, 15))
            a, b = guarded(x, end), guarded(np.full(want.size, 0xAA, np.uint8), end)
            harness.packed(kernel.name, a.address, b.address, (1, n), signed=signed)
            np.testing.assert_array_equal(b.array, want)
            continue
        for rows, pitch, stride in ((1, 0, 1), (3, n + 5, 1), (3, n, 1), (2, 1, 3)):
            reach = at + (rows - 1) * pitch + (n - 1) * stride + 1 if n else 0
            array = any_pairs(rng, max(reach, 0))
            index = at + np.arange(rows)[:, None] * pitch + np.arange(n) * stride
            want = unpacked(array, 2 * array.size, name).astype(np.int8)[index]
            a, b = guarded(array, end), guarded(np.full(rows * n, 0xAA, np.uint8), end)
            harness.packed(kernel.name, a.address, b.address, (rows, n), at=at, s=(pitch, stride), d=n, signed=signed)
            np.testing.assert_array_equal(b.array.view(np.int8), want.reshape(-1))


def test_weights_in_groups_as_models_store_them():
    """The formula by hand: ONNX's order of halves, a scale and a zero point for every 32 inputs."""
    rng = np.random.default_rng(0)
    o, i = 48, 96
    q = rng.integers(0, 16, (o, i), np.uint8)
    held = q[:, ::2] | q[:, 1::2] << 4
    scale, zero = rng.uniform(0.01, 1, (o, i // 32)).astype("f4"), rng.integers(0, 16, (o, i // 32), np.uint8)
    each = np.arange(i) // 32
    want = (q.astype("f4") - zero[:, each].astype("f4")) * scale[:, each]
    how = dict(axis=(0, 1), block_size=(1, 32), scale=scale, zero_point=zero)
    same(lk.reorder(held, "ab", "ab", dtype=("uint4x2", "f4"), **how), want)
    same(lk.reorder(held, "ab", "BA16b16a", dtype=("uint4x2", "f4"), **how),
         reference.to_physical(want, lk.Layout("BA16b16a")))  # fmt: skip
    same(lk.reorder(want, "ab", "ab", dtype="uint4x2", **how), held.reshape(-1))
    out = np.zeros((o, i // 2), np.uint8)
    assert lk.reorder(want, "ab", "ab", dtype="uint4x2", out=out, **how) is out
    same(out, held)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_slices_and_threads(threads, monkeypatch):
    """Large enough for threads to share tiles, slices, and what is packed of one."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((37, 513, 67)).astype("f4") * 9
    scale = rng.uniform(0.5, 2, (37, 33))
    how = dict(scale=scale, axis=(0, 1), block_size=(1, 16))
    want = reference.convert(x, HELD["int4x2"], **how)
    for src, dst, most in itertools.product(("abc", "cba"), ("bac", "aBc16b", "cBa4b", "abc"), (1 << 16, 1 << 22)):
        monkeypatch.setattr(pairs, "SLICE_ELEMENTS", most)
        plans.clear()
        layout = lk.Layout(dst)
        got = lk.reorder(reference.to_physical(x, lk.Layout(src)), src, dst, dtype="int4x2", threads=threads, **how)
        same(got, packed(reference.to_physical(want, layout)))
        back = lk.reorder(got, dst, src, shape=x.shape, dtype=("int4x2", "i1"), threads=threads)
        same(back, reference.to_physical(want.astype("i1"), lk.Layout(src)))
        again = lk.reorder(got, dst, "bca", shape=x.shape, dtype=("int4x2", "int4x2"), threads=threads)
        same(again, packed(reference.to_physical(want, lk.Layout("bca"))))
    plans.clear()


def test_streaming_stores(monkeypatch):
    monkeypatch.setattr(convert, "last_level_cache", lambda: 0)
    test_many_slices_and_threads(2, monkeypatch)


def test_the_workspace_of_packing_stays_small():
    requested = []
    for dst in ("abc", "cba", "bac", "aBc16b"):
        box = Box.all_of((4096, 4096, 16))
        move = Transfer(lk.Layout("abc"), lk.Layout(dst), 1, (4 << 16, 64, 4), (), box)
        sides = [convert.SINGLE_VALUE.side(d) for d in range(3)]
        found = pairs.slices_of(move, sides, [1, 1, 1])
        requested += [part.elements for part in found]
        assert sum(part.elements * part.times for part in found) == 4096 * 4096 * 16
    assert max(requested) <= 1 << 24  # one index of the outermost axis, of 16


def test_tensors_and_subclasses(tmp_path):
    q = np.arange(12, dtype=np.uint8).reshape(3, 4)
    array = packed(q)
    held = np.memmap(tmp_path / "w", np.uint8, "w+", shape=array.shape)
    held[:] = array
    same(lk.reorder(held, "ab", "ba", shape=(3, 4), dtype=("uint4x2", "u1")), np.ascontiguousarray(q.T))
    with pytest.raises(TypeError, match="array is a Tensor, whose array has a place for each element"):
        lk.reorder(lk.Tensor(q, "ab"), dst="ba", dtype=("uint8", "uint4x2"))
    with pytest.raises(TypeError, match="out is a Tensor, which takes no part"):
        lk.reorder(
            array, "ab", "ba", shape=(3, 4), dtype=("uint4x2", "u1"), out=lk.Tensor(np.zeros((4, 3), "u1"), "ba")
        )


Q, X = np.zeros(10, np.uint8), np.zeros((4, 5), np.float32)  # of 4 x 5
PAIR = dict(dtype=("uint4x2", "uint4x2"), shape=(4, 5))
BAD = [
    (Q, dict(dtype=PAIR["dtype"]), "shape= must say how many elements packed pairs have: ab has 2 axes"),
    (Q[:9], PAIR, "shape (4, 5) in ab is 20 elements, in packed pairs an array of (10,); got (9,)"),
    (Q, PAIR | dict(shape=(5, 6)), "30 elements, in packed pairs an array of (15,) or (5, 3); got (10,)"),
    (Q.reshape(5, 2), PAIR, "an array of (10,); got (5, 2)"),
    (Q, PAIR | dict(shape=(4, 5, 1)), "layout ab has 2 dimensions"),
    (np.zeros(20, np.uint8)[::2], PAIR, "must be a contiguous array, got shape (10,) of byte strides (2,)"),
    (Q.view(np.int8), PAIR, "dtype= says uint4x2, are bytes in uint8; the array is of int8"),
    (X, dict(dtype=("int4x2", "f4")), "dtype= says int4x2, are bytes in uint8; the array is of float32"),
    (Q, PAIR | dict(dtype="uint4x2"), 'dtype=("uint8", "uint4x2") or ("uint4x2", "uint4x2")'),
    (Q, PAIR | dict(out=Q), "out overlaps an input"),
    (
        X,
        dict(out=np.zeros(9, np.uint8)),
        "an array of (10,) or (5, 2) and dtype uint8; got (9,) and uint8",
    ),
    (X, dict(out=np.zeros(10, np.int8)), "out must have shape (10,) and dtype uint8, got (10,) and int8"),
    (X, dict(out=np.zeros(20, np.uint8)[::2]), "must be contiguous, got byte strides (2,)"),
    (X, dict(at=(0, 0), out=np.zeros(10, np.uint8)), "packed pairs are written as a whole"),
    (X, dict(pad_value=8), "pad_value=8 is not a value of int4x2, an integer of -8 to 7"),
    (X, dict(dtype="uint4x2", pad_value=-1), "pad_value=-1 is not a value of uint4x2, an integer of 0 to 15"),
    (X, dict(pad_value=0.5), "pad_value=0.5 is not a value"),
    (X, dict(pad_value="x"), "pad_value='x' is not a value"),
    (X, dict(beta=1), "beta=1 adds to out, and there is none"),
]


@pytest.mark.parametrize(("array", "how", "says"), BAD, ids=[says for _, _, says in BAD])
def test_bad_input(array, how, says):
    with pytest.raises((ValueError, TypeError)) as raised:
        lk.reorder(array, "ab", "ba", **{"dtype": "int4x2"} | how)
    assert says in str(raised.value)
    if "beta" not in how:  # plans are also made to be explained only
        with pytest.raises((ValueError, TypeError)):
            lk.plan(lk.reorder, array, "ab", "ba", **{"dtype": "int4x2"} | how)


def test_layouts_with_strides_of_their_own_are_refused():
    with pytest.raises(ValueError, match="expected a dense layout, got ab:"):
        lk.reorder(np.zeros(15, np.uint8), "ab:(6,1)", "ba", shape=(4, 5), dtype=("int4x2", "f4"))
    with pytest.raises(ValueError, match="expected a dense layout, got ba:"):
        lk.reorder(X, "ab", "ba:(6,1)", dtype="int4x2")


def test_results_that_hold_no_pairs_of_the_last_axis_are_flat():
    assert lk.reorder(X, "ab", "ab", dtype="int4x2").shape == (10,)
    assert lk.reorder(X, "ab", "ba", dtype="int4x2").shape == (10,)
    assert lk.reorder(np.zeros((4, 3), np.uint8), "ab", "ab", dtype=("int4x2", "i1")).shape == (4, 6)
    assert lk.reorder(np.zeros((1, 3, 2), np.uint8), "aB4b", "ab", dtype=("int4x2", "i1"), shape=(1, 9)).shape == (1, 9)
    assert lk.reorder(np.array(3.0), "scalar", "scalar", dtype="int4x2").tolist() == [3]


def test_without_ml_dtypes(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    array = np.array([0x21, 0xF3], np.uint8)
    assert lk.reorder(array, "a", "a", dtype=("int4x2", "f4")).tolist() == [1, 2, 3, -1]
    assert lk.reorder(np.float32([1, 2, 3, -9]), "a", "a", dtype="int4x2").tolist() == [0x21, 0x83]


def test_64_bits_move_as_they_are():
    """Elements of uint64, which no conversion knows, are moved all the same."""
    x = np.arange(60, dtype=np.uint64).reshape(3, 4, 5) + np.uint64(2**63)
    same(lk.reorder(x, "abc", "cBa2b"), reference.to_physical(x, lk.Layout("cBa2b")))
    with pytest.raises(TypeError, match="got uint64"):
        lk.reorder(x, "abc", "cba", dtype="int4x2")
