"""Elementwise operators from bytes to bytes, some of them in one step: against the operators one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate
from random_cases.quantised import Builder, assert_same

from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES
from layoutkit.graph.runtime.steps.integers import in_bytes


@st.composite
def networks(draw):
    """Sums, products and clips of tensors and of constants, rounded in between."""
    shape = draw(st.sampled_from([(1, 8, 9, 9), (2, 33, 1, 3), (1, 70, 4), (0, 8, 3, 3), (9, 5), (1, 3, 2, 2, 5)]))
    b = Builder(draw(st.integers(0, 99)))
    dtypes = st.sampled_from(["uint8", "int8"])

    def quantised(x, most):
        dtype = draw(dtypes)
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return b.quantised(x, dtype, most / b.rng.uniform(60, 200), draw(st.integers(low // 2, high // 2)))

    def constant():
        tail = (1,) * max(0, len(shape) - 2)
        like = draw(st.sampled_from([(), (1,), (shape[1], *tail) if len(shape) > 2 else (shape[-1],)]))
        return b.constant(b.rng.uniform(0.2, 1.5, like).astype(np.float32))

    x = quantised("x", 1)
    y = quantised(b.add("Softmax", "x"), 1)  # no elementwise operator, which would be part of the same step
    channel = (
        quantised(b.add("ReduceMean", "x", axes=list(range(2, len(shape)))), 1) if shape[0] and len(shape) > 2 else x
    )
    value, most = x, 1.0
    for _ in range(draw(st.integers(1, 5))):
        op = draw(
            st.sampled_from(["Add", "Sub", "Mul", "Relu", "Clip", "Add tensor", "Rsub tensor", "Mul tensor", "Neg"])
        )
        if op == "Relu" or op == "Neg":
            value = b.add(op, value)
        elif op == "Clip":
            value = b.add(op, value, b.constant(np.float32(-0.25)), b.constant(np.float32(0.8)))
        elif op.endswith("tensor"):
            other = draw(st.sampled_from([x, y, channel]))
            value, most = (
                b.add(op[:3].replace("Rsu", "Sub"), *((other, value) if op[0] == "R" else (value, other))),
                most + 1,
            )
        else:
            value, most = b.add(op, value, constant()), most * 1.5 + 1
        if draw(st.booleans()):
            value = quantised(value, most)
    value = quantised(value, most)
    return b.graph(b.add("Concat", value, value, axis=0), shape=shape)


@given(graph=networks(), layouts=st.sampled_from([None, *NAMES]), threads=st.integers(1, 2))
def test_sums_and_products_of_bytes(graph, layouts, threads):
    # of a rounding that is nearly halfway what follows may make more than one step of the result
    x = np.random.default_rng(5).uniform(-1, 1, graph.inputs["x"].shape).astype(np.float32)
    (found,), (want,) = (
        Model(graph, layouts=layouts, threads=threads).run(x).values(),
        evaluate(graph, {"x": x}).values(),
    )
    step = float(graph.constants[graph.nodes[-2].inputs[1]])
    apart = np.abs(found - want)
    assert apart.max(initial=0) < 0.4 and np.count_nonzero(apart > step / 2) <= 1 + 0.01 * apart.size


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("of", [(), (1,), (8, 1, 1)])
def test_a_sum_of_tensors_times_a_constant(batch, of):
    """Of one number in any shape, and of no element."""
    b = Builder(3)
    x, y = b.quantised("x", "uint8", 0.01, 3), b.quantised(b.add("Softmax", "x"), "uint8", 0.01, 0)
    factor = b.constant(b.rng.uniform(0.2, 1.5, of).astype(np.float32))
    z = b.quantised(b.add("Mul", b.add("Add", x, y), factor), "uint8", 0.02, 5)
    graph = b.graph(b.add("Concat", z, z, axis=0), shape=(batch, 8, 3, 3))
    numbers = np.random.default_rng(1).uniform(-1, 1, (batch, 8, 3, 3)).astype(np.float32)
    (found,), (want,) = (Model(graph).run(numbers).values(), evaluate(graph, {"x": numbers}).values())
    assert found.shape == want.shape and np.abs(found - want).max(initial=0) < 0.021


def test_batch_normalisations_that_are_rounded_in_between_are_one_step():
    b = Builder(7)
    x = b.quantised("x", "uint8", 1 / 100, 128)
    mean, variance, scale, bias = (b.constant(b.rng.uniform(0.5, 1.5, 8).astype(np.float32)) for _ in range(4))
    y = b.quantised(b.add("BatchNormalization", x, scale, bias, mean, variance), "uint8", 0.03, 100)
    y = b.quantised(
        b.add("Mul", y, b.constant(b.rng.uniform(0.5, 1.5, (8, 1, 1)).astype(np.float32))), "int8", 0.04, -5
    )
    y = b.quantised(b.add("Relu", b.add("Add", y, x)), "uint8", 0.04, 0)
    model = assert_same(b.graph(b.add("Conv", y, b.filter(8, 8, 1, 1))), 0.4)
    (program,) = model._programs.values()
    assert [step.op for step in program.steps if step.op != "reorder"].count("Elementwise") == 1


def test_two_tensors_are_weighed_as_they_are():
    steps = [("add", None, 1), ("clip", np.array([0.0, np.inf]), None)]
    got, elements = in_bytes(steps, [("u8", 0.5, 3), ("s8", 0.25, -2), ("u8", 0.125, 7)])
    assert elements == [("u8", 1.0, 0), ("s8", 1.0, 0), ("u8", 1.0, 7)]
    assert [(name, None if n is None else n.tolist(), operand) for name, n, operand in got] == [
        ("linear", [4, -8], None), ("sum", [2], 1), ("clip", [0, np.inf], None),
    ]  # fmt: skip
    assert in_bytes([("sigmoid", None, None)], elements[:2]) is None
    assert in_bytes(steps[1:], [("u8", 1.0, 0), ("f32", 1.0, 0)]) is None
