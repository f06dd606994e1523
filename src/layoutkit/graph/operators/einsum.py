"""Einsum: sums of products, by the letters of axes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .base import operator, required

MAX_ELEMENTS = 1 << 28  # of a tensor between two products
TERM = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")


class Equation(NamedTuple):
    """The labels of the axes of each operand and of the result; axes of an ellipsis have numbers."""

    operands: tuple[tuple[str | int, ...], ...]
    result: tuple[str | int, ...]
    sizes: dict[str | int, int]


def equation_of(text: str, shapes: Sequence[Sequence[int]]) -> Equation:
    """An equation over tensors of these shapes."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"equation {text!r} of {len(terms)} operands, given {len(shapes)}")
    matches = [TERM.fullmatch(term) for term in (*terms, right)]
    if None in matches:
        raise ValueError(f"equation {text!r}: expected letters, '...' and commas")
    parts = [(m[1], m[2] is not None, m[3]) for m in matches if m]
    over = [len(shape) - len(a + b) for (a, _, b), shape in zip(parts, shapes)]
    if any(n < 0 or (n and not dots) for n, (_, dots, _) in zip(over, parts)):
        raise ValueError(f"equation {text!r} of tensors with {', '.join(str(len(s)) for s in shapes)} axes")
    most = max((n for n, (_, dots, _) in zip(over, parts) if dots), default=0)
    labels = [(*a, *range(most - n, most), *b) for n, (a, _, b) in zip(over, parts)]
    sizes: dict[str | int, int] = {}
    for axes, shape in zip(labels, shapes):
        for label, n in zip(axes, shape):
            if sizes.setdefault(label, n) == 1:
                sizes[label] = n
            if n not in (1, sizes[label]):
                raise ValueError(f"equation {text!r}: {label} is {n} and {sizes[label]}")
    if arrow:
        a, dots, b = parts[-1]
        result = (*a, *(range(most) if dots else ()), *b)
    else:
        every = [label for axes in labels for label in axes]
        result = (*range(most), *sorted(x for x in set(every) if isinstance(x, str) and every.count(x) == 1))
    if len(set(result)) < len(result) or not set(result) <= sizes.keys():
        raise ValueError(f"equation {text!r}: its result is not made of its operands")
    return Equation(tuple(labels), result, sizes)


def _shape(node, inputs):
    given = [required(x) for x in inputs]
    found = equation_of(node.attributes["equation"], [x.shape for x in given])
    return [(given[0].dtype, [found.sizes[label] for label in found.result])]


@operator("Einsum", shape=_shape)
def _einsum(inputs, attributes):
    found = equation_of(attributes["equation"], [x.shape for x in inputs])
    number = {label: i for i, label in enumerate(found.sizes)}
    if len(number) > 32:
        raise ValueError(f"{len(number)} different axes, at most 32")
    operands = []
    for x, labels in zip(inputs, found.operands):
        narrow = x.dtype.kind not in "iub" and x.dtype.itemsize == 2
        operands.append(x.astype(np.float32) if narrow else x)
        operands.append([number[label] for label in labels])
    y = np.einsum(*operands, [number[label] for label in found.result], optimize=("greedy", MAX_ELEMENTS))
    return [np.ascontiguousarray(y).reshape(np.shape(y)).astype(inputs[0].dtype, copy=False)]
