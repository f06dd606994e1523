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
MAX_BYTES = 1 << 35  # of what iterations leave


class Inside:
    """What is done with graphs inside of nodes, by modules that know operators, and say so when they are imported."""

    infer: Callable[..., dict[str, Known]]  # `shapes.infer`
    model: Callable[..., Any]  # `model.Model`


inside = Inside()


# ---- bodies


def _given(body: Body, inputs: Sequence[Known | None], captured: Mapping[str, Known]) -> dict[str, Known]:
    """By name, what is known of the inputs and the captured tensors of a body."""
    if len(inputs) != len(body.inputs):
        raise ValueError(f"a body of {len(body.inputs)} inputs, given {len(inputs)}")
    own = {name: required(x) for (name, _), x in zip(body.inputs, inputs)}
    return {**own, **{name: captured[name] for name in body.captured}}


def results_of(body: Body, inputs: Sequence[Known | None], captured: Mapping[str, Known], node: Node) -> list[Known]:
    """What is known of the results of a body."""
    given = _given(body, inputs, captured)
    values = {name: x.value for name, x in given.items() if x.value is not None}
    unknown = {name: x for name, x in given.items() if x.value is None}
    graph = body.graph({name: TensorType(x.dtype, x.shape) for name, x in unknown.items()}, values)
    try:
        known = inside.infer(graph, {name: x.shape for name, x in unknown.items()})
    except DataDependent as error:
        raise run_first(node, str(error)) from error
    return [known[name] for name in body.outputs]


def run_first(node: Node, why: str) -> DataDependent:
    """What to raise where only a run of a node tells the shapes of its results."""
    return DataDependent(f"{node}: the shapes of its results depend on data: {why}", node.present_inputs()[0], node)


def captured_by(node: Node, inputs: Sequence[Any]) -> dict[str, Any]:
    """By their names in the bodies, the tensors that a node's bodies read from around it."""
    names = node.attributes["captured"]
    return dict(zip(names, inputs[len(inputs) - len(names) :]))


def _computed(body: Body, given: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> list[np.ndarray]:
    """The results of a body."""
    options = {name: attributes[name] for name in ("accuracy", "threads") if name in attributes}
    types = {name: TensorType(value.dtype, (name,) * value.ndim) for name, value in given.items()}
    key = tuple(types.items()), tuple(options.items())
    model = body.models.get(key)
    if model is None:
        model = body.models[key] = inside.model(body.graph(types), **options)
    found = model.run(given)
    return [found[name] for name in body.outputs]


# ---- branches


def branch_of(node: Node, inputs: Sequence[Known | None]) -> Body:
    """The branch that is taken; DataDependent if the condition is not known."""
    condition = required(inputs[0])
    if condition.value is None:
        raise DataDependent(f"{node}: which branch is taken depends on {node.inputs[0]!r}", node.inputs[0])
    if condition.value.size != 1:
        raise ValueError(f"a condition of shape {condition.shape}, expected a single one")
    return node.attributes["then_branch" if condition.value.item() else "else_branch"]


def _if_shape(node, inputs):
    found = results_of(branch_of(node, inputs), (), captured_by(node, inputs), node)
    return [(x.dtype, x.shape) for x in found]


@operator("If", shape=_if_shape)
def _if(inputs, attributes):
    captured = dict(zip(attributes["captured"], inputs[1:]))
    body = attributes["then_branch" if np.asarray(inputs[0]).item() else "else_branch"]
    return _computed(body, {name: captured[name] for name in body.captured}, attributes)


# ---- loops


def _of_loop(node: Node, inputs: InputTypes) -> tuple[Body, list[Known], dict[str, Any]]:
    """The body, the tensors that are carried from one iteration to the next, and those captured."""
    body, captured = node.attributes["body"], captured_by(node, inputs)
    carried = [required(x) for x in inputs[2 : len(inputs) - len(captured)]]
    if len(body.inputs) != 2 + len(carried) or len(body.outputs) < 1 + len(carried):
        raise ValueError(f"a body of {len(body.inputs)} inputs and {len(body.outputs)} outputs, {len(carried)} carried")
    return body, carried, captured


def _single(dtype: Any, rank: int | None) -> Known:
    """A number, as a tensor of no or one axis."""
    return Known(np.dtype(dtype), (1,) * (rank or 0))


def _without_value(x: Known) -> Known:
    return Known(x.dtype, x.shape)


def _loop_shape(node, inputs):
    """Where each iteration leaves something, the number of iterations must be known."""
    body, carried, captured = _of_loop(node, inputs)
    carried = [_without_value(x) for x in carried]
    trip, condition = inputs[0], inputs[1]
    counters = [_single(np.int64, body.inputs[0][1]), _single(bool, body.inputs[1][1])]
    done, *found = results_of(body, [*counters, *carried], captured, node)
    for x, y in zip(carried, found):
        if x.dtype != y.dtype:
            raise ValueError(f"a carried tensor of {x.dtype} becomes {y.dtype}")
        if x.shape != y.shape:
            raise run_first(node, f"a carried tensor of shape {x.shape} becomes {y.shape}")
    left = found[len(carried) :]
    types = [(x.dtype, x.shape) for x in carried]
    if not left:
        return types
    goes_on = body.outputs[0] == body.inputs[1][0] or (done.value is not None and bool(done.value.all()))
    starts = condition is None or (condition.value is not None and bool(condition.value.all()))
    if trip is None or trip.value is None or not goes_on or not starts:
        raise run_first(node, "the number of iterations is not known")
    count = max(0, int(trip.value.reshape(-1)[0]))
    return [*types, *((x.dtype, (count, *x.shape)) for x in left)]


@operator("Loop", shape=_loop_shape)
def _loop(inputs, attributes):
    body, names = attributes["body"], attributes["captured"]
    own, around = inputs[: len(inputs) - len(names)], inputs[len(inputs) - len(names) :]
    captured = {name: v for name, v in zip(names, around) if name in body.captured}
    limit, condition, *carried = own
    limit = None if limit is None else int(np.asarray(limit).reshape(-1)[0])
    going = condition is None or bool(np.asarray(condition).all())
    ranks = [rank or 0 for _, rank in body.inputs[:2]]
    left = [[] for _ in body.outputs[1 + len(carried) :]]
    trip, nbytes, of = 0, 0, [name for name, _ in body.inputs]
    while going and (limit is None or trip < limit):
        if trip >= MAX_TRIPS:
            raise ValueError(f"more than {MAX_TRIPS} iterations")
        counters = np.full((1,) * ranks[0], trip, np.int64), np.full((1,) * ranks[1], True)
        done, *found = _computed(body, {**captured, **dict(zip(of, (*counters, *carried)))}, attributes)
        carried = found[: len(carried)]
        for each, value in zip(left, found[len(carried) :]):
            each.append(value)
            nbytes += value.nbytes
        if nbytes > MAX_BYTES:
            raise ValueError(f"iterations that leave more than {MAX_BYTES} bytes")
        going, trip = bool(np.asarray(done).all()), trip + 1
    return [*carried, *(_stacked(each, 0, body, i) for i, each in enumerate(left))]


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
    made = outputs - states
    axes, backward = (attributes.get(k) or [0] * count for k in ("scan_input_axes", "scan_input_directions"))
    to, reverse = (attributes.get(k) or [0] * made for k in ("scan_output_axes", "scan_output_directions"))
    if len(axes) != count or len(backward) != count or len(to) != made or len(reverse) != made:
        raise ValueError(f"axes {axes} and {to}, directions {backward} and {reverse}: {count} sequences in, {made} out")
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
    found = results_of(body, [*map(_without_value, own[:states]), *slices], captured, node)
    for x, y in zip(own[:states], found):
        if x.dtype != y.dtype or x.shape != y.shape:
            raise ValueError(f"a state of {x.dtype} {x.shape} becomes {y.dtype} {y.shape}")
    types = [(x.dtype, x.shape) for x in own[:states]]
    for x, (a, _) in zip(found[states:], written):
        a = normal(int(a), len(x.shape) + 1, "Scan")
        types.append((x.dtype, (*x.shape[:a], length, *x.shape[a:])))
    return types


@operator("Scan", shape=_scan_shape)
def _scan(inputs, attributes):
    body, names = attributes["body"], attributes["captured"]
    own, around = inputs[: len(inputs) - len(names)], inputs[len(inputs) - len(names) :]
    captured = {name: v for name, v in zip(names, around) if name in body.captured}
    states, read, written = _of_scan(attributes, [x.ndim for x in own], len(body.outputs))
    state, of = list(own[:states]), [name for name, _ in body.inputs]
    sequences = [np.flip(x, a) if back else x for x, (a, back) in zip(own[states:], read)]
    length = sequences[0].shape[read[0][0]]
    if any(x.shape[a] != length for x, (a, _) in zip(sequences, read)):
        raise ValueError("sequences of different lengths")
    left = [[] for _ in written]
    for t in range(length):
        slices = [np.ascontiguousarray(np.take(x, t, a)) for x, (a, _) in zip(sequences, read)]
        slices = [y.reshape(()) if x.ndim == 1 else y for x, y in zip(sequences, slices)]
        found = _computed(body, {**captured, **dict(zip(of, (*state, *slices)))}, attributes)
        state = found[:states]
        for each, value in zip(left, found[states:]):
            each.append(value)
    results = []
    for i, (each, (a, back)) in enumerate(zip(left, written)):
        if not each:
            raise Unsupported("a scan of an empty sequence: the shapes of its results are not known")
        results.append(_stacked(each[::-1] if back else each, int(a), body, i))
    return [*state, *results]
