"""Random ONNX models, each a function of (seed, index) alone, and who is right about what they compute.

Everything that the operators accept is drawn: `single`, `layers`, `elements`, `detectors`, `control` and `attention`
have a function for each operator, `build` asks onnx what fits, `judge` runs the model and holds it against onnx's
reference evaluator and onnxruntime, `rules` says which differences have a reason.
"""

from __future__ import annotations

import numpy as np
import onnx

from . import attention, control, detectors, elements, layers, single
from .build import Build, Dropped, schema
from .judge import Case, Verdict, judge

__all__ = ["DRAWS", "Case", "Verdict", "case", "draw", "judge"]

DRAWS = {
    **single.DRAWS, **layers.DRAWS, **elements.DRAWS, **detectors.DRAWS, **control.DRAWS, **attention.DRAWS
}  # fmt: skip
OFTEN = ["Conv", "Conv", "block", "block", "quantised layers", "Concat", "Split", "Add", "Resize", "Slice", "MaxPool",
         "AveragePool"]  # fmt: skip
TRIES = 40  # draws of nodes for a model


def draw(seed: int, index: int) -> Case:
    """A model, the numbers that it is run on, and how."""
    rng = np.random.default_rng((seed, index))
    b = Build(rng)
    wanted = 1 if b.special else b.int(1, 6)
    for _ in range(TRIES):
        if len(b.nodes) >= wanted:
            break
        op = b.one(single.ALONE if b.special else [*DRAWS, *OFTEN])
        grow(b, op)
    if not any(node.op_type != "Constant" for node in b.nodes):
        b.add("Identity", b.new("float32", (2, 3)))
    layouts = b.one([None, None, None, "plain", "channels last", "blocked"])
    accuracy = "strict" if b.strict else b.one(["standard", "standard", "strict", "reproducible"])
    return Case(b.model(), b.inputs, dict(threads=b.int(1, 2), accuracy=accuracy), layouts)


def grow(b: Build, op: str) -> bool:
    """Draw a node, or some; whether onnx takes them."""
    if op in DRAWS and (schema(op, b.opset) or " " in op or op.islower()):
        try:
            DRAWS[op](b, op)
        except Dropped:
            return False
        return True
    return False


def case(seed: int, index: int) -> Verdict:
    """Draw a model and judge it."""
    return judge(draw(seed, index))


def text(model: onnx.ModelProto) -> str:
    """A model as text."""
    return onnx.printer.to_text(model)
