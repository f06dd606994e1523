"""How other frameworks choose layouts, in one pass and without costs: the baselines of `explain`.

A rule gives each node the kind of layout that it runs in; between nodes of different kinds a tensor is reordered once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import Graph, Node
from ..operators import OPERATORS, Follows, Known
from ..operators.kernels import is_convolution, kernel_of
from ..operators.layouts import BLOCKED, LAST, PLAIN
from .kinds import kinds_of

Knowledge = Mapping[str, Known]
Rule = Callable[[Graph, Knowledge], list[int]]


def may_be(node: Node, known: Knowledge) -> set[int]:
    """The kinds of layouts in which a node can run."""
    if is_convolution(node, known):
        return {PLAIN, LAST, BLOCKED}
    return kinds_of(node, known)


def mace(graph: Graph, known: Knowledge, auto: int = LAST) -> list[int]:
    """MACE: operators with kernels of their own (FIXED) run in the format AUTO; those that can renumber axes instead of
    transposing data (FOLLOWS) do so if all producers of their inputs do; all others run in the source format.

    AUTO is NHWC, except for float models on CPUs, where it is NCHW; the source format is NCHW here, ONNX's.
    """
    kind_of: dict[str, int] = dict.fromkeys(graph.inputs, PLAIN)
    kinds = []
    for node in graph.nodes:
        kind, of = PLAIN, OPERATORS[node.op].kind
        makers = [kind_of[name] for name in node.present_inputs() if name in kind_of]
        follows = of is Follows.FOLLOWS and bool(makers) and all(k == auto for k in makers)
        if (of is Follows.FIXED or follows) and auto in may_be(node, known):
            kind = auto
        kinds.append(kind)
        kind_of.update(dict.fromkeys(node.outputs, kind))
    return kinds


def torch(graph: Graph, known: Knowledge) -> list[int]:
    """PyTorch with model and input in channels_last: every operator that can keeps the memory format of its input;
    those that change the shape return contiguous tensors."""
    kind_of: dict[str, int] = dict.fromkeys(graph.inputs, LAST)
    kinds = []
    for node in graph.nodes:
        makers = [kind_of[name] for name in node.present_inputs() if name in kind_of]
        convolves = is_convolution(node, known)  # its filter is in channels_last as well
        kind = LAST if (convolves or LAST in makers) and LAST in may_be(node, known) else PLAIN
        kinds.append(kind)
        kind_of.update(dict.fromkeys(node.outputs, kind))
    return kinds


def paddle(graph: Graph, known: Knowledge) -> list[int]:
    """Paddle: operators with an accelerated kernel run in its blocked layout, all others, and the fetching of results,
    in the framework's; a tensor between the two is reordered at run time, unless its bytes are the same in both."""
    kinds = []
    for node in graph.nodes:
        accelerated = kernel_of(node, known, BLOCKED) is not None and BLOCKED in may_be(node, known)
        kinds.append(BLOCKED if accelerated else PLAIN)
    return kinds


RULES: dict[str, Rule] = {"MACE's rule": mace, "PyTorch's rule": torch, "Paddle's rule": paddle}
