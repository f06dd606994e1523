"""An ONNX model of float32 as one of int8, by onnxruntime's quantiser: QuantizeLinear and DequantizeLinear around all.

Activations are uint8, filters int8 with a scale for each output channel; ranges are those of random inputs, which is
enough for timing.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

OPSET = 13  # the first with scales per axis; what the networks at hand consist of means the same in it
ROUNDS = 2  # of calibration


def quantised(path: Path, to: Path, inputs: Mapping[str, Sequence[int]]) -> Path:
    """Write the model at `path`, which takes tensors of these shapes, into the folder `to`; the file."""
    # in a process of its own: what it takes must not count as the memory of the processes that are compared
    process = multiprocessing.get_context("spawn").Process(target=_quantise, args=(path, to, inputs))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{path}: onnxruntime's quantiser has failed, see its message above")
    return to / f"{path.stem}.int8.onnx"


def _quantise(path: Path, to: Path, shapes: Mapping[str, Sequence[int]]) -> None:
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Random(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(range(ROUNDS))

        def get_next(self) -> dict[str, np.ndarray] | None:
            seed = next(self.left, None)
            if seed is None:
                return None
            rng = np.random.default_rng(seed)
            return {name: rng.uniform(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(to / f"{path.stem}.folded.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    model = onnx.load(options.optimized_model_filepath)
    model.ir_version = 8
    version = max(of.version for of in model.opset_import if of.domain in ("", "ai.onnx"))
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", max(OPSET, version)))
    inputs = [i for i in model.graph.input if i.name in shapes]  # not what initialises
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    onnx.save(model, options.optimized_model_filepath)
    quantize_static(
        options.optimized_model_filepath, str(to / f"{path.stem}.int8.onnx"), Random(), quant_format=QuantFormat.QDQ,
        per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
