"""``lk.onnx.load(.., dtype="auto")``: the fastest of the types that are near enough."""

import copy

import numpy as np
import pytest

import layoutkit as lk

onnx = pytest.importorskip("onnx", reason="the extra onnx")

from onnx_networks import Network  # noqa: E402

from layoutkit.graph.quantize import fastest  # noqa: E402

TYPES = "float32", "bfloat16", "float16", "int8"


@pytest.fixture(scope="module")
def network():
    n = Network(0, x=("N", 8, 9, 9))
    y = n.add("Relu", n.add("Conv", "x", n.filter(16, 8, 3, 3), n.uniform(16)))
    model = n.model(n.add("Conv", y, n.filter(8, 16, 3, 3)))
    return model, n.rng.standard_normal((10, 8, 9, 9)).astype(np.float32)


def taken(model):
    """The type that was chosen, and what was told of each."""
    chosen, told = model.notes[0].removeprefix("type: ").split(", by measurement: ")
    return chosen, told.split("; ")


@pytest.mark.parametrize("tolerance", [1e-4, 1.0])
@pytest.mark.parametrize("wanted", TYPES)
def test_the_fastest_that_is_near_enough(network, monkeypatch, tolerance, wanted):
    model, x = network
    order = [wanted, *(t for t in TYPES if t != wanted and t != "float32"), "float32"]
    tried = []

    def seconds(models, inputs):
        assert inputs["x"].shape == (8, 8, 9, 9), "a run on the first samples"
        kinds = ["int8" if any(n.op == "QuantizeLinear" for n in m.graph.nodes) else m.options["dtype"] for m in models]
        tried.extend(kinds)
        return [1 + order.index(kind) for kind in kinds]

    monkeypatch.setattr(fastest, "seconds_of", seconds)
    found = lk.onnx.load(model, threads=1, dtype="auto", samples=x, tolerance=tolerance)
    real, y = (next(iter(m.run(x).values())) for m in (lk.onnx.load(model, threads=1), found))
    assert np.abs(y - real).max() <= (tolerance + 1e-6) * np.abs(real).max()
    chosen, told = taken(found)
    assert found.explain({"x": (1, 8, 9, 9)}).startswith(f"type: {chosen}, by measurement: float32")
    if tolerance == 1e-4:
        assert tried == ["float32"] and chosen == "float32" and all("too large" in text for text in told[1:])
    else:
        assert tried == [*TYPES] and chosen == wanted


def test_what_does_not_pay_is_not_taken(network, monkeypatch):
    model, x = network
    monkeypatch.setattr(fastest, "seconds_of", lambda models, inputs: [1.0] + [0.98] * (len(models) - 1))
    assert taken(lk.onnx.load(model, threads=1, dtype="auto", samples=x, tolerance=1))[0] == "float32"


def test_it_measures(network):
    model, x = network
    found = lk.onnx.load(model.SerializeToString(), threads=1, dtype="auto", samples={"x": x}, tolerance=0.05)
    _, told = taken(found)
    assert [text.split()[0] for text in told] == [*TYPES] and all(" ms, error " in text for text in told)
    assert np.array_equal(*(next(iter(m.run(x).values())) for m in (found, copy.copy(found))))


def test_models_without_filters_have_no_int8():
    n = Network(0, x=(4, 4))
    model, x = n.model(n.add("Exp", "x")), np.ones((4, 4), np.float32)
    assert len(taken(lk.onnx.load(model, threads=1, dtype="auto", samples=x))[1]) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "auto"}, "measures times and errors on samples"),
        ({"dtype": "auto", "samples": np.zeros((0, 8, 9, 9), np.float32)}, "has no elements"),
        ({"dtype": "auto", "samples": [], "tolerance": -1}, "tolerance: expected a number from 0 on, got -1"),
        ({"dtype": "bfloat16", "samples": []}, "samples are for dtype=\"auto\", got dtype='bfloat16'"),
        ({"dtype": "int8"}, "onnx.load: dtype 'int8' is none of float32, bfloat16, float16, auto"),
    ],
)
def test_errors(network, options, message):
    with pytest.raises(ValueError, match=message):
        lk.onnx.load(network[0], **options)
