"""The mode of tuning: measured costs, learning or measuring what the table lacks, or estimates only."""

from __future__ import annotations

import os
from math import inf
from numbers import Real

from ..formats.nearest import none_of
from .table import cost_table

MODES = ("learn", "measure", "estimate", "off")
MODE = "LAYOUTKIT_TUNING"
_mode, _budget, _changes = os.environ.get(MODE) or "learn", inf, 0
if _mode not in MODES:
    raise ImportError(f"{MODE}={_mode!r}: expected one of {', '.join(MODES)}")


def tuning(mode: str | None = None, budget: float | None = None) -> str:
    """Set how plans are made from now on; returns the mode before. ``LAYOUTKIT_TUNING`` sets it from the start.

    Parameters
    ----------
    mode : {"learn", "estimate", "measure", "off"}, optional
        "estimate" takes measured costs where the table has them and estimates elsewhere, from what was measured nearby.
        "learn" (the default) does so too, and the first calls of a reorder that takes more than 100 us try other
        candidates, all of which give the same bits: ten such calls take at most a tenth longer than by estimate.
        "measure" measures the most promising candidates of problems that the table lacks, on first use, and saves
        them when the process ends. "off" never looks at the table. Without a mode nothing is changed.
    budget : float, optional
        Seconds that "measure" may spend from now on, all problems together. A problem that would take more than is
        left is estimated.

    Returns
    -------
    str
        The mode before.

    Raises
    ------
    ValueError
        `mode` is none of these, or `budget` negative or no number.
    """
    global _mode, _budget, _changes
    if budget is not None and (mode != "measure" or not isinstance(budget, Real) or not budget >= 0):
        raise ValueError(f"tuning: budget is seconds for 'measure', got {budget!r} for {mode!r}")
    if mode is None:
        return _mode
    if mode not in MODES:
        raise ValueError(none_of("tuning: mode", mode, MODES))
    before, _mode, _budget = _mode, mode, inf if budget is None else float(budget)
    _changes += 1
    cost_table.generation += 1
    return before


def mode() -> str:
    """The mode of tuning."""
    return _mode


def changes() -> int:
    """How often the mode was set."""
    return _changes


def budget(spent: float = 0.0) -> float:
    """Charge `spent` seconds to the budget of measuring; returns the seconds left."""
    global _budget
    _budget -= spent
    return _budget
