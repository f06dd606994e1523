"""Networks on arrays past memory. What tiles of a network read is tested in tests/graph/test_tiles.py."""

from itertools import pairwise

import dask
import dask.array as da
import numpy as np
import pytest
from graphs import Builder

import layoutkit.dask as lazy
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators import Unsupported


def unet(accuracy="reproducible"):
    """Two levels, of strides, a transposed convolution and a skip."""
    b = Builder((1, 3, 16, 16), 7, "float32")
    same = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    b.add("Conv", "x", b.constant((8, 3, 3, 3)), **same)
    b.add("Relu", "t0.0")
    b.add("MaxPool", "t1.0", kernel_shape=[2, 2], strides=[2, 2])
    b.add("Conv", "t2.0", b.constant((8, 8, 3, 3)), **same)
    b.add("ConvTranspose", "t3.0", b.constant((8, 4, 2, 2)), strides=[2, 2], kernel_shape=[2, 2])
    b.add("Concat", "t1.0", "t4.0", axis=1)
    b.add("Conv", "t5.0", b.constant((2, 12, 3, 3)), **same)
    assert len(b.nodes) == 7
    return Model(Graph(b.nodes, b.inputs, ("t6.0",), b.constants), accuracy=accuracy)


def classifier():
    b = Builder((1, 3, 8, 8), 8, "float32")
    b.add("Conv", "x", b.constant((4, 3, 3, 3)), kernel_shape=[3, 3])
    b.add("GlobalAveragePool", "t0.0")
    b.add("Flatten", "t1.0")
    return Model(Graph(b.nodes, b.inputs, ("t2.0", "t0.0"), b.constants), accuracy="reproducible")


X = np.random.default_rng(0).standard_normal((3, 3, 60, 50), dtype=np.float32)


@pytest.fixture(autouse=True)
def scheduler():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.mark.parametrize("chunks", [(1, 3, 60, 50), (2, 2, 17, 50), (3, 3, (4, 1, 30, 25), 13), (3, 3, 2, 50)])
def test_the_bits_are_those_of_the_whole(chunks):
    model = unet()
    y = lazy.run(model, da.from_array(X, chunks))
    assert y.shape == (3, 2, 60, 50) and np.array_equal(y.compute(), model.run(X)["t6.0"])
    assert y.numblocks[0] == (3 if chunks[0] == 1 else 2 if chunks[0] == 2 else 1)


def test_tiles_of_a_file_share_a_size_of_windows(tmp_path):
    import h5py

    model = unet()
    with h5py.File(tmp_path / "x.h5", "w") as file, dask.config.set({"array.chunk-size": "16 kB"}):
        x = file.create_dataset("x", data=X, chunks=(1, 3, 16, 16))
        y = lazy.run(model, x)
        assert y.numblocks[2] > 1
        assert np.array_equal(y.compute(), model.run(X)["t6.0"])
    work = next(layer.info.work for layer in y.dask.layers.values() if hasattr(layer, "info"))
    cuts = np.cumsum([0, *y.chunks[2]])
    windows = [work.window(2, (int(a), int(b))) for a, b in pairwise(cuts)]
    assert len({b - a for a, b in windows}) == 1


def test_over_a_batch_any_network_runs():
    model, x = classifier(), da.from_array(X, (2, 3, 60, 50))
    want = np.concatenate([model.run(X[:2])["t2.0"], model.run(X[2:])["t2.0"]])
    y = lazy.run(model, x, output="t2.0")
    assert y.chunks == ((2, 1), (4,)) and np.array_equal(y.compute(), want)


def test_what_cannot_be_cut_is_told():
    model = classifier()
    with pytest.raises(Unsupported, match=r"GlobalAveragePool.*over a batch"):
        lazy.run(model, da.from_array(X, (1, 3, 30, 50)), output="t2.0")
    assert lazy.run(model, da.from_array(X, (1, 3, 30, 50)), output="t0.0").shape == (3, 4, 58, 48)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m, x: lazy.run(m, x), "which output is it.*t2.0, t0.0"),
        (lambda m, x: lazy.run(m, x, output="y"), "output 'y' is none of t2.0, t0.0"),
        (lambda m, x: lazy.run(m, x[0], output="t0.0"), r"x is float32 \(3, 60, 50\), input 'x' is float32"),
        (lambda m, x: lazy.run(m, x.astype("f8"), output="t0.0"), "x is float64"),
    ],
)
def test_what_does_not_fit_is_told_at_once(call, text):
    with pytest.raises((TypeError, ValueError), match=text):
        call(classifier(), da.from_array(X, (1, 3, 60, 50)))


def test_a_transposed_convolution_is_as_accurate_as_its_model():
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape, dtype=np.float32) for shape in ((1, 64, 60, 60), (64, 64, 3, 3)))
    node = Node("ConvTranspose", ("x", "w"), ("y",), {"kernel_shape": [3, 3]})
    model = Model(Graph([node], {"x": TensorType(x.dtype, x.shape)}, ("y",), {"w": w}), accuracy="reproducible")
    whole, part = model.run(x)["y"], model.run(x[:, :, :12, :12])["y"]
    assert np.array_equal(part[:, :, 2:12, 2:12], whole[:, :, 2:12, 2:12])
