"""The same bits every time: whether every convolution sums in the one order that depends on its problem alone."""

from __future__ import annotations

import os

from ..choosing.table import cost_table

REPRODUCIBLE = "LAYOUTKIT_REPRODUCIBLE"
_MEANINGS = {"": False, "0": False, "1": True}
_text = os.environ.get(REPRODUCIBLE, "")
if _text not in _MEANINGS:
    raise ImportError(f"{REPRODUCIBLE}={_text!r}: expected 0 or 1")
_on = _MEANINGS[_text]


def reproducible(on: bool | None = None) -> bool:
    """Let every convolution from now on be of accuracy "reproducible"; returns the mode before.

    A result then has the same bits with any number of threads, any cost table and mode of tuning, on AVX2 and AVX-512,
    in any layout: it depends on the numbers alone. Every sum begins with the bias and goes through the filter's taps
    (depth, height, width) and for each of them through the input channels (in groups of 2 to 16 channels through the
    channels and for each of them through the taps), one fused multiply-add after another; what may still be chosen are
    ways that do so. ``LAYOUTKIT_REPRODUCIBLE=1`` sets it from the start.

    Parameters
    ----------
    on : bool, optional
        It goes before what an operation asks for: with ``accuracy="fast"`` it is "reproducible" nevertheless, and with
        ``algorithm="winograd"``, which is not, a ValueError. None only asks for the mode.

    Notes
    -----
    Which bits of a NaN are set is not part of it. The portable instruction set has no fused multiply-add on x86, and
    other bits than the others for that reason. Threads that flush denormal numbers to zero go on to do so.

    Examples
    --------
    >>> import layoutkit as lk
    >>> before = lk.reproducible(True)
    >>> lk.reproducible(before)
    True
    """
    global _on
    if on is not None and not isinstance(on, bool):
        raise TypeError(f"reproducible: expected True or False, got {on!r}")
    before = _on
    if on is not None and on != before:
        _on = on
        cost_table.generation += 1  # what was decided is decided again
    return before
