"""What was decided about a network, kept for later processes: the layouts, and the order of the candidates of problems.

The file (see `choosing.decision_files`) is of the folded graph: its operators, and all that is known of its tensors.
What filters hold is not part of that: it changes convolutions, and where one is not among those of the file, all is
decided again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...choosing import decision_files
from ...choosing.decision_files import Rankings
from ...convolutions.order import reproducible
from ...reorders.problem import ReorderProblem
from ..ir import Graph
from ..operators import Known
from .costs import Costs
from .plan import Decided

MAX_VALUE_BYTES = 1 << 10  # of a constant whose values count: shapes, axes, indices


class Decisions(NamedTuple):
    """The decisions about a network."""

    decided: Decided
    rankings: Rankings


def file_of(graph: Graph, known: Mapping[str, Known], costs: Costs, layouts: str | None) -> Path | None:
    """The file of a graph that `simplified` made; None where nothing is kept of it."""

    def what() -> Iterator[str]:
        yield f"network {costs.threads} {costs.accuracy} {reproducible()} {costs.dtype} {layouts}"
        yield f"{[*graph.inputs]} {graph.outputs}"
        for node in graph.nodes:
            yield f"{node.op} {node.inputs} {node.outputs} {_written(node.attributes)}"
        for name, of in known.items():
            yield f"{name} {of.dtype.str} {of.shape} {of.stored} {'' if of.value is None else _written(of.value)}"

    try:
        return decision_files.path_of("\n".join(what()))
    except TypeError:  # an attribute of another kind
        return None


def _written(value: Any) -> str:
    """A value of an attribute as a text that is the same in every process."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic, np.dtype)):
        return repr(value)
    if isinstance(value, np.ndarray):
        if value.nbytes > MAX_VALUE_BYTES:
            return f"{value.dtype.str}{value.shape}.."
        return f"{value.dtype.str}{value.shape}{value.tolist() if value.dtype.hasobject else value.tobytes().hex()}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_written(x)}" for key, x in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_written, value))})"
    if is_dataclass(value):  # a graph inside of a node, and its nodes
        return _written({of.name: getattr(value, of.name) for of in fields(value) if of.repr})
    raise TypeError(f"an attribute of type {type(value).__name__}")


def read(path: Path) -> Decisions | None:
    """The decisions in a file; None if there are none."""
    content = decision_files.read(path)
    if content is None:
        return None
    try:
        merged = [bool(each) for each in content["merged"]]
        kinds = [(int(source), int(result)) for source, result in content["kinds"]]
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None
    return Decisions(Decided(merged, kinds), Rankings(content.get("rankings")))


def write(path: Path, decisions: Decisions) -> None:
    """Keep the decisions about a network, if any had to be made."""
    if decisions.rankings.ranked:
        decision_files.write(path, {**decisions.decided._asdict(), "rankings": decisions.rankings.content})


def fits(decisions: Decisions) -> bool:
    """Whether layouts that were kept are those of this network: convolutions are not if filters have other values."""
    return all(isinstance(problem, ReorderProblem) for problem in decisions.rankings.ranked)
