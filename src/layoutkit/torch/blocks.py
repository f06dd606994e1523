"""Modules of users in which a batch normalisation, a sum and a ReLU follow one another: in training one operation.

    y = relu(bn(conv(x)) + beside)

Where `forward` is plain code (plain_code.py), torch.fx records it once, `nn.Sequential`s and all; batch normalisations
of what a convolution just made, with nothing else behind them, move to their ReLU. What was recorded runs from then on.
Hooks, modules that were exchanged and attributes that `forward` asks for are looked at in every call.
"""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import fx
from torch.compiler import is_compiling
from torch.nn import functional

from .layers import RELUS, Sequential, _BatchNorm, is_bare, joined
from .plain_code import attribute_of, is_decided, tested_attributes

CONVOLUTIONS = (
    torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d,
    torch.nn.ConvTranspose3d, torch.nn.Linear,
)  # fmt: skip
RELU_FUNCTIONS = torch.relu, torch.relu_, functional.relu, functional.relu_
SUMS = operator.add, operator.iadd, torch.add, "add", "add_"
SEQUENTIALS = torch.nn.Sequential.forward, Sequential.forward


class Proxy(fx.Proxy):
    """Records ``+=`` as what it is: something may be seen elsewhere too."""

    def __iadd__(self, other):
        return self.tracer.create_proxy("call_function", operator.iadd, (self, other), {})


class Tracer(fx.Tracer):
    """Records calls of modules, those inside of an `nn.Sequential` one by one."""

    traced_func_name = "traced"

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[torch.nn.Module] = []

    def proxy(self, node):
        return Proxy(node, self)

    def call_module(self, m, forward, args, kwargs):
        if type(m).forward in SEQUENTIALS and len(args) == 1 and not kwargs:
            self.opened.append(m)
            (y,) = args
            for part in m._modules.values():
                y = self.call_module(part, part.forward, (y,), {})
            return y
        return self.create_proxy("call_module", self.path_of_module(m), args, kwargs)


class Plan:
    """What a module does in training, as long as what it was made of stays.

    Parameters
    ----------
    module : Module
    graph : torch.fx.Graph
    opened : list of Module
        The `nn.Sequential`s that were recorded as their parts.
    tested : set of str
        The attributes that decide what is done.
    """

    def __init__(
        self, module: torch.nn.Module, graph: fx.Graph, opened: list[torch.nn.Module], tested: set[str]
    ) -> None:
        code = graph.python_code("self")
        names = dict(code.globals)
        exec(code.src, names)
        self.run = names["forward"]
        self._opened = [(part, tuple(part._modules.values())) for part in opened]
        self._parts = tuple(module._modules.items())
        self._tested = {name: attribute_of(module, name) for name in tested}

    def holds(self, module: torch.nn.Module) -> bool:
        """Whether the module is still what was recorded."""
        if tuple(module._modules.items()) != self._parts:
            return False
        if any(tuple(part._modules.values()) != parts for part, parts in self._opened):
            return False
        return all(is_decided(module, name) and attribute_of(module, name) is was for name, was in self._tested.items())

    def is_bare(self) -> bool:
        """Whether nothing hooks into the sequences that were recorded as their parts."""
        return all(is_bare(part) for part, _ in self._opened)


def made_plan(module: Block) -> Plan | None:
    """That of a module; None if nothing in it can be joined, or nobody can tell."""
    forward = type(module).traced
    tested = set[str]() if forward in SEQUENTIALS else tested_attributes(module, forward)
    if tested is None or "forward" in module.__dict__:
        return None
    tracer = Tracer()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = tracer.trace(module)
    except Exception:  # whatever the code of a user raises when it is given no tensors
        return None
    parts = dict(module.named_modules(remove_duplicate=False))
    found = [_join(node, parts) for node in list(graph.nodes)]
    return Plan(module, graph, tracer.opened, tested) if any(found) else None


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _called(node: Any, parts: dict[str, Any]) -> Any:
    """The module that a node calls, or None."""
    return parts.get(str(node.target)) if isinstance(node, fx.Node) and node.op == "call_module" else None


def _limit_of(node: fx.Node | None, parts: dict[str, Any]) -> float:
    """The limit of a ReLU, or 0 where there is none."""
    if node is None:
        return 0.0
    if node.op == "call_module":
        return RELUS.get(type(_called(node, parts)), 0.0)
    plain = len(node.args) == 1 and not node.kwargs
    named = node.op == "call_method" and node.target in ("relu", "relu_")
    if node.op == "call_function" and node.target in RELU_FUNCTIONS:
        plain, named = len(node.args) == 1 and not node.kwargs.keys() - {"inplace"}, True
    return math.inf if named and plain else 0.0


def _join(norm: fx.Node, parts: dict[str, Any]) -> bool:
    """Move a batch normalisation to the ReLU behind it, if there is one."""
    if not isinstance(_called(norm, parts), _BatchNorm) or len(norm.args) != 1 or norm.kwargs:
        return False
    (x,) = norm.args
    # What a convolution made nobody else knows: it is the same when the ReLU comes.
    if not isinstance(x, fx.Node) or not isinstance(_called(x, parts), CONVOLUTIONS) or _only_user(x) is not norm:
        return False
    after, add = _only_user(norm), None
    relu = after
    if after is not None and after.op in ("call_function", "call_method") and after.target in SUMS:
        if len(after.args) != 2 or after.kwargs or after.next is not _only_user(after):
            return False
        (first, second), relu = after.args, after.next
        add = second if first is norm else first
        if not isinstance(add, fx.Node) or (first is not norm and after.target in (operator.iadd, "add_")):
            return False
    limit = _limit_of(relu, parts)
    if relu is None or not limit:
        return False
    graph = norm.graph
    with graph.inserting_before(relu):
        module = graph.create_node("get_attr", norm.target)
        behind = graph.create_node("get_attr", relu.target) if relu.op == "call_module" else None
        y = graph.call_function(joined, (module, behind, limit, x, add))
    relu.replace_all_uses_with(y)
    for node in (relu, *((after,) if add is not None else ()), norm):
        graph.erase_node(node)
    return True


class Block(torch.nn.Module):
    """A class of a user, of which this is put before; in training it does what was recorded."""

    traced: Any
    of: type

    def forward(self, *args, **kwargs):
        if self.training and not kwargs and not is_compiling() and all(type(a) is torch.Tensor for a in args):
            plan = plan_of(self)
            if plan is not None and plan.is_bare():
                return plan.run(self, *args)
        return super().forward(*args, **kwargs)

    def __reduce_ex__(self, protocol):
        made, (_, *args), *rest = super().__reduce_ex__(protocol)
        return _remade, (made, self.of, *args), *rest


_plans: WeakKeyDictionary[Block, Plan | None] = WeakKeyDictionary()
_classes: dict[type, type] = {}


def plan_of(module: Block) -> Plan | None:
    """The plan of a module, made again if it has changed."""
    plan = _plans.get(module)
    if module not in _plans or (plan is not None and not plan.holds(module)):
        plan = _plans[module] = made_plan(module)
    return plan


def _remade(made: Any, of: type, *args: Any) -> Block:
    return made(class_of(of), *args)


def class_of(of: Any) -> Any:
    """A class of modules with `Block` before it; its name stays."""
    if of not in _classes:
        names = {"__module__": of.__module__, "__qualname__": of.__qualname__, "__doc__": of.__doc__}
        _classes[of] = type(of.__name__, (Block, of), names | {"traced": of.forward, "of": of})
    return _classes[of]


def _is_ordinary(of: Any) -> bool:
    """Whether a subclass does nothing but what its class does: none is registered, and copies are made as ever."""
    if type(of) is not type or of.__reduce_ex__ is not object.__reduce_ex__ or of.__reduce__ is not object.__reduce__:
        return False
    return not any("__init_subclass__" in vars(base) for base in of.__mro__ if base is not object)


def join(module: torch.nn.Module) -> None:
    """Make a module one that joins what can be joined, if there is something."""
    of: Any = type(module)
    if isinstance(module, (Block, Sequential)) or of.__module__.startswith("torch.nn.") or not _is_ordinary(of):
        return
    try:
        module.__class__ = class_of(of)
    except TypeError:  # its class lays out its instances by itself
        return
    if plan_of(cast(Block, module)) is None:
        module.__class__ = of
