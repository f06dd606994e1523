"""Three opinions about a model: layoutkit's, of onnx's reference evaluator, and where these differ onnxruntime's.

Each node is run alone, on what was found right before it; then the model as a whole. Results may differ by a
stated share of their largest number, and by what the reference itself moves when all that is rounded is rounded
otherwise, at random: sums that cancel and poles of functions are as exact as they can be.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import layoutkit as lk
from layoutkit.graph.model import Model
from layoutkit.graph.onnx import graph_of

from .build import EXACT, STEPS, Tensor, reads, schema, value_of
from .rules import Differing, reason

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2}  # of the largest number of a result
ROUNDING = {"float64": 1e-13, "float32": 1e-6, "float16": 1e-3}  # how far the reference is moved
CONSTANTS = 1e-7  # the same in float64, where attributes or constants of the definition are float32
BY_DEFINITION = {"Erf", "Gelu", "HardSwish", "Resize"}
MOVED = 8  # times what it moved is allowed
DECLARED = {"MaxPool", "AveragePool", "LpPool", "ConvTranspose"}  # whose shapes onnx infers wrongly, of SAME and VALID
UNSTEADY = 0.05  # of the largest number: what may move so far is no basis for more
ROUNDS = 2
Arrays = dict[str, np.ndarray]


class Case(NamedTuple):
    """A model, the numbers that it is run on, and options of `layoutkit.onnx.load`."""

    model: onnx.ModelProto
    inputs: Arrays
    options: Mapping[str, Any]
    layouts: str | None


@dataclass
class Verdict:
    """What is wrong, and what was tried."""

    wrong: list[str] = field(default_factory=list)
    operators: Counter = field(default_factory=Counter)
    explained: Counter = field(default_factory=Counter)


def judge(case: Case) -> Verdict:
    """Run a model by all."""
    verdict = Verdict()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _judged(case, verdict)
    return verdict


def _judged(case: Case, verdict: Verdict) -> None:
    graph = case.model.graph
    held = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    values: Arrays = {**held, **case.inputs}
    declared = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in graph.value_info}
    constants = set(held)
    moved = [dict(values) for _ in range(ROUNDS)]
    rng, wide = np.random.default_rng(0), 0.0
    for node in graph.node:
        verdict.operators[node.op_type] += 1
        given = {name: values[name] for name in reads(node)}
        alone = single(case.model, node, given, constants)
        want = opinion(by_reference, alone, given)
        got = opinion(by_layoutkit, alone, given, case.options, None)
        if node.op_type == "Constant":
            constants.update(node.output)
        rounded = node.op_type not in EXACT | STEPS
        own = _constants_of(node, case.model.opset_import[0].version)
        wide = max(wide, own)
        again = [_again(alone, node, m, rng if rounded else None, isinstance(want, str), case, own) for m in moved]
        apart = difference(node.output, got, want, again, own)
        if apart:
            other = opinion(by_onnxruntime, alone, given)
            against = difference(node.output, got, other, again, own)
            why = reason(Differing(node, case.model.opset_import[0].version, given, got, want, other, against))
            if why is None:
                third = f"onnxruntime {f'says otherwise: {against}' if against else 'agrees with layoutkit'}"
                verdict.wrong.append(f"{node.op_type} {node.name}: {apart}; {third}\n{onnx.printer.to_text(alone)}")
                return
            verdict.explained[why] += 1
        want = got  # right as it is: what follows is held against what it makes of this
        if isinstance(want, str):  # nobody has a result
            return
        if any(name in declared and declared[name] != value.shape for name, value in want.items()):
            if node.op_type not in DECLARED:
                verdict.wrong.append(f"{node.op_type} {node.name}: other shapes than onnx's rules say")
            else:
                verdict.explained["onnx's rule of shapes contradicts its specification: judged up to there"] += 1
            return
        if _unsteady(want, again):
            verdict.explained["numbers that any rounding changes: the model is judged up to there"] += 1
            return
        values.update(want)
        for m, found in zip(moved, again):
            m.update(found if not isinstance(found, str) else want)
    outputs = [v.name for v in graph.output]
    got = opinion(by_layoutkit, case.model, case.inputs, case.options, case.layouts)
    want = {name: values[name] for name in outputs}
    apart = difference(outputs, got, want, [{n: m[n] for n in outputs} for m in moved], wide, len(graph.node))
    if apart:
        verdict.wrong.append(f"the whole, though each node alone is right: {apart}")


def _constants_of(node: onnx.NodeProto, opset: int) -> float:
    """How exact a node's own constants are, where numbers are float64."""
    attributes = schema(node.op_type, opset).attributes.values()
    single = any(a.type == onnx.defs.OpSchema.AttrType.FLOAT for a in attributes)
    return CONSTANTS if single or node.op_type in BY_DEFINITION else ROUNDING["float64"]


def _again(
    alone, node, values: Arrays, rng: np.random.Generator | None, refuses: bool, case: Case, wide: float
) -> Arrays | str:
    """The outputs of a node when what it reads and makes is rounded otherwise."""
    given = {name: values[name] if rng is None else _rounded(values[name], rng, wide) for name in reads(node)}
    if refuses:
        found = opinion(by_layoutkit, alone, given, case.options, None)
    else:
        found = opinion(by_reference, alone, given)
    if rng is None or isinstance(found, str):
        return found
    return {name: _rounded(value, rng, wide) for name, value in found.items()}


def _rounded(value: np.ndarray, rng: np.random.Generator, wide: float) -> np.ndarray:
    if value.dtype.name not in ROUNDING:
        return value
    by = (wide if value.dtype == np.float64 else ROUNDING[value.dtype.name]) * rng.choice([-1, 1], value.shape)
    return np.asarray(value + by * np.abs(value.astype(np.float64))).astype(value.dtype)


# ---- opinions


def single(model: onnx.ModelProto, node: onnx.NodeProto, given: Arrays, constants: set[str]) -> onnx.ModelProto:
    """A model of one node."""
    inputs = [value_of(Tensor(n, v.dtype, v.shape)) for n, v in given.items() if n not in constants]
    tensors = [numpy_helper.from_array(v, n) for n, v in given.items() if n in constants]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "g", inputs, outputs, tensors)
    made = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        return onnx.shape_inference.infer_shapes(made, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return made


def opinion(run, model: onnx.ModelProto, given: Arrays, *more: Any) -> Arrays | str:
    """Outputs by name, or how they are refused."""
    try:
        return run(model, {v.name: given[v.name].copy() for v in model.graph.input}, *more)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def by_reference(model: onnx.ModelProto, given: Arrays) -> Arrays:
    """By the implementation of a later version where it lacks this one's, as of DequantizeLinear, which is the same."""
    names = [v.name for v in model.graph.output]
    try:
        evaluator = ReferenceEvaluator(model)
    except RuntimeError as error:
        later = re.search(r"version \d+, found (\d+)", str(error))
        if later is None:
            raise
        newer = onnx.ModelProto()
        newer.CopyFrom(model)
        newer.opset_import[0].version = int(later[1])
        evaluator = ReferenceEvaluator(newer)
    return {n: np.asarray(v) for n, v in zip(names, evaluator.run(names, given))}


def by_layoutkit(model: onnx.ModelProto, given: Arrays, options: Mapping[str, Any], layouts: str | None) -> Arrays:
    if layouts is None:
        return lk.onnx.load(model, **options).run(given)
    return Model(graph_of(model), layouts=layouts, **options).run(given)


@cache
def _onnxruntime():
    try:
        import onnxruntime
    except ImportError:
        return None
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime, options


def by_onnxruntime(model: onnx.ModelProto, given: Arrays) -> Arrays:
    found = _onnxruntime()
    if found is None:
        raise ImportError("onnxruntime is not installed")
    package, options = found
    session = package.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [v.name for v in model.graph.output]
    return dict(zip(names, session.run(names, given)))


# ---- differences


def difference(
    names: Sequence[str], got: Arrays | str, want: Arrays | str, again: Sequence[Arrays | str],
    wide: float, steps: int = 1,
) -> str:  # fmt: skip
    """What is wrong with results, "" if nothing; `wide`: how exact constants of float64 are."""
    if isinstance(got, str) or isinstance(want, str):
        return (
            ""
            if isinstance(got, str) and isinstance(want, str) and _in_words(got)
            else f"{_told(got)}, expected {_told(want)}"
        )
    for name in names:
        if name:
            others = [m[name] for m in again if not isinstance(m, str)]
            wrong = _apart(got[name], want[name], others, wide, steps)
            if wrong:
                return f"{name}: {wrong}"
    return ""


def _unsteady(want: Arrays, again: Sequence[Arrays | str]) -> bool:
    """Whether results are mostly of what was rounded: small differences of large numbers, quotients of these."""
    for name, value in want.items():
        if value.dtype.kind == "f" and value.size:
            others = [m[name].astype(np.float64) for m in again if not isinstance(m, str)]
            others = [m for m in others if m.shape == value.shape]  # the reference's may be wrong
            moved = max(
                (np.nanmax(np.abs(m - value), initial=0, where=np.isfinite(m - value)) for m in others), default=0
            )
            if moved > UNSTEADY * np.abs(value[np.isfinite(value)]).max(initial=0):
                return True
    return False


def _in_words(told: str) -> bool:
    """Whether a refusal is one that is promised."""
    return told.startswith(("ValueError", "TypeError", "Unsupported", "DataDependent"))


def _told(found: Arrays | str) -> str:
    return found if isinstance(found, str) else "a result"


def _apart(got: np.ndarray, want: np.ndarray, others: Sequence[np.ndarray], wide: float, steps: int) -> str:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
    if want.dtype.kind != "f":
        wrong = got != want
    else:
        most, tolerance = float(np.finfo(want.dtype).max), TOLERANCE[want.dtype.name] * min(steps, 4)
        tolerance = max(tolerance, 10 * wide) if want.dtype == np.float64 else tolerance
        a, b = (np.clip(x.astype(np.float64), -most, most) for x in (got, want))
        others = [np.clip(x.astype(np.float64), -most, most) for x in others if x.shape == want.shape]
        finite = np.isfinite(want)
        slack, steady = 0.0, np.ones(want.shape, bool)
        for other in others:
            steady &= (np.isfinite(other) & (abs(other) < most)) == finite  # else it is about to overflow
            slack = max(slack, float(np.abs(other - b)[steady & finite].max(initial=0)))
        scale = float(np.abs(b[finite]).max(initial=0))
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= tolerance * (np.abs(b) + scale) + MOVED * slack
        infinite = np.isinf(got) & np.isinf(want) & (steps > 1)  # 1 / 0 of a sum that may be +0 or -0
        wrong = ~(near | infinite | (np.isnan(a) & np.isnan(b))) & steady
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {want.size} differ, at {at} {got[at]}, expected {want[at]}"
