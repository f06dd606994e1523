"""Graphs inside of nodes: branches and loops.

A branch is chosen once its condition is known, and becomes part of the graph (`passes/inline.py`). What loops repeat is
a model of its own, planned for the shapes of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir import Body, Node, TensorType
from .base import DataDependent, InputTypes, Known, Unsupported, normal, operator, required

MAX_TRIPS = 1 << 24  # of a loop
MAX_BYTES = 1 << 35  # of the stacked results of iterations


class Hooks:
    """Functions of modules that import this one, which set them here: a body is run as a model is."""

    infer: Callable[..., dict[str, Known]]  # `shapes.infer`
    model: Callable[..., Any]  # `model.Model`


hooks = Hooks()


# ---- bodies


def _tensors_of(body: Body, inputs: Sequence[Known | None], captured: Mapping[str, Known]) -> dict[str, Known]:
    """By name, the inputs and the captured tensors of a body."""
    if len(inputs) != len(body.inputs):
        raise ValueError(f"a body of {len(body.inputs)} inputs, given {len(inputs)}")
    own = {name: required(x) for (name, _), x in zip(body.inputs, inputs)}
    return {**own, **{name: captured[name] for name in body.captured}}


def results_of(body: Body, inputs: Sequence[Known | None], captured: Mapping[str, Known], node: Node) -> list[Known]:
    """What is known of the results of a body."""
    tensors = _tensors_of(body, inputs, captured)
    values = {name: x.value for name, x in tensors.items() if x.value is not None}
    variable = {name: x for name, x in tensors.items() if x.value is None}
    graph = body.graph({name: TensorType(x.dtype, x.shape) for name, x in variable.items()}, values)
    try:
        known = hooks.infer(graph, {name: x.shape for name, x in variable.items()})
    except DataDependent as error:
        raise run_first(node, str(error)) from error
    return [known[name] for name in body.outputs]


def run_first(node: Node, reason: str) -> DataDependent:
    """The error to raise where the shapes of a node's results are known only once it has run."""
    return DataDependent(f"{node}: the shapes of its results depend on data: {reason}", node.present_inputs()[0], node)


def captured_by(node: Node, inputs: Sequence[Any]) -> dict[str, Any]:
    """By their names in its bodies, the tensors of the graph around a node that these read."""
    names = node.attributes["captured"]
    return dict(zip(names, inputs[len(inputs) - len(names) :]))


def _run_body(body: Body, tensors: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> list[np.ndarray]:
    """The results of a body."""
    options = {name: attributes[name] for name in ("accuracy", "threads") if name in attributes}
    types = {name: TensorType(value.dtype, (name,) * value.ndim) for name, value in tensors.items()}
    key = tuple(types.items()), tuple(options.items())
    model = body.models.get(key)
    if model is None:
        model = body.models[key] = hooks.model(body.graph(types), **options)
    results = model.run(tensors)
    return [results[name] for name in body.outputs]


# ---- branches


def branch_of(node: Node, inputs: Sequence[Known | None]) -> Body:
    """The branch that a constant condition selects; DataDependent if it is not constant."""
    condition = required(inputs[0])
    if condition.value is None:
        raise DataDependent(f"{node}: which branch is taken depends on {node.inputs[0]!r}", node.inputs[0])
    if condition.value.size != 1:
        raise ValueError(f"a condition of shape {condition.shape}, expected a single one")
    return node.attributes["then_branch" if condition.value.item() else "else_branch"]


def _if_shape(node, inputs):
    results = results_of(branch_of(node, inputs), (), captured_by(node, inputs), node)
    return [(x.dtype, x.shape) for x in results]


@operator("If", shape=_if_shape)
def _if(inputs, attributes):
    captured = dict(zip(attributes["captured"], inputs[1:]))
    body = attributes["then_branch" if np.asarray(inputs[0]).item() else "else_branch"]
    return _run_body(body, {name: captured[name] for name in body.captured}, attributes)


# ---- loops


def _of_loop(node: Node, inputs: InputTypes) -> tuple[Body, list[Known], dict[str, Any]]:
    """The body, the tensors that are carried from one iteration to the next, and those captured."""
    body, captured = node.attributes["body"], captured_by(node, inputs)
    carried = [required(x) for x in inputs[2 : len(inputs) - len(captured)]]
    if len(body.inputs) != 2 + len(carried) or len(body.outputs) < 1 + len(carried):
        raise ValueError(f"a body of {len(body.inputs)} inputs and {len(body.outputs)} outputs, {len(carried)} carried")
    return body, carried, captured


def _single(dtype: Any, rank: int | None) -> Known:
    """A tensor of one element, with no or one axis."""
    return Known(np.dtype(dtype), (1,) * (rank or 0))


def _without_value(x: Known) -> Known:
    return Known(x.dtype, x.shape)


def _loop_shape(node, inputs):
    """Of the carried tensors, and of stacked results, for which the number of iterations must be known."""
    body, carried, captured = _of_loop(node, inputs)
    carried = [_without_value(x) for x in carried]
    trip, condition = inputs[0], inputs[1]
    counters = [_single(np.int64, body.inputs[0][1]), _single(bool, body.inputs[1][1])]
    condition_after, *results = results_of(body, [*counters, *carried], captured, node)
    for x, y in zip(carried, results):
        if x.dtype != y.dtype:
            raise ValueError(f"a carried tensor of {x.dtype} becomes {y.dtype}")
        if x.shape != y.shape:
            raise run_first(node, f"a carried tensor of shape {x.shape} becomes {y.shape}")
    stacked = results[len(carried) :]
    types = [(x.dtype, x.shape) for x in carried]
    if not stacked:
        return types
    always = condition_after.value is not None and bool(condition_after.value.all())
    goes_on = body.outputs[0] == body.inputs[1][0] or always
    starts = condition is None or (condition.value is not None and bool(condition.value.all()))
    if trip is None or trip.value is None or not goes_on or not starts:
        raise run_first(node, "the number of iterations is not known")
    count = max(0, int(trip.value.reshape(-1)[0]))
    return [*types, *((x.dtype, (count, *x.shape)) for x in stacked)]


@operator("Loop", shape=_loop_shape)
def _loop(inputs, attributes):
    body, names = attributes["body"], attributes["captured"]
    own, around = inputs[: len(inputs) - len(names)], inputs[len(inputs) - len(names) :]
    captured = {name: v for name, v in zip(names, around) if name in body.captured}
    limit, condition, *carried = own
    limit = None if limit is None else int(np.asarray(limit).reshape(-1)[0])
    goes_on = condition is None or bool(np.asarray(condition).all())
    ranks = [rank or 0 for _, rank in body.inputs[:2]]
    stacks = [[] for _ in body.outputs[1 + len(carried) :]]
    trip, nbytes, input_names = 0, 0, [name for name, _ in body.inputs]
    while goes_on and (limit is None or trip < limit):
        if trip >= MAX_TRIPS:
            raise ValueError(f"more than {MAX_TRIPS} iterations")
        counters = np.full((1,) * ranks[0], trip, np.int64), np.full((1,) * ranks[1], True)
        tensors = {**captured, **dict(zip(input_names, (*counters, *carried)))}
        condition, *results = _run_body(body, tensors, attributes)
        carried = results[: len(carried)]
        for stack, value in zip(stacks, results[len(carried) :]):
            stack.append(value)
            nbytes += value.nbytes
        if nbytes > MAX_BYTES:
            raise ValueError(f"iterations with results of more than {MAX_BYTES} bytes")
        goes_on, trip = bool(np.asarray(condition).all()), trip + 1
    return [*carried, *(_stacked(stack, 0, body, i) for i, stack in enumerate(stacks))]


def _stacked(values: list[np.ndarray], axis: int, body: Body, index: int) -> np.ndarray:
    if not values:
        raise Unsupported(f"output {body.outputs[index - 1]!r} of a loop without iterations: its shape is not known")
    return np.stack(values, axis)


# ---- scans


def _of_scan(attributes: Mapping[str, Any], ranks: Sequence[int], outputs: int):
    """The number of states, and for each sequence its axis and whether it is read, or written, from its end."""
    count = attributes["num_scan_inputs"]
    states = len(ranks) - count
    if not 0 < count <= len(ranks) or outputs < states:
        raise ValueError(f"{count} sequences of {len(ranks)} inputs, {outputs} outputs")
    written = outputs - states
    axes, backward = (attributes.get(k) or [0] * count for k in ("scan_input_axes", "scan_input_directions"))
    to, reverse = (attributes.get(k) or [0] * written for k in ("scan_output_axes", "scan_output_directions"))
    if len(axes) != count or len(backward) != count or len(to) != written or len(reverse) != written:
        raise ValueError(
            f"axes {axes} and {to}, directions {backward} and {reverse}: {count} sequences in, {written} out"
        )
    axes = [normal(int(a), rank, "Scan") for a, rank in zip(axes, ranks[states:])]
    return states, list(zip(axes, backward)), list(zip(to, reverse))


def _scan_shape(node, inputs):
    body, captured = node.attributes["body"], captured_by(node, inputs)
    own = [required(x) for x in inputs[: len(inputs) - len(captured)]]
    states, read, written = _of_scan(node.attributes, [len(x.shape) for x in own], len(body.outputs))
    lengths = {x.shape[a] for x, (a, _) in zip(own[states:], read)}
    if len(lengths) != 1:
        raise ValueError(f"sequences of {sorted(lengths)} elements")
    (length,) = lengths
    slices = [Known(x.dtype, (*x.shape[:a], *x.shape[a + 1 :])) for x, (a, _) in zip(own[states:], read)]
    results = results_of(body, [*map(_without_value, own[:states]), *slices], captured, node)
    for x, y in zip(own[:states], results):
        if x.dtype != y.dtype or x.shape != y.shape:
            raise ValueError(f"a state of {x.dtype} {x.shape} becomes {y.dtype} {y.shape}")
    types = [(x.dtype, x.shape) for x in own[:states]]
    for x, (a, _) in zip(results[states:], written):
        a = normal(int(a), len(x.shape) + 1, "Scan")
        types.append((x.dtype, (*x.shape[:a], length, *x.shape[a:])))
    return types


@operator("Scan", shape=_scan_shape)
def _scan(inputs, attributes):
    body, names = attributes["body"], attributes["captured"]
    own, around = inputs[: len(inputs) - len(names)], inputs[len(inputs) - len(names) :]
    captured = {name: v for name, v in zip(names, around) if name in body.captured}
    states, read, written = _of_scan(attributes, [x.ndim for x in own], len(body.outputs))
    state, input_names = list(own[:states]), [name for name, _ in body.inputs]
    sequences = [np.flip(x, a) if back else x for x, (a, back) in zip(own[states:], read)]
    length = sequences[0].shape[read[0][0]]
    if any(x.shape[a] != length for x, (a, _) in zip(sequences, read)):
        raise ValueError("sequences of different lengths")
    stacks = [[] for _ in written]
    for t in range(length):
        slices = [np.ascontiguousarray(np.take(x, t, a)) for x, (a, _) in zip(sequences, read)]
        slices = [y.reshape(()) if x.ndim == 1 else y for x, y in zip(sequences, slices)]
        outputs = _run_body(body, {**captured, **dict(zip(input_names, (*state, *slices)))}, attributes)
        state = outputs[:states]
        for stack, value in zip(stacks, outputs[states:]):
            stack.append(value)
    sequences = []
    for i, (stack, (a, back)) in enumerate(zip(stacks, written)):
        if not stack:
            raise Unsupported("a scan of an empty sequence: the shapes of its results are not known")
        sequences.append(_stacked(stack[::-1] if back else stack, int(a), body, i))
    return [*state, *sequences]
