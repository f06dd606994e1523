"""Element types: which algorithms take them, and one error for those that convolutions do not have."""

from dataclasses import replace

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.convolutions.algorithms import NAMES
from layoutkit.convolutions.filter import traits
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import ConvTask
from layoutkit.convolutions.types import F32, TYPES, ConvTypes, check_type, types_of

OTHERS = ["f2", "i1", "i4", "u1", "c8", "?", ">f4"]


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
    known = "float32 or float64" if name == "w" else "float32"
    want = f"^{what}: {name}: expected dtype {known}, got {np.dtype(dtype)}$"
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
    with pytest.raises(TypeError, match=f": {name}: expected dtype float64, got float32$"):
        function(**given)
    with pytest.raises(ValueError, match="dtype float64"):
        function(given["x"].astype(np.float64), given["w"], out=np.zeros(given["add"].shape, np.float32))


def test_a_plan_says_the_type():
    x, w = np.ones((1, 8, 20, 20)), np.ones((8, 8, 3, 3))
    text = lk.plan(lk.conv2d, x, w, padding=1).explain()
    assert " f64 standard" in text and "_f64_" in text.split("\n")[1] and "of the FMA peak" in text


def test_winograd_says_that_it_has_no_kernels_for_doubles():
    for fill in (1.0, 1e-200, np.inf):  # whatever the filter holds
        with pytest.raises(ValueError, match="winograd is not for f64"):
            lk.conv2d(np.ones((1, 8, 20, 20)), np.full((8, 8, 3, 3), fill), padding=1, algorithm="winograd")


def test_a_type_is_known_by_its_name():
    assert {name: t.name for name, t in TYPES.items()} == {name: name for name in TYPES}
    assert TYPES["f32"] is F32
    check_type(np.ones(3, np.float32), F32.src, "x")


WHOLE = np.dtype(np.int32)
S32 = ConvTypes("s32", WHOLE, WHOLE, WHOLE, WHOLE)


def test_no_algorithm_is_a_candidate_for_types_that_it_does_not_go_over():
    p = ConvProblem.parse("conv n1 c8 9x9 o8 k3x3 s1x1 p1+1,1+1 d1x1 g1 NHWC>NHWC f32 standard")
    assert any(ConvTask(p, 1).candidates())
    others = replace(p, types=S32)
    for name in NAMES:
        with pytest.raises(ValueError, match=f"algorithm '{name}' cannot do it: .* is not for s32"):
            list(ConvTask(others, 1, name).candidates())


def test_the_filter_decides():
    for types in TYPES.values():
        assert types_of(np.ones(3, types.filter), "w") is types
    with pytest.raises(TypeError, match="w: expected dtype float32 or float64, got float16"):
        types_of(np.ones(3, np.float16), "w")


def test_traits_of_filters_of_any_type():
    rng = np.random.default_rng(0)
    for fill in (0.0, 3.0, np.inf, -np.inf, np.nan):
        w = rng.standard_normal((4, 3, 2, 2)).astype(np.float32)
        w[1], w[2, 1, 0, 1] = 0, fill
        np.testing.assert_equal(traits(w.astype(np.float64)), traits(w))
    assert traits(np.int8([[-128, 1], [0, 0], [3, 2]])) == (3, 128, 2)
    assert traits(np.ones((0, 3))) == traits(np.ones((0, 3), np.float32))
