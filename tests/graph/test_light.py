"""The nine networks that the onnx package carries, against the outputs that it ships."""

from pathlib import Path

import numpy as np
import pytest

import layoutkit as lk

onnx = pytest.importorskip("onnx", reason="the extra onnx")

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NETWORKS = "bvlc_alexnet densenet121 inception_v1 inception_v2 resnet50 shufflenet squeezenet vgg19 zfnet512"


@pytest.mark.parametrize("name", NETWORKS.split())
def test_networks_give_the_shipped_outputs(name):
    model = lk.onnx.load(FOLDER / f"light_{name}.onnx", threads=2)
    ((tensor, shape),) = model.inputs.items()
    size = np.prod(shape)
    x = (np.arange(size, dtype=np.float32) / np.float32(size)).reshape(shape)
    want = onnx.numpy_helper.to_array(onnx.load_tensor(str(FOLDER / f"light_{name}_output_0.pb")))
    (got,) = model.run({tensor: x}).values()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-7)
