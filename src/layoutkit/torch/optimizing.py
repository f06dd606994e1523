"""Whole models of torch, run as the compiled programs of networks: `optimize`."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.utils import _pytree as pytree

from ..graph.model import Model
from .translation import Support, Translator, constants_of, decompositions, in_channels_last, partitioned

MAX_PLANS = 8  # of a model, for inputs of different shapes
DTYPES = {None: "float32", torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}

_exporting = threading.Lock()  # torch.export is for one thread at a time


class Part(torch.nn.Module):
    """A part of a graph of ATen operators, as a program of ours.

    Parameters
    ----------
    root : GraphModule
    known : dict of fx.Node to Tensor
        Placeholders that are constants.
    channels_last : bool
        Images come, and go, in channels_last.
    dtype : str
        What convolutions and products multiply.
    """

    def __init__(
        self, root: fx.GraphModule, known: Mapping[fx.Node, torch.Tensor], channels_last: bool, dtype: str
    ) -> None:
        super().__init__()
        translator = Translator(root, known, channels_last)
        graph, self._results = translator.graph()
        placeholders = [node for node in root.graph.nodes if node.op == "placeholder"]
        self._inputs = [
            (placeholders.index(node), name, name in translator.permuted)
            for node, name in translator.inputs
            if name in graph.inputs
        ]
        self._outputs = [(name, name in translator.permuted) for name in graph.outputs]
        self._is_single = not isinstance(_output(root), (tuple, list))
        self.program = Model(graph, dtype=dtype, threads=torch.get_num_threads())

    def forward(self, *tensors: torch.Tensor) -> Any:
        arrays = {name: _array(tensors[i], permuted) for i, name, permuted in self._inputs}
        found = self.program.run(arrays)
        outputs = [_tensor(found[name], permuted) for name, permuted in self._outputs]
        results = [outputs[of] if isinstance(of, int) else of.of(tensors) for of in self._results]
        return results[0] if self._is_single else results


def _output(root: fx.GraphModule) -> Any:
    return next(node for node in root.graph.nodes if node.op == "output").args[0]


def _array(tensor: torch.Tensor, permuted: bool) -> np.ndarray:
    array = tensor.detach().numpy()
    return array.transpose(0, *range(2, array.ndim), 1) if permuted else array


def _tensor(array: np.ndarray, permuted: bool) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    return tensor.permute(0, -1, *range(1, tensor.dim() - 1)) if permuted else tensor


class Plan:
    """A graph of ATen operators for inputs of certain shapes: one part of ours, or several between torch's operators.

    Parameters
    ----------
    root : GraphModule
        Of flat arguments and results.
    dtype : str
        What convolutions and products multiply.
    constants : dict of int to Tensor
        Arguments that are constants, by number.
    channels_last : bool
        Images come, and go, in channels_last, where there is one part.
    """

    def __init__(
        self,
        root: fx.GraphModule,
        dtype: str,
        constants: Mapping[int, torch.Tensor] | None = None,
        channels_last: bool = False,
    ) -> None:
        placeholders = [node for node in root.graph.nodes if node.op == "placeholder"]
        known = {placeholders[i]: tensor for i, tensor in (constants or {}).items()}
        support = Support(root, known)
        self.refused = {str(node.target): why for node, why in support.refused.items()}
        if not support.refused:
            self.parts = [Part(root, known, channels_last, dtype)]
            self._call: Any = self.parts[0]
            return
        whole, names = partitioned(root, support)
        placeholders = [node for node in whole.graph.nodes if node.op == "placeholder"]
        known = {placeholders[i]: tensor for i, tensor in (constants or {}).items()}
        self.parts = []
        for node in whole.graph.nodes:
            if node.op == "call_module" and node.target in names:
                submodule: Any = whole.get_submodule(node.target)
                part = Part(submodule, constants_of(whole, node, submodule, known), False, dtype)
                self.parts.append(part)
                setattr(whole, node.target, part)
        whole.recompile()
        self._call = whole

    def __call__(self, arguments: Sequence[Any]) -> Any:
        return self._call(*arguments)


class Optimized(torch.nn.Module):
    """A model as `optimize` returns it: called as the model is, with inputs of any shapes, planned once for each.

    Parameters
    ----------
    model : Module
        In eval mode.
    dtype : {"float32", "bfloat16", "float16"}
        What convolutions and products multiply.
    """

    def __init__(self, model: torch.nn.Module, dtype: str) -> None:
        super().__init__()
        self._model: torch.nn.Module
        object.__setattr__(self, "_model", model)  # no submodule: its parameters are constants here
        self._dtype = dtype
        self._plans: dict[Any, tuple[Plan, Any]] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        plan, out_spec = self._plan(leaves, spec, args, kwargs)
        with torch.no_grad():
            outputs = plan(leaves)
        return pytree.tree_unflatten(outputs if isinstance(outputs, (tuple, list)) else [outputs], out_spec)

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Plan for arguments like these. They are called with, unless what stays torch's might change something.

        Parameters
        ----------
        *args, **kwargs
            As of a call.
        """
        leaves, spec = pytree.tree_flatten((args, kwargs))
        plan, _ = self._plan(leaves, spec, args, kwargs)
        if not plan.refused:
            with torch.no_grad():
                plan(leaves)

    def _plan(self, leaves: Sequence[Any], spec: Any, args: tuple, kwargs: dict) -> tuple[Plan, Any]:
        described = [_described(leaf) for leaf in leaves]
        cast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        key = spec, tuple(described), torch.get_num_threads(), cast
        found = self._plans.get(key)
        if found is not None:
            return found
        with _exporting:
            found = self._plans.get(key)
            if found is None:
                found = self._made(leaves, args, kwargs)
                plans = dict(self._plans)  # other threads may be reading
                if len(plans) >= MAX_PLANS:
                    del plans[next(iter(plans))]
                self._plans = plans | {key: found}
        return found

    def _made(self, leaves: Sequence[Any], args: tuple, kwargs: dict) -> tuple[Plan, Any]:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.export warns of what is torch's own
            try:
                exported = torch.export.export(self._model, args, kwargs).run_decompositions(decompositions())
            except Exception as error:
                self._model(*args, **kwargs)  # what torch refuses has torch's own error
                raise RuntimeError(
                    "optimize: torch.export, which it needs, cannot take the model (see above); "
                    "torch.compile(model, backend='layoutkit') takes it in pieces"
                ) from error
        root = exported.module(check_guards=False)
        root.graph.set_codegen(torch.fx.graph.CodeGen())  # flat arguments and results
        root.recompile()
        channels_last = any(isinstance(leaf, torch.Tensor) and in_channels_last(leaf) for leaf in leaves)
        return Plan(root, self._dtype, channels_last=channels_last), exported.call_spec.out_spec

    def explain(self) -> str:
        """How the shapes that were met run: the number of parts, what stayed torch's, and the plan of each part."""
        lines = []
        for (_, described, *_), (plan, _) in self._plans.items():
            lines.append(f"inputs {', '.join(map(str, described))}: {len(plan.parts)} part(s)")
            lines += [f"  torch runs {name}: no translation of {why}" for name, why in plan.refused.items()]
            lines += [part.program.explain() for part in plan.parts]
        return "\n".join(lines)

    def __deepcopy__(self, memo: dict[int, Any]) -> Optimized:
        return Optimized(copy.deepcopy(self._model, memo), self._dtype)

    def __reduce__(self) -> tuple:
        return Optimized, (self._model, self._dtype)


def _described(leaf: Any) -> Any:
    """What a plan depends on: of a tensor its shape, type and format, else the value."""
    if not isinstance(leaf, torch.Tensor):
        if not isinstance(leaf, Hashable):
            kinds = "tensors, numbers and strings, in tuples, lists and dicts"
            raise TypeError(f"optimize: an argument is of {type(leaf).__name__}: expected {kinds}")
        return type(leaf), leaf.hex() if isinstance(leaf, float) else leaf  # True is not 1, nor 1.0, nor 0.0 -0.0
    if leaf.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(
            "an optimized model has no gradients: call it under torch.no_grad(), or with detached inputs"
        )
    if not leaf.is_cpu or leaf.layout != torch.strided:
        raise TypeError(f"optimize: expected tensors on the CPU, got one on {leaf.device}, {leaf.layout}")
    return tuple(leaf.shape), leaf.dtype, in_channels_last(leaf)


def optimize(model: torch.nn.Module, example_inputs: Any = None, dtype: torch.dtype | None = None) -> Optimized:
    """A model that runs faster: its whole graph in the layouts that cost the least, fused, as one compiled program.

    Batch norms are folded into convolutions, activations and sums into what they follow; parameters are constants
    from now on. What has no translation stays torch's, and splits the program; `explain()` names it.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode. Not changed.
    example_inputs : Tensor or tuple, optional
        Arguments of a call: they are planned now. Others are when they come.
    dtype : {None, torch.float32, torch.bfloat16, torch.float16}
        What convolutions and products multiply; they sum in float32.

    Returns
    -------
    Optimized
        A module without gradients that is called as the model is. Results have the memory format of the inputs.

    Raises
    ------
    ValueError
        A model in training mode, or a type that it cannot multiply.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"optimize: expected a torch.nn.Module, got {type(model).__name__}")
    if model.training:
        raise ValueError("optimize: the model is in training mode: call model.eval() first")
    if dtype not in DTYPES:
        raise ValueError(f"optimize: dtype {dtype}: expected None, torch.float32, torch.bfloat16 or torch.float16")
    optimized = Optimized(model, DTYPES[dtype]).eval()
    if example_inputs is not None:
        optimized.prepare(*(example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)))
    return optimized
