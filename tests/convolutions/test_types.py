"""Element types: which algorithms take them, and one error for those that convolutions do not have."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.convolutions.algorithms import NAMES
from layoutkit.convolutions.filter_values import traits
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import ConvTask
from layoutkit.convolutions.types import F32, TYPES, ConvTypes, check_type, types_of

OTHERS = ["i4", "u1", "u2", "c8", "?", ">f4"]


def made(transposed):
    x, w = np.ones((1, 4, 5, 5), np.float32), np.ones((4, 4, 3, 3), np.float32)
    per_channel, like = np.ones(4, np.float32), np.ones((1, 4, 7, 7) if transposed else (1, 4, 3, 3), np.float32)
    return dict(x=x, w=w, bias=per_channel, scale=per_channel, add=like)


@pytest.mark.parametrize("dtype", OTHERS)
@pytest.mark.parametrize("name", ["x", "w", "bias", "scale", "add"])
@pytest.mark.parametrize("transposed", [False, True])
def test_other_types_are_one_error(transposed, name, dtype):
    what = "conv_transpose2d" if transposed else "conv2d"
    function, kind = getattr(lk, what), lk.ConvTranspose2d if transposed else lk.Conv2d
    given = made(transposed)
    given[name] = given[name].astype(dtype)
    known = "float32, float64, bfloat16, float16 or int8" if name == "w" else "float32"
    hint = rf"{name}\.astype\('float32'\) converts|bfloat16 bits in uint16 are said by .*"
    want = f"^{what}: {name}: expected dtype {known}, got {np.dtype(dtype)}; ({hint})$"
    with pytest.raises(TypeError, match=want):
        function(**given)
    with pytest.raises(TypeError, match=want):
        kind(given["w"], given["bias"], scale=given["scale"])(given["x"], add=given["add"])


@pytest.mark.parametrize("name", ["x", "add"])
@pytest.mark.parametrize("transposed", [False, True])
def test_tensors_of_other_types_are_the_same_error(transposed, name):
    given = made(transposed)
    given[name] = lk.Tensor(given[name].astype("f8"), "NCHW")
    with pytest.raises(TypeError, match=f": {name}: expected dtype float32, got float64"):
        (lk.conv_transpose2d if transposed else lk.conv2d)(**given)


@pytest.mark.parametrize("name", ["x", "bias", "scale", "add"])
@pytest.mark.parametrize("transposed", [False, True])
def test_types_are_not_mixed(transposed, name):
    given = {k: v.astype(np.float64) for k, v in made(transposed).items()}
    function = lk.conv_transpose2d if transposed else lk.conv2d
    assert function(**given).dtype == np.float64
    given[name] = given[name].astype(np.float32)
    want = rf": {name}: expected dtype float64, got float32; {name}\.astype\('float64'\) converts$"
    with pytest.raises(TypeError, match=want):
        function(**given)
    with pytest.raises(ValueError, match="dtype float64"):
        function(given["x"].astype(np.float64), given["w"], out=np.zeros(given["add"].shape, np.float32))


def test_a_plan_says_the_type():
    x, w = np.ones((1, 8, 20, 20)), np.ones((8, 8, 3, 3))
    plan = lk.plan(lk.conv2d, x, w, padding=1)
    assert " f64 standard" in plan.title and "_f64_" in plan.choices[0].candidate.name
    assert plan.words.startswith("conv2d of (1, 8, 20, 20) float64 NCHW with 8 filters 3x3,")
    assert "of the FMA peak" in plan.explain()


def test_winograd_says_that_it_has_no_kernels_for_doubles():
    for fill in (1.0, 1e-200, np.inf):  # whatever the filter holds
        with pytest.raises(ValueError, match="winograd is not for f64"):
            lk.conv2d(np.ones((1, 8, 20, 20)), np.full((8, 8, 3, 3), fill), padding=1, algorithm="winograd")


def test_a_type_is_known_by_its_name():
    assert {name: t.name for name, t in TYPES.items()} == {name: name for name in TYPES}
    assert TYPES["f32"] is F32
    check_type(np.ones(3, np.float32), F32.src, "x")


S8 = ConvTypes("s8", ("s8",) * 4)


def test_no_algorithm_is_a_candidate_for_types_that_it_does_not_go_over(monkeypatch):
    monkeypatch.setitem(TYPES, "s8", S8)
    p = ConvProblem.parse("conv n1 c8 9x9 o8 k3x3 s1x1 p1+1,1+1 d1x1 g1 NHWC>NHWC f32 standard")
    assert any(ConvTask(p, 1).candidates())
    others = replace(p, types=S8)
    for name in NAMES:
        with pytest.raises(ValueError, match=f"algorithm '{name}' cannot do it: .* is not for s8"):
            list(ConvTask(others, 1, name).candidates())


def test_the_filter_and_the_result_decide():
    for types in TYPES.values():
        assert types_of(np.ones(3, types.filter), (types.src, types.dst), "conv") == (types, types.src, types.dst)
        if types.dst == types.filter and not types.integers:
            assert types_of(np.ones(3, types.filter), None, "conv").types is types
    bits = np.ones(3, np.uint16)
    for result in ("bfloat16", "float32"):
        found = types_of(bits, ("bfloat16", result), "conv")
        assert (found.src, found.dst) == (bits.dtype, bits.dtype if result == "bfloat16" else np.float32)
    for w, asked, want in (
        (bits, None, "w: expected dtype .*, got uint16; bfloat16 bits in uint16 are said by dtype=.*"),
        (np.ones(3, "f4"), "f2", "dtype: the result of a filter of float32 is float32, not 'f2'"),
        (np.ones(3, "f2"), "f8", "dtype: the result of a filter of float16 is float16 or float32, not 'f8'"),
        (np.ones(3, "f4"), ("bfloat16", "f4"), "w is of dtype float32, dtype= says 'bfloat16' for x"),
        (np.ones(3, "f4"), "no such", "dtype: the result of a filter of float32 is float32, not 'no such'"),
    ):
        with pytest.raises(TypeError, match=f"^conv: {want}$"):
            types_of(w, asked, "conv")


def test_bits_of_bfloat16_in_uint16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, s).astype(ml_dtypes.bfloat16) for s in ((1, 6, 9, 9), (8, 6, 3, 3)))
    want, wide = lk.conv2d(x, w), lk.conv2d(x, w, dtype="f4")
    held = [a.view(np.uint16) for a in (x, w)]
    got = lk.conv2d(*held, dtype=("bfloat16", "bfloat16"))
    np.testing.assert_array_equal(got.view(ml_dtypes.bfloat16), want)
    assert got.dtype == np.uint16 and wide.dtype == np.float32
    np.testing.assert_array_equal(lk.conv2d(*held, dtype=("bfloat16", "float32")), wide)
    with pytest.raises(TypeError, match="x: expected dtype uint16, got bfloat16"):
        lk.conv2d(x, held[1], dtype=("bfloat16", "bfloat16"))


def test_bias_and_scale_of_the_filter_s_type_or_of_the_sums():
    rng = np.random.default_rng(0)
    x, w, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((1, 6, 9, 9), (8, 6, 3, 3), 8))
    want = lk.conv2d(x, w, b.astype(np.float32), scale=b.astype(np.float32))
    np.testing.assert_array_equal(lk.conv2d(x, w, b, scale=b), want)
    assert want.dtype == np.float16


def test_narrow_results_are_rounded_once():
    """The residual and the activation come before."""
    x, w = np.ones((1, 1, 1, 2), np.float16), np.full((1, 1, 1, 1), 2048, np.float16)
    add = np.float16([[[[1, -2047]]]])
    np.testing.assert_array_equal(lk.conv2d(x, w, add=add), np.float16([[[[2048, 1]]]]))
    np.testing.assert_array_equal(lk.conv2d(x, w, np.float32([0.75]), add=add), np.float16([[[[2050, 1.75]]]]))


def test_traits_of_filters_of_any_type():
    rng = np.random.default_rng(0)
    for fill in (0.0, 3.0, np.inf, -np.inf, np.nan):
        w = rng.standard_normal((4, 3, 2, 2)).astype(np.float32)
        w[1], w[2, 1, 0, 1] = 0, fill
        np.testing.assert_equal(traits(w.astype(np.float64)), traits(w))
    assert traits(np.int8([[-128, 1], [0, 0], [3, 2]])) == (3, 128, 2)
    assert traits(np.ones((0, 3))) == traits(np.ones((0, 3), np.float32))


def test_bfloat16_without_ml_dtypes():
    text = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, layoutkit as lk
x, w = np.full((1, 6, 5, 5), 0x3F80, "u2"), np.full((8, 6, 3, 3), 0x4000, "u2")
y = lk.conv2d(x, w, np.ones(8, "f4"), dtype=("bfloat16", "bfloat16"), scale=np.full(8, 0.5, "f4"))
assert y.dtype == np.uint16 and (y == 0x425C).all(), y
assert (lk.conv_transpose2d(x, w[:6], dtype=("bfloat16", "float32")).max() == 108)
lk.Conv2d(w, dtype=("bfloat16", "float32")).explain(x.shape)
"""
    subprocess.run([sys.executable, "-c", text], check=True)
