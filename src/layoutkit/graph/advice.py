"""What to do about the time of a network: sentences from its profile, the most useful first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .report import NUMPY, Timed, counted, share_of_peak

LARGE = 0.1  # of the time: worth a sentence
MANY_REORDERS = 0.15
SLOW_CONVOLUTIONS = 0.6  # of the peak of multiply-adds
LESS = 'what remains is to compute less, or in fewer bits (dtype="bfloat16" where the processor has it, int8)'


def advice(steps: Sequence[Timed], threads: int, allowed: int, tuned: bool) -> Iterator[str]:
    """Sentences about these steps on so many threads of those `allowed`; `tuned`: costs were measured here."""
    total = sum(step.seconds for step in steps)
    if not total:
        yield "Nothing was executed."
        return
    share = dict.fromkeys((step.family for step in steps), 0.0)
    for step in steps:
        share[step.family] += step.seconds / total
    if share.get(NUMPY, 0) > LARGE:
        ops = ", ".join(counted(s.op for s in steps if s.family == NUMPY))
        yield f"{share[NUMPY]:.0%} of the time is operators that have no kernel and run in Python: {ops}."
    if share.get("reorders", 0) > MANY_REORDERS:
        yield (
            f"{share['reorders']:.0%} of the time is reorders between layouts: give inputs in the layout that the "
            "first step reads (--explain tells it), and measure with --tune."
        )
    if not tuned:
        yield "Choices rest on estimates: run it once with --tune, which measures what decides, and again without."
    if threads < allowed:
        yield f"It ran on {threads} of {allowed} threads: --threads {allowed} lets it use all."
    most = max(share, key=lambda family: share[family])
    yield _about(most, share[most], [s for s in steps if s.family == most], total, threads)


def _about(family: str, share: float, steps: Sequence[Timed], total: float, threads: int) -> str:
    """A sentence about the family that takes most."""
    reached = share_of_peak(steps, threads)
    if family == "convolutions" and reached is not None and reached < SLOW_CONVOLUTIONS:
        slow = max(steps, key=lambda s: s.seconds)
        return (
            f"Convolutions are {share:.0%} of the time, at {reached:.0%} of the peak of multiply-adds. The slowest, "
            f"{slow.name or slow.shapes}, takes {slow.seconds / total:.0%}. If nothing else ran meanwhile, "
            "file an issue with its line."
        )
    if family in ("convolutions", "products"):
        at = "" if reached is None else f", at {reached:.0%} of the peak of multiply-adds"
        return f"Most of the time, {share:.0%}, is {family}{at}: {LESS}."
    return f"Most of the time, {share:.0%}, is {family}: {', '.join(counted(s.op for s in steps)[:3])}."
