"""Whether a `forward` can be seen through: straight code of which each call does the same as the last.

Tracing by torch.fx records what a `forward` does once. That stands for later calls only if nothing else decides what it
does: no numbers of tensors, no random numbers, no state. So a few kinds of statements are allowed, and no others.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

FUNCTIONS = {
    torch.relu, torch.relu_, functional.relu, functional.relu_, functional.relu6, torch.add, torch.flatten, torch.cat,
    functional.avg_pool2d, functional.max_pool2d, functional.adaptive_avg_pool2d, functional.avg_pool3d,
    functional.max_pool3d, functional.adaptive_avg_pool3d,
}  # fmt: skip
METHODS = {"relu", "relu_", "add", "add_", "view", "flatten", "mean", "size", "reshape", "mul", "mul_"}


class Unclear(Exception):
    """Raised for code that is not plain."""


def tested_attributes(module: torch.nn.Module, function: Callable[..., Any]) -> set[str] | None:
    """The attributes of a module that decide what its `forward` does; None if the code is not plain.

    Parameters
    ----------
    module : torch.nn.Module
    function : callable
        The `forward` of its class, or another method that takes tensors alone.
    """
    reader = _Reader(module)
    try:
        reader.read(function)
    except Unclear:
        return None
    return reader.tested


class _Reader:
    def __init__(self, module: torch.nn.Module) -> None:
        self.module, self.tested = module, set[str]()
        self._names: dict[str, Any] = {}
        self._reading: list[Callable[..., Any]] = []

    def read(self, function: Any) -> None:
        """All statements of a method."""
        if not inspect.isfunction(function) or function.__closure__ or function in self._reading:
            raise Unclear
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        except (OSError, SyntaxError, TypeError, ValueError):
            raise Unclear from None
        if not isinstance(tree, ast.FunctionDef) or tree.decorator_list:
            raise Unclear
        a = tree.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.defaults or a.posonlyargs or not a.args or a.args[0].arg != "self":
            raise Unclear
        outer, self._names = self._names, function.__globals__
        self._reading.append(function)
        for statement in tree.body:
            self.statement(statement)
        self._reading.pop()
        self._names = outer

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.If):
            self.test(node.test)
            for inner in node.body + node.orelse:
                self.statement(inner)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self.target(target)
            self.value(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            self.target(node.target)
            self.value(node.value)
        elif isinstance(node, (ast.AnnAssign, ast.Return)) and node.value is not None:
            self.target(node.target) if isinstance(node, ast.AnnAssign) else None
            self.value(node.value)
        elif isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):
                raise Unclear
        elif not isinstance(node, ast.Pass):
            raise Unclear

    def target(self, node: ast.expr) -> None:
        if not isinstance(node, ast.Name) or node.id == "self":
            raise Unclear

    def test(self, node: ast.expr) -> None:
        """``self.name``, ``not self.name`` or ``self.name is None``; a module, None or a bool."""
        of_none = False
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node = node.operand
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and len(node.ops) == 1:
            if not isinstance(node.comparators[0], ast.Constant) or node.comparators[0].value is not None:
                raise Unclear
            node, of_none = node.left, True
        name = self.attribute(node)
        if name is None or name == "training" or not is_decided(self.module, name):
            raise Unclear
        if not of_none and isinstance(getattr(self.module, name), torch.nn.Module):
            raise Unclear  # an empty sequence is false
        self.tested.add(name)

    def attribute(self, node: ast.expr) -> str | None:
        """The name in ``self.name``."""
        is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
        return node.attr if is_own else None  # type: ignore[attr-defined]

    def value(self, node: ast.expr) -> None:
        if isinstance(node, ast.Call):
            self.called(node.func)
            for inner in [*node.args, *(keyword.value for keyword in node.keywords)]:
                self.value(inner)
        elif isinstance(node, (ast.BinOp, ast.Tuple, ast.List, ast.UnaryOp)):
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    self.value(part)
        elif not isinstance(node, ast.Constant) and not (isinstance(node, ast.Name) and node.id != "self"):
            raise Unclear

    def called(self, node: ast.expr) -> None:
        """What a call may call: a submodule, a plain method, a method of a tensor, or one of a few functions."""
        name = self.attribute(node)
        if name is not None:
            if name in self.tested and not attribute_of(self.module, name):
                return  # not reached
            if self.module._modules.get(name) is None:
                self.read(getattr(type(self.module), name, None) if name not in self.module.__dict__ else None)
            return
        if not isinstance(node, ast.Attribute):
            raise Unclear
        path, root = [node.attr], node.value
        while isinstance(root, ast.Attribute):
            path.append(root.attr)
            root = root.value
        if isinstance(root, ast.Name) and root.id in self._names:
            found = self._names[root.id]
            for attr in reversed(path):
                found = getattr(found, attr, None)
            if found in FUNCTIONS:
                return
        elif node.attr in METHODS:
            self.value(node.value)
            return
        raise Unclear


def attribute_of(module: torch.nn.Module, name: str) -> bool | None:
    """What a test of an attribute asks: a bool, None, and True for a module."""
    value = module._modules.get(name, module.__dict__.get(name))
    return value if value is None or value is False else True


def is_decided(module: torch.nn.Module, name: str) -> bool:
    """Whether an attribute is a module, None or a bool, as a test may ask."""
    value = module._modules.get(name, module.__dict__.get(name, ()))
    return value is None or isinstance(value, (bool, torch.nn.Module))
