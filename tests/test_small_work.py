"""How many threads a call wakes: none beside its own for little work, and the same bits for any number of them."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit._core.runtime import team
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

SMALL, LARGE = (3, 16, 4, 4), (2, 16, 200, 200)


def network(op, constants=(), **attributes):
    """A call of one operator of a network, on an array and so many threads."""

    def call(x, n):
        held = {f"c{i}": np.asarray(value, x.dtype) for i, value in enumerate(constants)}
        node = Node(op, ("x", *(["x"] if op == "Add" else held)), ("y",), attributes)
        graph = Graph([node], {"x": TensorType(x.dtype, x.shape)}, ("y",), held)
        return Model(graph, threads=n, layouts="channels last").run(x)["y"]

    return call


CALLS = {
    "max_pool2d": lambda x, n: lk.max_pool2d(x, 2, threads=n),
    "avg_pool2d": lambda x, n: lk.avg_pool2d(x, 3, stride=1, padding=1, threads=n),
    "grad.max_pool2d_input": lambda x, n: lk.grad.max_pool2d_input(x, x, 1, threads=n),
    "grad.avg_pool2d_input": lambda x, n: lk.grad.avg_pool2d_input(x.shape, x, 3, stride=1, padding=1, threads=n),
    "batch_norm": lambda x, n: lk.batch_norm(x, threads=n),
    "grad.batch_norm": lambda x, n: lk.grad.batch_norm(x, x, threads=n)[0],
    "grad.conv2d_bias": lambda x, n: lk.grad.conv2d_bias(x, threads=n),
    "grad.activation_input": lambda x, n: lk.grad.activation_input(
        x, lk.reorder(x, "NCHW", "NHWC", threads=1), "silu", grad_layout="NHWC", threads=n
    ),
    "reorder": lambda x, n: lk.reorder(x, "NCHW", "NHWC", threads=n),
    "convert": lambda x, n: lk.reorder(x, "NCHW", "NHWC", dtype="float64", threads=n),
    "conv2d": lambda x, n: lk.conv2d(x, np.ones((16, 16, 1, 1), x.dtype), threads=n),
    "conv_transpose2d": lambda x, n: lk.conv_transpose2d(x, np.ones((16, 16, 1, 1), x.dtype), threads=n),
    "grad.conv2d_weight": lambda x, n: lk.grad.conv2d_weight(x, (16, 16, 1, 1), x, threads=n),
    "MaxPool": network("MaxPool", kernel_shape=[2, 2]),
    "GlobalAveragePool": network("GlobalAveragePool"),
    "LRN": network("LRN", size=3),
    "Relu": network("Relu"),
    "Add": network("Add"),
}


def woken(call, shape, threads):
    """The threads of the largest team that a call leads, in a thread that has led none."""
    x, found = np.ones(shape, np.float32), []

    def run():
        call(x, threads)
        found.append(team.led())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("name", CALLS)
def test_threads_are_for_large_work(name):
    assert woken(CALLS[name], SMALL, 2) == 1
    assert woken(CALLS[name], LARGE, 2) == 2


# Of the others another number of threads may make another candidate win, which rounds otherwise.
PLANNED_ALIKE = [name for name in CALLS if not name.startswith(("conv", "batch", "grad.conv2d_w", "grad.batch"))]


@given(st.sampled_from(PLANNED_ALIKE), st.integers(1, 3), st.integers(3, 70), st.integers(3, 70),
       st.integers(2, 4), st.integers(0, 2**32))  # fmt: skip
def test_the_bits_do_not_depend_on_the_threads(name, images, height, width, threads, seed):
    x = np.random.default_rng(seed).standard_normal((images, 16, height, width), np.float32)
    np.testing.assert_array_equal(CALLS[name](x, threads), CALLS[name](x, 1))
