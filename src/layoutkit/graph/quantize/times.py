"""What models and their layers take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from ..model import Model
from .samples import Inputs

ROUNDS = 9
ENOUGH_SECONDS = 1.0  # of one model: then fewer rounds are run, but three


def seconds_of(models: Sequence[Model], inputs: Inputs) -> list[float]:
    """The median of runs of each model, which take turns: what else the machine does is in all of them."""
    times: list[list[float]] = [[] for _ in models]
    for model in models:
        model.run(inputs)  # planned, and its memory is touched
    for n in range(ROUNDS):
        for model, of in zip(models, times):
            start = time.perf_counter()
            model.run(inputs)
            of.append(time.perf_counter() - start)
        if n >= 2 and max(map(sum, times)) > ENOUGH_SECONDS:
            break
    return [median(of) for of in times]


def seconds_by_node(model: Model, inputs: Inputs) -> dict[str, float]:
    """The seconds of each step, by the name of the node that it is of."""
    return {name: seconds for _, name, seconds in model.profile(inputs)}
