"""Expressions of operators, as patterns are written: ``x * Sigmoid(a * x)``.

Calls are operators by name, with attributes as keywords; ``+ - * / **`` and ``>`` stand for the operators of arithmetic
in any order and grouping, numbers for constants. A single letter from a to e is a constant too, any; every other name
is a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class Tensor(NamedTuple):
    """A tensor, wherever it occurs the same."""

    name: str


class Applied(NamedTuple):
    """An operator; ``>`` is any comparison that differs from it for equal operands at most."""

    op: str
    operands: tuple[Expression, ...]
    attributes: Mapping[str, float]


class Product(NamedTuple):
    """A constant, times another one that has a name, times powers."""

    number: float
    constant: str | None
    factors: tuple[tuple[Expression, int], ...]


class Total(NamedTuple):
    """A constant, plus one that has a name times a number, plus products."""

    number: float
    constant: tuple[str, float] | None
    terms: tuple[Product, ...]


Expression: TypeAlias = Tensor | Applied | Product | Total


def parsed(text: str) -> Expression:
    """The expression that a text says."""
    return _expression(ast.parse(text.strip(), mode="eval").body)


def _expression(e: ast.expr) -> Expression:
    if isinstance(e, ast.Name):
        return Product(1.0, e.id, ()) if e.id in "abcde" else Tensor(e.id)
    if isinstance(e, ast.Constant):
        return Product(float(e.value), None, ())  # type: ignore[arg-type]
    if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
        return _times(Product(-1.0, None, ()), _expression(e.operand))
    if isinstance(e, ast.Compare):
        return Applied(">", (_expression(e.left), _expression(e.comparators[0])), {})
    if isinstance(e, ast.Call) and isinstance(e.func, ast.Name):
        attributes = {k.arg or "": _number(_expression(k.value)) for k in e.keywords}
        return Applied(e.func.id, tuple(map(_expression, e.args)), attributes)
    if isinstance(e, ast.BinOp):
        left, right = _expression(e.left), _expression(e.right)
        if isinstance(e.op, ast.Add | ast.Sub):
            return _plus(left, right, 1 if isinstance(e.op, ast.Add) else -1)
        if isinstance(e.op, ast.Mult):
            return _times(left, right)
        if isinstance(e.op, ast.Pow):
            return _power(left, int(_number(right)))
        if isinstance(e.op, ast.Div):
            return _times(left, _power(right, -1))
    raise ValueError(f"pattern: {ast.unparse(e)!r} is none of the expressions that are known")


def _number(e: Expression) -> float:
    if not isinstance(e, Product) or e.factors or e.constant:
        raise ValueError(f"pattern: expected a number, got {e}")
    return e.number


def product(e: Expression) -> Product:
    """An expression as a product."""
    return e if isinstance(e, Product) else Product(1.0, None, ((e, 1),))


def _times(left: Expression, right: Expression) -> Product:
    a, b = product(left), product(right)
    if a.constant and b.constant:
        raise ValueError("pattern: a product of two constants with names")
    return Product(a.number * b.number, a.constant or b.constant, (*a.factors, *b.factors))


def _power(e: Expression, n: int) -> Product:
    p = product(e)
    if p.constant:
        raise ValueError("pattern: a power of a constant with a name")
    return Product(p.number**n, None, tuple((factor, power * n) for factor, power in p.factors))


def _plus(left: Expression, right: Expression, sign: int) -> Total:
    a, b = _total(left), _total(right)
    if a.constant and b.constant:
        raise ValueError("pattern: a sum of two constants with names")
    constant = a.constant or (b.constant and (b.constant[0], sign * b.constant[1]))
    terms = tuple(term._replace(number=sign * term.number) for term in b.terms)
    return Total(a.number + sign * b.number, constant, (*a.terms, *terms))


def _total(e: Expression) -> Total:
    if isinstance(e, Total):
        return e
    p = product(e)
    if p.factors:
        return Total(0.0, None, (p,))
    return Total(0.0, (p.constant, p.number), ()) if p.constant else Total(p.number, None, ())
