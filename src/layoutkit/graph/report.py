"""Where the time of a network goes: its steps by family, against the machine's limits, and what was fused into them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

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
    """Operator, name and seconds of each step. Printed, it says on a screen where the time goes."""

    def __init__(self, steps: Sequence[Timed], fused: Mapping[str, int], threads: int) -> None:
        super().__init__((step.op, step.name, step.seconds) for step in steps)
        self._steps, self._fused, self._threads = list(steps), dict(fused), threads

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def described(self) -> list[tuple[str, float]]:
        """What each step is, with shapes and algorithm, and its seconds."""
        return [(f"{s.op} {s.shapes} {_how(s)} {s.name}".replace("  ", " ").strip(), s.seconds) for s in self._steps]

    def _lines(self) -> Iterator[str]:
        total = sum(step.seconds for step in self._steps) or 1e-9
        families: dict[str, list[Timed]] = {}
        for step in self._steps:
            families.setdefault(step.family, []).append(step)
        yield f"{1e3 * total:.3f} ms in {len(self)} steps on {self._threads} thread(s)"
        for family, steps in sorted(families.items(), key=lambda item: -sum(step.seconds for step in item[1])):
            seconds = sum(step.seconds for step in steps)
            told = self._share(steps) if family != NUMPY else ", ".join(counted(step.op for step in steps))
            yield f"  {family:<16}{1e3 * seconds:9.3f} ms {seconds / total:6.1%} {len(steps):5} steps  {told}".rstrip()
        yield "slowest:"
        for step in sorted(self._steps, key=lambda step: -step.seconds)[:SLOWEST]:
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
            limit = peak_limit(work / seconds, self._threads, "f32")
            return f"{work / seconds / limit:.0%} of the FMA peak" if limit else f"{work / seconds / 1e9:.0f} GFLOP/s"
        limit = copy_limit(moved / seconds, moved // len(steps), self._threads) if moved >= 1 << 16 else None
        return f"{moved / seconds / limit:.0%} of a copy" if limit else f"{moved / seconds / 1e9:.1f} GB/s"


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
