"""Channel shuffles, and pixels moved to channels or back, spelled as Reshape, Transpose and Reshape."""

from __future__ import annotations

from ..ir import Graph, Node
from ..operators.moves import order_of
from .rewriting import Knowledge, Rewriting


def shuffles(graph: Graph, known: Knowledge) -> Graph:
    """The graph with one operator for each of them."""
    r, nodes = Rewriting(graph, known), []
    for node in graph.nodes:
        transpose = r.maker(node.input(0), "Transpose") if node.op == "Reshape" else None
        first = r.maker(transpose.input(0), "Reshape") if transpose is not None else None
        if transpose is not None and first is not None:
            if r.is_internal(first.outputs[0]) and r.is_internal(transpose.outputs[0]):
                shapes = (known[name].shape for name in (first.inputs[0], first.outputs[0], node.outputs[0]))
                op, attributes = _operator(tuple(transpose.attributes.get("perm") or ()), *shapes)
                if op:
                    node = Node(op, first.inputs[:1], node.outputs, attributes, node.name)
        nodes.append(node)
    return r.graph(nodes)


Shape = tuple[int, ...]


def _operator(perm: Shape, shape: Shape, split: Shape, result: Shape) -> tuple[str, dict]:
    """The operator that a transposition does between a reshape of `shape` to `split` and one to `result`, and its
    attributes; "" if there is none."""
    if groups := _shuffled_groups(perm, shape, split, result):
        return "ChannelShuffle", {"group": groups}
    if blocks := _moved_blocks(perm, shape, split, result):
        op, mode, size = blocks
        return op, {"blocksize": size, "mode": mode}
    return "", {}


def _shuffled_groups(perm: Shape, shape: Shape, split: Shape, result: Shape) -> int:
    """The number of groups of channels that are shuffled; 0 if it is no shuffle."""
    if result != shape or len(shape) < 3 or len(split) != len(shape) + 1:
        return 0
    of_channels = (split[0], *split[3:]) == (shape[0], *shape[2:]) and split[1] * split[2] == shape[1]
    return split[1] if of_channels and perm == (0, 2, 1, *range(3, len(split))) else 0


# By the permutation: the operator, its mode, and the two axes after the first Reshape that are the block's.
BLOCKS = {
    (0, 1, 4, 2, 5, 3): ("DepthToSpace", "CRD", (2, 3)), (0, 3, 4, 1, 5, 2): ("DepthToSpace", "DCR", (1, 2)),
    (0, 1, 3, 5, 2, 4): ("SpaceToDepth", "CRD", (3, 5)), (0, 3, 5, 1, 2, 4): ("SpaceToDepth", "DCR", (3, 5)),
}  # fmt: skip


def _moved_blocks(perm: Shape, shape: Shape, split: Shape, result: Shape) -> tuple[str, str, int] | None:
    """The operator, mode and block size where blocks of pixels become channels, or the other way round."""
    if perm not in BLOCKS or len(shape) != 4 or len(split) != 6 or len(result) != 4 or 0 in split:
        return None
    op, mode, (i, k) = BLOCKS[perm]
    size, (n, c, h, w) = split[i], shape
    if split[k] != size:
        return None
    to_space = op == "DepthToSpace"
    expected = (n, c // size**2, h * size, w * size) if to_space else (n, c * size**2, h // size, w // size)
    order = order_of(op, {"blocksize": size, "mode": mode}, shape)
    return (op, mode, size) if order is not None and order.inner == split and result == expected else None
