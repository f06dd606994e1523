"""Compare a model with its converted copy: speed and results."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

import torch

from .converting import convert
from .modules import OURS
from .trials import ROUNDS


class Comparison(NamedTuple):
    """The result of `compare`; `print` shows it in words.

    Attributes
    ----------
    seconds, converted_seconds : float
        Median time of a call of the model, and of the converted copy.
    apart : float
        The largest difference of results, relative to the largest number; NaN where shapes or structure differ.
    modules : int
        Convolutions that were converted.
    threads : int
        Threads of torch.
    """

    seconds: float
    converted_seconds: float
    apart: float
    modules: int
    threads: int

    @property
    def ratio(self) -> float:
        """How many times as fast the converted model is."""
        return self.seconds / self.converted_seconds

    def __str__(self) -> str:
        if not self.modules:
            return "nothing to convert: no module is exactly one of torch.nn's convolutions"
        verdict = f"{self.ratio:.2f} times as fast" if self.ratio >= 1 else f"{1 / self.ratio:.2f} times as long"
        return (
            f"converted: {1e3 * self.converted_seconds:.3f} ms a call, torch {1e3 * self.seconds:.3f} ms: {verdict} "
            f"on {self.threads} thread(s); {self.modules} convolutions converted, results differ by {self.apart:.1e} "
            "of the largest"
        )


def compare(model: torch.nn.Module, *inputs: Any, rounds: int = 10) -> Comparison:
    """Whether `convert` makes a model faster on these inputs: calls the model and a converted copy in turn.

    Parameters
    ----------
    model : torch.nn.Module
        Not changed. It is called without gradients, in its current mode (`model.eval()` for inference).
    *inputs
        Arguments of the calls.
    rounds : int
        Timed calls of each, after some in which its layers are tried.

    Returns
    -------
    Comparison
        Print it.

    Examples
    --------
    >>> import torch, layoutkit.torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())
    >>> print(layoutkit.torch.compare(model, torch.zeros(1, 3, 8, 8)))  # doctest: +ELLIPSIS
    converted: ... ms a call, torch ... ms: ... on ... thread(s); 1 convolutions converted, results differ by ...
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"compare: expected a torch.nn.Module, got {type(model).__name__}")
    if rounds < 1:
        raise ValueError(f"compare: rounds: expected 1 or more, got {rounds}")
    count = sum(type(module) in OURS for module in model.modules())
    original, converted = copy.deepcopy(model), convert(copy.deepcopy(model))  # both update running statistics
    times: tuple[list[float], list[float]] = ([], [])
    with torch.no_grad():
        state = torch.random.get_rng_state()
        want = original(*inputs)
        torch.random.set_rng_state(state)  # the same dropout for both
        difference = _difference(want, converted(*inputs))
        for _ in range(2 * ROUNDS):
            for module in (original, converted):
                module(*inputs)
        for _ in range(rounds):
            for module, seconds in zip((original, converted), times):
                start = time.perf_counter()
                module(*inputs)
                seconds.append(time.perf_counter() - start)
    return Comparison(median(times[0]), median(times[1]), difference, count, torch.get_num_threads())


def _difference(want: Any, got: Any) -> float:
    """The largest difference between results, relative to the largest number."""
    pairs = list(zip(_tensors(want), _tensors(got)))
    if not pairs or any(a.shape != b.shape for a, b in pairs):
        return float("nan")
    largest = max((float(a.abs().max()) for a, _ in pairs if a.numel()), default=0.0) or 1.0
    return max((float((a - b).abs().max()) for a, b in pairs if a.numel()), default=0.0) / largest


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a result: itself, or those in nested containers."""
    if isinstance(value, torch.Tensor):
        yield value.double() if not value.is_complex() else value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
