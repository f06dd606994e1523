"""Whether torch's dispatcher would go straight to a kernel: then a call may go there without it."""

from __future__ import annotations

from typing import Any

import torch
from torch import _C
from torch._C import DispatchKey, DispatchKeySet
from torch.autograd import forward_ad

# The dispatch keys of a plain tensor, and those of a thread without tracing, batching or other modes; both also as
# `torch.inference_mode` makes them.
INFERENCE_TENSOR = DispatchKeySet(DispatchKey.CPU).add(DispatchKey.AutocastCPU)
TENSOR = INFERENCE_TENSOR.add(DispatchKey.AutogradCPU).add(DispatchKey.ADInplaceOrView)
INFERENCE = DispatchKeySet(DispatchKey.BackendSelect)
THREADS = INFERENCE.add(DispatchKey.ADInplaceOrView), INFERENCE


def dispatches_to_kernel(*args: Any) -> bool:
    """Whether torch's dispatcher would go to autograd and then straight to the kernel."""
    if torch.compiler.is_compiling() or _C._dispatch_tls_local_include_set() not in THREADS:
        return False
    if _C._dispatch_tls_is_dispatch_key_excluded(DispatchKey.AutogradOther) and torch.is_grad_enabled():
        return False  # below autograd: there is no graph
    return all([_C._dispatch_keys(t) in (TENSOR, INFERENCE_TENSOR) for t in args if isinstance(t, torch.Tensor)])


def applied(
    function: type[torch.autograd.Function], kernel: Any, operator: Any, given: tuple[Any, ...], *args: Any
) -> Any:
    """The result of an operator without torch's dispatcher where that would go straight to the kernel.

    Parameters
    ----------
    function
        Computes the same where gradients are needed, which are those of the operator.
    kernel, operator : callable
    given : tuple of Tensor or None
        The tensors among the arguments.
    *args
    """
    if torch.overrides.has_torch_function(given) or not dispatches_to_kernel(*given) or forward_ad._current_level >= 0:
        return operator(*args)
    if torch.is_grad_enabled() and _C._any_requires_grad(*given):
        own: Any = super(torch.autograd.Function, function)  # what its `apply` does more is for transforms
        return own.apply(*args)
    return kernel(*args)
