"""The networks by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor
from torch.nn import Module


class Network(NamedTuple):
    """A network, its inputs by name, and by how much its convolutions scale: activations halve the variance."""

    module: Module
    inputs: dict[str, Tensor]
    gain: float = 2**0.5


ZOO: dict[str, Callable[[], Network]] = {}


def network(name: str):
    """Register the function below, which makes a network."""

    def register(function: Callable[[], Network]) -> Callable[[], Network]:
        ZOO[name] = function
        return function

    return register
