"""The graph of a computation past memory, as dask runs it, and what each kind of its tasks takes on this machine.

Nothing of the whole is computed: of each kind a few tasks run, with all that they need and nothing else.
"""

from __future__ import annotations

import itertools
import math
import pickle
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from cluster_simulation import Graph
from dask.order import order
from dask.task_spec import Alias, DataNode, GraphNode, Task

import layoutkit.dask as lazy

TOKEN = re.compile(r"-?[0-9a-f]{32}")
io = threading.local()  # bytes that tasks of a thread read from storage, and wrote


def load(shape: tuple[int, ...]) -> np.ndarray:
    """A chunk, as it comes from storage."""
    made = np.full(shape, np.float32(0.5))
    io.read = getattr(io, "read", 0) + made.nbytes
    return made


class Sink:
    """What results are stored in: it keeps nothing."""

    def __setitem__(self, key: Any, value: np.ndarray) -> None:
        io.written = getattr(io, "written", 0) + value.nbytes


class Volume(NamedTuple):
    """A volume that is convolved, reordered and stored.

    Attributes
    ----------
    counts : tuple of int
        Chunks along each spatial axis.
    side : int
        Of a chunk, in voxels.
    channels, out : int
    kernel : int
    """

    counts: tuple[int, int, int]
    side: int
    channels: int
    out: int
    kernel: int

    @classmethod
    def of(cls, gigabytes: float, chunk_mb: float, channels: int, out: int, kernel: int) -> Volume:
        """A volume of about such a size."""
        side = max(1, round((chunk_mb * 1e6 / 4 / channels) ** (1 / 3)))
        left = max(1.0, gigabytes * 1e9 / (4 * channels * side**3))
        first = max(1, round(left ** (1 / 3)))
        second = max(1, round(math.sqrt(left / first)))
        return cls((first, second, max(1, round(left / first / second))), side, channels, out, kernel)

    @property
    def nbytes(self) -> int:
        """Of the input."""
        return 4 * self.channels * self.side**3 * math.prod(self.counts)

    def __str__(self) -> str:
        size = "x".join(str(n * self.side) for n in self.counts)
        k = self.kernel
        return (
            f"conv3d {k}x{k}x{k}, {self.channels} to {self.out} channels, of {size} ({self.nbytes / 1e9:.4g} GB in "
            f"{math.prod(self.counts)} chunks of {4e-6 * self.channels * self.side**3:.3g} MB); reordered, stored"
        )

    def stored(self) -> Any:
        """The computation, of which nothing has been computed."""
        shape = (1, self.channels, self.side, self.side, self.side)
        chunks = ((1,), (self.channels,), *((self.side,) * n for n in self.counts))
        keys = ((0, 0, *at) for at in itertools.product(*map(range, self.counts)))
        graph = {("load", *at): Task(("load", *at), load, shape) for at in keys}
        x = da.Array(graph, "load", chunks, dtype=np.float32, meta=np.empty((0,) * 5, np.float32))
        w = np.random.default_rng(0).standard_normal((self.out, self.channels, *[self.kernel] * 3), np.float32)
        y = lazy.conv3d(x, w, padding=self.kernel // 2)
        return da.store(lazy.reorder(y, "NCDHW", "NDHWC"), Sink(), lock=False, compute=False)


class Tasks(NamedTuple):
    """A graph as dask runs it, its tasks numbered as dask's order has them; aliases are what they stand for."""

    nodes: list[GraphNode]
    deps: list[list[int]]
    kinds: list[str]


def tasks_of(y: Any) -> Tasks:
    """The tasks of a collection, optimised."""
    (best,) = dask.optimize(y)
    nodes: dict[Any, GraphNode] = dict(best.__dask_graph__())
    rank = order(dict(nodes))

    def target(key: Any) -> Any:
        while isinstance(nodes[key], Alias):
            key = nodes[key].target
        return key

    keys = sorted({target(key) for key in nodes}, key=rank.__getitem__)
    number = {key: k for k, key in enumerate(keys)}
    held = [nodes[key] for key in keys]
    deps = [sorted({number[target(d)] for d in node.dependencies if d in nodes}) for node in held]
    if any(d >= k for k, found in enumerate(deps) for d in found):  # data may come after its users in dask's order
        return _sorted(held, deps)
    return Tasks(held, deps, kinds_of(held, deps))


def _sorted(nodes: Sequence[GraphNode], deps: Sequence[Sequence[int]]) -> Tasks:
    """The same with data first."""
    old = sorted(range(len(nodes)), key=lambda k: (not isinstance(nodes[k], DataNode), k))
    new = {k: n for n, k in enumerate(old)}
    held, found = [nodes[k] for k in old], [sorted(new[d] for d in deps[k]) for k in old]
    return Tasks(held, found, kinds_of(held, found))


def kinds_of(nodes: Sequence[GraphNode], deps: Sequence[Sequence[int]]) -> list[str]:
    """Kinds of tasks: what they are made of, how many results they need, and how many need theirs."""
    users = Counter(itertools.chain.from_iterable(deps))
    found = []
    for k, (node, needs) in enumerate(zip(nodes, deps)):
        if isinstance(node, DataNode):
            found.append("data")
            continue
        needs = [d for d in needs if not isinstance(nodes[d], DataNode)]
        found.append(f"{name_of(node)}, {len(needs)} in, {users[k]} out")
    return found


def name_of(node: GraphNode) -> str:
    """What a task does: the names of those that it was fused of, without what makes them unique."""
    keys: Iterable[Any] = [node.key]
    if isinstance(node, Task) and node.has_subgraph():
        inner = node.args[0]
        keys = inner.value if isinstance(inner, DataNode) else inner
    names = (str(key[0] if isinstance(key, tuple) else key) for key in keys)
    return "+".join(dict.fromkeys(TOKEN.sub("", name).removesuffix("-") for name in names))


class Cost(NamedTuple):
    """Of a kind of tasks: seconds on a thread, bytes of the result, bytes of storage."""

    seconds: float
    nbytes: int
    read: int
    written: int


def measured(tasks: Tasks, threads: int, samples: int) -> dict[str, Cost]:
    """The costs of each kind of tasks, when `threads` of them run at a time: medians of `samples` or more."""
    found: dict[str, list[Cost]] = {kind: [] for kind in tasks.kinds}
    of: dict[str, list[int]] = {}
    for k, kind in enumerate(tasks.kinds):
        of.setdefault(kind, []).append(k)
    with ThreadPoolExecutor(threads) as pool:
        for counted in (False, True):  # the first time filters are packed, and pages are new
            for kind in sorted(of, key=lambda kind: -of[kind][-1]):
                while len(found[kind]) < (samples if counted else 1) and kind != "data":
                    step = max(1, len(of[kind]) // max(samples, threads))
                    some = of[kind][len(found[kind]) % step :: step][: max(threads, 1)]
                    for costs in pool.map(lambda k: _run(tasks, k), some * (threads if len(some) < threads else 1)):
                        for done, cost in costs:
                            found[done].append(cost)
            if not counted:
                found = {kind: [] for kind in tasks.kinds}
    made = {kind: Cost(*(median(values) for values in zip(*costs))) for kind, costs in found.items() if costs}
    return {kind: Cost(c.seconds, int(c.nbytes), int(c.read), int(c.written)) for kind, c in made.items()}


def _run(tasks: Tasks, last: int) -> list[tuple[str, Cost]]:
    """Run a task and all that it needs; what each took."""
    needed, stack = set(), [last]
    while stack:
        k = stack.pop()
        if k not in needed:
            needed.add(k)
            stack += tasks.deps[k]
    left = Counter(d for k in needed for d in tasks.deps[k])
    results: dict[int, Any] = {}
    told = []
    number = {tasks.nodes[k].key: k for k in needed}
    for k in sorted(needed):
        node = tasks.nodes[k]
        io.read = io.written = 0
        given = {d: results[number[d]] for d in node.dependencies}
        start = time.perf_counter()
        results[k] = node(given)
        seconds = time.perf_counter() - start
        del given
        if not isinstance(node, DataNode):
            told.append((tasks.kinds[k], Cost(seconds, nbytes_of(results[k]), io.read, io.written)))
        for d in tasks.deps[k]:
            left[d] -= 1
            if not left[d]:
                del results[d]
    return told


def nbytes_of(result: Any) -> int:
    """Bytes of a result: of arrays, and lists of them."""
    if isinstance(result, list | tuple):
        return sum(map(nbytes_of, result))
    return int(getattr(result, "nbytes", 0))


def graph_of(tasks: Tasks, costs: dict[str, Cost]) -> Graph:
    """What is simulated."""
    data = [isinstance(node, DataNode) for node in tasks.nodes]
    each = [
        Cost(0.0, len(pickle.dumps(node.value)), 0, 0) if is_data else costs[kind]
        for node, kind, is_data in zip(tasks.nodes, tasks.kinds, data)
    ]
    seconds, nbytes, read, written = (list(values) for values in zip(*each))
    return Graph(tasks.deps, nbytes, seconds, read, written, data)
