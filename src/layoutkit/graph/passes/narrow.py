"""Which tensors of a network are stored in a narrow type, where its convolutions multiply such numbers.

A tensor is stored in it if the node that computes it can round its results to the type and some reader takes the type
directly. All others, and the outputs of the model, are float32. Operators without a kernel compute in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..ir import Graph, Node
from ..operators import OPERATORS, Known, StoredType
from ..operators.base import MAX_RANK
from ..operators.kernels import F32, in_its_type, is_convolution, is_product


def keep_narrow(graph: Graph, known: dict[str, Known], dtype: str) -> None:
    """Mark in `known` the tensors that are stored in `dtype`."""
    if dtype == "float32":
        return
    makers, users = graph.makers(), graph.users()
    narrow = {name for name, node in makers.items() if _may_be_narrow(known[name]) and _makes_narrow(node, known)}
    narrow -= graph.ends
    readers = {name: list(users.get(name, ())) for name in narrow}  # those that may read the narrow type directly

    def has_reader(name: str) -> bool:
        """Whether some reader still takes the narrow tensor; one that does not is dropped, as it never will again."""
        while readers[name] and not _reads_narrow(readers[name][-1], name, known, narrow):
            readers[name].pop()
        return bool(readers[name])

    todo = [name for name in narrow if not _inputs_are_narrow(makers[name], known, narrow)]
    todo += [name for name in narrow if not has_reader(name)]
    while todo:
        name = todo.pop()
        if name in narrow:
            narrow.discard(name)
            todo += [x for x in makers[name].present_inputs() if x in narrow and not has_reader(x)]
            for node in users.get(name, ()):
                if not narrow.isdisjoint(node.outputs) and not _inputs_are_narrow(node, known, narrow):
                    todo += node.outputs
    for name in narrow:
        known[name] = known[name]._replace(stored=StoredType(dtype))


def _may_be_narrow(of: Known) -> bool:
    """Whether a tensor may be stored in another type, and none has been chosen yet."""
    return of.dtype == F32 and of.stored is None and 1 <= len(of.shape) <= MAX_RANK


def _multiplies(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether a node multiplies numbers of the narrow type, whatever type its input is stored in."""
    if "integers" in node.attributes:
        return False
    return is_convolution(node, known) or (node.op in ("Gemm", "MatMul") and is_product(node, known))


def _keeps_type(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether a node stores its result in the type of its input."""
    return OPERATORS[node.op].moves or in_its_type(node, known)


def _makes_narrow(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether a node can round its result to the narrow type."""
    return _multiplies(node, known) or _keeps_type(node, known)


def _inputs_are_narrow(node: Node, known: Mapping[str, Known], narrow: set[str]) -> bool:
    """Whether a node that stores its result in the type of its inputs has narrow ones only; of what is joined, at least
    a half: the rest is rounded before it is copied."""
    with_constants = OPERATORS[node.op].moves  # which keep the model's type
    floats = [n for n in node.present_inputs() if known[n].dtype == F32 and (with_constants or known[n].value is None)]
    wide = [name for name in floats if name not in narrow]
    if node.op == "Concat" and all(known[name].value is None for name in floats):
        return 2 * sum(prod(known[name].shape) for name in wide) <= prod(known[node.outputs[0]].shape)
    return not _keeps_type(node, known) or not wide


def _reads_narrow(node: Node, name: str, known: Mapping[str, Known], narrow: set[str]) -> bool:
    """Whether a node reads a narrow tensor directly."""
    if _keeps_type(node, known) and node.outputs[0] in narrow:
        return True
    return _multiplies(node, known) and (node.inputs[0] == name or node.outputs[0] in narrow)
