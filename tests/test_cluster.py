"""bench/cluster.py: replays of small graphs come to what is found by hand, and the command runs."""

import json
import random

import numpy as np
import pytest

pytest.importorskip("dask.array", reason="the extra dask")

import cluster
import cluster_graph
import dask
from cluster_simulation import Cluster, Graph, simulate

import layoutkit.dask as lazy


def graph(deps, seconds=1.0, nbytes=0, read=0, written=0, data=()):
    n = len(deps)

    def each(value):
        return list(value) if isinstance(value, list | tuple) else [value] * n

    return Graph(deps, each(nbytes), each(seconds), each(read), each(written), [k in data for k in range(n)])


INDEPENDENT = graph([[], []])
CHAIN = graph([[], [0]], nbytes=[1000, 0])


@pytest.mark.parametrize("queued", [False, True])
def test_independent_tasks_share_workers_and_threads(queued):
    assert simulate(INDEPENDENT, Cluster(1, queued=queued)).seconds == 2
    assert simulate(INDEPENDENT, Cluster(2, queued=queued)).seconds == 1
    assert simulate(INDEPENDENT, Cluster(1, threads=2, queued=queued)).seconds == 1
    assert simulate(INDEPENDENT, Cluster(2, queued=queued)).compute == 2


def test_a_chain_stays_where_its_data_is():
    for workers in (1, 2, 8):
        found = simulate(CHAIN, Cluster(workers, link=1.0, queued=True))
        assert (found.seconds, found.moved, found.held) == (2, 0, 1000)


def test_transfers_take_their_bytes_and_latency():
    join = graph([[], [], [0, 1]], nbytes=[1000, 600, 0])
    found = simulate(join, Cluster(2, link=100.0, latency=0.125))
    # told, computed, known, told: three messages and a task; 600 bytes to the worker that has 1000; a task and its end
    assert found.seconds == pytest.approx(0.125 + 1 + 0.125 + 0.125 + 600 / 100 + 0.125 + 1 + 0.125)
    assert found.moved == 600 and max(found.links) == 6 and sum(found.links) == 12
    assert found.held == 1600


def test_a_link_sends_and_takes_one_result_at_a_time():
    join = graph([[], [], [], [0, 1, 2]], nbytes=[1000, 100, 100, 0])
    assert simulate(join, Cluster(3, link=100.0)).seconds == 1 + 2 + 1  # two come to one worker
    fan = graph([[], [], [], [0, 1], [0, 2]], nbytes=[100, 1000, 1000, 0, 0])
    assert simulate(fan, Cluster(3, link=100.0)).seconds == 1 + 2 + 1  # two leave one worker


def test_both_directions_of_a_link_are_used_at_once():
    swap = graph([[], [], [], [], [0, 1], [2, 3]], nbytes=[1000, 100, 100, 1000, 0, 0])
    found = simulate(swap, Cluster(4, link=100.0))
    assert found.seconds == 1 + 1 + 1


def test_the_scheduler_takes_one_task_after_another():
    many = graph([[] for _ in range(100)], seconds=0.0)
    found = simulate(many, Cluster(50, scheduler=0.25))
    assert found.seconds == found.scheduler == 25
    row = cluster.row_of(found, Cluster(50, scheduler=0.25), 25.0)
    assert row["busiest"] == "scheduler" and row["shares"]["scheduler"] == 1
    assert "the scheduler is busy" in cluster.why([row], many, 1)


def test_storage_is_shared():
    many = graph([[] for _ in range(8)], seconds=1.0, read=100, written=50)
    assert simulate(many, Cluster(8, worker_storage=100.0)).seconds == 1 + 1 + 0.5
    assert simulate(many, Cluster(8, storage=100.0)).seconds == 8 + 4  # writes come after all reads
    assert simulate(many, Cluster(8, storage=100.0)).storage == 12


def test_data_of_the_graph_goes_to_each_worker_once():
    shared = graph([[], *[[0] for _ in range(40)]], nbytes=[10, *[0] * 40], data=[0])
    found = simulate(shared, Cluster(4, link=1000.0))
    assert found.moved == 30 and shared.tasks == 40


def test_idle_workers_take_tasks_of_busy_ones():
    fan = graph([[], *[[0] for _ in range(40)]], nbytes=[10, *[0] * 40])
    found = simulate(fan, Cluster(4, link=1000.0))
    assert found.stolen > 0 and found.seconds < 20
    far = simulate(fan, Cluster(4, link=0.1))
    assert far.stolen < found.stolen


@pytest.mark.parametrize("seed", range(20))
def test_work_is_conserved_in_random_graphs(seed):
    rng = random.Random(seed)
    deps = [sorted(rng.sample(range(k), min(k, rng.randint(0, 3)))) for k in range(200)]
    g = graph(
        deps, [rng.random() for _ in deps], [rng.randrange(1000) for _ in deps], [rng.randrange(10) for _ in deps],
        [rng.randrange(10) for _ in deps],
    )  # fmt: skip
    for workers in (1, 3, 8):
        c = Cluster(workers, rng.randint(1, 3), 1e3, 1e-3, 1e-3, 1e3, 2e3, rng.random() < 0.5)
        found = simulate(g, c)
        assert found.compute == pytest.approx(sum(g.seconds))
        assert found.seconds >= max(g.chain(), found.compute / workers / c.threads, found.scheduler, found.storage)
        assert found.seconds >= max(found.links) and sum(found.links) <= 2 * found.moved / c.link + 1e-9
        assert all(0 <= share <= 1 for share in cluster.shares(found, c).values())
        assert found.moved == 0 or workers > 1
        assert simulate(g, c) == found


def test_the_graph_is_that_of_the_computation():
    volume = cluster_graph.Volume((2, 2, 2), 8, 2, 3, 3)
    tasks = cluster_graph.tasks_of(volume.stored())
    assert all(d < k for k, found in enumerate(tasks.deps) for d in found)
    assert sum(kind.startswith("load") for kind in tasks.kinds) == 8
    costs = cluster_graph.measured(tasks, 1, 1)
    g = cluster_graph.graph_of(tasks, costs)
    assert sum(g.read) == volume.nbytes and sum(g.written) == volume.nbytes * 3 // 2
    assert g.tasks + sum(g.data) == len(tasks.nodes)
    assert simulate(g, Cluster(1)).seconds == pytest.approx(sum(g.seconds))


def test_tasks_that_run_give_what_dask_computes():
    x = dask.array.arange(64, dtype=np.float32, chunks=16).reshape(1, 1, 64)
    tasks = cluster_graph.tasks_of(lazy.conv1d(x, np.ones((1, 1, 3), np.float32), padding=1))
    done = [cost for k in range(len(tasks.nodes)) for cost in cluster_graph._run(tasks, k)]
    assert done and all(cost.seconds >= 0 for _, cost in done)


def test_the_command_runs(tmp_path, capsys):
    file = tmp_path / "out.json"
    args = ["--gigabytes", "0.002", "--chunk-mb", "0.05", "--channels", "1", "--out", "1", "--samples", "1"]
    assert cluster.main([*args, "--workers", "4", "--gbit", "10", "--json", str(file)]) == 0
    told = capsys.readouterr().out
    rows = json.loads(file.read_text())["links"]["10"]["rows"]
    assert [r["workers"] for r in rows] == [1, 2, 4] and rows[0]["moved"] == 0 and rows[0]["speedup"] == 1
    assert "scal" in told.splitlines()[-1]
    assert cluster.main([*args, "--validate", "--rounds", "1"]) == 0
    assert capsys.readouterr().out.count("simulated") == 2
