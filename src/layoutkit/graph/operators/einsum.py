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
    unnamed = [len(shape) - len(a + b) for (a, _, b), shape in zip(parts, shapes)]  # axes of the ellipsis
    if any(n < 0 or (n and not dots) for n, (_, dots, _) in zip(unnamed, parts)):
        raise ValueError(f"equation {text!r} of tensors with {', '.join(str(len(s)) for s in shapes)} axes")
    ellipsis = max((n for n, (_, dots, _) in zip(unnamed, parts) if dots), default=0)
    labels = [(*a, *range(ellipsis - n, ellipsis), *b) for n, (a, _, b) in zip(unnamed, parts)]
    sizes: dict[str | int, int] = {}
    for axes, shape in zip(labels, shapes):
        for label, n in zip(axes, shape):
            if sizes.setdefault(label, n) == 1:
                sizes[label] = n
            if n not in (1, sizes[label]):
                raise ValueError(f"equation {text!r}: {label} is {n} and {sizes[label]}")
    if arrow:
        a, dots, b = parts[-1]
        result = (*a, *(range(ellipsis) if dots else ()), *b)
    else:
        every = [label for axes in labels for label in axes]
        result = (*range(ellipsis), *sorted(x for x in set(every) if isinstance(x, str) and every.count(x) == 1))
    if len(set(result)) < len(result) or not set(result) <= sizes.keys():
        raise ValueError(f"equation {text!r}: its result is not made of its operands")
    return Equation(tuple(labels), result, sizes)


def _shape(node, inputs):
    operands = [required(x) for x in inputs]
    equation = equation_of(node.attributes["equation"], [x.shape for x in operands])
    return [(operands[0].dtype, [equation.sizes[label] for label in equation.result])]


@operator("Einsum", shape=_shape)
def _einsum(inputs, attributes):
    equation = equation_of(attributes["equation"], [x.shape for x in inputs])
    number = {label: i for i, label in enumerate(equation.sizes)}
    if len(number) > 32:
        raise ValueError(f"{len(number)} different axes, at most 32")
    operands = []
    for x, labels in zip(inputs, equation.operands):
        narrow = x.dtype.kind not in "iub" and x.dtype.itemsize == 2
        operands.append(x.astype(np.float32) if narrow else x)
        operands.append([number[label] for label in labels])
    y = np.einsum(*operands, [number[label] for label in equation.result], optimize=("greedy", MAX_ELEMENTS))
    return [np.ascontiguousarray(y).reshape(np.shape(y)).astype(inputs[0].dtype, copy=False)]
