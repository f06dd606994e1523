"""`lk.quantize`: an ONNX model of float32 as one of int8."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

from ...choosing import progress
from ...choosing.threads import check_threads
from ...formats.nearest import none_of
from ..onnx import graph_of
from .calibration import METHODS
from .choosing import Trial, also_slow, errors_alone, wide_layers
from .layers import layers_of
from .preparing import NothingToQuantize, prepared
from .report import LayerReport, Quantized
from .rewriting import quantised
from .samples import runs_of
from .times import seconds_by_node, seconds_of

TOLERANCE = 0.1  # of errors


def quantize(
    model: Any, samples: Any, *, method: str = "min-max", percentile: float = 99.99, tolerance: float = TOLERANCE,
    by_time: bool = False, threads: int | None = None,
) -> Quantized:  # fmt: skip
    """An ONNX model of float32 as one whose convolutions and products multiply int8.

    Filters become int8 with a scale for each output channel and no zero point, what they multiply uint8 with a scale
    and a zero point, biases int32; of products of two tensors, as in attention, both become uint8. So does what costly
    functions of single elements are of, and their results: GELU, for example, is a table then. The result is an
    ordinary ONNX model with QuantizeLinear and DequantizeLinear (opset 13 or newer): `layoutkit.onnx.load` and other
    runtimes multiply its integers.

    Parameters
    ----------
    model : str, path, bytes or onnx.ModelProto
        Batch norms behind convolutions become part of these. Of opsets before 13 what onnx can convert.
    samples : dict of str to array, array, or list of these
        Inputs like those that the model is for, some hundred of them. Of a dict, or of an array where the model has one
        input, the first axis counts samples: it is cut into what the model takes at a time. The items of a list are
        each given to the model as they are.
    method : {"min-max", "percentile", "entropy"}
        The range of a tensor: all numbers that were seen; all but some, by `percentile`; or what loses the least of
        their distribution, by its entropy. Numbers beyond it are represented by its ends.
    percentile : float
        How many of a hundred numbers are in the range, for that method.
    tolerance : float
        Layers stay in float32, those with the largest errors first, until the error of the model is at most this. The
        error of an output y is ``max|y - y32| / max|y32|`` over all samples, where y32 is the output in float32; of
        several outputs, that of the worst. ``numpy.inf``: none stays.
    by_time : bool
        Layers that take longer in int8 on this machine than in float32 stay in float32 as well, if the model is then
        faster and its error still within the tolerance.
    threads : int, optional
        At most this many, for the runs that are measured.

    Returns
    -------
    Quantized
        ``.save(path)`` writes the file. Printed, it tells the error and the type of each layer.

    Raises
    ------
    Unsupported
        Operators that layoutkit does not run: all are named.
    ValueError, TypeError
        No model, one that is quantised already, or has no layer to quantise; samples that it does not take, or that
        are not finite; arguments out of range.
    OSError
        A file of the model that cannot be read.
    """
    check_threads(threads)
    if method not in METHODS:
        raise ValueError(none_of("quantize: method", method, METHODS, {"minmax": "min-max", "kl": "entropy"}))
    if not 0 < percentile <= 100:
        raise ValueError(f"quantize: percentile: expected a number above 0, up to 100, got {percentile}")
    check_tolerance("quantize", tolerance)
    with progress.shown("quantising"):
        graph_of(model)  # names what is wrong with it
        proto = prepared(model)
        layers = layers_of(proto)
        if not layers:
            raise NothingToQuantize(
                "quantize: the model has no convolution or product of float32 to quantise; filters must be constant"
            )
        trial = Trial(proto, layers, runs_of(graph_of(proto).inputs, samples), threads)
        of = trial.ranges(method, percentile)
        alone = errors_alone(trial, of)
        wide, error = wide_layers(trial, of, alone, tolerance)
        if by_time:
            wide, error = also_slow(trial, of, wide, error, tolerance)
        return _reported(trial, quantised(proto, layers, of, wide), wide, alone, error)


def check_tolerance(what: str, tolerance: Any) -> None:
    """TypeError or ValueError unless it is a number from 0 on; `what` was given it."""
    if not isinstance(tolerance, Real):
        raise TypeError(f"{what}: tolerance: expected a number from 0 on, got {tolerance!r}")
    if not float(tolerance) >= 0:
        raise ValueError(f"{what}: tolerance: expected a number from 0 on, got {tolerance}")


def _reported(trial: Trial, proto: Any, wide: Collection[str], alone: Mapping[str, float], error: float) -> Quantized:
    """A quantised model, with what its layers take."""
    progress.step("times")
    model, first = trial.model(proto), trial.runs[0]
    seconds, real = seconds_of([model, trial.real], first)
    by_node, real_by_node = (seconds_by_node(each, first) for each in (model, trial.real))
    reports = [
        LayerReport(layer.op, layer.title, "float32" if layer.y in wide else "int8", alone[layer.y],
                    by_node.get(layer.title), real_by_node.get(layer.title))
        for layer in trial.layers
    ]  # fmt: skip
    return Quantized(proto, reports, error, seconds, real)
