"""What a loop nest will touch, checked before anything runs against the memory that it is given."""

from __future__ import annotations

from .._core.executor import Executor
from ..memory import spans
from ..memory.spans import Span


def of_parts(parts) -> Span:
    """The span of an executor's parts: see `Footprint` in executor.pyx."""
    found = spans.NOTHING
    for steps, run in parts:
        if run:  # of no channels there is nothing to read
            found = found.joined(spans.of_ranges(steps, run))
    return found


def check_executor(executor: Executor, source: Span, destination: Span, what: str) -> tuple[int, int]:
    """PlanError unless the loop nest stays within both; the bytes of filter and bias that it reads."""
    found = executor.footprint()
    spans.check(of_parts(found.source), source, f"{what}: input")
    spans.check(of_parts(found.destination), destination, f"{what}: output")
    return found.filter, found.bias
