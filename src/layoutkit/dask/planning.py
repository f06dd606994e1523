"""The cost of a computation on arrays larger than memory before it runs: tasks, bytes read, and memory.

The memory is found by going through the graph as dask's scheduler does, results counted from when they are begun to
when nothing needs them any more.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dask
from dask.order import order
from dask.system import CPU_COUNT
from dask.task_spec import DataNode, GraphNode, Task, TaskRef

from .operation_info import OperationInfo

WHOLE = "whole"


@dataclass(frozen=True)
class Plan:
    """The tasks, bytes and memory of a computation.

    Parameters
    ----------
    tasks : int
        Of the graph that dask runs, those of other operations too.
    bytes_read : int
        What all tiles read of their inputs.
    overlap_bytes : int
        How much of that is read more than once, as windows overlap.
    copied_bytes : int
        How much is copied from chunks to the tiles of neighbours.
    peak_bytes : int
        Of the memory that a worker holds at most, arrays that were there before among it.
    workers, threads : int
        For how many, and how many tasks each of them runs at a time.
    lines : tuple of str
        About each operation.
    """

    tasks: int
    bytes_read: int
    overlap_bytes: int
    copied_bytes: int
    peak_bytes: int
    workers: int
    threads: int
    lines: tuple[str, ...]

    def explain(self) -> str:
        """All of it in words, and each operation by itself."""
        each = f"{self.threads} tasks at a time" if self.threads > 1 else "a task at a time"
        on = f"{self.workers} workers, {each} on each" if self.workers > 1 else each
        share = self.overlap_bytes / max(1, self.bytes_read - self.overlap_bytes)
        return "\n".join([
            f"{self.tasks} tasks, {on}",
            *self.lines,
            f"{_size(self.bytes_read)} read by tiles, {share:.1%} of it again as windows overlap; "
            f"{_size(self.copied_bytes)} copied for neighbours",
            f"at most about {_size(self.peak_bytes)} of memory" + " on a worker" * (self.workers > 1),
        ])  # fmt: skip

    def __str__(self) -> str:
        return self.explain()


def plan(y: Any, workers: int = 1, threads: int | None = None) -> Plan:
    """The tasks, bytes and memory that computing `y` takes, without computing it.

    Parameters
    ----------
    y : dask array or delayed value
        A result of the operations of `layoutkit.dask`, of others with theirs, or what `store` returns. Of an array it
        is told what ``y.compute()`` takes, which makes one array of all chunks.
    workers : int
        Processes that share the work.
    threads : int, optional
        Tasks that each runs at a time: by default as many as there are cores.

    Returns
    -------
    Plan
        Of integers; ``.explain()`` says it in words. Of operations other than ours the tasks are counted; their memory
        is not known.

    Raises
    ------
    TypeError, ValueError
        `y` is no dask collection, or a number is not positive.

    Examples
    --------
    >>> import numpy as np, dask.array as da, layoutkit.dask
    >>> x = da.zeros((1, 1, 1000, 1000), dtype=np.float32, chunks=(1, 1, 500, 500))
    >>> y = layoutkit.dask.conv2d(x, np.ones((1, 1, 3, 3), np.float32), padding=1)
    >>> print(layoutkit.dask.plan(y, threads=2).explain())
    13 tasks, 2 tasks at a time
    conv2d: 4 tiles of (1, 1, 1000, 1000) float32 NCHW, from 4 chunks
    4.02 MB read by tiles, 0.4% of it again as windows overlap; 16 KB copied for neighbours
    at most about 10 MB of memory
    """
    if not dask.is_dask_collection(y):
        raise TypeError(f"plan: expected a dask array or delayed value, got {type(y).__name__}")
    threads = CPU_COUNT if threads is None else threads
    for name, value in (("workers", workers), ("threads", threads)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"plan: {name}: expected a positive number, got {value!r}")
    (best,) = dask.optimize(y)
    keys = list(dask.core.flatten(best.__dask_keys__()))
    nodes: dict[Hashable, GraphNode] = dict(best.__dask_graph__())
    layers = getattr(y.__dask_graph__(), "layers", {}).values()
    sizes = _Sizes([layer.info for layer in layers if hasattr(layer, "info")])
    if len(keys) > 1:  # `compute` puts chunks together; that one task waits for all others changes their order
        nodes[WHOLE] = Task(WHOLE, list, *map(TaskRef, keys))
        keys, sizes.whole = [WHOLE], getattr(y, "nbytes", 0)
    infos, peak = sizes.infos, _peak(nodes, keys, sizes, workers * threads, workers)
    return Plan(
        len(nodes) - (WHOLE in nodes), sum(a.read for a in infos), sum(a.read - a.touched for a in infos),
        sum(a.copied for a in infos), peak, workers, threads, tuple(a.line() for a in infos),
    )  # fmt: skip


class _Sizes:
    """Bytes of the results of tasks, and of the memory that they need while they run."""

    def __init__(self, infos: Sequence[OperationInfo]) -> None:
        self.infos, self.whole = infos, 0
        self._by_name: dict[str, OperationInfo] = {}
        self._shared = {a.maker_key: a.shared_bytes for a in infos}
        for info in infos:
            for name in info.names:
                self._by_name.setdefault(name, info)

    def result(self, key: Any) -> int:
        """Bytes of the result of the task `key` of a graph that is not optimised; 0 if that is not known."""
        if key in self._shared:
            return self._shared[key]
        info = self._by_name.get(key[0]) if isinstance(key, tuple) else None
        return 0 if info is None else info.nbytes(key)

    def of(self, node: GraphNode) -> tuple[int, int]:
        """Bytes of the result of a task, and of all other memory that it allocates until it is done."""
        if node.key == WHOLE:
            return self.whole, 0
        inner, last = _fused(node)
        result_bytes = self.result(last)
        within = sum(self.result(key) for key in inner if key != last and not isinstance(inner[key], DataNode))
        scratch = max(map(self._scratch, inner), default=0)
        return result_bytes, within + scratch

    def _scratch(self, key: Any) -> int:
        info = self._by_name.get(key[0]) if isinstance(key, tuple) else None
        return info.scratch(key) if info is not None and key[0] == info.name else 0


def _fused(node: GraphNode) -> tuple[Mapping[Any, GraphNode], Any]:
    """The tasks that one is made of, by key, and the key of the last."""
    if not isinstance(node, Task) or not node.has_subgraph():
        return {node.key: node}, node.key
    inner = node.args[0]
    return (inner.value if isinstance(inner, DataNode) else inner), node.args[1]


def _peak(nodes: Mapping[Any, GraphNode], keys: Iterable[Any], sizes: _Sizes, slots: int, workers: int) -> int:
    """The most bytes that a worker has allocated at a time, if tasks run in dask's order on so many slots."""
    rank = order(dict(nodes))
    waits = {key: {d for d in node.dependencies if d in nodes} for key, node in nodes.items()}
    users: dict[Any, set] = {key: set() for key in nodes}
    for key, others in waits.items():
        for dependency in others:
            users[dependency].add(key)
    outputs = set(keys)
    users_left = {key: len(others) for key, others in users.items()}
    memory = {key: sizes.of(node) for key, node in nodes.items()}
    ready = sorted((key for key, others in waits.items() if not others), key=rank.__getitem__, reverse=True)
    running: list[tuple[float, int, Any]] = []
    now, in_use, peak = 0.0, 0, 0
    while ready or running:
        while ready and len(running) < slots:
            key = ready.pop()
            result_bytes, scratch = memory[key]
            in_use += result_bytes + scratch
            time = result_bytes + scratch + sum(memory[d][0] for d in nodes[key].dependencies if d in memory) + 1
            heapq.heappush(running, (now + time, rank[key], key))
        peak = max(peak, in_use)
        now, _, key = heapq.heappop(running)
        in_use -= memory[key][1]
        for dependency in nodes[key].dependencies:
            if dependency in users_left:
                users_left[dependency] -= 1
                if not users_left[dependency] and dependency not in outputs:
                    in_use -= memory[dependency][0]
        ready_now = []
        for user in users[key]:
            waits[user].discard(key)
            if not waits[user]:
                ready_now.append(user)
        if not users[key] and key not in outputs:
            in_use -= memory[key][0]
        ready += sorted(ready_now, key=rank.__getitem__, reverse=True)
    results = [memory[key][0] for key, node in nodes.items() if not isinstance(node, DataNode) and key != WHOLE]
    # Threads and allocators release memory a bit later.
    peak += slots * max(results, default=0)
    shared = sum(memory[key][0] for key, node in nodes.items() if isinstance(node, DataNode))
    return peak if workers == 1 else (peak - shared) // workers + shared


def _size(nbytes: float) -> str:
    """Bytes in a readable unit."""
    for unit in ("bytes", "KB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}" if unit != "bytes" else f"{nbytes:.0f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} GB" if nbytes < 1000 else f"{nbytes / 1000:.3g} TB"
