"""Attention and rotary embeddings."""

from __future__ import annotations

import numpy as np

from .build import Build

TYPES = ["float32", "float32", "float32", "float64", "float16"]


def attention(b: Build, op: str) -> None:
    batch, kv_heads, shared = b.int(1, 2), b.int(1, 3), b.int(1, 3)
    queries, keys, depth, width = b.int(1, 9), b.int(1, 9), b.int(1, 9), b.int(1, 9)
    dtype, heads, packed = np.dtype(b.one(TYPES)), kv_heads * shared, b.maybe()

    def operand(count: int, steps: int, size: int):
        return b.operand(dtype, (batch, steps, count * size) if packed else (batch, count, steps, size))

    inputs = [operand(heads, queries, depth), operand(kv_heads, keys, depth), operand(kv_heads, keys, width)]
    past = b.int(1, 4) if b.maybe(0.2) else 0
    causal = b.one([None, 0, 1])
    if b.maybe(0.3):
        # With causal order the reference broadcasts no mask of one row.
        shape = b.one(
            [(queries, past + keys), (batch, 1, queries, past + keys), (queries if causal else 1, past + keys)]
        )
        inputs.append(b.constant(b.numbers(np.dtype(bool), shape), bool) if b.maybe() else b.operand(dtype, shape))
    if past:
        inputs += [None] * (4 - len(inputs))
        inputs += [b.operand(dtype, (batch, kv_heads, past, size)) for size in (depth, width)]
    numbers = {"q_num_heads": heads, "kv_num_heads": kv_heads} if packed else {}
    b.add(op, *inputs, outputs=3 if past else 1, is_causal=causal, scale=b.one([None, None, 0.25]),
          softcap=b.one([None, None, 2.0]), **numbers)  # fmt: skip


def rotary(b: Build, op: str) -> None:
    batch, steps, heads, size = b.int(1, 2), b.int(1, 5), b.int(1, 3), 2 * b.int(1, 4)
    dtype, packed = np.dtype(b.one(TYPES)), b.maybe()
    turned = b.one([None, 0, size, 2])
    by_position = b.maybe()
    shape = (6 if by_position else batch, *([] if by_position else [steps]), (turned or size) // 2)
    inputs = [b.operand(dtype, (batch, steps, heads * size) if packed else (batch, heads, steps, size))]
    inputs += [b.operand(dtype, shape), b.operand(dtype, shape)]
    if by_position:
        inputs.append(b.constant(np.array([[b.int(0, 5) for _ in range(steps)] for _ in range(batch)], np.int64)))
    b.add(
        op, *inputs, interleaved=b.one([None, 0, 1]), rotary_embedding_dim=turned, num_heads=heads if packed else None
    )


DRAWS = {"Attention": attention, "RotaryEmbedding": rotary}
