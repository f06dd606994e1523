"""Which layers stay in float32: those whose error is largest, as many as the error of the model asks for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...choosing import progress
from ..model import Model
from ..onnx import graph_of, package
from .calibration import Range, ranges
from .errors import error_of
from .layers import Layer, integer_tensors
from .rewriting import quantised
from .samples import Inputs
from .times import seconds_by_node, seconds_of

FASTER = 0.98  # than before, by more than times differ by chance


class Trial:
    """A prepared model, the runs that it is measured on, and what these give in float32."""

    def __init__(self, proto: Any, layers: Sequence[Layer], runs: Sequence[Inputs], threads: int | None) -> None:
        self.proto, self.layers, self.runs, self.threads = proto, layers, runs, threads
        self.real = self.model(proto)
        self.wanted = []
        for i, inputs in enumerate(runs):
            progress.step(f"run {i + 1} of {len(runs)} in float32")
            self.wanted.append(self.real.run(inputs))

    def model(self, proto: Any) -> Model:
        """What runs a model."""
        return Model(graph_of(proto), threads=self.threads)

    def ranges(self, method: str, percentile: float) -> dict[str, Range]:
        """Those of all tensors that may become integers."""
        names = [*integer_tensors(self.proto, self.layers)]
        model = self.model(_with_outputs(self.proto, [name for name in names if name not in self.runs[0]]))

        def runs():
            for i, inputs in enumerate(self.runs):
                progress.step(f"ranges of run {i + 1} of {len(self.runs)}")
                values = {**inputs, **model.run(inputs)}
                yield {name: values[name] for name in names if values[name].dtype == np.float32}

        return ranges(runs, method, percentile)

    def error(self, proto: Any, first: int | None = None) -> float:
        """That of a quantised model; `first`: of so many runs."""
        model = self.model(proto)
        return error_of((model.run(inputs), wanted) for inputs, wanted in [*zip(self.runs, self.wanted)][:first])


def errors_alone(trial: Trial, of: Mapping[str, Range]) -> dict[str, float]:
    """The error of the first run's results where one layer is quantised and all others are not, by the layer."""
    found = {}
    for i, layer in enumerate(trial.layers):
        progress.step(f"the error of layer {i + 1} of {len(trial.layers)}, {layer.title}")
        found[layer.y] = trial.error(quantised(trial.proto, [layer], of), 1) if of.keys() >= {*layer.x} else np.inf
    return found


def wide_layers(
    trial: Trial, of: Mapping[str, Range], alone: Mapping[str, float], tolerance: float
) -> tuple[set[str], float]:
    """The least number of layers, those with the largest errors first, that must stay in float32 for the error of the
    model to be within the tolerance; and that error.

    Bisection: it is taken for granted that the error falls with each layer that stays.
    """
    order = sorted((layer.y for layer in trial.layers), key=lambda y: -alone[y])
    low = sum(np.isinf(alone[y]) for y in order)  # no integers represent their inputs
    high, error_of_high = len(order), 0.0
    while low < high:
        middle = low if high == len(order) and low == 0 else (low + high) // 2
        error = _error(trial, of, order[:middle])
        if error <= tolerance:
            high, error_of_high = middle, error
        else:
            low = middle + 1
    return set(order[:high]), error_of_high


def also_slow(
    trial: Trial, of: Mapping[str, Range], wide: set[str], error: float, tolerance: float
) -> tuple[set[str], float]:
    """The wide layers with those that take longer in int8 than in float32, if the model is faster so; and its error."""
    narrow = trial.model(quantised(trial.proto, trial.layers, of, wide))
    progress.step("times of layers")
    times, real = (seconds_by_node(model, trial.runs[0]) for model in (narrow, trial.real))
    slow = {x.y for x in trial.layers if x.y not in wide and times.get(x.title, 0.0) > real.get(x.title, np.inf)}
    if not slow:
        return wide, error
    fewer = quantised(trial.proto, trial.layers, of, wide | slow)
    before, after = seconds_of([narrow, trial.model(fewer)], trial.runs[0])
    error_of_fewer = trial.error(fewer)
    better = after < FASTER * before and error_of_fewer <= tolerance
    return (wide | slow, error_of_fewer) if better else (wide, error)


def _error(trial: Trial, of: Mapping[str, Range], wide: Collection[str]) -> float:
    progress.step(f"the error with {len(wide)} of {len(trial.layers)} layers in float32")
    return trial.error(quantised(trial.proto, trial.layers, of, wide))


def _with_outputs(proto: Any, names: Sequence[str]) -> Any:
    """A copy of a model that also has these tensors as outputs."""
    onnx = package()
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    present = {v.name for v in copy.graph.output}
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in present)
    return copy
