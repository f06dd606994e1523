"""Where the time of a network goes: its steps by family, against the machine's limits, and what was fused into them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from math import prod
from typing import NamedTuple

from .. import pages
from ..choosing.limits import copy_limit, peak_limit
from .ir import Graph, Node
from .operators import OPERATORS, Known

FAMILIES = {
    "convolutions": {"Conv", "ConvTranspose"},
    "products": {"Gemm", "MatMul", "Attention", "Einsum", "LSTM", "GRU", "RNN"},
    "norms": {"BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN", "LayerNormalization",
              "LogSoftmax", "LpNormalization", "MeanVarianceNormalization", "RMSNormalization", "Softmax"},
    "pooling": {"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool"},
    "reorders": {"reorder"},
    "moves": {"Concat", "DepthToSpace", "Expand", "Gather", "Pad", "Resize", "Slice", "SpaceToDepth", "Split", "Tile",
              "Transpose"},
}  # fmt: skip
NUMPY = "Python (numpy)"
SECONDS_OF_NOTHING = 1e-6  # a step that has nothing to do takes no longer
SLOWEST = 10  # steps that are listed
FUSED = 8  # kinds of fused operators that are listed


class Timed(NamedTuple):
    """A step, and what it took. `work`: flops; `moved`: bytes that it reads and writes; `how`: tells its algorithm."""

    op: str
    name: str
    seconds: float
    family: str
    work: int
    moved: int
    shapes: str
    how: Callable[[], str] | None = None


class Profile(list[tuple[str, str, float]]):
    """Operator, name and seconds of each step. Printed, it says on a screen where the time goes; notebooks show bars.

    Attributes
    ----------
    steps : list of Timed
        What is known of each.
    threads : int
        That they ran on.
    """

    def __init__(self, steps: Sequence[Timed], fused: Mapping[str, int], threads: int) -> None:
        super().__init__((step.op, step.name, step.seconds) for step in steps)
        self.steps, self.threads, self._fused = list(steps), threads, dict(fused)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return f"<style>{pages.BARS}</style>{''.join(self.parts())}"

    def parts(self) -> Iterator[str]:
        """The families and the steps as HTML, what costs most first."""
        total = sum(step.seconds for step in self.steps) or 1e-9
        yield f"<p>{escape(self._head(total))}</p>"
        families = list(self._families())
        longest = max((seconds for _, _, seconds in families), default=0) or 1e-9
        yield pages.bars(
            (f"{family} ({len(steps)})", _told(seconds, total), self._about(family, steps), seconds / longest)
            for family, steps, seconds in families
        )
        yield "<h2>Steps, what costs most first</h2>"
        steps = sorted(self.steps, key=lambda step: -step.seconds)
        longest = steps[0].seconds or 1e-9 if steps else 1e-9
        yield pages.bars(
            (f"{s.op} {s.name}".strip(), _told(s.seconds, total),
             ", ".join(filter(None, (s.shapes, _how(s), self._share([s])))), s.seconds / longest)
            for s in steps
        )  # fmt: skip
        yield from (f"<p class=quiet>{escape(line.strip())}</p>" for line in told_of(self._fused))

    def _families(self) -> list[tuple[str, list[Timed], float]]:
        """Each family, its steps and their seconds, the slowest first."""
        families: dict[str, list[Timed]] = {}
        for step in self.steps:
            families.setdefault(step.family, []).append(step)
        summed = [(family, steps, sum(step.seconds for step in steps)) for family, steps in families.items()]
        return sorted(summed, key=lambda item: -item[2])

    def _head(self, total: float) -> str:
        return f"{1e3 * total:.3f} ms in {len(self)} steps on {self.threads} thread(s)"

    def _about(self, family: str, steps: Sequence[Timed]) -> str:
        return self._share(steps) if family != NUMPY else ", ".join(counted(step.op for step in steps))

    def _lines(self) -> Iterator[str]:
        total = sum(step.seconds for step in self.steps) or 1e-9
        yield self._head(total)
        for family, steps, seconds in self._families():
            told = self._about(family, steps)
            yield f"  {family:<16}{1e3 * seconds:9.3f} ms {seconds / total:6.1%} {len(steps):5} steps  {told}".rstrip()
        yield "slowest:"
        for step in sorted(self.steps, key=lambda step: -step.seconds)[:SLOWEST]:
            told = ", ".join(filter(None, (_how(step), self._share([step]))))
            about = f"{step.op} {step.name:.40} {step.shapes}  {told}".rstrip()
            yield f"  {1e3 * step.seconds:9.3f} ms {step.seconds / total:6.1%}  {about}"
        yield from told_of(self._fused)

    def _share(self, steps: Sequence[Timed]) -> str:
        """The rate of some steps, as a share of what the machine can do."""
        seconds, work, moved = (sum(values) for values in zip(*((s.seconds, s.work, s.moved) for s in steps)))
        if seconds <= SECONDS_OF_NOTHING * len(steps):
            return ""
        if work:
            share = share_of_peak(steps, self.threads)
            return f"{work / seconds / 1e9:.0f} GFLOP/s" if share is None else f"{share:.0%} of the FMA peak"
        limit = copy_limit(moved / seconds, moved // len(steps), self.threads) if moved >= 1 << 16 else None
        return f"{moved / seconds / limit:.0%} of a copy" if limit else f"{moved / seconds / 1e9:.1f} GB/s"


def share_of_peak(steps: Sequence[Timed], threads: int) -> float | None:
    """The rate of some steps, as a share of the peak of multiply-adds; None where it is not known."""
    seconds, work = sum(s.seconds for s in steps), sum(s.work for s in steps)
    if not work or seconds <= SECONDS_OF_NOTHING * len(steps):
        return None
    limit = peak_limit(work / seconds, threads, "f32")
    return work / seconds / limit if limit else None


def _told(seconds: float, total: float) -> str:
    return f"{1e3 * seconds:.3f} ms, {seconds / total:.1%}"


def _how(step: Timed) -> str:
    """How a step is done: its algorithm, or that it is numpy's."""
    return step.how() if step.how is not None else "by numpy" * (step.family == NUMPY)


def family_of(op: str, compiled: bool) -> str:
    """The family that an operator counts to; those that numpy runs are one."""
    if not compiled:
        return NUMPY
    for family, ops in FAMILIES.items():
        if op in ops:
            return family
    if op.startswith("Reduce"):
        return "norms"
    of = OPERATORS.get(op)
    return "elementwise" if op == "Elementwise" or (of is not None and of.elementwise) else "others"


def work_of(node: Node | None, known: Mapping[str, Known]) -> int:
    """The flops of a convolution or a product as it is written; 0 of others."""
    if node is None or len(node.inputs) < 2 or any(name not in known for name in (*node.inputs[:2], *node.outputs[:1])):
        return 0
    x, w, y = (known[name].shape for name in (*node.inputs[:2], node.outputs[0]))
    if node.op == "Conv":
        return 2 * prod(y) * prod(w[1:])
    if node.op == "ConvTranspose":
        return 2 * prod(x) * prod(w[1:])
    if node.op in ("Gemm", "MatMul") and x:
        return 2 * prod(y) * x[0 if node.attributes.get("transA") else -1]
    return 0


def fused(before: Graph, after: Graph, known: Mapping[str, Known]) -> Counter[str]:
    """Which operators of a graph became one, and how often: by text, such as ``Swish of Sigmoid Mul``."""
    makers, position = before.makers(), {id(node): i for i, node in enumerate(before.nodes)}
    there = {*before.inputs, *(name for node in after.nodes for name in node.outputs)}
    found: Counter[str] = Counter()
    for node in after.nodes:
        todo, covered = [name for name in node.outputs if name in makers], {}
        while todo:
            maker = makers[todo.pop()]
            if id(maker) in covered:
                continue
            covered[id(maker)] = maker
            for name in maker.present_inputs():
                constant = name in known and known[name].value is not None
                if name in makers and name not in there and not constant:
                    todo.append(name)
        ops = [maker.op for _, maker in sorted(covered.items(), key=lambda item: position[item[0]])]
        if len(ops) > 1:
            found[f"{node.op} of {' '.join(ops)}"] += 1
    return found


def told_of(kinds: Mapping[str, int]) -> Iterator[str]:
    """Lines about what was fused, the most frequent first."""
    if not kinds:
        return
    yield "fused:"
    rows = sorted(kinds.items(), key=lambda item: -item[1])
    for text, count in rows[:FUSED]:
        yield f"  {count:4} {text if len(text) < 100 else text[:97] + '..'}"
    if len(rows) > FUSED:
        yield f"  {sum(count for _, count in rows[FUSED:]):4} of {len(rows) - FUSED} other kinds"


def counted(ops: Iterable[str]) -> list[str]:
    """Operators and how often each occurs."""
    return [f"{op} ({count})" if count > 1 else op for op, count in Counter(ops).most_common()]
