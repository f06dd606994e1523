"""1x1 convolutions of the same tensor are merged where that costs less: the input is read once, and tiles are full.

Their results become parts of one tensor, the outputs of a `Split` that copies nothing (see `concat.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import Graph, Node, fresh
from ..operators import Known
from ..operators.kernels import is_convolution
from ..passes.fold import new_constants
from .costs import STEP_SECONDS, Costs


def merged(graph: Graph, known: dict[str, Known], costs: Costs) -> Graph:
    """The graph with siblings merged into one convolution; the new tensors are added to `known`."""
    families: dict[tuple, list[Node]] = {}
    users = graph.users()
    for node in graph.nodes:
        joined = any(user.op == "Concat" for user in users.get(node.outputs[0], ()))  # it is computed in place there
        if not joined and _is_sibling(node, known):
            families.setdefault((node.inputs[0], *_alike(node)), []).append(node)
    replaced: dict[int, list[Node]] = {}
    gone: set[int] = set()
    constants = dict(graph.constants)
    for family in families.values():
        if len(family) > 1:
            nodes, added = _merged(family, known)
            if _pays(family, nodes[0], known, costs):
                replaced[id(family[0])] = nodes
                constants |= added
                gone.update(map(id, family))
    nodes = [n for node in graph.nodes for n in replaced.get(id(node), [] if id(node) in gone else [node])]
    used = {name for node in nodes for name in node.inputs} | set(graph.outputs)
    return Graph(nodes, graph.inputs, graph.outputs, {k: v for k, v in constants.items() if k in used})


def _is_sibling(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether a node is a convolution of one tap, without padding, groups or a residual."""
    if node.op != "Conv" or "integers" in node.attributes or len(node.inputs) > 3 or not is_convolution(node, known):
        return False
    activation = node.attributes.get("activation", "")
    if isinstance(activation, list) or any(isinstance(part, np.ndarray) for part in activation):  # numbers per channel
        return False
    a, taps = node.attributes, known[node.inputs[1]].shape[2:]
    padded = any(a.get("pads", ())) or a.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    return set(taps) == {1} and a.get("group", 1) == 1 and not padded and known[node.outputs[0]].stored is None


def _alike(node: Node) -> tuple:
    """What siblings share besides their input."""
    return tuple(node.attributes.get("strides", ())), node.attributes.get("activation")


def _merged(family: Sequence[Node], known: dict[str, Known]) -> tuple[list[Node], dict[str, np.ndarray]]:
    """The merged convolution, the `Split` of its result, and their constants."""
    sizes = [known[node.outputs[0]].shape[1] for node in family]
    biases = [known[n.inputs[2]].value if n.input(2) else np.zeros(size, np.float32) for n, size in zip(family, sizes)]
    w, b = (np.concatenate([v for v in values if v is not None])
            for values in ([known[n.inputs[1]].value for n in family], biases))  # fmt: skip
    added: dict[str, np.ndarray] = {}
    names = new_constants(family[0].outputs[0], {"filters": w, "biases": b}, known, added)
    whole, first = fresh(f"{family[0].outputs[0]}.and.siblings", known), known[family[0].outputs[0]]
    known[whole] = first._replace(shape=(first.shape[0], sum(sizes), *first.shape[2:]))
    conv = family[0].with_(
        inputs=(family[0].inputs[0], *names), outputs=(whole,), name=f"{family[0].name} and siblings"
    )
    parts = tuple(node.outputs[0] for node in family)
    return [conv, Node("Split", (whole,), parts, {"axis": 1, "split": sizes}, f"{whole} of siblings")], added


def _pays(family: Sequence[Node], one: Node, known: Mapping[str, Known], costs: Costs) -> bool:
    """Whether the merged convolution costs less than all of them."""
    separate = sum(costs.convolution(node, known).min() + STEP_SECONDS for node in family)
    return costs.convolution(one, known).min() + STEP_SECONDS < separate
