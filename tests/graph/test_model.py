"""Models: inputs, shapes that change, what they tell."""

import threading

import numpy as np
import pytest
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

F32 = np.dtype(np.float32)


def small(shape=("N", 3, "H", "W")):
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((20, 3, 3, 3)).astype(np.float32),
        "b": rng.standard_normal(20).astype(np.float32),
    }
    nodes = [Node("Conv", ("x", "w", "b"), ("a",), {"pads": [1] * 4}, "first"), Node("Relu", ("a",), ("r",)),
             Node("MaxPool", ("r",), ("y",), {"kernel_shape": [2, 2], "strides": [2, 2]}, "pool")]  # fmt: skip
    return Graph(nodes, {"x": TensorType(F32, shape)}, ("y",), constants)


def numbers(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_inputs_of_any_size():
    model = Model(small())
    for shape in ((1, 3, 8, 8), (2, 3, 5, 9), (1, 3, 8, 8)):
        x = numbers(*shape)
        np.testing.assert_allclose(model.run(x)["y"], evaluate(small(), {"x": x})["y"], rtol=1e-4, atol=1e-4)
    assert model.inputs == {"x": ("N", 3, "H", "W")} and model.outputs == ("y",)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"z": numbers(1, 3, 8, 8)}, ValueError, "'z' is no input; 'x' is missing; the inputs are x"),
        (numbers(1, 3, 8), ValueError, "expected 4 axes"),
        (numbers(1, 4, 8, 8), ValueError, "4 channels, the filter takes 3 a group"),
        (numbers(1, 3, 8, 8).astype(np.float64), TypeError, "expected dtype float32, got float64"),
        (numbers(1, 3, 0, 8), ValueError, "does not fit"),
    ],
)
def test_inputs_that_do_not_fit(inputs, error, message):
    with pytest.raises(error, match=message):
        Model(small()).run(inputs)


def test_results_are_the_callers_own():
    model = Model(small())
    x = numbers(1, 3, 8, 8)
    first = model.run(x)["y"]
    kept = first.copy()
    model.run(x + 1)
    np.testing.assert_array_equal(first, kept)
    first[:] = 7
    np.testing.assert_array_equal(model.run(x)["y"], kept)


def test_inputs_are_not_written():
    x = numbers(1, 3, 8, 8)
    kept = x.copy()
    Model(small()).run(x)
    np.testing.assert_array_equal(x, kept)


def test_an_input_may_be_an_output():
    graph = Graph([Node("Neg", ("x",), ("y",))], {"x": TensorType(F32, (2,))}, ("y", "x"), {})
    x = numbers(2)
    found = Model(graph).run(x)
    np.testing.assert_array_equal(found["x"], x)
    assert not np.shares_memory(found["x"], x)


def test_explain_tells_layouts_and_costs():
    model = Model(small(), threads=1)
    with pytest.raises(ValueError, match="say its extents"):
        model.explain()
    with pytest.raises(ValueError, match=r"no input \['y'\]; there are x"):
        model.explain({"y": (1, 3, 32, 32)})
    for wrong in ((1, 3), 5, np.zeros((1, 3))):
        with pytest.raises(ValueError, match="input 'x': expected an array of 4 axes or its shape, got "):
            model.explain({"x": wrong})
    told = model.explain({"x": (1, 3, 32, 32)})
    for given in (np.zeros((1, 3, 32, 32), np.float32), np.array([1, 3, 32, 32])):
        assert model.explain({"x": given}) == model.explain(given) == told
    assert "3 operators, 2 after folding" in told and "the least of all" in told
    assert "all channels last" in told and "first" in told


def test_profile_has_a_time_for_every_step():
    model = Model(small(), threads=1)
    profile = model.profile(numbers(1, 3, 32, 32), rounds=2)
    assert {"Conv", "MaxPool"} <= {op for op, _, _ in profile} and all(seconds > 0 for *_, seconds in profile)


def test_threads_may_share_a_model():
    model, x = Model(small(), threads=1), [numbers(1, 3, 16, 16) + i for i in range(4)]
    want = [evaluate(small(), {"x": v})["y"] for v in x]
    wrong = []

    def work(i):
        for _ in range(20):
            if not np.allclose(model.run(x[i])["y"], want[i], rtol=1e-4, atol=1e-4):
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_shapes_that_depend_on_the_values_of_an_input():
    graph = Graph([Node("Neg", ("x",), ("n",)), Node("Reshape", ("n", "s"), ("y",))],
                  {"x": TensorType(F32, (2, 6)), "s": TensorType(np.dtype(np.int64), (2,))}, ("y",), {})  # fmt: skip
    model, x = Model(graph), numbers(2, 6)
    for shape in ((3, 4), (4, 3), (-1, 2)):
        np.testing.assert_array_equal(model.run({"x": x, "s": np.array(shape)})["y"], -x.reshape(shape))


@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", 8), ("float16", 11)])
def test_products_of_narrow_numbers(dtype, bits):
    x = numbers(1, 3, 16, 16)
    want = evaluate(small(), {"x": x})["y"]
    found = Model(small(), dtype=dtype).run(x)["y"]
    apart = np.abs(found - want).max()
    assert 0 < apart < 2.0 ** (1 - bits) * 27 and found.dtype == np.float32


def test_a_tensor_that_many_read():
    names = [f"a{i}" for i in range(40)]
    nodes = [Node("Conv", ("x", "w"), (name,), {"pads": [1] * 4}) for name in names] + [
        Node("Sum", tuple(names), ("y",))
    ]
    graph = Graph(nodes, {"x": TensorType(F32, (1, 3, 8, 8))}, ("y",), {"w": small().constants["w"]})
    x = numbers(1, 3, 8, 8)
    np.testing.assert_allclose(
        Model(graph, threads=1).run(x)["y"], evaluate(graph, {"x": x})["y"], rtol=1e-4, atol=1e-3
    )


def test_long_chains():
    """Of nodes, and of concatenations in each other's place."""
    nodes, last = [], "x"
    for i in range(1500):
        nodes.append(Node("Relu", (last,), (last := f"r{i}",)))
    for i in range(120):
        nodes += [Node("Conv", ("x", "w"), (f"a{i}",), {"pads": [1] * 4}),
                  Node("Concat", (last, f"a{i}"), (last := f"c{i}",), {"axis": 1})]  # fmt: skip
    graph = Graph(nodes, {"x": TensorType(F32, (1, 3, 2, 2))}, (last,), {"w": np.ones((1, 3, 3, 3), np.float32)})
    x = numbers(1, 3, 2, 2)
    for layouts in (None, "channels last"):
        found = Model(graph, threads=1, layouts=layouts).run(x)[last]
        np.testing.assert_allclose(found, evaluate(graph, {"x": x})[last], rtol=1e-5, atol=1e-5)


def test_unknown_layouts_and_accuracy():
    with pytest.raises(ValueError, match="dtype 'int4' is none of"):
        Model(small(), dtype="int4")
    with pytest.raises(ValueError, match="layouts 'NHWC' is none of"):
        Model(small(), layouts="NHWC")
    with pytest.raises(ValueError, match="accuracy"):
        Model(small(), accuracy="exact").run(numbers(1, 3, 8, 8))
