"""Nodes of a graph that compute an expression, whatever the order and grouping of its operators.

A product is compared as a set of powers times one number, so that ``0.5 * x * (1 + y)`` is also ``x * (y + 1) / 2``; a
sum as a set of products plus one number. Constants are equal within the rounding of their type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import NamedTuple

import numpy as np

from ..ir import Node
from .expressions import Applied, Expression, Product, Tensor, Total, product
from .rewriting import Rewriting

TOLERANCE_EPS = 4  # relative difference of equal constants, in epsilons of the type: exporters compute them
DEFAULTS = {("HardSigmoid", "alpha"): 0.2, ("HardSigmoid", "beta"): 0.5, ("LeakyRelu", "alpha"): 0.01,
            ("Elu", "alpha"): 1.0, ("Swish", "alpha"): 1.0}  # fmt: skip
IN_ANY_ORDER = "Max", "Min"
COMPARISONS = {"Greater": 1, "GreaterOrEqual": 1, "Less": -1, "LessOrEqual": -1}  # the order of the operands
MAX_POWER = 3  # of a Pow that is matched as a product
MAX_DEPTH = 8  # of nested operators of a product or a sum


class Match(NamedTuple):
    """The tensors and numbers that the names of a pattern are bound to, and the results of all nodes that it covers."""

    tensors: Mapping[str, str]
    numbers: Mapping[str, float]
    covers: frozenset[str]


Powers = tuple[float, tuple[tuple[str, int], ...], frozenset[str]]  # a number, tensors with powers, covered results
Terms = tuple[float, tuple[tuple[str, float], ...], frozenset[str]]  # a number, tensors with factors, covered results
EMPTY = Match({}, {}, frozenset())


class Matcher:
    """The nodes of a graph, as expressions."""

    def __init__(self, r: Rewriting) -> None:
        self._r, self._known = r, r.known
        readers = {name: {id(user) for user in users} for name, users in r.users.items()}
        self._read_once = {name for name, ids in readers.items() if len(ids) == 1} - r.ends  # by one node
        self._scalars: dict[str, float | None] = {}

    def match(self, pattern: Expression, name: str) -> Match | None:
        """How a tensor is an instance of a pattern, None if it is not. All that is covered is of the same
        floating-point type, and nothing else reads it."""
        dtype = self._known[name].dtype
        if dtype.kind != "f":
            return None
        for match in self._matches(pattern, name, 1.0, EMPTY):
            if all(self._known[t].dtype == dtype for t in match.tensors.values()) and self._is_closed(match, name):
                return match
        return None

    def _is_closed(self, match: Match, name: str) -> bool:
        """Whether all nodes of a match but the last can be removed."""
        for inner in match.covers:
            result = self._known[inner]
            if result.stored is not None or result.dtype not in (self._known[name].dtype, np.bool_):
                return False
            if inner != name and (inner in self._r.ends or not self._used_within(inner, match.covers)):
                return False
        return True

    def _used_within(self, name: str, covers: frozenset[str]) -> bool:
        return all(node.outputs[0] in covers for node in self._r.users.get(name, ()))

    def scalar(self, name: str) -> float | None:
        """The number that a constant tensor consists of, None if there are several or it is no constant."""
        if name not in self._scalars:
            value = self._known[name].value
            self._scalars[name] = None
            if value is not None and value.size > 0 and value.dtype.kind in "fiu":
                first = value.reshape(-1)[0]
                self._scalars[name] = float(first) if bool((value == first).all()) else None
        return self._scalars[name]

    def _equal(self, a: float, b: float, name: str) -> bool:
        dtype = self._known[name].dtype
        rounding = float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
        return abs(a - b) <= TOLERANCE_EPS * rounding * abs(b)

    def _maker(self, name: str, op: str = "") -> Node | None:
        """The node that computes a tensor, if that is its only result."""
        node = self._r.makers.get(name)
        return node if node is not None and len(node.outputs) == 1 and op in ("", node.op) else None

    # ---- by kind of expression

    def _matches(self, pattern: Expression, name: str, factor: float, match: Match) -> Iterator[Match]:
        """All matches of a pattern with ``factor`` times a tensor that extend a match of other parts."""
        if isinstance(pattern, Product) or factor != 1.0:
            yield from self._product(product(pattern), name, factor, match)
        elif isinstance(pattern, Total):
            yield from self._total(pattern, name, match)
        elif isinstance(pattern, Tensor):
            before = match.tensors.get(pattern.name, name)
            if before == name:
                yield match._replace(tensors={**match.tensors, pattern.name: name})
        else:
            yield from self._applied(pattern, name, match)

    def _applied(self, pattern: Applied, name: str, match: Match) -> Iterator[Match]:
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
        match = match._replace(covers=match.covers | {name})
        for order in permutations(operands) if node.op in IN_ANY_ORDER else (operands,):
            yield from self._each(list(zip(pattern.operands, order)), match)

    def _has(self, node: Node, attribute: str, number: float) -> bool:
        value = node.attributes.get(attribute, DEFAULTS.get((node.op, attribute)))
        return isinstance(value, int | float) and self._equal(value, number, node.outputs[0])

    def _each(self, pairs: list[tuple[Expression, str]], match: Match) -> Iterator[Match]:
        """All matches of several tensors, each with its pattern."""
        if not pairs:
            yield match
            return
        (pattern, name), *others = pairs
        for extended in self._matches(pattern, name, 1.0, match):
            yield from self._each(others, extended)

    def _product(self, pattern: Product, name: str, factor: float, match: Match) -> Iterator[Match]:
        most = sum(abs(power) for _, power in pattern.factors)
        for number, factors, covers in self._powers(name, most):
            if len(factors) != most:
                continue
            for extended in self._constant(factor * number, pattern.number, pattern.constant, name, match):
                extended = extended._replace(covers=extended.covers | covers)
                yield from self._factors(pattern.factors, list(factors), extended)

    def _factors(self, wanted: tuple[tuple[Expression, int], ...], left: list, match: Match) -> Iterator[Match]:
        """All matches of the factors of a pattern with those of a product."""
        if not wanted:
            yield match
            return
        (pattern, power), *others = wanted
        sign, count = (1 if power > 0 else -1), abs(power)
        for factor in dict.fromkeys(left):
            if factor[1] == sign and left.count(factor) >= count:
                rest = list(left)
                for _ in range(count):
                    rest.remove(factor)
                for extended in self._matches(pattern, factor[0], 1.0, match):
                    yield from self._factors(tuple(others), rest, extended)

    def _total(self, pattern: Total, name: str, match: Match) -> Iterator[Match]:
        for number, terms, covers in self._sums(name, len(pattern.terms)):
            if len(terms) != len(pattern.terms):
                continue
            constant, times = pattern.constant or (None, 1.0)
            if constant is not None:  # number = pattern.number + times * constant
                matches = self._constant(number - pattern.number, times, constant, name, match)
            else:
                matches = self._constant(number, pattern.number, None, name, match)
            for extended in matches:
                extended = extended._replace(covers=extended.covers | covers)
                for order in permutations(terms):
                    yield from self._terms(list(zip(pattern.terms, order)), extended)

    def _terms(self, pairs: list[tuple[Product, tuple[str, float]]], match: Match) -> Iterator[Match]:
        if not pairs:
            yield match
            return
        (pattern, (name, factor)), *others = pairs
        for extended in self._product(pattern, name, factor, match):
            yield from self._terms(others, extended)

    def _constant(self, number: float, wanted: float, constant: str | None, name: str, match: Match) -> Iterator[Match]:
        """The match if a number is ``wanted``, times the constant if there is one, which this binds; else nothing."""
        if constant is None:
            if self._equal(number, wanted, name):
                yield match
        elif constant not in match.numbers:
            yield match._replace(numbers={**match.numbers, constant: number / wanted})
        elif self._equal(number, wanted * match.numbers[constant], name):
            yield match

    # ---- the nodes of a graph, as products and sums

    def _inner(self, name: str, depth: int) -> Node | None:
        """The node that computes a tensor, if it is the last one of a pattern or only one node reads it."""
        return self._maker(name) if depth == 0 or (name in self._read_once and depth < MAX_DEPTH) else None

    def _powers(self, name: str, most: int, depth: int = 0) -> Iterator[Powers]:
        """All products of at most `most` tensors that a tensor is equal to, the longest first."""
        scalar = self.scalar(name)
        if scalar is not None:
            yield scalar, (), frozenset()
            return
        node = self._inner(name, depth)
        if node is not None:
            for number, factors, covers in self._powers_of_node(node, most, depth + 1):
                yield number, factors, covers | {name}
        if most:
            yield 1.0, ((name, 1),), frozenset()

    def _powers_of_node(self, node: Node, most: int, depth: int) -> Iterator[Powers]:
        if node.op in ("Neg", "Reciprocal"):
            for number, factors, covers in self._powers(node.inputs[0], most, depth):
                yield (-number, factors, covers) if node.op == "Neg" else (_inverse(number), _flipped(factors), covers)
        elif node.op == "Pow":
            power = self.scalar(node.inputs[1])
            if power in range(2, min(most, MAX_POWER) + 1):
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
        """All sums of at most `most` tensors that a tensor is equal to, the longest first."""
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
        """All sums that a node multiplies by a constant, times it."""
        scalars = [self.scalar(name) for name in node.inputs]
        if node.op == "Neg":
            name, factor = node.inputs[0], -1.0
        elif scalars[1] is not None:
            name, factor = node.inputs[0], scalars[1] if node.op == "Mul" else _inverse(scalars[1])
        elif node.op == "Mul" and scalars[0] is not None:
            name, factor = node.inputs[1], scalars[0]
        else:
            return
        for number, terms, covers in self._sums(name, most, depth):
            if covers:  # else it is no sum
                scaled = tuple((term, factor * times) for term, times in terms)
                yield factor * number, scaled, covers | {node.outputs[0]}


def _inverse(number: float) -> float:
    return 1 / number if number else float("nan")


def _flipped(factors: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    return tuple((name, -power) for name, power in factors)
