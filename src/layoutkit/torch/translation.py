"""Graphs of torch.fx, of ATen operators, as graphs of ours; what has no translation stays torch's, between them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ..graph.ir import Graph
from .aten import TABLE, TYPES, Builder, NoTranslationError, Result, Value

CALLS = "call_function", "call_method", "call_module"


def decompositions() -> dict[Any, Callable]:
    """How torch takes apart the operators that have no translation."""
    table = torch.export.default_decompositions()
    return {of: how for of, how in table.items() if of not in TABLE}


class Translator:
    """The translation of one graph of torch.fx.

    Parameters
    ----------
    root : GraphModule
    known : dict of fx.Node to Tensor
        Placeholders that are constants.
    channels_last : bool
        Images come, and go, in channels_last: as arrays (N, .., C).
    """

    def __init__(
        self, root: fx.GraphModule, known: Mapping[fx.Node, torch.Tensor], channels_last: bool = False
    ) -> None:
        self.root, self.channels_last = root, channels_last
        self.builder = Builder()
        self.values: dict[fx.Node, Any] = dict(known)  # tensors that are constants as they are, others as `Value`s
        self.inputs: list[tuple[fx.Node, str]] = []
        self.permuted: set[str] = set()  # inputs, and outputs, that are arrays (N, .., C)

    def graph(self) -> tuple[Graph, list[Any]]:
        """The graph, and what the results are: the number of an output, a constant, or an argument."""
        outputs: list[Value] = []
        results: list[Any] = []
        for node in self.root.graph.nodes:
            if node.op == "placeholder":
                if node not in self.values:
                    self.values[node] = self._input(node)
            elif node.op == "get_attr":
                self.values[node] = attribute(self.root, node.target)
            elif node.op == "output":
                (given,) = node.args
                for item in given if isinstance(given, (tuple, list)) else (given,):
                    value = self.values[item] if isinstance(item, fx.Node) else item
                    if isinstance(value, Value):
                        results.append(len(outputs))
                        outputs.append(self._output(value))
                    elif isinstance(value, _Argument):
                        results.append(value)
                    else:
                        is_computed = isinstance(item, fx.Node) and item.op in CALLS
                        results.append(_Constant(value, is_computed))
            else:
                self.values[node] = self.translated(node)
        return self.builder.graph(outputs), results

    def _input(self, node: fx.Node) -> Any:
        example = node.meta.get("val")
        if not isinstance(example, torch.Tensor):
            return example
        if example.dtype not in TYPES:  # nothing here reads it, but it may be a result
            return _Argument([n for n in self.root.graph.nodes if n.op == "placeholder"].index(node))
        name, shape = f"x{len(self.inputs)}", tuple(example.shape)
        self.inputs.append((node, name))
        if not (self.channels_last and in_channels_last(example)):
            return self.builder.input(name, shape, example.dtype)
        self.permuted.add(name)
        rank = len(shape)
        value = self.builder.input(name, (shape[0], *shape[2:], shape[1]), example.dtype)
        return self.builder.permuted(value, (0, rank - 1, *range(1, rank - 1)))

    def _output(self, value: Value) -> Value:
        if not self.channels_last or value.rank not in (4, 5):
            return value
        value = self.builder.permuted(value, (0, *range(2, value.rank), 1))
        self.permuted.add(value.name)
        return value

    def translated(self, node: fx.Node) -> Any:
        """The value of a node: a constant if all that it reads are, else what its translation appends."""
        if node.target is operator.getitem:
            of, index = node.args
            return self.values[of][index]  # type: ignore[index]
        given = [self.values[n] for n in node.all_input_nodes]
        if is_constant(node) and all(isinstance(v, torch.Tensor) for v in given):
            arguments, keywords = fx.map_arg((node.args, node.kwargs), self.values.__getitem__)
            with torch.no_grad():
                return node.target(*arguments, **keywords)  # type: ignore[operator]
        translate = TABLE.get(node.target)
        if translate is None:
            raise NoTranslationError(str(node.target))
        arguments, keywords = fx.map_arg((node.args, node.kwargs), self._argument)
        return translate(self.builder, _result(node), *arguments, **keywords)

    def _argument(self, node: fx.Node) -> Any:
        value = self.values[node]
        return self.builder.constant(value.contiguous()) if isinstance(value, torch.Tensor) else value


class _Constant:
    """A result that is known; if it is computed, each call gives a tensor of its own, which may be written to."""

    def __init__(self, value: Any, is_computed: bool) -> None:
        self._value, self._is_computed = value, is_computed

    def of(self, arguments: Sequence[Any]) -> Any:
        copies = self._is_computed and isinstance(self._value, torch.Tensor)
        return self._value.clone() if copies else self._value


class _Argument:
    """A result that is an argument, of a type that has no translation."""

    def __init__(self, number: int) -> None:
        self._number = number

    def of(self, arguments: Sequence[Any]) -> Any:
        return arguments[self._number]


def is_constant(node: fx.Node) -> bool:
    """Whether what a node gives depends on what it reads alone: it draws no random numbers and changes nothing."""
    of = node.target
    if not isinstance(of, torch._ops.OpOverload):
        return False
    return torch.Tag.nondeterministic_seeded not in of.tags and not of._schema.is_mutable


def _result(node: fx.Node) -> Result:
    example = node.meta.get("val")
    if isinstance(example, (tuple, list)):
        example = next((e for e in example if isinstance(e, torch.Tensor)), None)
    if not isinstance(example, torch.Tensor) or not all(isinstance(n, int) for n in example.shape):
        raise NoTranslationError(f"{node.target} of unknown shape")
    return Result(tuple(example.shape), example.dtype)


def attribute(root: torch.nn.Module, path: Any) -> Any:
    """What a path of names from a module leads to."""
    found: Any = root
    for name in path.split("."):
        found = getattr(found, name)
    return found


def in_channels_last(tensor: torch.Tensor) -> bool:
    """Whether a tensor is in channels_last, and not plain too."""
    if tensor.dim() not in (4, 5) or tensor.is_contiguous():
        return False
    form = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
    return tensor.is_contiguous(memory_format=form)


class Support(OperatorSupportBase):
    """Which nodes of a graph have a translation: each is tried alone."""

    def __init__(self, root: fx.GraphModule, known: Mapping[fx.Node, torch.Tensor]) -> None:
        self.refused: dict[fx.Node, str] = {}
        attributes = {n for n in root.graph.nodes if n.op == "get_attr"}
        changed = changed_attributes(root)
        self.changing = {n for n in attributes if n.target in changed}
        self._constants = constants = {*known, *(attributes - self.changing)}
        for node in root.graph.nodes:
            if node.op not in CALLS:
                continue
            if is_constant(node) and all(n in constants for n in node.all_input_nodes):
                constants.add(node)
                continue
            try:
                self._try(root, node)
            except (NoTranslationError, TypeError, ValueError, ArithmeticError, LookupError) as error:
                # others: a use with arguments that the translation does not know
                self.refused[node] = str(error)

    def _try(self, root: fx.GraphModule, node: fx.Node) -> None:
        if node.target is operator.getitem:
            if node.args[0] in self.refused:
                raise NoTranslationError("a part of what has no translation")
            return
        translator = Translator(root, {})
        for i, of in enumerate(node.all_input_nodes):
            example = attribute(root, of.target) if of.op == "get_attr" else of.meta.get("val")
            if not isinstance(example, torch.Tensor):
                raise NoTranslationError(f"{node.target} of what is no tensor")
            if not all(isinstance(n, int) for n in example.shape):
                raise NoTranslationError(f"{node.target} of unknown shape")
            if of in self._constants:  # its numbers do not matter
                translator.values[of] = torch.zeros(example.shape, dtype=example.dtype)
            else:
                translator.values[of] = translator.builder.input(f"x{i}", tuple(example.shape), example.dtype)
        found = translator.translated(node)
        if not isinstance(found, Value) and isinstance(found, tuple):
            missing = {i for i, value in enumerate(found) if value is None}
            if any(user.args[1] in missing for user in node.users if user.users and user.target is operator.getitem):
                raise NoTranslationError(f"{node.target} whose other results are used")

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        if node.op == "get_attr":
            return node not in self.changing
        return node.op in CALLS and node not in self.refused


def changed_attributes(root: fx.GraphModule) -> set[Any]:
    """The attributes that a graph writes to: buffers that count, say."""
    writers = (
        n for n in root.graph.nodes if isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable
    )
    return {of.target for node in writers for of in node.all_input_nodes if of.op == "get_attr"}


def partitioned(root: fx.GraphModule, support: Support) -> tuple[fx.GraphModule, list[str]]:
    """The graph with modules in place of its parts that have translations; their names."""
    fused = CapabilityBasedPartitioner(root, support, allows_single_node_partition=False).partition_and_fuse()
    names = [node.target for node in fused.graph.nodes if node.op == "call_module" and node.target.startswith("fused")]
    return fused, names


def constants_of(
    root: torch.nn.Module, call: fx.Node, part: fx.GraphModule, known: Mapping[fx.Node, torch.Tensor]
) -> dict[fx.Node, torch.Tensor]:  # fmt: skip
    """The placeholders of a part that are given constants of the whole."""
    found = dict(known)
    changed = changed_attributes(root)  # type: ignore[arg-type]
    given = (n for n in call.all_input_nodes if n.op == "get_attr" and n.target not in changed)
    found |= {n: attribute(root, n.target) for n in given}
    placeholders = [node for node in part.graph.nodes if node.op == "placeholder"]
    return {node: found[given] for node, given in zip(placeholders, call.args) if given in found}  # type: ignore[index]
