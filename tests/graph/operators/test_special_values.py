"""Activations of Inf, NaN and the largest numbers: networks give what convolutions give, alone and behind one."""

import ml_dtypes
import numpy as np
import pytest
from oracle import reference

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

OF_CONVOLUTIONS = [  # operator, its attributes, and what a convolution calls it
    ("Relu", {}, "relu"), ("Sigmoid", {}, "sigmoid"), ("Tanh", {}, "tanh"), ("Softplus", {}, "softplus"),
    ("Mish", {}, "mish"), ("HardSwish", {}, "hardswish"), ("Swish", {}, "silu"),
    ("Swish", {"alpha": -1.5}, ("swish", -1.5)), ("Gelu", {}, "gelu"), ("Gelu", {"approximate": "tanh"}, "gelu_tanh"),
    ("LeakyRelu", {"alpha": 0.25}, ("leaky_relu", 0.25)), ("Elu", {"alpha": 1.5}, ("elu", 1.5)),
    ("HardSigmoid", {"alpha": 0.25, "beta": 0.5}, ("hardsigmoid", 0.25, 0.5)),
    ("Abs", {}, "abs"), ("Exp", {}, "exp"), ("Log", {}, "log"), ("Sqrt", {}, "sqrt"), ("Round", {}, "round"),
]  # fmt: skip
OTHERS = {  # what they tend to at -Inf and at Inf
    "Softsign": (-1, 1), "Celu": (-1, np.inf), "Selu": (-1.7580993463, np.inf), "Erf": (-1, 1),
}  # fmt: skip


def ends(kind, dtype):
    """Where numbers of a kind end, as `dtype`."""
    limits = ml_dtypes.finfo(kind)
    x = np.array([0, limits.tiny, 1, limits.max, np.inf], dtype)
    return np.concatenate([x, -x, np.array([np.nan], dtype)])[None, :, None, None]


def run(op, attributes, x, convolution=False, **options):
    nodes = [Node(op, ("t" if convolution else "x",), ("y",), attributes)]
    constants = {}
    if convolution:
        constants["w"] = np.ones((x.shape[1], 1, 1, 1), x.dtype)
        nodes.insert(0, Node("Conv", ("x", "w"), ("t",), {"group": x.shape[1]}))
    graph = Graph(nodes, {"x": TensorType(x.dtype, x.shape)}, ("y",), constants)
    return Model(graph, threads=1, **options).run(x)["y"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of overflows and of invalid numbers, which are asked for
@pytest.mark.parametrize("convolution", [False, True])
@pytest.mark.parametrize("dtype, kept", [
    ("float32", "float32"), ("float64", "float32"), ("float16", "float32"), ("float32", "float16"),
    ("float32", "bfloat16"),
])  # fmt: skip
def test_they_are_those_of_convolutions(dtype, kept, convolution):
    kind = np.dtype(dtype if kept == "float32" else kept)
    x, eps = ends(kind, dtype), float(ml_dtypes.finfo(kind).eps)
    for op, attributes, activation in OF_CONVOLUTIONS:
        want = reference.activate(x.astype(float), activation).astype(dtype)
        got = run(op, attributes, x, convolution, dtype=kept)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, 16 * eps, eps, err_msg=f"{op} {attributes}")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_others_tend_to_their_limits(dtype):
    limits = np.finfo(dtype)
    x = np.array([-np.inf, -limits.max, np.inf, np.nan], dtype)
    for op, (low, high) in OTHERS.items():
        want = [low, low, high, np.nan]
        np.testing.assert_allclose(run(op, {}, x), want, 4 * float(limits.eps) + 1e-10, err_msg=op)
