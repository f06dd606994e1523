"""Where the nodes of a graph compute an expression, whatever the order and grouping of its operators.

A product is compared as a set of powers times one number, so that ``0.5 * x * (1 + y)`` is also ``x * (y + 1) / 2``; a
sum as a set of products plus one number. Constants are equal within the rounding of their type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import NamedTuple

import numpy as np

from ..ir import Graph, Node
from ..operators import Known
from .expressions import Applied, Expression, Product, Tensor, Total, product

ROUNDINGS = 4  # by how many roundings of the type constants may be apart: they come out of several operations
DEFAULTS = {("HardSigmoid", "alpha"): 0.2, ("HardSigmoid", "beta"): 0.5, ("LeakyRelu", "alpha"): 0.01,
            ("Elu", "alpha"): 1.0, ("Swish", "alpha"): 1.0}  # fmt: skip
IN_ANY_ORDER = "Max", "Min"
COMPARISONS = {"Greater": 1, "GreaterOrEqual": 1, "Less": -1, "LessOrEqual": -1}  # the order of the operands
MOST_POWER = 3  # that is written as a product
DEEPEST = 8  # of the operators of a product or a sum, one within the other


class Found(NamedTuple):
    """What stands for the names of a pattern: tensors by name, numbers; and the results of the nodes that it covers."""

    tensors: Mapping[str, str]
    numbers: Mapping[str, float]
    covers: frozenset[str]


Powers = tuple[
    float, tuple[tuple[str, int], ...], frozenset[str]
]  # a number, tensors with their powers, what it covers
Terms = tuple[float, tuple[tuple[str, float], ...], frozenset[str]]  # the same of a sum, with factors
NOTHING_FOUND = Found({}, {}, frozenset())


class Matcher:
    """The nodes of a graph, as expressions."""

    def __init__(self, graph: Graph, known: Mapping[str, Known]) -> None:
        self._graph, self._known = graph, known
        self._makers, self._users = graph.makers(), graph.users()
        readers = {name: {id(user) for user in users} for name, users in self._users.items()}
        self._single = {name for name, ids in readers.items() if len(ids) == 1} - graph.ends  # one node reads them
        self._scalars: dict[str, float | None] = {}

    def found(self, pattern: Expression, name: str) -> Found | None:
        """How a tensor is what a pattern says, None if it is not. All that is covered is used for nothing else, and of
        the same floating-point type and shape."""
        of = self._known[name]
        if of.dtype.kind != "f":
            return None
        for found in self._matches(pattern, name, 1.0, NOTHING_FOUND):
            if all(self._known[t].dtype == of.dtype for t in found.tensors.values()) and self._is_whole(found, name):
                return found
        return None

    def _is_whole(self, found: Found, name: str) -> bool:
        for inner in found.covers:
            of = self._known[inner]
            if of.stored is not None or of.dtype not in (self._known[name].dtype, np.bool_):
                return False
            if inner != name and (inner in self._graph.ends or not self._used_within(inner, found.covers)):
                return False
        return True

    def _used_within(self, name: str, covers: frozenset[str]) -> bool:
        return all(node.outputs[0] in covers for node in self._users.get(name, ()))

    def scalar(self, name: str) -> float | None:
        """The number that a constant tensor consists of, None if there are several or it is no constant."""
        if name not in self._scalars:
            value = self._known[name].value
            one = value is not None and value.size > 0 and value.dtype.kind in "fiu"
            one = one and value is not None and bool((value == value.reshape(-1)[0]).all())
            self._scalars[name] = float(value.reshape(-1)[0]) if one and value is not None else None
        return self._scalars[name]

    def _equal(self, a: float, b: float, name: str) -> bool:
        dtype = self._known[name].dtype
        rounding = float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
        return abs(a - b) <= ROUNDINGS * rounding * abs(b)

    def _maker(self, name: str, op: str = "") -> Node | None:
        """The node that makes a tensor, if that is its only result."""
        node = self._makers.get(name)
        return node if node is not None and len(node.outputs) == 1 and op in ("", node.op) else None

    # ---- by kind of expression

    def _matches(self, pattern: Expression, name: str, factor: float, found: Found) -> Iterator[Found]:
        """All ways in which ``factor`` times a tensor is what a pattern says, what was found before given."""
        if isinstance(pattern, Product) or factor != 1.0:
            yield from self._product(product(pattern), name, factor, found)
        elif isinstance(pattern, Total):
            yield from self._total(pattern, name, found)
        elif isinstance(pattern, Tensor):
            before = found.tensors.get(pattern.name, name)
            if before == name:
                yield found._replace(tensors={**found.tensors, pattern.name: name})
        else:
            yield from self._applied(pattern, name, found)

    def _applied(self, pattern: Applied, name: str, found: Found) -> Iterator[Found]:
        if pattern.op == ">":
            node = self._maker(name)
            if node is None or node.op not in COMPARISONS:
                return
            operands = node.inputs[:: COMPARISONS[node.op]]
        else:
            node = self._maker(name, pattern.op)
            if node is None or any(not self._has(node, key, n) for key, n in pattern.attributes.items()):
                return
            operands = tuple(node.inputs)
            while operands and not operands[-1]:
                operands = operands[:-1]
        if len(operands) != len(pattern.operands) or not all(operands):
            return
        found = found._replace(covers=found.covers | {name})
        for order in permutations(operands) if node.op in IN_ANY_ORDER else (operands,):
            yield from self._each(list(zip(pattern.operands, order)), found)

    def _has(self, node: Node, attribute: str, number: float) -> bool:
        value = node.attributes.get(attribute, DEFAULTS.get((node.op, attribute)))
        return isinstance(value, int | float) and self._equal(value, number, node.outputs[0])

    def _each(self, pairs: list[tuple[Expression, str]], found: Found) -> Iterator[Found]:
        """All ways in which several tensors are each what their pattern says."""
        if not pairs:
            yield found
            return
        (pattern, name), *others = pairs
        for one in self._matches(pattern, name, 1.0, found):
            yield from self._each(others, one)

    def _product(self, pattern: Product, name: str, factor: float, found: Found) -> Iterator[Found]:
        most = sum(abs(power) for _, power in pattern.factors)
        for number, factors, covers in self._powers(name, most):
            if len(factors) != most:
                continue
            for one in self._constant(factor * number, pattern.number, pattern.constant, name, found):
                inner = one._replace(covers=one.covers | covers)
                yield from self._factors(pattern.factors, list(factors), inner)

    def _factors(self, wanted: tuple[tuple[Expression, int], ...], left: list, found: Found) -> Iterator[Found]:
        """All ways to give the factors of a pattern to those of a product."""
        if not wanted:
            yield found
            return
        (pattern, power), *others = wanted
        sign, count = (1 if power > 0 else -1), abs(power)
        for one in dict.fromkeys(left):
            if one[1] == sign and left.count(one) >= count:
                rest = list(left)
                for _ in range(count):
                    rest.remove(one)
                for each in self._matches(pattern, one[0], 1.0, found):
                    yield from self._factors(tuple(others), rest, each)

    def _total(self, pattern: Total, name: str, found: Found) -> Iterator[Found]:
        for number, terms, covers in self._sums(name, len(pattern.terms)):
            if len(terms) != len(pattern.terms):
                continue
            constant, times = pattern.constant or (None, 1.0)
            if constant is not None:  # number = pattern.number + times * constant
                ways = self._constant(number - pattern.number, times, constant, name, found)
            else:
                ways = self._constant(number, pattern.number, None, name, found)
            for one in ways:
                inner = one._replace(covers=one.covers | covers)
                for order in permutations(terms):
                    yield from self._terms(list(zip(pattern.terms, order)), inner)

    def _terms(self, pairs: list[tuple[Product, tuple[str, float]]], found: Found) -> Iterator[Found]:
        if not pairs:
            yield found
            return
        (pattern, (name, factor)), *others = pairs
        for one in self._product(pattern, name, factor, found):
            yield from self._terms(others, one)

    def _constant(self, number: float, wanted: float, constant: str | None, name: str, found: Found) -> Iterator[Found]:
        """Whether a number is ``wanted``, times the constant if there is one."""
        if constant is None:
            if self._equal(number, wanted, name):
                yield found
        elif constant not in found.numbers:
            yield found._replace(numbers={**found.numbers, constant: number / wanted})
        elif self._equal(number, wanted * found.numbers[constant], name):
            yield found

    # ---- the nodes of a graph, as products and sums

    def _inner(self, name: str, depth: int) -> Node | None:
        """The node that makes a tensor, if it is the last one of a pattern or only one node reads it."""
        return self._maker(name) if depth == 0 or (name in self._single and depth < DEEPEST) else None

    def _powers(self, name: str, most: int, depth: int = 0) -> Iterator[Powers]:
        """All products of at most so many tensors that a tensor is, the longest first."""
        scalar = self.scalar(name)
        if scalar is not None:
            yield scalar, (), frozenset()
            return
        node = self._inner(name, depth)
        if node is not None:
            for number, factors, covers in self._of_node(node, most, depth + 1):
                yield number, factors, covers | {name}
        if most:
            yield 1.0, ((name, 1),), frozenset()

    def _of_node(self, node: Node, most: int, depth: int) -> Iterator[Powers]:
        if node.op in ("Neg", "Reciprocal"):
            for number, factors, covers in self._powers(node.inputs[0], most, depth):
                yield (-number, factors, covers) if node.op == "Neg" else (_inverse(number), _flipped(factors), covers)
        elif node.op == "Pow":
            power = self.scalar(node.inputs[1])
            if power in range(2, min(most, MOST_POWER) + 1):
                n = int(power or 0)
                for number, factors, covers in self._powers(node.inputs[0], most // n, depth):
                    yield number**n, factors * n, covers
        elif node.op in ("Mul", "Div") and len(node.inputs) == 2:
            for a, left, covered in self._powers(node.inputs[0], most, depth):
                for b, right, covers in self._powers(node.inputs[1], most - len(left), depth):
                    if node.op == "Div":
                        b, right = _inverse(b), _flipped(right)
                    yield a * b, (*left, *right), covered | covers

    def _sums(self, name: str, most: int, depth: int = 0) -> Iterator[Terms]:
        """All sums of at most so many tensors that a tensor is, the longest first."""
        scalar = self.scalar(name)
        if scalar is not None:
            yield scalar, (), frozenset()
            return
        node = self._inner(name, depth)
        if node is not None and node.op in ("Add", "Sub", "Sum") and len(node.inputs) == 2:
            sign = -1.0 if node.op == "Sub" else 1.0
            for a, left, covered in self._sums(node.inputs[0], most, depth + 1):
                for b, right, covers in self._sums(node.inputs[1], most - len(left), depth + 1):
                    terms = (*left, *((term, sign * times) for term, times in right))
                    yield a + sign * b, terms, covered | covers | {name}
        elif node is not None and node.op in ("Mul", "Div", "Neg"):
            yield from self._scaled(node, most, depth + 1)
        if most:
            yield 0.0, ((name, 1.0),), frozenset()

    def _scaled(self, node: Node, most: int, depth: int) -> Iterator[Terms]:
        """A sum times a constant."""
        scalars = [self.scalar(name) for name in node.inputs]
        if node.op == "Neg":
            of, factor = node.inputs[0], -1.0
        elif scalars[1] is not None:
            of, factor = node.inputs[0], scalars[1] if node.op == "Mul" else _inverse(scalars[1])
        elif node.op == "Mul" and scalars[0] is not None:
            of, factor = node.inputs[1], scalars[0]
        else:
            return
        for number, terms, covers in self._sums(of, most, depth):
            if covers:  # else it is no sum
                scaled = tuple((name, factor * times) for name, times in terms)
                yield factor * number, scaled, covers | {node.outputs[0]}


def _inverse(number: float) -> float:
    return 1 / number if number else float("nan")


def _flipped(factors: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    return tuple((name, -power) for name, power in factors)
