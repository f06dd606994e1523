"""The backend of `torch.compile`: ``torch.compile(model, backend="layoutkit")``.

Without gradients, a graph becomes a compiled program as in `optimize`: parameters are constants, which are looked at
again at each call. With gradients, convolutions and their gradients run here, everything else by torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch.fx.experimental.proxy_tensor import make_fx

from ..convolutions.problem import in_sizes
from . import operators
from .kept import sample
from .memory import gives_channels_last
from .optimizing import MAX_PLANS, Plan
from .translation import decompositions

SAMPLES = 8  # numbers of each constant that are looked at at each call
aten = torch.ops.aten


def backend(graph: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compile a graph of dynamo's; `torch.compile` calls this.

    Parameters
    ----------
    graph : GraphModule
    inputs : sequence of Tensor
    """
    if options:
        raise TypeError(f"torch.compile: backend 'layoutkit' takes no options, got {', '.join(options)}")
    compiler = aot_autograd(
        fw_compiler=_with_gradients, bw_compiler=_with_gradients, inference_compiler=_without_gradients,
        decompositions=decompositions(), keep_inference_input_mutations=True,
    )  # fmt: skip
    return compiler(graph, inputs)


class Program:
    """A graph of ATen operators whose plans are made when inputs are known: one for each of their shapes."""

    def __init__(self, graph: fx.GraphModule, constants: Sequence[int]) -> None:
        self._graph, self._constants = graph, list(constants)
        self._placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._plans: dict[Any, Plan] = {}
        self._versions: list[tuple[int, int, int]] = []
        self._samples: list[np.ndarray] = []  # numbers of constants: changes through `.data` are counted nowhere
        self._sampled: list[bytes] = []

    def __call__(self, *inputs: Any) -> Any:
        constants = [i for i in self._constants if not inputs[i].is_inference()]  # these do not tell changes
        versions = [(i, inputs[i].data_ptr(), inputs[i]._version) for i in constants]
        # the first call, or parameters have changed
        if versions != self._versions or [some.tobytes() for some in self._samples] != self._sampled:
            self._plans.clear()
            samples = [sample(inputs[i], SAMPLES) for i in constants]
            self._samples = [some for some in samples if some is not None]
            self._versions, self._sampled = versions, [some.tobytes() for some in self._samples]
        key = tuple([t.shape if isinstance(t, torch.Tensor) else t for t in inputs])
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MAX_PLANS:
                del self._plans[next(iter(self._plans))]
            plan = self._plans[key] = self._planned(inputs, constants)
        return plan(inputs)

    def _planned(self, inputs: Sequence[Any], constants: Sequence[int]) -> Plan:
        root = self._graph
        if any(
            not isinstance(p.meta.get("val"), torch.Tensor) or _is_symbolic(p.meta["val"]) for p in self._placeholders
        ):
            root = make_fx(root, tracing_mode="fake")(*inputs)  # of these shapes
        return Plan(root, "float32", {i: inputs[i].detach() for i in constants})


def _is_symbolic(tensor: torch.Tensor) -> bool:
    return not all(isinstance(n, int) for n in tensor.shape)


def _without_gradients(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    if any(isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable for n in graph.graph.nodes):
        return _with_gradients(graph, inputs)  # statistics of a batch norm are updated, say
    context = TracingContext.try_get()
    constants = context.fw_metadata.static_input_indices if context and context.fw_metadata else ()
    return make_boxed_func(Program(graph, [i for i in constants if isinstance(inputs[i], torch.Tensor)]))


def _with_gradients(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    ours = {aten.convolution.default: convolution, aten.convolution_backward.default: convolution_backward}
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.target in ours and _is_ours(node):
            node.target = ours[node.target]
    graph.recompile()
    return make_boxed_func(graph.forward)


def _is_ours(node: fx.Node) -> bool:
    """Whether a convolution is of types and a device that are taken."""
    tensors = [n.meta.get("val") for n in node.all_input_nodes]
    return all(isinstance(t, torch.Tensor) and t.is_cpu and t.is_floating_point() for t in tensors)


def _attributes(stride, padding, dilation, groups, x, w) -> tuple[Any, ...]:
    rank = x.dim() - 2
    stride, padding, dilation = (list(v) * (rank if len(v) == 1 else 1) for v in (stride, padding, dilation))
    return stride, [n for n in padding for _ in range(2)], dilation, groups, gives_channels_last(x, w)


def convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups) -> torch.Tensor:
    """`aten.convolution`, here."""
    attributes = _attributes(stride, padding, dilation, groups, x, w)
    if not transposed:
        return operators.conv(x, w, bias, *attributes)
    stride, pads, dilation, *_ = attributes
    extra = list(output_padding) * (len(stride) if len(output_padding) == 1 else 1)
    minimal = in_sizes(x.shape[2:], w.shape[2:], stride, operators.pairs(pads), dilation)
    return operators.conv_transpose(x, w, bias, [n + e for n, e in zip(minimal, extra)], *attributes)


def convolution_backward(
    dy, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
) -> tuple[torch.Tensor | None, ...]:  # fmt: skip
    """`aten.convolution_backward`, here: the gradients of input, weight and bias that are wanted."""
    with torch.enable_grad():
        inputs = [t.detach().requires_grad_(wanted) for t, wanted in zip((x, w), output_mask)]
        x, w = inputs
        y = convolution(x, w, None, stride, padding, dilation, transposed, output_padding, groups)
    wanted = [t for t in inputs if t.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, dy) if wanted else ())
    dx, dw = (next(found) if t.requires_grad else None for t in inputs)
    return dx, dw, dy.sum((0, *range(2, dy.dim()))) if output_mask[2] else None
