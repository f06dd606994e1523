"""Scaled dot-product attention and rotary embeddings.

    Y = softmax(scale Q K^T, capped, + bias) V        for each head; rows without keys are 0

Queries, keys and values are [batch, heads, steps, size], or [batch, steps, heads * size]. Several heads of queries may
share one of keys and values. The bias is -Inf for keys that the mask, the causal order, the window or the length of
the sequence leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .base import operator, required, same_shape


class Sizes(NamedTuple):
    """Of attention; `shared`: the heads of queries for each of keys; `past`: the keys before those of K."""

    batch: int
    kv_heads: int
    shared: int
    queries: int
    past: int
    keys: int
    depth: int
    width: int
    packed: bool  # whether heads are in the last axis

    @property
    def heads(self) -> int:
        """Of queries."""
        return self.kv_heads * self.shared


def sizes_of(q, k, v, past, attributes: Mapping[str, Any]) -> Sizes:
    """Of shapes that fit together; ValueError for others. `past`: the shapes of past keys and values, or None."""
    packed = len(q) == 3
    if not len(q) == len(k) == len(v) or len(q) not in (3, 4):
        raise ValueError(f"Q {q}, K {k}, V {v}: expected three or four axes each")
    if packed:
        heads, kv_heads = (attributes.get(name, 0) for name in ("q_num_heads", "kv_num_heads"))
        if heads < 1 or kv_heads < 1 or q[2] % heads or k[2] % kv_heads or v[2] % kv_heads:
            raise ValueError(f"Q {q}, K {k}, V {v} do not divide into q_num_heads {heads}, kv_num_heads {kv_heads}")
        q, k, v = (
            (n, count, steps, size // count) for (n, steps, size), count in zip((q, k, v), (heads, kv_heads, kv_heads))
        )
    before = 0
    if past is not None:
        before = past[0][2] if len(past[0]) == 4 else 0
        if past[0] != (*k[:2], before, k[3]) or past[1] != (*v[:2], before, v[3]):
            raise ValueError(f"past keys and values {past} do not go before K {k}, V {v}")
    if not q[0] == k[0] == v[0] or k[1:3] != v[1:3] or q[3] != k[3] or k[1] < 1 or q[1] % k[1]:
        raise ValueError(f"queries {q}, keys {k} and values {v} do not fit together")
    return Sizes(q[0], k[1], q[1] // k[1], q[2], before, k[2], k[3], v[3], packed)


def windows_of(attributes: Mapping[str, Any]) -> tuple[int, int]:
    """How many keys before and after its own position a query attends to at most, -1: any."""
    left, right = (attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    if min(left, right) < -1:
        raise ValueError(f"windows of {left} and {right} keys")
    return left, right


def position_bias(sizes: Sizes, attributes: Mapping[str, Any], valid: np.ndarray | None = None) -> np.ndarray | None:
    """0 for keys that a query attends to by their positions, -Inf for others: (queries, keys), or with the numbers of
    `valid` keys by image (batch, 1, queries, keys). None if it attends to all."""
    left, right = windows_of(attributes)
    if not attributes.get("is_causal") and left < 0 and right < 0 and valid is None:
        return None
    before = sizes.past if valid is None else valid.reshape(-1, 1, 1, 1).astype(np.int64) - sizes.queries
    key = np.arange(sizes.past + sizes.keys)
    ahead = key - (np.arange(sizes.queries)[:, None] + before)  # of the query's own position
    attends = np.ones(ahead.shape, bool)
    if attributes.get("is_causal"):
        attends &= ahead <= 0
    if left >= 0:
        attends &= ahead >= -left
    if right >= 0:
        attends &= ahead <= right
    if valid is not None:
        attends &= key < valid.reshape(-1, 1, 1, 1)
    return np.where(attends, np.float32(0), np.float32(-np.inf))


def score_scale(sizes: Sizes, attributes: Mapping[str, Any]) -> float:
    """What products of queries and keys are multiplied by."""
    scale = attributes.get("scale")
    return float(scale) if scale is not None else sizes.depth**-0.5 if sizes.depth else 1.0


def _attention_shape(node, inputs):
    q, k, v, _, past_key, past_value, valid = (*inputs, *[None] * 4)[:7]
    q, k, v = required(q), required(k), required(v)
    if (past_key is None) != (past_value is None) or (past_key is not None and valid is not None):
        raise ValueError("past_key and past_value come together, and without nonpad_kv_seqlen")
    past = None if past_key is None else (past_key.shape, past_value.shape)
    s = sizes_of(q.shape, k.shape, v.shape, past, node.attributes)
    windows_of(node.attributes)
    score_scale(s, node.attributes)
    mode = node.attributes.get("qk_matmul_output_mode", 0)
    if mode not in range(4):
        raise ValueError(f"qk_matmul_output_mode {mode!r}: expected 0 to 3")
    keys = s.past + s.keys
    y = (s.batch, s.queries, s.heads * s.width) if s.packed else (s.batch, s.heads, s.queries, s.width)
    return [
        (q.dtype, y),
        (k.dtype, (s.batch, s.kv_heads, keys, s.depth)),
        (v.dtype, (s.batch, s.kv_heads, keys, s.width)),
        (q.dtype, (s.batch, s.heads, s.queries, keys)),
    ]


@operator("Attention", shape=_attention_shape)
def _attention(inputs, attributes):
    q, k, v, mask, past_key, past_value, valid = (*inputs, *[None] * 4)[:7]
    past = None if past_key is None else (past_key.shape, past_value.shape)
    s = sizes_of(q.shape, k.shape, v.shape, past, attributes)
    if s.packed:
        q, k, v = (x.reshape(*x.shape[:2], n, -1).swapaxes(1, 2)
                   for x, n in ((q, s.heads), (k, s.kv_heads), (v, s.kv_heads)))  # fmt: skip
    if past is not None:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    wide = np.float64 if q.dtype == np.float64 else np.float32
    factor = wide(score_scale(s, attributes))
    shared_k, shared_v = (np.repeat(x, s.shared, 1).astype(wide) for x in (k, v))
    products = np.matmul(q.astype(wide) * factor, shared_k.swapaxes(-1, -2))
    cap = attributes.get("softcap", 0.0)
    scores = np.tanh(products / wide(cap)) * wide(cap) if cap > 0 else products
    bias = np.zeros((1, 1, s.queries, s.past + s.keys), wide)
    position = position_bias(s, attributes, valid)
    bias = bias if position is None else bias + position
    if mask is not None:
        bias = bias + _additive(mask, s, wide)
    biased = scores + bias
    with np.errstate(invalid="ignore"):  # of rows without keys
        weights = np.exp(biased - biased.max(-1, keepdims=True, initial=-np.inf))
        weights = weights / weights.sum(-1, keepdims=True)
    weights = np.where((bias == -np.inf).all(-1, keepdims=True), wide(0), weights)
    y = np.matmul(weights, shared_v)
    y = y.swapaxes(1, 2).reshape(s.batch, s.queries, -1) if s.packed else y
    scores_out = (products, scores, biased, weights)[attributes.get("qk_matmul_output_mode", 0)]
    return [np.ascontiguousarray(y).astype(q.dtype), k, v, np.ascontiguousarray(scores_out).astype(q.dtype)]


def _additive(mask: np.ndarray, s: Sizes, wide) -> np.ndarray:
    """A mask as numbers that are added; keys that it does not name are left out."""
    mask = np.where(mask, wide(0), wide(-np.inf)) if mask.dtype == bool else mask.astype(wide)
    missing = s.past + s.keys - mask.shape[-1]
    if missing > 0 and mask.shape[-1] != 1:
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=-np.inf)
    return mask


def _same_shape_as_x(node, inputs):
    x = required(inputs[0])
    rotary_sizes([required(each).shape for each in inputs if each is not None], node.attributes)
    return [(x.dtype, x.shape)]


def rotary_sizes(shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any]) -> tuple[int, int]:
    """Of a head: its size, and how many of its elements are rotated. `shapes`: of all inputs that there are."""
    (x, cos, sin), positions = shapes[:3], shapes[3] if shapes[3:] else None
    of_head = attributes.get("head_size", 0)  # which models of com.microsoft imply, instead of the number
    heads = 1 if len(x) != 3 else x[-1] // of_head if of_head else attributes.get("num_heads", 0)
    if len(x) not in (3, 4) or heads < 1 or x[-1] % heads:
        raise ValueError(f"X {x} is not of {heads} heads")
    size, steps = x[-1] // heads, (x[0], x[-2] if len(x) == 4 else x[1])
    rotated = attributes.get("rotary_embedding_dim", 0) or size
    by_step = cos[:-1] if positions is None else positions
    if rotated % 2 or not 0 <= rotated <= size or cos != sin or cos[-1:] != (rotated // 2,):
        raise ValueError(f"caches {cos} and {sin} do not rotate {rotated} of {size} elements")
    axes = len(cos) == 3 if positions is None else len(cos) == len(positions) == 2
    if not axes or any(n not in (1, m) for n, m in zip(by_step, steps)):
        raise ValueError(f"caches {cos} at positions {positions} are not of {steps} steps of X {x}")
    return size, rotated


@operator("RotaryEmbedding", shape=_same_shape_as_x)
def _rotary_embedding(inputs, attributes):
    """Pairs of elements of each head are rotated by an angle that depends on the position."""
    x, cos, sin, positions = (*inputs, None)[:4]
    size, rotated = rotary_sizes([each.shape for each in inputs if each is not None], attributes)
    heads = x.swapaxes(1, 2) if x.ndim == 4 else x.reshape(*x.shape[:2], -1, size)  # [batch, step, head, element]
    cos, sin = ((each if positions is None else each[positions])[:, :, None] for each in (cos, sin))
    y = np.array(heads)
    pair = (slice(0, rotated, 2), slice(1, rotated, 2)) if attributes.get("interleaved") else (
        slice(0, rotated // 2), slice(rotated // 2, rotated))  # fmt: skip
    a, b = (heads[..., half] for half in pair)
    y[..., pair[0]], y[..., pair[1]] = a * cos - b * sin, a * sin + b * cos
    return [np.ascontiguousarray(y.swapaxes(1, 2)) if x.ndim == 4 else y.reshape(x.shape)]


@operator("Within", shape=same_shape)
def _within(inputs, attributes):
    """Numbers of a caller that may be 0 to `most` and nothing else; `of` says what they are."""
    x, most = inputs
    if x.size and not 0 <= x.min() <= x.max() <= most:
        raise ValueError(f"{attributes['of']}: {x.tolist()}, expected 0 to {int(most)}")
    return [x]
