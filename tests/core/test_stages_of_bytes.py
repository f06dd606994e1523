"""Products, sums, roundings and clips from bytes to bytes, bit for bit those of numpy in float32."""

import numpy as np
from conftest import WHOLE_ISAS, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded

from layoutkit._core.nests.pointwise.elementwise import Elementwise

NUMBERS = [-3.0, -1.0, 0.3, 0.5, 1.0, 1.7, 40.0, 0.0, 1e30, -np.inf, np.nan]
STEPS = st.lists(
    st.sampled_from(["mul", "add", "affine", "affine", "linear", "round", "round", "clip", "clip"]), max_size=9
)


def applied(name, numbers, operand, x):
    """A step in numpy."""
    if name == "linear":
        return x * numbers[0] + numbers[1]
    if name == "round":
        return np.rint(x)
    if name == "clip":
        return np.clip(x, *numbers)
    return x * operand if name == "mul" else x + operand


@given(
    shape=st.tuples(st.sampled_from([1, 2, 5, 0]), st.sampled_from([130, 64, 65, 1100, 63, 16, 15, 1, 0])), names=STEPS,
    types=st.tuples(st.sampled_from([np.uint8, np.int8]), st.sampled_from([np.uint8, np.int8])),
    plain=st.booleans(), apart=st.booleans(), threads=st.integers(1, 2), seed=st.integers(0, 1 << 16),
    special=st.booleans(), end=st.sampled_from(["low", "high"]),
)  # fmt: skip
def test_stages(shape, names, types, plain, apart, threads, seed, special, end):
    rng = np.random.default_rng(seed)
    numbers = NUMBERS if special else NUMBERS[:7]

    def drawn(*shape):
        return rng.choice(np.float32(numbers), shape) * (
            1 if special else rng.uniform(0.5, 2, shape).astype(np.float32)
        )

    wider = shape[0], shape[1] + apart
    buffers = [guarded(rng.integers(0, 256, wider).astype(np.uint8).reshape(-1), end) for _ in types]
    x, whole = (buffer.array.reshape(wider).view(t) for buffer, t in zip(buffers, types))
    x, y, outside = x[:, : shape[1]], whole[:, : shape[1]], whole[:, shape[1] :].copy()
    source = ("u8" if types[0] == np.uint8 else "s8", *((1.0, 0) if plain else (0.25, 3)))
    to = "u8" if types[1] == np.uint8 else "s8", 1.0, int(rng.integers(*(np.iinfo(types[1]).min, 100)))
    steps = []
    for name in names:
        like = [(), (1, shape[1]), (shape[0], 1), shape][rng.integers(4)]
        if name == "affine":
            steps += [("mul", None, drawn(*like)), ("add", None, drawn(*like))]
        elif name in ("mul", "add"):
            steps.append((name, None, drawn(*like)))
        elif name == "linear":
            steps.append((name, drawn(2), None))
        else:
            steps.append(
                (name, None if name == "round" else np.sort(rng.uniform(-300, 300, 2)).astype(np.float32), None)
            )
    want = x.astype(np.float32)
    if not plain:
        want = (want - np.float32(source[2])) * np.float32(source[1])
    with np.errstate(all="ignore"):
        for name, values, operand in steps:
            want = applied(name, values, operand, want)
    limits, zero = np.iinfo(types[1]), to[2]
    want = np.clip(np.rint(want), limits.min - zero, limits.max - zero)
    for isa in WHOLE_ISAS:
        y[...] = 77
        with using_isa(isa):
            Elementwise(steps, (x,), y, [source, to], threads)(x, y)
        np.testing.assert_array_equal(y, (np.nan_to_num(want) + zero).astype(types[1]), err_msg=isa)
        np.testing.assert_array_equal(whole[:, shape[1] :], outside)
