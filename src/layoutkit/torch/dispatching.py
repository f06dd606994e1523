"""Whether torch's dispatcher would go straight to a kernel: then a call may go there without it."""

from __future__ import annotations

from typing import Any

import torch
from torch import _C
from torch._C import DispatchKey, DispatchKeySet

# The dispatch keys of a plain tensor, and those of a thread without tracing, batching or other modes.
TENSOR = DispatchKeySet(DispatchKey.CPU).add(DispatchKey.AutogradCPU).add(DispatchKey.ADInplaceOrView)
TENSOR = TENSOR.add(DispatchKey.AutocastCPU)
THREAD = DispatchKeySet(DispatchKey.BackendSelect).add(DispatchKey.ADInplaceOrView)


def dispatches_to_kernel(*args: Any) -> bool:
    """Whether torch's dispatcher would go to autograd and then straight to the kernel."""
    if torch.compiler.is_compiling() or _C._dispatch_tls_local_include_set() != THREAD:
        return False
    return all([_C._dispatch_keys(t) == TENSOR for t in args if isinstance(t, torch.Tensor)])
