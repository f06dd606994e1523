"""Activations that exporters spell in several operators become the one that they mean.

What is computed is equal but for rounding; where a spelling overflows or cancels (``Log(1 + Exp(x))``) the operator
does not. See `expressions` for how patterns are written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from ..ir import Graph, Node
from .expressions import Applied, Expression, Product, Total, parsed
from .matching import TOLERANCE_EPS, Match, Matcher
from .rewriting import Knowledge, Rewriting

# They are applied in this order: a pattern may contain the operators of the lines before it.
LINES = """
Max(x, 0) -> Relu(x)
Clip(x, 0) -> Relu(x)
Clip(x, 0, a) -> Relu(x) if a >= largest
Min(Max(x, a), b) -> Clip(x, a, b) if a <= b
Max(Min(x, b), a) -> Clip(x, a, b) if a <= b
Min(Relu(x), a) -> Clip(x, 0, a) if a >= 0
Clip(Relu(x), a, b) -> Clip(x, a, b) if 0 <= a <= b

1 / (1 + Exp(-x)) -> Sigmoid(x)
0.5 + 0.5 * Tanh(0.5 * x) -> Sigmoid(x)
Log(1 + Exp(x)) -> Softplus(x)
Where(x > a, x, Softplus(x)) -> Softplus(x) if a >= 17
x / (1 + Abs(x)) -> Softsign(x)
x * Sigmoid(a * x) -> Swish(x, alpha=a)
x / (1 + Exp(-x)) -> Swish(x)
x * Tanh(Softplus(x)) -> Mish(x)

x * Clip(3 + x, 0, 6) / 6 -> HardSwish(x)
x * Clip(0.5 + x / 6, 0, 1) -> HardSwish(x)
x * HardSigmoid(x, alpha=0.16666666666666666, beta=0.5) -> HardSwish(x)
b * Clip(a + x, 0, c) -> HardSigmoid(x, alpha=b, beta=a * b) if c > 0 and near(b * c, 1)
Clip(a + b * x, 0, 1) -> HardSigmoid(x, alpha=b, beta=a) if b > 0 and a != 0

0.5 * x * (1 + Erf(0.7071067811865476 * x)) -> Gelu(x)
x * (0.5 + 0.5 * Erf(0.7071067811865476 * x)) -> Gelu(x)
0.5 * x * (1 + Tanh(0.7978845608028654 * (x + 0.044715 * x ** 3))) -> Gelu(x, approximate="tanh")
0.5 * x * (1 + Tanh(0.7978845608028654 * x * (1 + 0.044715 * x ** 2))) -> Gelu(x, approximate="tanh")
0.5 * x * (1 + Tanh(0.7978845608028654 * x + 0.035677408136300125 * x ** 3)) -> Gelu(x, approximate="tanh")
x * (0.5 + 0.5 * Tanh(0.7978845608028654 * (x + 0.044715 * x ** 3))) -> Gelu(x, approximate="tanh")

Max(x, a * x) -> LeakyRelu(x, alpha=a) if 0 <= a <= 1
Where(x > 0, x, a * x) -> LeakyRelu(x, alpha=a)
Where(0 > x, a * x, x) -> LeakyRelu(x, alpha=a)
Relu(x) + a * Relu(-x) -> LeakyRelu(x, alpha=-a)
Relu(x) + a * Min(x, 0) -> LeakyRelu(x, alpha=a)
Where(x > 0, x, slope * x) -> PRelu(x, slope)
Where(0 > x, slope * x, x) -> PRelu(x, slope)
Relu(x) + slope * Min(x, 0) -> PRelu(x, slope)
Relu(x) - slope * Relu(-x) -> PRelu(x, slope)
Relu(x) + slope * Relu(-x) -> PRelu(x, -slope)
Where(x > 0, x, a * Exp(x) - a) -> Elu(x, alpha=a)
Where(x > 0, x, a * (Exp(x) - 1)) -> Elu(x, alpha=a)
Where(0 > x, a * Exp(x) - a, x) -> Elu(x, alpha=a)
Where(0 > x, a * (Exp(x) - 1), x) -> Elu(x, alpha=a)
"""


class Rule(NamedTuple):
    """A pattern, and the operator that it becomes: operands are tensors of the pattern, with a sign, or constants."""

    pattern: Expression
    roots: tuple[str, ...]
    needs: frozenset[str]  # the operators that it names
    op: str
    operands: tuple[tuple[str, int] | float, ...]
    attributes: Mapping[str, CodeType]
    condition: CodeType | None


def _rule(line: str) -> Rule:
    text, _, becomes = line.partition("->")
    becomes, _, condition = becomes.partition(" if ")
    call = ast.parse(becomes.strip(), mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    pattern = parsed(text)
    attributes = {k.arg or "": compile(ast.Expression(k.value), line, "eval") for k in call.keywords}
    operands = tuple(_operand(arg) for arg in call.args)
    needs = frozenset(re.findall(r"\b[A-Z]\w+", text))
    return Rule(pattern, _roots(pattern), needs, call.func.id, operands, attributes,
                compile(condition.strip(), line, "eval") if condition else None)  # fmt: skip


def _operand(e: ast.expr) -> tuple[str, int] | float:
    if isinstance(e, ast.UnaryOp):
        e, sign = e.operand, -1
    else:
        sign = 1
    if isinstance(e, ast.Constant):
        return sign * float(e.value)  # type: ignore[arg-type]
    assert isinstance(e, ast.Name)
    return e.id, sign


def _roots(pattern: Expression) -> tuple[str, ...]:
    """The operators that the last node of a match may be."""
    if isinstance(pattern, Product):
        return "Mul", "Div", "Neg", "Reciprocal"
    if isinstance(pattern, Total):
        return "Add", "Sub", "Sum", "Mul", "Div"
    assert isinstance(pattern, Applied)
    return (pattern.op,)


RULES = [_rule(line) for line in LINES.splitlines() if line]


def _names(dtype: np.dtype) -> dict[str, Any]:
    """The names that conditions may use beside the constants of their pattern."""
    info = np.finfo(dtype)
    tolerance = TOLERANCE_EPS * float(info.eps)
    return {"__builtins__": {}, "largest": float(info.max), "near": lambda a, b: abs(a - b) <= tolerance * abs(b)}


def activations(graph: Graph, known: Knowledge) -> Graph:
    """The graph with one operator for each expression that a pattern matches."""
    r, operators = Rewriting(graph, known), {node.op for node in graph.nodes}
    matcher = Matcher(r)
    for rule in RULES:
        if not rule.needs <= operators:
            continue
        operators.add(rule.op)
        nodes = []
        for node in graph.nodes:
            match = matcher.match(rule.pattern, node.outputs[0]) if node.op in rule.roots else None
            nodes.append((match and _replaced(rule, match, node, r)) or node)
        if any(a is not b for a, b in zip(nodes, graph.nodes)):
            graph = r.graph(nodes)
            r = Rewriting(graph, known)
            matcher = Matcher(r)
    return graph


def _replaced(rule: Rule, match: Match, node: Node, r: Rewriting) -> Node | None:
    """The node of a rule; None if its condition is not met."""
    known, y = r.known, r.known[node.outputs[0]]
    names = {**_names(y.dtype), **match.numbers}
    if known[match.tensors["x"]].shape != y.shape or match.tensors["x"] in r.constants:
        return None
    if rule.condition is not None and not eval(rule.condition, names):
        return None
    inputs = []
    for operand in rule.operands:
        name, sign = operand if isinstance(operand, tuple) else ("", 1)
        if name in match.tensors and sign == 1:
            inputs.append(match.tensors[name])
            continue
        if name in match.tensors:
            value = known[match.tensors[name]].value
            if value is None:
                return None
            value = -value
        else:
            value = np.asarray(match.numbers[name] if isinstance(operand, tuple) else operand, y.dtype)
        inputs.append(r.constant(node.outputs[0], name or "number", value))
    attributes: dict[str, Any] = {key: eval(code, names) for key, code in rule.attributes.items()}
    return Node(rule.op, tuple(inputs), node.outputs, attributes, node.name)
