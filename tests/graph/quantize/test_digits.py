"""A classifier of scikit-learn's digits, trained here: what narrow types cost it."""

import numpy as np
import pytest

import layoutkit as lk

pytest.importorskip("onnx", reason="the extra onnx")
torch = pytest.importorskip("torch", reason="the extra torch")
datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn")

from onnx_networks import Network  # noqa: E402

SEEN = 900


@pytest.fixture(scope="module")
def digits():
    pixels, labels = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return (pixels[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8), labels[order]


@pytest.fixture(scope="module")
def classifier(digits):
    """An ONNX model, trained by torch on one thread with a fixed seed, in float64: all processors get the same one."""
    images, labels = torch.tensor(digits[0][:SEEN]).double(), torch.tensor(digits[1][:SEEN])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        nn = torch.nn
        net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 16, 10),
        ).double()  # fmt: skip
        optimizer = torch.optim.Adam(net.parameters(), 3e-3)
        for _ in range(5):
            for some in torch.randperm(SEEN).split(50):
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(images[some]), labels[some]).backward()
                optimizer.step()
    torch.set_num_threads(threads)
    state = [x.detach().float().numpy() for x in net.eval().state_dict().values()]
    n = Network(0, x=("N", 1, 8, 8))
    w, b, *norm = state[:6]
    y = n.add("Conv", "x", n.constant(w), n.constant(b), pads=[1] * 4)
    y = n.add("Relu", n.add("BatchNormalization", y, *map(n.constant, norm)))
    w, b, *norm = state[7:13]
    y = n.add("Conv", y, n.constant(w), n.constant(b), pads=[1] * 4, strides=[2, 2])
    y = n.add("Flatten", n.add("Relu", n.add("BatchNormalization", y, *map(n.constant, norm))))
    w, b = state[14:]
    return n.model(n.add("Gemm", y, n.constant(w), n.constant(b), transB=1))


def points(model, digits):
    """Of a hundred unseen digits, how many are recognised."""
    (scores,) = model.run(digits[0][SEEN:]).values()
    return 100 * float(np.mean(scores.argmax(1) == digits[1][SEEN:]))


def test_what_narrow_types_cost(digits, classifier):
    real = points(lk.onnx.load(classifier, threads=1), digits)
    assert real > 96
    assert points(lk.onnx.load(classifier, threads=1, dtype="bfloat16"), digits) > real - 0.1
    for method in ("min-max", "percentile", "entropy"):
        q = lk.quantize(classifier, digits[0][:SEEN], method=method, percentile=99.9, tolerance=np.inf, threads=1)
        assert {layer.dtype for layer in q.layers} == {"int8"} and len(q.layers) == 3
        assert points(lk.onnx.load(q.model, threads=1), digits) > real - 0.5, method
