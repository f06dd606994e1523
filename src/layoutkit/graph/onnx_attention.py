"""Attention as onnxruntime's optimiser and exporters of language models write it (of the domain com.microsoft).

It becomes products, masks and softmax, for `passes/products.py` to make one operator of; caches of keys and values are
concatenations, or gathers where each sequence has a length of its own.
"""

from __future__ import annotations

import numpy as np

from .ir import Node
from .onnx_integers import CONTRIBUTED, checked, contributes
from .onnx_nodes import inputs_of, like, made
from .operators import Unsupported

__all__ = ["CONTRIBUTED"]

MASKED = -10000.0  # what is added to the scores of keys that a mask leaves out, if the node does not say
LEFT_OUT = float(np.finfo(np.float32).min)  # of those that positions leave out


def _factor(r, node: Node, q: str) -> str:
    """What products of queries [.., steps, size] and keys are multiplied by."""
    scale = node.attributes.get("scale", 0.0)
    if scale:
        return like(r, node, np.float32(scale), q)
    size = made(r, node, "Cast", _extent(r, node, q, -1), to=np.dtype(np.float32))
    return made(r, node, "CastLike", made(r, node, "Pow", size, r.constant(-0.5, node.outputs[0], np.float32)), q)


def _extent(r, node: Node, x: str, axis: int) -> str:
    """The length of an axis, as a tensor without axes."""
    return made(r, node, "Gather", made(r, node, "Shape", x), r.constant(axis, node.outputs[0]), axis=0)


def _counted(r, node: Node, count: str) -> str:
    """0, 1, .. below a count."""
    return made(r, node, "Range", r.constant(0, node.outputs[0]), count, r.constant(1, node.outputs[0]))


def _attention(r, node: Node, heads: tuple[str, str, str], bias: str) -> Node:
    """Of queries, keys and values by heads: [batch, heads, steps, size]."""
    q, k, v = heads
    scores = made(r, node, "MatMul", q, made(r, node, "Transpose", k, perm=[0, 1, 3, 2]))
    scores = made(r, node, "Mul", scores, _factor(r, node, q))
    if bias:
        scores = made(r, node, "Add", scores, bias)
    y = made(r, node, "MatMul", made(r, node, "Softmax", scores, axis=-1), v)
    rows = made(r, node, "Transpose", y, perm=[0, 2, 1, 3])
    return Node("Reshape", (rows, r.constant([0, 0, -1], node.outputs[0])), node.outputs[:1], {}, node.name)


def _causal(r, node: Node, heads: tuple[str, str, str], past: str, bias: str) -> str:
    """What is added to scores, with the keys after a query's position left out; those of the past are before all."""
    q, k, _ = heads
    rows = _counted(r, node, _extent(r, node, q, 2))
    if past:
        rows = made(r, node, "Add", rows, _extent(r, node, past, -2))
    keys = _counted(r, node, _extent(r, node, k, 2))
    ahead = made(r, node, "Greater", keys, made(r, node, "Unsqueeze", rows, r.constant([1], node.outputs[0])))
    order = made(r, node, "Where", ahead, *(like(r, node, x, q) for x in (LEFT_OUT, 0.0)))
    return made(r, node, "Add", order, bias) if bias else order


def _by_heads(r, node: Node, x: str) -> str:
    """[batch, steps, heads * size] as [batch, heads, steps, size]."""
    count = node.attributes.get("num_heads", 0)
    if count < 1:
        raise ValueError(f"onnx: {node}: {count} heads")
    split = made(r, node, "Reshape", x, r.constant([0, 0, count, -1], node.outputs[0]))
    return made(r, node, "Transpose", split, perm=[0, 2, 1, 3])


def _of_mask(r, node: Node, mask: str, scores_of: str) -> str:
    """What is added to scores for a mask [batch, keys] of integers: 0 where it is positive."""
    number = made(r, node, "CastLike", mask, scores_of)
    zero, masked = (like(r, node, x, scores_of) for x in (0.0, node.attributes.get("mask_filter_value", MASKED)))
    bias = made(r, node, "Where", made(r, node, "LessOrEqual", number, zero), masked, zero)
    return made(r, node, "Unsqueeze", bias, r.constant([1, 2], node.outputs[0]))


def _bias_of(r, node: Node, mask: str, bias: str, scores_of: str) -> str:
    """What is added to scores, "" if nothing is."""
    if not mask:
        return bias
    if r.rank(mask) != 2:
        raise Unsupported(f"onnx: {node}: a mask that is not known to have two axes")
    of_mask = _of_mask(r, node, mask, scores_of)
    return made(r, node, "Add", of_mask, bias) if bias else of_mask


@contributes("Attention")
def _self_attention(r, node: Node) -> Node:
    """Queries, keys and values are one product of the input; with those of the past, present ones are an output."""
    inputs = inputs_of(node, 2, 7)
    x, w, b, mask, past, bias, length = inputs
    if length or node.attributes.get("past_present_share_buffer"):
        raise Unsupported(f"onnx: {node}: a buffer that past and present keys and values share")
    if node.attributes.get("do_rotary"):
        raise Unsupported(f"onnx: {node}: do_rotary")
    y = made(r, node, "MatMul", x, w)
    if b:
        y = made(r, node, "Add", y, b)
    parts = tuple(r.name(node.outputs[0], role) for role in ("q", "k", "v"))
    sizes = node.attributes.get("qkv_hidden_sizes")
    more = (r.constant(sizes, node.outputs[0]),) if sizes else ()
    r.nodes.append(Node("Split", (y, *more), parts, {"axis": -1, "count": 3}))
    q, k, v = (_by_heads(r, node, part) for part in parts)
    first = r.constant([0], node.outputs[0])
    if past:
        before = tuple(r.name(node.outputs[0], role) for role in ("past_k", "past_v"))
        r.nodes.append(Node("Split", (past,), before, {"axis": 0, "count": 2}))
        k, v = (made(r, node, "Concat", made(r, node, "Squeeze", old, first), new, axis=2)
                for old, new in zip(before, (k, v)))  # fmt: skip
    if node.outputs[1:] and node.outputs[1]:
        both = tuple(made(r, node, "Unsqueeze", part, first) for part in (k, v))
        r.nodes.append(Node("Concat", both, node.outputs[1:2], {"axis": 0}))
    bias = _bias_of(r, node, mask, bias, q)
    if node.attributes.get("unidirectional"):
        bias = _causal(r, node, (q, k, v), past, bias)
    return _attention(r, node, (q, k, v), bias)


@contributes("MultiHeadAttention")
def _cross_attention(r, node: Node) -> Node:
    """Queries, keys and values are given; with those of the past, present ones are outputs."""
    inputs = inputs_of(node, 1, 8)
    q, k, v, b, mask, bias, past_k, past_v = inputs
    if bool(past_k) != bool(past_v):
        raise ValueError(f"onnx: {node}: past keys or values, expected both")
    if not (k and v) or any(r.rank(name) not in (None, 3) for name in (q, k, v)):
        raise Unsupported(f"onnx: {node}: queries, keys and values that are packed, or by heads")
    if b:
        value = r.constants.get(b)
        if value is None or value.size % 3:
            raise Unsupported(f"onnx: {node}: a bias that varies, or does not divide into three alike")
        q, k, v = (made(r, node, "Add", part, r.constant(cut, node.outputs[0], value.dtype))
                   for part, cut in zip((q, k, v), np.split(value.reshape(-1), 3)))  # fmt: skip
    # a transposition of three axes, which is none, refuses what has four of them when shapes are known
    three = (made(r, node, "Transpose", part, perm=[0, 1, 2]) for part in (q, k, v))
    q, k, v = (_by_heads(r, node, part) for part in three)
    if past_k:
        k, v = (made(r, node, "Concat", before, part, axis=2) for before, part in ((past_k, k), (past_v, v)))
    for part, output in zip((k, v), node.outputs[1:]):
        if output:
            r.nodes.append(Node("Identity", (part,), (output,)))
    if node.outputs[3:] and node.outputs[3]:
        raise Unsupported(f"onnx: {node}: its scores")
    bias = _bias_of(r, node, mask, bias, q)
    if node.attributes.get("unidirectional"):
        bias = _causal(r, node, (q, k, v), past_k, bias)
    return _attention(r, node, (q, k, v), bias)


# ---- rotary embeddings, and heads that share keys


def _turned(r, node: Node, x: str, cos: str, sin: str, positions: str, **attributes: int) -> str:
    """Heads of queries or keys [batch, steps, heads * size], turned by the angles of their positions."""
    return made(r, node, "RotaryEmbedding", x, cos, sin, positions, **attributes)


@contributes("RotaryEmbedding")
def _rotary(r, node: Node) -> Node:
    """ONNX's, with positions in another place: those of all steps, or only of the first one of all sequences."""
    x, positions, cos, sin = checked(node, 4, 4)
    a = node.attributes
    if a.get("is_packed_batching") or a.get("scale", 1.0) != 1 or r.rank(positions) not in (1, 2):
        raise Unsupported(f"onnx: {node}: packed batches, a scale, or positions that are not known to have 1 or 2 axes")
    if r.rank(positions) == 1:
        steps = made(r, node, "Add", positions, _counted(r, node, _extent(r, node, x, -2)))
        positions = made(r, node, "Unsqueeze", steps, r.constant([0], node.outputs[0]))
    heads = {key: a[key] for key in ("num_heads", "rotary_embedding_dim") if a.get(key)}
    if "rotary_embedding_dim" not in heads and cos in r.constants:  # whole heads are turned
        heads = {"head_size": 2 * r.constants[cos].shape[-1]}
    elif "num_heads" not in heads and r.rank(x) != 4:
        raise Unsupported(f"onnx: {node}: heads of which neither number nor size is known")
    heads["interleaved"] = a.get("interleaved", 0)
    return Node("RotaryEmbedding", (x, cos, sin, positions), node.outputs, heads, node.name)


@contributes("GroupQueryAttention")
def _grouped_attention(r, node: Node) -> Node:
    """Each head of keys is that of several of queries. Sequences have lengths of their own, before which their new keys
    are put: ``present[j] = new[j - start] if start <= j < start + steps else past[j]``."""
    names = inputs_of(node, 7, 14)
    q, k, v, past_k, past_v, lengths, total, cos, sin, positions, *more = names
    a, out = node.attributes, node.outputs[0]
    heads, kv_heads = a.get("num_heads", 0), a.get("kv_num_heads", 0)
    if min(heads, kv_heads) < 1 or heads % kv_heads:
        raise ValueError(f"onnx: {node}: {heads} heads of {kv_heads} of keys")
    if any(more) or any(node.outputs[3:]) or a.get("smooth_softmax", 0) > 0 or bool(k) != bool(v):
        raise Unsupported(f"onnx: {node}: a bias, sinks, scores, quantised caches or a smooth softmax")
    if bool(past_k) != bool(past_v):
        raise ValueError(f"onnx: {node}: past keys or values, expected both")

    def constant(*values: int) -> str:
        return r.constant(values, out)

    if not k:  # all in one
        parts = tuple(r.name(out, role) for role in ("q", "k", "v"))
        split = made(r, node, "Reshape", q, constant(0, 0, heads + 2 * kv_heads, -1))
        r.nodes.append(Node("Split", (split, constant(heads, kv_heads, kv_heads)), parts, {"axis": 2, "count": 3}))
        q, k, v = (made(r, node, "Reshape", part, constant(0, 0, -1)) for part in parts)
    steps, whole = _extent(r, node, q, 1), made(r, node, "Cast", total, to=np.dtype(np.int64))
    whole = made(r, node, "Reshape", whole, r.constant(np.empty(0, np.int64), out))
    before = _extent(r, node, past_k, 2) if past_k else ""
    room = made(r, node, "Add", before, steps) if past_k else steps
    whole = made(r, node, "Within", whole, room, of="total_sequence_length")
    ends = made(r, node, "Reshape", made(r, node, "Cast", lengths, to=np.dtype(np.int64)), constant(-1))
    starts = made(r, node, "Sub", made(r, node, "Add", ends, constant(1)), steps)
    starts = made(r, node, "Where", made(r, node, "Equal", steps, whole), r.constant(0, out), starts)  # of a prompt
    keys = made(r, node, "Max", before, whole) if past_k else steps
    last = made(r, node, "Sub", keys, steps)
    starts = made(r, node, "Within", starts, last, of="keys before the new ones, by seqlens_k")
    ahead = made(r, node, "Add", made(r, node, "Unsqueeze", starts, constant(1)), _counted(r, node, steps))
    if a.get("do_rotary"):
        turn = {"interleaved": a.get("rotary_interleaved", 0)}
        if cos in r.constants:  # of a part of each head, if it has more elements than that
            turn["rotary_embedding_dim"] = 2 * r.constants[cos].shape[-1]
        q, k = (_turned(r, node, x, cos, sin, positions or ahead, num_heads=n, **turn)
                for x, n in ((q, heads), (k, kv_heads)))  # fmt: skip
    split = made(r, node, "Reshape", q, constant(0, 0, kv_heads, heads // kv_heads, -1))
    q = made(r, node, "Transpose", split, perm=[0, 2, 3, 1, 4])
    k, v = (made(r, node, "Transpose", made(r, node, "Reshape", x, constant(0, 0, kv_heads, -1)), perm=[0, 2, 1, 3])
            for x in (k, v))  # fmt: skip
    if past_k:
        at = _present(r, node, (before, starts, steps, keys), kv_heads)
        k, v = (made(r, node, "GatherND", made(r, node, "Concat", old, new, axis=2), at, batch_dims=2)
                for old, new in ((past_k, k), (past_v, v)))  # fmt: skip
    for part, output in zip((k, v), node.outputs[1:3]):
        if output:
            r.nodes.append(Node("Identity", (part,), (output,)))
    bias = _positions(r, node, _extent(r, node, k, 2), ahead, q)
    k, v = (made(r, node, "Unsqueeze", part, constant(2)) for part in (k, v))
    scores = made(r, node, "MatMul", q, made(r, node, "Transpose", k, perm=[0, 1, 2, 4, 3]))
    scores = made(r, node, "Mul", scores, _factor(r, node, q))
    if a.get("softcap", 0.0) > 0:
        cap = like(r, node, a["softcap"], q)
        scores = made(r, node, "Mul", made(r, node, "Tanh", made(r, node, "Div", scores, cap)), cap)
    weights = made(r, node, "Softmax", made(r, node, "Add", scores, bias), axis=-1)
    rows = made(r, node, "Transpose", made(r, node, "MatMul", weights, v), perm=[0, 3, 1, 2, 4])
    return Node("Reshape", (rows, constant(0, 0, -1)), node.outputs[:1], {}, node.name)


def _present(r, node: Node, counts: tuple[str, str, str, str], kv_heads: int) -> str:
    """Indices of present keys among those of the past and, behind them, new ones: [batch, heads, keys, 1].

    `counts`: the keys of the past, where the new ones of each sequence begin, how many they are, the present keys.
    """
    before, starts, steps, count = counts

    def constant(*values: int) -> str:
        return r.constant(values, node.outputs[0])

    keys = _counted(r, node, count)
    behind = made(r, node, "Sub", keys, made(r, node, "Unsqueeze", starts, constant(1)))
    is_new = made(r, node, "And", made(r, node, "GreaterOrEqual", behind, constant(0)),
                  made(r, node, "Less", behind, steps))  # fmt: skip
    old = made(r, node, "Min", keys, made(r, node, "Sub", before, constant(1)))
    at = made(r, node, "Where", is_new, made(r, node, "Add", before, behind), old)
    by_head = made(r, node, "Expand", made(r, node, "Unsqueeze", at, constant(1)), constant(1, kv_heads, 1))
    return made(r, node, "Unsqueeze", by_head, constant(3))


def _positions(r, node: Node, keys: str, ahead: str, q: str) -> str:
    """What is added to scores [batch, heads of keys, heads, steps, keys]; `ahead`: the position of each query."""
    one = r.constant([1], node.outputs[0])
    rows = made(r, node, "Unsqueeze", ahead, r.constant([1, 2, 4], node.outputs[0]))
    keys, window = _counted(r, node, keys), node.attributes.get("local_window_size", -1)
    out = made(r, node, "Greater", keys, rows)
    if window > 0:
        first = made(r, node, "Sub", made(r, node, "Add", rows, one), r.constant([window], node.outputs[0]))
        out = made(r, node, "Or", out, made(r, node, "Less", keys, first))
    return made(r, node, "Where", out, *(like(r, node, x, q) for x in (LEFT_OUT, 0.0)))
