"""Every node case of the onnx package whose operators and element types are supported."""

import functools
import os
import warnings
from collections import Counter

import numpy as np
import pytest
from conftest import LONG

onnx = pytest.importorskip("onnx", reason="the extra onnx")

from layoutkit.graph.model import Model  # noqa: E402
from layoutkit.graph.onnx import graph_of  # noqa: E402
from layoutkit.graph.operators import OPERATORS, Unsupported  # noqa: E402
from layoutkit.graph.operators.layouts import NAMES  # noqa: E402

# What is refused of operators that are supported, and why; all else must be right.
REFUSED = {
    "before version 9": "Scan of batches",
    "training": "of inference only: Dropout and BatchNormalization while training",
    "tf_crop_and_resize": "Resize of a region of interest",
    "blocks of 2": "QuantizeLinear with a scale for each block",
    "is no tensor": "sequences and optional tensors",
    "of type": "elements that numpy lacks: of 2, 4 and 8 bits, complex, strings",
}

# Without a case of their own.
UNTRIED = {"Affine", "AlongAxis", "ChannelShuffle", "Elementwise", "MaxRoiPool", "RecurrentSteps", "Requantise",
           "Table", "TiledAttention", "Within"}  # fmt: skip
REQUIRED = """
    Conv ConvTranspose ConvInteger QLinearConv MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool
    BatchNormalization InstanceNormalization GroupNormalization LayerNormalization LRN Relu LeakyRelu PRelu Elu
    Selu Celu Sigmoid Tanh Softplus Mish Gelu HardSigmoid HardSwish Clip Add Sub Mul Div Sum Mean Max Min Pow
    Concat Split Slice Pad Resize DepthToSpace SpaceToDepth ReduceMean ReduceSum ReduceMax ReduceMin Softmax
    LogSoftmax Gemm MatMul MatMulInteger Flatten Reshape Transpose Squeeze Unsqueeze Cast QuantizeLinear
    DequantizeLinear Dropout Identity Expand Tile Gather Where Shape LSTM GRU RNN Einsum NonMaxSuppression TopK RoiAlign
    GridSample AffineGrid DeformConv MaxUnpool ScatterND ScatterElements GatherND GatherElements NonZero Compress Unique
    OneHot CumSum Trilu EyeLike ReverseSequence CenterCropPad Col2Im Det BitShift DFT STFT MelWeightMatrix HannWindow
    HammingWindow BlackmanWindow QLinearMatMul DynamicQuantizeLinear If Loop Scan
""".split()


@functools.cache
def cases():
    """Name, graph, inputs and outputs of each; and how many were refused, by reason."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = load_model_tests(kind="node")
    found, refused = [], Counter()
    for case in loaded:
        model = case.model or onnx.load(os.path.join(case.model_dir, "model.onnx"))
        if any(n.domain not in ("", "ai.onnx") or n.op_type not in (*OPERATORS, "Constant", "Upsample")
               for n in nodes_of(model.graph)):  # fmt: skip
            continue
        try:
            found += [(case.name, graph_of(model), *data) for data in _data(case, model)]
        except Unsupported as error:
            refused[_reason(error)] += 1
    return found, refused


def nodes_of(graph):
    """The nodes of a graph and of those inside of it."""
    for node in graph.node:
        yield node
        for a in node.attribute:
            yield from nodes_of(a.g)


def _reason(error):
    reasons = [reason for reason in REFUSED if reason in str(error)]
    assert reasons, f"refused for no listed reason: {error}"
    return reasons[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", ["pytorch-converted", "pytorch-operator"])
def test_models_that_pytorch_wrote(kind):
    from onnx.backend.test.loader import load_model_tests

    done = 0
    for case in load_model_tests(kind=kind):
        model = onnx.load(os.path.join(case.model_dir, "model.onnx"))
        graph = graph_of(model)
        for inputs, outputs in _data(case, model):
            for layouts in (None, *NAMES[1:]):
                got = Model(graph, threads=1, layouts=layouts).run(inputs)
                for tensor, want in outputs.items():
                    close(got[tensor], want, case.name)
                    done += 1
    assert done > 100


def _data(case, model):
    sets = case.data_sets
    if sets is None:
        sets = []
        folder = os.path.join(case.model_dir, "test_data_set_0")
        for kind in ("input", "output"):
            names = sorted(n for n in os.listdir(folder) if n.startswith(kind))
            sets.append([onnx.load_tensor(os.path.join(folder, n)) for n in names])
        sets = [tuple(sets)]
    for given, wanted in sets:
        yield (
            {v.name: _array(x) for v, x in zip(_taken(model), given)},
            {v.name: _array(x) for v, x in zip(model.graph.output, wanted)},
        )


def _taken(model):
    held = {t.name for t in model.graph.initializer}
    return [v for v in model.graph.input if v.name not in held]


def _array(x):
    return np.asarray(onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x)


def close(got, want, name):
    assert got.shape == want.shape and got.dtype == want.dtype, name
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=name)
    else:
        narrow = want.dtype.itemsize == 2
        rtol, atol = (1e-2, 1e-2) if narrow else (1e-3, 1e-5)
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol, atol, err_msg=name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # divisions by zero and the like, as the cases have them
@pytest.mark.parametrize("layouts", [None, *NAMES[1:]])
def test_node_cases(layouts):
    """All of them in the layouts of least cost. In those that are asked for, bodies of functions, and outside CI the
    others too, are tried in one of the two."""
    found, _ = cases()
    done, refused, wrong = 0, Counter(), []
    for i, (name, graph, inputs, outputs) in enumerate(found):
        twice = LONG and "_expanded" not in name  # bodies of functions have nothing that others lack
        if layouts and not twice and i % 2 == NAMES.index(layouts) % 2:
            continue
        try:
            got = Model(graph, threads=1, layouts=layouts).run(inputs)
            for tensor, want in outputs.items():
                close(got[tensor], want, name)
            done += 1
        except Unsupported as error:
            refused[_reason(error)] += 1
        except (AssertionError, ValueError, KeyError, TypeError) as error:
            wrong.append(f"{name}: {' '.join(str(error).split())[:300]}")
    assert not wrong, "\n".join(wrong)
    tried = {n.op for _, graph, _, _ in found for n in graph.nodes}
    assert OPERATORS.keys() - tried <= UNTRIED and tried.issuperset(REQUIRED)
    assert done > (900 if LONG or not layouts else 450), refused
