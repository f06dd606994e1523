"""Plans in words: the candidates in a table, and what decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .problem import Choice
from .ranking import DOUBT_RATIO

SHOWN_CANDIDATES = 8
LEFT, RIGHT = "<", ">"
_COLUMNS = (  # heading and side
    ("algorithm", LEFT), ("register tile", LEFT), ("path", LEFT), ("time", RIGHT), ("", LEFT), ("relative", RIGHT),
    ("candidate", LEFT), ("basis", LEFT),
)  # fmt: skip


def columns(choices: Sequence[Choice]) -> tuple[list[str], list[list[str]]]:
    """The first candidates as a heading and rows of texts, best first, without columns that are empty."""
    shown = choices[:SHOWN_CANDIDATES]
    rows = [_row(c, choices[0].seconds, False) for c in shown]
    used = [i for i in range(len(_COLUMNS)) if any(row[i] for row in rows)]
    return [_COLUMNS[i][0] for i in used], [[row[i] for i in used] for row in rows]


def table(choices: Sequence[Choice], verbose: bool) -> list[str]:
    """The first candidates in aligned lines, best first; with `verbose` by the names that the cost table has, too."""
    shown, best = choices[:SHOWN_CANDIDATES], choices[0].seconds
    rows = [tuple(heading for heading, _ in _COLUMNS), *(_row(c, best, verbose) for c in shown)]
    used = [i for i in range(len(_COLUMNS)) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in used}
    lines = []
    for mark, row in zip(("  ", "->", *["  "] * len(shown)), rows):
        cells = (f"{row[i]:{_COLUMNS[i][1]}{widths[i]}}" for i in used)
        lines.append(f"{mark} {'  '.join(cells)}".rstrip())
    if len(choices) > len(shown):
        more, most = len(choices) - len(shown), max(c.seconds for c in choices[SHOWN_CANDIDATES:])
        lines.append(f"   and {more} more, up to {most / best:.2f}x")
    return lines


def _row(c: Choice, best: float, verbose: bool) -> tuple[str, ...]:
    words = c.candidate.words
    columns = words.algorithm, words.tile, words.path, f"{c.seconds * 1e6:.1f} us", c.source, f"{c.seconds / best:.2f}x"
    return (*columns, c.candidate.name, c.basis) if verbose else (*columns, "", "")


def decision(choices: Sequence[Choice], verbose: bool) -> str:
    """What decided, in a sentence or two."""
    best = choices[0]
    if len(choices) == 1:
        sentence = "the only candidate"
    elif best.source == "measured":
        sentence = f"decided by measured cost: {best.basis or 'it took the least time on this machine'}"
    else:
        sentence = 'decided by estimated cost: not measured here, which lk.tuning("measure") does on first use'
    if best.source == "estimated" and verbose:
        sentence += f"; {best.basis or 'by counting: nothing like it was measured'}"
    return "\n".join([sentence, *_doubts(choices)])


def _doubts(choices: Sequence[Choice]) -> Iterator[str]:
    """Lines about costs that may have been measured while the machine was disturbed."""
    best = choices[0]
    expected = best.candidate.estimate + sum(step.estimate for step in best.candidate.steps)
    if best.source == "measured" and best.seconds > DOUBT_RATIO * expected:
        yield (
            f"that is {best.seconds / expected:.0f} times what was expected: the machine may have been disturbed when "
            "it was measured, see lk.cost_table.forget"
        )
    doubted = [c for c in choices[1:] if c.source == "measured" and c.seconds > DOUBT_RATIO * best.seconds]
    if best.source == "estimated" and doubted:
        yield (
            f"{len(doubted)} measured at more than {DOUBT_RATIO:g} times that, which is doubted: the machine may have "
            "been disturbed then"
        )
