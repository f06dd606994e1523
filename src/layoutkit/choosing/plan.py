"""Plans: what was decided about a problem, and why."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from .explaining import columns, decision, table
from .problem import Choice


class SlowPathWarning(RuntimeWarning):
    """All candidates of a problem waste most of the machine. Warned of once a problem; `explain` always says so."""


class Plan:
    """The decision about one problem. Print it to see why.

    ``plan(array, ..)`` does it: the operation on arrays in place of those that it was planned with.

    Attributes
    ----------
    title : str
        The problem, as the cost table knows it.
    words : str
        The problem in words.
    choices : sequence of Choice
        The candidates, best first.
    facts : callable, optional
        Returns lines about the best one for `explain`; its argument is `verbose`.
    run : callable, optional
        ``run(array, out)``: does it for numpy arrays of the shapes, strides and dtypes that were planned, into `out`,
        in a fraction of a microsecond above the work. Of reorders; a kept convolution is `lk.Conv2d`.
    workspace : int, optional
        Bytes that a call on such arrays takes as `workspace=`. Of gradients; of others see `lk.Conv2d.workspace`.
    call : callable, optional
        What calling the plan does.
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        facts: Callable[[bool], Iterable[str]] | None = None,
        *,
        words: str = "",
        run: Callable[..., None] | None = None,
        workspace: int | None = None,
        call: Callable[..., Any] | None = None,
    ) -> None:
        self.title, self.words, self.choices = title, words or title, tuple(choices)
        self.facts, self.run, self.workspace, self.call = facts, run, workspace, call

    def __call__(self, *arrays: Any, **changed: Any) -> Any:
        """Run the operation on arrays in place of those of the plan, in their order, with all else as planned.

        It is an ordinary call, which checks its arguments and returns the result, a new one without `out`. `run` is
        faster.

        Examples
        --------
        >>> import numpy as np, layoutkit as lk
        >>> plan = lk.plan(lk.reorder, np.zeros((1, 2, 1, 3)), "NCHW", "NHWC")
        >>> plan(np.arange(6.0).reshape(1, 2, 1, 3)).tolist()
        [[[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]]]
        """
        if self.call is None:
            raise TypeError(f"{self.words}: this plan only tells; lk.plan(operation, ..) makes one that can be called")
        return self.call(*arrays, **changed)

    def __copy__(self) -> Plan:
        return self

    def __deepcopy__(self, memo: dict) -> Plan:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self.words}: a plan is for this process and cannot be pickled; plan again where it is needed, by "
            "lk.plan(operation, ..), keep the text of plan.explain(), or pickle a kept operation, such as lk.Conv2d"
        )

    def explain(self, verbose: bool = False) -> str:
        """The problem, its candidates in order and what decided; docs/choosing.md says what the words mean.

        Parameters
        ----------
        verbose : bool, optional
            Also by the names that the cost table has, what each cost rests on, and the loops of a reorder.
        """
        lines = [self.words, *[self.title] * (verbose and self.words != self.title), *table(self.choices, verbose)]
        if any(c.candidate.steps for c in self.choices):
            lines.append("packing the filter is part of the cost: a convolution object packs it once")
        lines += self.facts(verbose) if self.facts else ()
        return "\n".join([*lines, decision(self.choices, verbose)])

    def __str__(self) -> str:
        return self.explain()

    def _repr_html_(self) -> str:
        from ..pages import fragment

        head, rows = columns(self.choices)
        facts = list(self.facts(False)) if self.facts else []
        return fragment([self.words, *facts, *decision(self.choices, False).split("\n")], head, rows)

    def __repr__(self) -> str:
        return f"Plan({self.words}: {self.choices[0]!r}, of {len(self.choices)})"


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

    Parameters
    ----------
    operation : callable
        `reorder`, a convolution or a gradient: ``lk.conv2d``, ``lk.grad.conv2d_weight``, ..
    *args, **kwargs
        What it would be called with.

    Returns
    -------
    Plan
        Print it for the candidates and what decided; call it to do the operation on other arrays.

    Raises
    ------
    TypeError, ValueError
        The operation has no plans, or would refuse its arguments.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.zeros((1, 64, 56, 56), np.float32)
    >>> print(lk.plan(lk.reorder, x, "NCHW", "NHWC").explain())    # doctest: +ELLIPSIS
    reorder of (1, 64, 56, 56) float32 NCHW -> NHWC on ...
    """
    if not callable(operation) or operation not in _planners:
        known = ", ".join(sorted(f.__name__ for f in _planners))
        raise TypeError(f"plan: {operation!r} has no plans; those that have: {known}")
    try:
        bound = inspect.signature(operation).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"plan: {operation.__name__}() {error}") from None
    planned = _planners[operation](*bound.args, **bound.kwargs)
    planned.call = _caller(operation, args, kwargs)
    return planned


def _caller(operation: Callable, args: tuple, kwargs: dict[str, Any]) -> Callable[..., Any]:
    """A function that calls `operation` on other arrays; it keeps no arrays given by position, nor `out`."""
    array_indices = [i for i, value in enumerate(args) if _is_array(value)]
    others = [None if i in array_indices else value for i, value in enumerate(args)]
    keywords = {name: value for name, value in kwargs.items() if name not in ("out", "workspace")}

    def call(*arrays: Any, **changed: Any) -> Any:
        if len(arrays) != len(array_indices):
            raise TypeError(
                f"plan of {operation.__name__}: expected {len(array_indices)} arrays, in place of those that it was "
                f"planned with by position, got {len(arrays)}"
            )
        arguments = others.copy()
        for i, array in zip(array_indices, arrays):
            arguments[i] = array
        return operation(*arguments, **(keywords | changed))

    return call


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")
