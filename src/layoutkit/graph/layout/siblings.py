"""1x1 convolutions of the same tensor are merged where that costs less: the input is read once, and tiles are full.

Their results become parts of one tensor, the outputs of a `Split` that copies nothing (see `concat.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import Graph, Node
from ..operators import Known
from ..operators.kernels import is_convolution
from ..passes.rewriting import Rewriting
from .costs import STEP_SECONDS, Costs


def merged(
    graph: Graph, known: dict[str, Known], costs: Costs, decided: Sequence[bool] | None = None
) -> tuple[Graph, list[bool]]:
    """The graph with siblings merged into one convolution, and of which families they are, by cost or as `decided`; the
    new tensors are added to `known`.

    Raises
    ------
    ValueError
        `decided` is of other families.
    """
    r = Rewriting(graph, known)
    families: dict[tuple, list[Node]] = {}
    for node in graph.nodes:
        joined = any(user.op == "Concat" for user in r.users.get(node.outputs[0], ()))  # it is computed in place there
        if not joined and _is_sibling(node, known):
            families.setdefault((node.inputs[0], *_shared_attributes(node)), []).append(node)
    replaced: dict[int, list[Node]] = {}
    removed: set[int] = set()
    several = [family for family in families.values() if len(family) > 1]
    if decided is not None and len(decided) != len(several):
        raise ValueError(f"decisions about {len(decided)} families of siblings, there are {len(several)}")
    made = []
    for i, family in enumerate(several):
        nodes = _merged(family, r) if decided is None or decided[i] else []
        made.append(bool(nodes and (decided is not None or _pays(family, nodes[0], known, costs))))
        if made[-1]:
            replaced[id(family[0])] = nodes
            removed.update(map(id, family))
    nodes = [n for node in graph.nodes for n in replaced.get(id(node), [] if id(node) in removed else [node])]
    return r.graph(nodes), made


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


def _shared_attributes(node: Node) -> tuple:
    """The strides and activation, which siblings have in common."""
    return tuple(node.attributes.get("strides", ())), node.attributes.get("activation")


def _merged(family: Sequence[Node], r: Rewriting) -> list[Node]:
    """The merged convolution, and the `Split` of its result."""
    known, result = r.known, family[0].outputs[0]
    sizes = [known[node.outputs[0]].shape[1] for node in family]
    biases = [known[n.inputs[2]].value if n.input(2) else np.zeros(size, np.float32) for n, size in zip(family, sizes)]
    w, b = (np.concatenate([v for v in values if v is not None])
            for values in ([known[n.inputs[1]].value for n in family], biases))  # fmt: skip
    names = r.constant(result, "filters", w), r.constant(result, "biases", b)
    first = known[result]
    joined = r.tensor(result, "and.siblings", first.dtype, (first.shape[0], sum(sizes), *first.shape[2:]))
    conv = family[0].with_(
        inputs=(family[0].inputs[0], *names), outputs=(joined,), name=f"{family[0].name} and siblings"
    )
    parts = tuple(node.outputs[0] for node in family)
    return [conv, Node("Split", (joined,), parts, {"axis": 1, "split": sizes}, f"{joined} of siblings")]


def _pays(family: Sequence[Node], merged: Node, known: Mapping[str, Known], costs: Costs) -> bool:
    """Whether the merged convolution costs less than all of them."""
    separate = sum(costs.convolution(node, known).min() + STEP_SECONDS for node in family)
    return costs.convolution(merged, known).min() + STEP_SECONDS < separate
