"""Element types: one error for those that convolutions do not have, whatever argument brings them."""

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.convolutions.types import F32, TYPES, check_type

OTHERS = ["f2", "f8", "i1", "i4", "u1", "c8", "?", ">f4"]


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
    want = f"^{what}: {name}: expected dtype float32, got {np.dtype(dtype)}$"
    with pytest.raises(TypeError, match=want):
        function(**given)
    with pytest.raises(TypeError, match=want):
        kind(given["w"], given["bias"], scale=given["scale"])(given["x"], add=given["add"])


@pytest.mark.parametrize("name", ["x", "w", "add"])
@pytest.mark.parametrize("transposed", [False, True])
def test_tensors_of_other_types_are_the_same_error(transposed, name):
    given = made(transposed)
    given[name] = lk.Tensor(given[name].astype("f8"), "OIHW" if name == "w" else "NCHW")
    with pytest.raises(TypeError, match=f": {name}: expected dtype float32, got float64"):
        (lk.conv_transpose2d if transposed else lk.conv2d)(**given)


def test_a_type_is_known_by_its_name():
    assert {name: t.name for name, t in TYPES.items()} == {name: name for name in TYPES}
    assert TYPES["f32"] is F32
    check_type(np.ones(3, np.float32), F32.src, "x")
