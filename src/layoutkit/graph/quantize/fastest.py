"""The type in which a model is fastest on a user's samples, among those whose error is small enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...choosing import progress
from ..model import DTYPES, Model
from ..onnx import graph_of
from .errors import error_of
from .quantizing import NothingToQuantize, check_tolerance, quantize
from .samples import Inputs, runs_of
from .times import seconds_of

PAYS = 0.97  # of the time in float32: what a narrow type must take less than


class Candidate(NamedTuple):
    """A type, the model that multiplies it, and its error."""

    dtype: str
    model: Model
    error: float


def fastest(model: Any, samples: Any, tolerance: float, *, threads: int | None, accuracy: str) -> Model:
    """The model in the type that `load` with ``dtype="auto"`` takes."""
    check_tolerance("onnx.load", tolerance)
    if samples is None:
        raise ValueError(
            'onnx.load: dtype="auto" measures times and errors on samples: give it inputs like those that the model is '
            "for, samples={name: array}"
        )
    options: dict[str, Any] = {"threads": threads, "accuracy": accuracy}
    with progress.shown("choosing a type"):
        real = Candidate("float32", Model(graph_of(model), **options), 0.0)
        runs = runs_of(real.model.graph.inputs, samples)
        candidates = [real, *_narrow(model, real.model, runs, options), *_integer(model, samples, tolerance, options)]
        able = [each for each in candidates if each.error <= tolerance]
        progress.step("times")
        seconds = dict(zip((each.dtype for each in able), seconds_of([each.model for each in able], runs[0])))
    paying = [each for each in able if each is real or seconds[each.dtype] < PAYS * seconds[real.dtype]]
    best = min(paying, key=lambda each: seconds[each.dtype])
    told = (
        f"{each.dtype} {1e3 * seconds[each.dtype]:.3g} ms, error {each.error:.1e}" if each.dtype in seconds
        else f"{each.dtype} error {each.error:.1e}, too large"
        for each in candidates
    )  # fmt: skip
    best.model.notes = (f"type: {best.dtype}, by measurement: {'; '.join(told)}",)
    return best.model


def _narrow(model: Any, real: Model, runs: Sequence[Inputs], options: dict[str, Any]) -> Iterator[Candidate]:
    """The model in the real types that are narrower than float32."""
    wanted = [real.run(inputs) for inputs in runs]
    for dtype in DTYPES[1:]:
        progress.step(f"the error in {dtype}")
        narrow = Model(graph_of(model), dtype=dtype, **options)
        yield Candidate(dtype, narrow, error_of((narrow.run(inputs), want) for inputs, want in zip(runs, wanted)))


def _integer(model: Any, samples: Any, tolerance: float, options: dict[str, Any]) -> Iterator[Candidate]:
    """The model in int8, as far as the tolerance lets it."""
    try:
        quantized = quantize(model, samples, tolerance=tolerance, threads=options["threads"])
    except NothingToQuantize:
        return
    if any(layer.dtype == "int8" for layer in quantized.layers):
        yield Candidate("int8", Model(graph_of(quantized.model), **options), quantized.error)
