"""Elementwise operators on bytes that are looked up, against the operators one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_cases.quantised import Builder, assert_same

from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES


def steps_of(model):
    (program,) = model._programs.values()
    return [step.op for step in program.steps]


UNARY = ["Sigmoid", "Relu", "Tanh", "Neg", "Softplus", "LeakyRelu", "HardSigmoid", "Abs"]


@st.composite
def chains(draw):
    shape = draw(
        st.sampled_from([(1, 8, 9, 9), (2, 3, 1, 1), (1, 33, 4), (0, 8, 3, 3), (7,), (1, 1), (2, 70, 3, 2, 2)])
    )
    b = Builder(draw(st.integers(0, 99)))
    types = [draw(st.sampled_from(["uint8", "int8"])) for _ in range(4)]

    def quantised(x, dtype):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return b.quantised(x, dtype, draw(st.floats(2**-7, 0.1)), draw(st.integers(low, high)))

    x = y = quantised("x", types[0])
    for dtype in types[1:]:
        op = draw(st.sampled_from([*UNARY, "Mul", "Add", "constant"]))
        if op in UNARY:
            y = b.add(op, y)
        elif op == "constant":
            y = b.add("Mul", b.constant(np.float32(draw(st.floats(-2, 2))).reshape((1,) * draw(st.integers(0, 1)))), y)
        else:
            y = b.add(op, y, x)
        if draw(st.booleans()):
            y = quantised(y, dtype)
    y = quantised(y, types[0])
    return b.graph(b.add("Abs", y), shape=shape)


@given(graph=chains(), layouts=st.sampled_from([None, *NAMES]), threads=st.integers(1, 2))
def test_chains_of_operators_on_one_tensor(graph, layouts, threads):
    model = assert_same(graph, 0.1, layouts=layouts, threads=threads)
    assert steps_of(model).count("Table") == 1


def test_a_product_with_its_sigmoid_is_one_table_where_channels_are_joined():
    b = Builder(3)
    x = b.quantised("x", "uint8", 1 / 60, 128)
    y = b.quantised(b.add("Conv", x, b.filter(16, 8, 1, 1)), "uint8", 0.03, 90)
    silu = b.quantised(b.add("Mul", y, b.quantised(b.add("Sigmoid", y), "uint8", 1 / 255, 0)), "int8", 0.02, -100)
    z = b.quantised(
        b.add("Concat", silu, b.quantised(b.add("Relu", silu), "int8", 0.02, -100), axis=1), "int8", 0.02, -100
    )
    out = b.add("Conv", z, b.filter(4, 32, 1, 1))
    for threads in (1, 2):
        model = assert_same(b.graph(out), 0.05, threads=threads)
        assert steps_of(model).count("Table") == 2 and "Mul" not in steps_of(model)


def test_tensors_of_two_and_constants_of_several_numbers_are_not_looked_up():
    b = Builder(4)
    x, y = (b.quantised(b.add(op, "x"), "uint8", 0.01, 10) for op in ("Sigmoid", "Abs"))
    z = b.quantised(b.add("Mul", x, y), "uint8", 0.01, 0)
    w = b.quantised(b.add("Mul", z, b.constant(np.arange(9, dtype=np.float32))), "uint8", 0.05, 0)
    model = assert_same(b.graph(b.add("Neg", w)), 0.05)
    assert "Table" not in steps_of(model)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_what_is_not_a_number_stands_for_0(dtype):
    b = Builder(5)
    x = b.quantised("x", dtype, 0.01, 5)
    graph = b.graph(b.add("Abs", b.quantised(b.add("Log", x), dtype, 0.05, 7)), shape=(300,))
    found = Model(graph).run({"x": np.linspace(-1, 1, 300).astype(np.float32)})[graph.outputs[0]]
    assert (found[:148] == 0).all() and np.isfinite(found).all()


@given(
    channels=st.lists(st.sampled_from([1, 3, 16, 32, 70]), min_size=1, max_size=4), axis=st.integers(1, 3),
    dtype=st.sampled_from(["uint8", "int8"]), layouts=st.sampled_from([None, *NAMES]), threads=st.integers(1, 2),
    seed=st.integers(0, 1 << 16),
)  # fmt: skip
def test_bytes_of_other_scales_are_joined_by_tables(channels, axis, dtype, layouts, threads, seed):
    """In one step, which writes to its place."""
    b = Builder(seed)
    channels = channels if axis == 1 else channels[:1] * len(channels)
    x, parts, scales = b.quantised("x", "uint8", 1 / 120, 128), [], []
    for n in channels:
        scales.append(float(b.rng.choice([0.03, 0.05, 0.0117])))
        parts.append(b.quantised(b.add("Conv", x, b.filter(n, 8, 1, 1)), dtype, scales[-1], int(b.rng.integers(0, 90))))
    y = b.quantised(b.add("Concat", *parts, parts[0], axis=axis), dtype, 0.03, 17)
    model = assert_same(b.graph(b.add("Abs", y), shape=(2, 8, 5, 6)), 0.1, layouts=layouts, threads=threads)
    assert sum(op == "Table" for op in steps_of(model)) >= len([scale for scale in scales if scale != 0.03])
    assert not any(" as " in step.name for step in next(iter(model._programs.values())).steps[1:])  # but the input
