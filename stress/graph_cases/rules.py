"""Which differences have a reason that is known. All others are wrong.

Where the reference evaluator has no result, onnxruntime must have ours, or none. Where layoutkit refuses in words what
the reference takes, onnxruntime must refuse it, too, and not for a kernel that it lacks. Where the reference has
another result, a rule says in which cases it does not do what ONNX's specification says; onnxruntime must still have
ours, or none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnx

Results = dict[str, np.ndarray] | str
REFUSALS = ("Fail:", "InvalidArgument:", "InvalidGraph:", "RuntimeException:")  # of onnxruntime; not: NotImplemented


class Differing(NamedTuple):
    """A node of which layoutkit and the reference evaluator say different things, results or refusals."""

    node: onnx.NodeProto
    opset: int
    given: dict[str, np.ndarray]
    ours: Results
    reference: Results
    onnxruntime: Results
    against: str  # how onnxruntime differs from layoutkit, "" if it does not

    def input(self, i: int) -> np.ndarray:
        """What the node reads."""
        return self.given[self.node.input[i]]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value; texts as str."""
        for a in self.node.attribute:
            if a.name == name:
                value = onnx.helper.get_attribute_value(a)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def apart(self, least: float = 1e-300) -> float:
        """The largest difference, as a share of the largest number, or of `least` if that is more."""
        (name, *_) = self.node.output
        if isinstance(self.reference, str) or isinstance(self.ours, str):
            return np.inf
        a, b = (np.asarray(x[name], np.float64) for x in (self.ours, self.reference))
        return float(np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), least))


class Rule(NamedTuple):
    """Operators, when the rule holds of one, and why the reference is not followed; `alone`: nor onnxruntime."""

    operators: str
    holds: Callable[[Differing], bool]
    why: str
    alone: bool = False


def _padded(d: Differing) -> bool:
    return d.attribute("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or any(d.attribute("pads", [0]))


def _windows(d: Differing) -> bool:
    return bool(d.attribute("ceil_mode")) or _padded(d) or "dilations" in {a.name for a in d.node.attribute}


def _longer(d: Differing) -> bool:
    """Whether windows of SAME are shorter than strides."""
    kernel = d.attribute("kernel_shape")
    ones = [1] * len(kernel)
    strides, dilations = d.attribute("strides", ones), d.attribute("dilations", ones)
    shorter = any(s > e * (k - 1) + 1 for k, s, e in zip(kernel, strides, dilations))
    return shorter and d.attribute("auto_pad", "").startswith("SAME")


def _nearly(d: Differing) -> bool:
    """Whether an extent times a scale is nearly whole."""
    scales = [x for x in d.given.values() if x.dtype == np.float32 and x.shape == (d.input(0).ndim,)]
    told = d.attribute("scales", scales[-1] if scales else [])
    return any(0 < abs(n * s - round(n * s)) < 1e-5 for n, s in zip(d.input(0).shape, np.asarray(told, float)))


def _past(d: Differing) -> bool:
    """Whether a reduction of all would be past the limits of its integers."""
    x = d.input(0)
    if x.dtype.kind not in "iu":
        return False
    numbers, op = np.abs(x.astype(float)), d.node.op_type
    most = numbers.prod() if op == "ReduceProd" else (numbers ** (2 if op == "ReduceSumSquare" else 1)).sum()
    return bool(most > np.iinfo(x.dtype).max)


def _zero_among_many(d: Differing) -> bool:
    """Whether a product has a factor of 0 and finite others that could overflow before they meet it."""
    x = d.input(0)
    if x.dtype.kind != "f" or not np.isfinite(x).all() or x.all():
        return False
    factors = np.abs(x[x != 0].astype(float))
    return bool(np.log2(np.maximum(factors, 1)).sum() >= np.finfo(x.dtype).maxexp)


def _dilated(d: Differing) -> bool:
    return max(d.attribute("dilations", [1])) > 1


def _ignored(d: Differing) -> bool:
    """Whether a recurrent operator has something that the reference does not look at."""
    told = {a.name for a in d.node.attribute}
    return bool(told & {"clip", "activations", "input_forget"}) or (len(d.node.input) > 4 and bool(d.node.input[4]))


WRONG = (
    Rule("Loop", lambda d: len(d.node.output) > 1 or not d.node.input[1],
         "the reference joins what iterations leave along an axis that is there, and ends where no condition is given"),
    Rule("LSTM GRU RNN", _ignored, "the reference ignores clip, activations, input_forget and sequence_lens"),
    Rule("Softmax LogSoftmax Hardmax", lambda d: d.opset < 13,
         "the reference knows one axis only; before version 13 all from it on are one"),
    Rule("LogSoftmax", lambda d: True, "the reference takes logarithms of what has become 0"),
    Rule("Softmax LogSoftmax", lambda d: d.opset < 13 and np.isnan(d.input(0)).any(),
         "with a NaN in it, a sum is NaN; onnxruntime's logarithms leave it out, and the reference has other sums",
         alone=True),
    Rule("MeanVarianceNormalization", lambda d: True, "the reference's variance is a difference of large numbers"),
    Rule("LayerNormalization", lambda d: d.input(0).dtype == np.float16, "the reference's sums overflow in float16"),
    Rule("BatchNormalization", lambda d: d.opset < 14, "the reference trains before version 14"),
    Rule("GlobalMaxPool", lambda d: d.input(0).ndim != 4, "the reference keeps two axes, whatever there are"),
    Rule("LRN", lambda d: True, "the reference sums as many channels as there are images"),
    Rule("LpNormalization", lambda d: d.attribute("p", 2) == 1, "the reference sums numbers, not their absolutes"),
    Rule("LpPool", _padded, "the reference scales a mean of what lies inside by the whole window"),
    Rule("MaxPool AveragePool LpPool", _windows,
         "the reference places windows otherwise than the formulas for auto_pad, ceil_mode and dilations"),
    Rule("Unique", lambda d: not d.attribute("sorted", 1), "the reference's order is not that of the first ones"),
    Rule("GridSample", lambda d: d.input(0).dtype == np.float64 and d.apart() < 1e-4,
         "the reference computes places in float32"),
    Rule("GridSample", lambda d: "cubic" in d.attribute("mode", "") and d.attribute("padding_mode") == "border",
         "the reference clamps the place, not the pixels around it, of cubic windows"),
    Rule("ConvTranspose", lambda d: isinstance(d.ours, str) and "has no output" in d.ours,
         "results without elements are refused, where padding leaves none"),
    Rule("DynamicQuantizeLinear", lambda d: not np.any(d.input(0)),
         "the reference takes a scale of 1/255 for zeros alone"),
    Rule("RoiAlign", lambda d: d.opset < 16, "the reference moves coordinates by half a pixel before version 16, too"),
    Rule("QLinearConv QLinearMatMul", lambda d: True, "the reference adds the zero point before it rounds: other ties"),
    Rule("BlackmanWindow HammingWindow HannWindow", lambda d: d.apart(least=1) < 1e-6,
         "sums of cosines that cancel: what is left is their rounding"),
    Rule("QuantizeLinear", lambda d: not (np.abs(d.input(0)) < 1e6).all(),
         "the reference does not saturate what is past 32 bits"),
    Rule("Conv ConvTranspose", lambda d: _dilated(d) and not np.isfinite(d.input(0)).all(),
         "the reference multiplies Inf by zeros between the taps of filters"),
    Rule("Unsqueeze Squeeze", lambda d: d.opset < 13, "the reference takes axes one by one, in the order given"),
    Rule("Erf Gelu", lambda d: d.input(0).dtype.kind in "iu" or d.apart(least=np.abs(d.input(0)).max(initial=1)) < 1e-6,
         "the reference's error function is a polynomial"),
    Rule("ConvTranspose", lambda d: d.attribute("group", 1) > 1 and len(d.node.input) > 2,
         "the reference gives all groups the bias of the first"),
    Rule("ConvTranspose", lambda d: d.attribute("auto_pad", "").startswith("SAME") or d.attribute("output_shape"),
         "onnxruntime has no negative pads, which ONNX's formula gives where the result is larger", alone=True),
    Rule("MaxPool AveragePool LpPool", _longer,
         "pads of ONNX's formula are negative: they crop both sides alike; onnxruntime rounds half of them towards 0, "
         "the reference cannot", alone=True),
    Rule("MaxPool AveragePool LpPool", lambda d: d.attribute("auto_pad", "").startswith("SAME") and _dilated(d),
         "onnxruntime pads SAME as if there were no dilations", alone=True),
    Rule("MaxPool AveragePool LpPool", lambda d: d.attribute("auto_pad") == "VALID" and d.attribute("ceil_mode"),
         "onnxruntime lets windows of VALID reach past the end, ONNX's formula does not", alone=True),
    Rule("MaxPool", lambda d: len(d.node.output) > 1,
         "indices of the reference are within an image, or ignore storage_order"),
    Rule("LpPool AveragePool", lambda d: np.isnan(d.input(0)).any(),
         "the reference leaves NaN out, as it does padding"),
    Rule("MaxPool GlobalMaxPool", lambda d: np.isnan(d.input(0)).any(),
         "the largest of numbers and NaN is NaN; onnxruntime leaves NaN out where compilers let it", alone=True),
    Rule("Resize Upsample", lambda d: not np.isfinite(d.input(0)).all(),
         "Inf times weights that are 0, which not all compute", alone=True),
    Rule("Resize", lambda d: d.attribute("coordinate_transformation_mode") == "pytorch_half_pixel",
         "the reference puts a single result at -0.5, the specification at 0"),
    Rule("Resize Upsample", lambda d: d.input(0).dtype.kind in "iu",
         "between integers the reference rounds, as layoutkit; onnxruntime cuts off", alone=True),
    Rule("Resize", lambda d: d.input(0).dtype == np.float64 and d.apart() < 1e-6,
         "scales are float32, and so are coordinates in the reference"),
    Rule("Resize Upsample", _nearly,
         "extents times scales are whole in onnxruntime's float32, and just below in exact numbers", alone=True),
    Rule("Slice", lambda d: len(d.node.input) > 4 and (d.input(4) < 0).any(),
         "backwards, the specification clamps starts to 0, numpy, and so the reference, to -1"),
    Rule("Shape", lambda d: True, "the reference does not clamp start and end"),
    Rule("ReduceSumSquare ReduceSum ReduceProd ReduceL1", lambda d: d.input(0).dtype.kind in "iu",
         "the reference sums small integers in 64 bits and leaves them so"),
    Rule("ReduceSumSquare ReduceSum ReduceProd ReduceL1 ReduceMean", _past, "past the limits of integers", alone=True),
    Rule("ReduceProd", _zero_among_many, "a product that overflows times 0 is NaN or 0, by the order of its factors",
         alone=True),
    Rule("TopK", lambda d: isinstance(d.ours, str) and " largest of " in d.ours, "more than there is are refused"),
    Rule("ReduceLogSumExp", lambda d: not np.isfinite(d.input(0)).all(), "the reference subtracts Inf from Inf"),
    Rule("HardSwish Swish Gelu Mish Softsign", lambda d: np.isinf(d.input(0)).any(),
         "of Inf the result is the limit here, where the definition computes Inf times 0 or Inf over Inf", alone=True),
    Rule("PRelu", lambda d: not all(np.isfinite(x).all() for x in d.given.values()),
         "the reference multiplies by slopes on both sides of 0: an Inf and 0 are NaN"),
)  # fmt: skip


def reason(d: Differing) -> str | None:
    """Why layoutkit may differ; None if nothing says so."""
    silent = isinstance(d.onnxruntime, str)
    agrees = silent or not d.against
    if isinstance(d.ours, str):
        if "does not fit into" in d.ours and d.ours.startswith("ValueError"):
            return "windows that are longer than what they move over are refused, by others in some cases"
        agrees = silent and d.ours.startswith("ValueError")
        if agrees and d.onnxruntime.startswith(REFUSALS):
            return "layoutkit and onnxruntime refuse what the reference takes"
    elif isinstance(d.reference, str) and agrees:
        return "nobody else has a result" if silent else "the reference has no result, onnxruntime has ours"
    for rule in WRONG:
        if d.node.op_type in rule.operators.split() and (agrees or rule.alone) and rule.holds(d):
            return f"{d.node.op_type}: {rule.why}"
    return None
