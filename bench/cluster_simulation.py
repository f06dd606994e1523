"""A task graph replayed on a cluster that is not there, event by event: what `cluster.py` tells is found here.

    scheduler: a message of each task that is done, one after another; tasks that can run now go to workers
    worker:    threads, and tasks that wait for data or for a thread, first the one that dask's order has first
    link:      of each worker one up and one down, one transfer at a time on each, in the order in which they come
    storage:   of each worker, and of all together, one after another; the thread waits meanwhile

Tasks are placed as `distributed` does it: on the worker that holds data of theirs and is expected to begin first; an
idle worker takes tasks from a busy one, ten times a second. Tasks that need no data are given to workers in contiguous
groups, or one by one as threads get free ("queued", what `distributed` does if it is not told otherwise).
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

WIDE = 16  # data that more workers hold says nothing about where a task is best
BALANCE_SECONDS = 0.1  # between looks for tasks that idle workers can take
ASKED = 4  # workers of which the one that is free soonest sends a result that many have
VICTIMS = 10  # busy workers that are looked at then
SATURATION = 1.1  # queued: tasks that a worker has, in its threads


class Graph(NamedTuple):
    """Tasks, numbered as dask's order has them, by number.

    Attributes
    ----------
    deps : list of list of int
        The tasks whose results each needs.
    nbytes : list of int
        Of results.
    seconds : list of float
        Of a thread; 0 of what is no task but data that comes with the graph.
    read, written : list of int
        Bytes of storage.
    data : list of bool
        Whether it is data that comes with the graph: workers get it from each other, the scheduler has no work with it.
    """

    deps: Sequence[Sequence[int]]
    nbytes: Sequence[int]
    seconds: Sequence[float]
    read: Sequence[int]
    written: Sequence[int]
    data: Sequence[bool]

    @property
    def tasks(self) -> int:
        """How many there are, without data."""
        return len(self.deps) - sum(self.data)

    def chain(self) -> float:
        """Seconds of the tasks that must run one after another."""
        ends: list[float] = []
        for deps, seconds in zip(self.deps, self.seconds):
            ends.append(seconds + max((ends[d] for d in deps), default=0))
        return max(ends, default=0)


class Cluster(NamedTuple):
    """What the graph runs on; speeds in bytes a second, `scheduler` in seconds a task, `latency` of a message."""

    workers: int
    threads: int = 1
    link: float = math.inf
    latency: float = 0.0
    scheduler: float = 0.0
    worker_storage: float = math.inf
    storage: float = math.inf
    queued: bool = False


class Outcome(NamedTuple):
    """What a replay came to.

    Attributes
    ----------
    seconds : float
    moved : int
        Bytes between workers.
    compute : float
        Seconds that threads computed, in all.
    links : list of float
        Of each worker, seconds that the busier direction of its link was in use.
    scheduler : float
        Seconds that it was busy.
    storage : float
        Seconds that the busiest was: all storage together, or that of a worker.
    held : int
        Bytes of results that a worker held at most.
    stolen : int
        Tasks that idle workers took from others.
    """

    seconds: float
    moved: int
    compute: float
    links: list[float]
    scheduler: float
    storage: float
    held: int
    stolen: int


@dataclass
class Worker:
    """A worker and its link and storage, each free from a time on."""

    free: int  # threads
    occupancy: float = 0.0  # seconds of tasks that it has, begun or not
    tasks: int = 0
    ready: list[int] = field(default_factory=list)  # heap
    waiting: list[int] = field(default_factory=list)  # heap of negative numbers: those not begun, the last first
    up: float = 0.0
    down: float = 0.0
    storage: float = 0.0
    sent: float = 0.0  # seconds
    received: float = 0.0
    stored: float = 0.0
    held: int = 0
    most: int = 0

    def holds(self, nbytes: int) -> None:
        """Count bytes of a result, or with a negative number that they are gone."""
        self.held += nbytes
        if self.held > self.most:
            self.most = self.held


TOLD, SENT, GOT, READ, COMPUTED, WRITTEN, HANDLED, BALANCE = range(8)


def simulate(graph: Graph, cluster: Cluster) -> Outcome:
    """Replay a graph on a cluster."""
    return _Replay(graph, cluster).run()


class _Replay:
    def __init__(self, graph: Graph, cluster: Cluster) -> None:
        count = len(graph.deps)
        self.graph, self.cluster = graph, cluster
        self.workers = [Worker(cluster.threads) for _ in range(cluster.workers)]
        self.users: list[list[int]] = [[] for _ in range(count)]
        for task, deps in enumerate(graph.deps):
            for d in deps:
                self.users[d].append(task)
        self.waits = [sum(not graph.data[d] for d in deps) for deps in graph.deps]
        self.left = [len(found) for found in self.users]
        self.holders: list[list[int]] = [[] for _ in range(count)]
        self.at: list[set[int]] = [set() for _ in range(count)]  # the same
        self.coming: dict[tuple[int, int], set[int]] = {}  # results to workers, and the tasks there that wait for them
        self.lacking = [0] * count  # results that each task waits for
        self.place = [-1] * count
        self.begun = [False] * count
        self.costs = [s + (r + w) / cluster.worker_storage for s, r, w in zip(graph.seconds, graph.read, graph.written)]
        self.events: list[tuple[float, int, int, int, int]] = []
        self.number, self.scheduler_free, self.storage_free = 0, 0.0, 0.0
        self.moved, self.compute, self.stolen, self.balancing = 0, 0.0, 0, False
        self.random = random.Random(0)
        self.queue: list[int] = []  # roots that wait for a thread, the last first

    def run(self) -> Outcome:
        """All of it."""
        graph, cluster = self.graph, self.cluster
        for k, task in enumerate(t for t, is_data in enumerate(graph.data) if is_data):
            self.holders[task].append(k % cluster.workers)
            self.at[task].add(k % cluster.workers)
            self.workers[k % cluster.workers].holds(graph.nbytes[task])
        roots = [t for t, n in enumerate(self.waits) if not n and not graph.data[t]]
        if cluster.queued:
            self.queue = roots[::-1]
            for _ in range(self._slots()):
                for w in range(cluster.workers):
                    self._assign_queued(w, 0.0, 1)
        else:
            for k, task in enumerate(roots):
                self._assign(task, k * cluster.workers // len(roots), 0.0)
        self._look_later(0.0)
        now, last = 0.0, 0.0
        steps = [self._told, self._sent, self._got, self._read, self._computed, self._written, self._handled]
        while self.events:
            now, _, what, task, w = heapq.heappop(self.events)
            if what == BALANCE:
                self._balance(now)
                continue
            steps[what](task, w, now)
            last = now
        assert all(self.begun[t] or graph.data[t] for t in range(len(graph.deps))), "tasks were left"
        storage = sum(graph.read) + sum(graph.written)
        return Outcome(
            last, self.moved, self.compute, [max(w.sent, w.received) for w in self.workers],
            cluster.scheduler * graph.tasks, max(storage / cluster.storage, *(w.stored for w in self.workers), 0.0),
            max(w.most for w in self.workers), self.stolen,
        )  # fmt: skip

    def _slots(self) -> int:
        return math.ceil(SATURATION * self.cluster.threads)

    def _at(self, time: float, what: int, task: int, w: int) -> None:
        self.number += 1
        heapq.heappush(self.events, (time, self.number, what, task, w))

    # The scheduler

    def _assign_queued(self, w: int, now: float, most: int) -> None:
        while self.queue and most and self.workers[w].tasks < self._slots():
            self._assign(self.queue.pop(), w, now)
            most -= 1

    def _assign(self, task: int, w: int, now: float) -> None:
        """A task to a worker, which asks for the data that it lacks."""
        worker = self.workers[w]
        self.place[task] = w
        worker.occupancy += self.costs[task]
        worker.tasks += 1
        heapq.heappush(worker.waiting, -task)
        if worker.tasks > self.cluster.threads:
            self._look_later(now)
        self._at(now + self.cluster.latency, TOLD, task, w)

    def _told(self, task: int, w: int, now: float) -> None:
        """A worker knows that it has a task."""
        if self.place[task] != w:
            return
        lacking = 0
        for d in self.graph.deps[task]:
            if w not in self.at[d]:
                lacking += 1
                waiting = self.coming.get((d, w))
                if waiting is None:
                    self.coming[d, w] = {task}
                    self._send(d, w, now)
                else:
                    waiting.add(task)
        self.lacking[task] = lacking
        if not lacking:
            self._ready(task, w, now)

    def _send(self, data: int, w: int, now: float) -> None:
        """Send a result to a worker that has asked for it, from one that has it and is free soonest, of a few."""
        holders = self.holders[data]
        if len(holders) > 1:
            asked = holders if len(holders) <= ASKED else self.random.sample(holders, ASKED)
            sender = min((self.workers[k] for k in asked), key=lambda k: k.up)
        else:
            sender = self.workers[holders[0]]
        nbytes = self.graph.nbytes[data]
        begin = max(now, sender.up)
        sender.up = begin + nbytes / self.cluster.link
        sender.sent += nbytes / self.cluster.link
        self.moved += nbytes
        if begin > now:
            self._at(begin, SENT, data, w)
        else:
            self._sent(data, w, now)

    def _sent(self, data: int, w: int, now: float) -> None:
        """The first bytes of a result come to a worker's link."""
        worker, seconds = self.workers[w], self.graph.nbytes[data] / self.cluster.link
        worker.down = max(now, worker.down) + seconds
        worker.received += seconds
        self._at(worker.down + self.cluster.latency, GOT, data, w)

    def _got(self, data: int, w: int, now: float) -> None:
        """A worker has all of a result."""
        if self.left[data]:
            self.workers[w].holds(self.graph.nbytes[data])
            self.holders[data].append(w)
        self.at[data].add(w)
        for task in sorted(self.coming.pop((data, w))):
            if self.place[task] == w and not self.begun[task]:
                self.lacking[task] -= 1
                if not self.lacking[task]:
                    self._ready(task, w, now)

    def _choose(self, task: int) -> int:
        """The worker that holds data of a task and can begin it first."""
        held: dict[int, int] = {}
        need, nbytes = 0, self.graph.nbytes
        for d in self.graph.deps[task]:
            need += nbytes[d]
            if len(self.holders[d]) <= WIDE:
                for w in self.holders[d]:
                    held[w] = held.get(w, 0) + nbytes[d]
        if not held:
            return min(range(len(self.workers)), key=lambda w: self.workers[w].occupancy)
        if len(held) == 1:
            return next(iter(held))
        link, threads, workers = self.cluster.link, self.cluster.threads, self.workers
        return min(held, key=lambda w: (workers[w].occupancy / threads + (need - held[w]) / link, -held[w], w))

    def _handled(self, task: int, w: int, now: float) -> None:
        """The scheduler knows that a task is done."""
        worker = self.workers[w]
        worker.occupancy -= self.costs[task]
        worker.tasks -= 1
        for d in self.graph.deps[task]:
            self.left[d] -= 1
            if not self.left[d]:
                for k in self.holders[d]:
                    self.workers[k].holds(-self.graph.nbytes[d])
        if self.left[task] or self.graph.nbytes[task]:
            self.holders[task].append(w)
            self.at[task].add(w)
        for user in self.users[task]:
            self.waits[user] -= 1
            if not self.waits[user]:
                self._assign(user, self._choose(user), now)
        if self.queue:
            self._assign_queued(w, now, -1)
        if worker.tasks < self.cluster.threads:
            self._look_later(now)

    def _look_later(self, now: float) -> None:
        if not self.balancing and len(self.workers) > 1:
            self.balancing = True
            self._at((now // BALANCE_SECONDS + 1) * BALANCE_SECONDS, BALANCE, -1, -1)

    def _balance(self, now: float) -> None:
        """Idle workers take tasks that busy ones have not begun, where that is sooner."""
        self.balancing = False
        threads, link = self.cluster.threads, self.cluster.link
        busy = [k for k, worker in enumerate(self.workers) if worker.tasks > threads]
        if not busy:
            return
        idle = [k for k, worker in enumerate(self.workers) if worker.tasks < threads]
        for thief in sorted(idle, key=lambda k: self.workers[k].occupancy):
            while self.workers[thief].tasks < threads and busy:
                seen = self.random.sample(busy, VICTIMS) if len(busy) > VICTIMS else busy
                victim = max(seen, key=lambda k: self.workers[k].occupancy)
                task = self._last_waiting(victim)
                if task < 0 or self.workers[victim].tasks <= threads:
                    busy.remove(victim)
                    continue
                lacks = sum(self.graph.nbytes[d] for d in self.graph.deps[task] if thief not in self.at[d])
                sooner = self.workers[victim].occupancy - self.costs[task] - self.workers[thief].occupancy
                if sooner / threads <= lacks / link + 2 * self.cluster.latency:
                    break
                heapq.heappop(self.workers[victim].waiting)
                self.workers[victim].occupancy -= self.costs[task]
                self.workers[victim].tasks -= 1
                self.stolen += 1
                self._assign(task, thief, now)

    def _last_waiting(self, w: int) -> int:
        """The task of a worker that is not begun and last in order; -1 if there is none."""
        waiting = self.workers[w].waiting
        while waiting and (self.begun[-waiting[0]] or self.place[-waiting[0]] != w):
            heapq.heappop(waiting)
        return -waiting[0] if waiting else -1

    # A worker

    def _ready(self, task: int, w: int, now: float) -> None:
        heapq.heappush(self.workers[w].ready, task)
        self._start(w, now)

    def _start(self, w: int, now: float) -> None:
        worker = self.workers[w]
        while worker.free and worker.ready:
            task = heapq.heappop(worker.ready)
            if self.place[task] != w or self.begun[task]:
                continue
            self.begun[task] = True
            worker.free -= 1
            self._at(self._store(worker, self.graph.read[task], now), READ, task, w)

    def _read(self, task: int, w: int, now: float) -> None:
        self.compute += self.graph.seconds[task]
        self._at(now + self.graph.seconds[task], COMPUTED, task, w)

    def _computed(self, task: int, w: int, now: float) -> None:
        self._at(self._store(self.workers[w], self.graph.written[task], now), WRITTEN, task, w)

    def _store(self, worker: Worker, nbytes: int, now: float) -> float:
        """When bytes are read from storage, or written there."""
        if not nbytes:
            return now
        alone, shared = nbytes / self.cluster.worker_storage, nbytes / self.cluster.storage
        worker.storage = max(now, worker.storage) + alone
        worker.stored += alone
        self.storage_free = max(now, self.storage_free) + shared
        return max(worker.storage, self.storage_free)

    def _written(self, task: int, w: int, now: float) -> None:
        worker = self.workers[w]
        worker.free += 1
        worker.holds(self.graph.nbytes[task])
        self.scheduler_free = max(self.scheduler_free, now + self.cluster.latency) + self.cluster.scheduler
        self._at(self.scheduler_free, HANDLED, task, w)
        self._start(w, now)
