"""Plans: what was decided about a problem, and why."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from .problem import Choice

SHOWN_CANDIDATES = 8  # by `explain`


class SlowPathWarning(RuntimeWarning):
    """All candidates of a problem waste most of the machine. Warned of once a problem; `explain` always says so."""


class Plan:
    """The decision about one problem.

    Attributes
    ----------
    title : str
        The problem, as the cost table knows it.
    choices : sequence of Choice
        The candidates, best first.
    note : callable, optional
        Makes lines about the best one when the plan is explained.
    run : callable, optional
        Does it: ``run(array, out)`` for arrays of the shapes, strides and dtypes that were planned, in a fraction of
        a microsecond above the work. Of reorders; a kept convolution is `lk.Conv2d`.
    workspace : int, optional
        Bytes that a call on such arrays takes as `workspace=`. Of gradients; of others see `lk.Conv2d.workspace`.
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        note: Callable[[], str] | None = None,
        run: Callable[..., None] | None = None,
        workspace: int | None = None,
    ) -> None:
        self.title, self.choices, self._note, self.run = title, tuple(choices), note, run
        self.workspace = workspace

    def explain(self) -> str:
        """The candidates in order and what decided, in aligned lines."""
        name = max(len(c.candidate.name) for c in self.choices[:SHOWN_CANDIDATES])
        best = self.choices[0]
        lines = [self.title]
        for i, c in enumerate(self.choices[:SHOWN_CANDIDATES]):
            line = (
                f"{'->' if i == 0 else '  '} {c.candidate.name:<{name}} {c.seconds * 1e6:10.1f} us"
                f"  {c.source:<9} {c.seconds / best.seconds:6.2f}x  {c.basis if c.source == 'measured' else ''}"
            )
            lines.append(line.rstrip())
        if len(self.choices) > SHOWN_CANDIDATES:
            last = self.choices[-1].seconds / best.seconds
            lines.append(f"   and {len(self.choices) - SHOWN_CANDIDATES} more, up to {last:.2f}x")
        if any(c.candidate.steps for c in self.choices):
            lines.append("packing the filter is part of the cost: a convolution object packs it once")
        decided = "the only candidate" if len(self.choices) == 1 else f"decided by {best.source} cost"
        if best.source == "estimated":
            decided += f", {best.basis or 'by counting: nothing like it was measured'}"
        if self._note:
            lines.append(self._note())
        return "\n".join([*lines, decided])

    def __repr__(self) -> str:
        return self.explain()


_planners: dict[Callable, Callable[..., Plan]] = {}


def planner(operation: Callable) -> Callable:
    """Register the function that plans `operation`; it takes the same arguments."""

    def register(function: Callable[..., Plan]) -> Callable[..., Plan]:
        _planners[operation] = function
        function.__qualname__ = f"plan: {operation.__name__}"  # in errors about missing and unknown arguments
        return function

    return register


def plan(operation: Callable, *args, **kwargs) -> Plan:
    """What ``operation(*args, **kwargs)`` would do, without doing it.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.zeros((1, 64, 56, 56), np.float32)
    >>> print(lk.plan(lk.reorder, x, "NCHW", "NHWC").explain())    # doctest: +ELLIPSIS
    reorder 1x64x56x56 NCHW>NHWC x32 t...
    """
    if not callable(operation) or operation not in _planners:
        known = ", ".join(sorted(f.__name__ for f in _planners))
        raise TypeError(f"plan: {operation!r} has no plans; those that have: {known}")
    try:
        given = inspect.signature(operation).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"plan: {operation.__name__}() {error}") from None
    return _planners[operation](*given.args, **given.kwargs)
