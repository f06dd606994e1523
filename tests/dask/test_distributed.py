"""Two workers of dask.distributed, over the loopback interface."""

import os
import signal
import threading
import time

import dask.array as da
import numpy as np
import pytest
from dask.diagnostics import ProgressBar
from distributed import Client, LocalCluster, progress, wait
from graphs import Builder

import layoutkit as lk
import layoutkit.dask as lazy
from layoutkit.choosing.costfile import Cost
from layoutkit.dask.operation_info import OperationInfo
from layoutkit.graph.ir import Graph
from layoutkit.graph.model import Model

pytestmark = pytest.mark.filterwarnings("ignore")  # what distributed warns of is not ours

RNG = np.random.default_rng(3)
X = RNG.standard_normal((1, 2, 24, 24, 24), dtype=np.float32)
W = RNG.standard_normal((4, 2, 3, 3, 3), dtype=np.float32)
PROBLEM = "conv n1 c1 8x8 o1 k3x3 s1x1 p0+0,0+0 d1x1 g1 abcd>abcd f32 standard"


@pytest.fixture(scope="module")
def client():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1", silence_logs=50
    ) as cluster, Client(cluster) as client:  # fmt: skip
        yield client


def counted():
    """Let a worker count how often the work of convolutions reaches it."""
    from layoutkit.dask.convolutions import Convolution

    def arrived(self, state):
        Convolution.arrived += 1
        self.__dict__.update(state)

    Convolution.arrived, Convolution.__setstate__ = 0, arrived


def arrived():
    from layoutkit.dask.convolutions import Convolution

    return Convolution.arrived


def test_the_bits_are_those_in_memory_and_the_filter_travels_once(client):
    client.run(counted)
    y = lazy.conv3d(da.from_array(X, (1, 2, 8, 8, 8)), W, padding=1, accuracy="strict")
    assert np.array_equal(y.compute(), lk.conv3d(X, W, padding=1, accuracy="strict"))
    assert max(client.run(arrived).values()) == 1 and y.numblocks[2:] == (3, 3, 3)


def test_operations_one_after_another(client):
    x = da.from_array(X, (1, 2, 24, 10, 8))
    y = lazy.max_pool3d(lazy.reorder(lazy.conv3d(x, W, accuracy="strict"), "NCDHW", "NDHWC"), 2, layout="NDHWC")
    want = lk.reorder(lk.conv3d(X, W, accuracy="strict"), "NCDHW", "NDHWC")
    assert np.array_equal(y.compute(), lk.max_pool3d(want, 2, layout="NDHWC"))


def test_measured_costs_travel(client, cache_dir):
    def known():
        from layoutkit import cost_table

        return cost_table.costs(PROBLEM)

    assert not any(client.run(known).values())
    lk.cost_table.record(PROBLEM, "direct gemm_6x64_f32_avx512", Cost.of([1e-3, 2e-3]))
    lazy.conv3d(da.from_array(X, (1, 2, 12, 12, 12)), W).compute()
    informed = [costs for costs in client.run(known).values() if costs]  # a worker may have had nothing to do
    assert informed and all(costs == lk.cost_table.costs(PROBLEM) for costs in informed)


def test_a_worker_that_is_killed(client):
    def slowly(chunk):
        time.sleep(0.02)
        return chunk

    x = da.from_array(X, (1, 2, 6, 6, 6)).map_blocks(slowly, meta=np.empty((0,) * 5, np.float32))
    y = lazy.conv3d(x, W, padding=1, accuracy="strict")
    first, *_ = client.run(os.getpid).values()
    killed = []
    threading.Timer(0.4, lambda: killed.append(os.kill(first, signal.SIGKILL))).start()
    found = y.compute()
    assert killed  # before it was done
    assert np.array_equal(found, lk.conv3d(X, W, padding=1, accuracy="strict"))
    client.wait_for_workers(2, timeout=60)
    assert first not in client.run(os.getpid).values()


def test_a_network(client):
    b = Builder((1, 2, 24, 24), 1, "float32")
    b.add("Conv", "x", b.constant((4, 2, 3, 3)), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    b.add("MaxPool", "t0.0", kernel_shape=[2, 2], strides=[2, 2])
    model = Model(Graph(b.nodes, b.inputs, ("t1.0",), b.constants), accuracy="reproducible")
    y = lazy.run(model, da.from_array(X[:, :, 0], (1, 2, 10, 24)))
    assert y.numblocks[2] == 3 and np.array_equal(y.compute(), model.run(X[:, :, 0])["t1.0"])


def test_progress_is_shown_by_dask(client, capsys):
    y = lazy.conv3d(da.from_array(X, (1, 2, 8, 8, 8)), W)
    done = y.persist()
    progress(done)
    wait(done)
    with ProgressBar():
        y.compute(scheduler="threads")
    assert capsys.readouterr().out.count("100% Completed") == 2


def test_what_plan_is_told_does_not_travel(client, monkeypatch):
    def travels(self):
        raise AssertionError("it travels")

    monkeypatch.setattr(OperationInfo, "__reduce__", travels)
    y = lazy.conv3d(da.from_array(X, (1, 2, 8, 8, 8)), W)
    assert y.persist().sum().compute() == pytest.approx(lk.conv3d(X, W).sum(), rel=1e-3)
    assert lazy.plan(y).bytes_read > 0
