"""Threads: many Python threads at once, limits, forks, other libraries in the process."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
import threading

import numpy as np
import pytest
import threadpoolctl

import layoutkit as lk
from layoutkit.choosing.threads import at_most

rng = np.random.default_rng(0)
X = rng.standard_normal((1, 64, 70, 66), np.float32)  # large enough for a second thread
W = rng.standard_normal((32, 64, 3, 3), np.float32)


def in_new_python(program, *, timeout=120, **env):
    """Run a program in a process of its own; its output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=timeout,
        env=os.environ | env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def at_once(works, rounds=20):
    """Run every one of `works` in a thread of its own, all starting together; raise what any raised."""
    ready, errors = threading.Barrier(len(works)), []

    def run(work):
        try:
            ready.wait()
            for _ in range(rounds):
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(w,)) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive()
    if errors:
        raise errors[0]


def test_limits_within_limits():
    before = lk.get_num_threads()
    with at_most(2):
        most = lk.get_num_threads()
        assert most == min(2, before)
        with at_most(None):
            assert lk.get_num_threads() == most
        with at_most(1):
            assert lk.get_num_threads() == 1
        assert lk.get_num_threads() == most
    assert lk.get_num_threads() == before


def test_one_plan_in_many_threads():
    op = lk.Conv2d(W, padding=1, threads=2)
    want, want_moved = op(X), lk.reorder(X, "NCHW", "nChw16c", threads=1)

    def work():
        np.testing.assert_array_equal(op(X), want)
        np.testing.assert_array_equal(lk.reorder(X, "NCHW", "nChw16c", threads=2), want_moved)

    at_once([work] * 6)


def test_different_plans_in_many_threads():
    def worker(i):
        x = np.random.default_rng(i).standard_normal((1, 8 + i, 20 + i, 21), np.float32)
        w = np.random.default_rng(i).standard_normal((9 + i, 8 + i, 3, 3), np.float32)
        want = [lk.conv2d(x, w, padding=p, threads=1 + i % 3) for p in range(3)]  # by the candidate that wins there
        exact = [lk.conv2d(x, w, padding=p, threads=1, accuracy="reproducible") for p in range(3)]
        moved = x.transpose(0, 2, 3, 1)

        def work():
            for p in range(3):
                np.testing.assert_array_equal(lk.conv2d(x, w, padding=p, threads=1 + i % 3), want[p])
                got = lk.conv2d(x, w, padding=p, threads=1 + i % 3, accuracy="reproducible")
                np.testing.assert_array_equal(got, exact[p])
            np.testing.assert_array_equal(lk.reorder(x, "NCHW", "NHWC", threads=1 + i % 2), moved)

        return work

    at_once([worker(i) for i in range(8)], rounds=10)


def test_limits_and_tables_change_while_others_work():
    op = lk.Conv2d(W, padding=1, algorithm="direct")
    want = op(X)

    def change():
        for n in (1, 2, 3, None):
            lk.set_num_threads(n)
        lk.cost_table.load()

    def work():
        np.testing.assert_array_equal(op(X), want)
        np.testing.assert_array_equal(lk.conv2d(X, W, padding=1, algorithm="direct"), want)

    try:
        at_once([change, work, work, work])
    finally:
        lk.set_num_threads(None)


def test_threadpoolctl_sees_and_limits_us():
    assert any(p["user_api"] == "openmp" for p in threadpoolctl.threadpool_info())
    with threadpoolctl.threadpool_limits(3, user_api="openmp"):
        assert lk.get_num_threads() == 3
    with threadpoolctl.threadpool_limits(1):
        assert lk.get_num_threads() == 1
        assert lk.plan(lk.reorder, X, "NCHW", "NHWC").title.endswith(" t1")
    lk.set_num_threads(1)
    try:
        with threadpoolctl.threadpool_limits(4, user_api="openmp"):
            assert lk.get_num_threads() == 1
    finally:
        lk.set_num_threads(None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_after_use_works_on_one_thread():
    program = """
    import os, sys, numpy as np, layoutkit as lk
    x, w = np.ones((1, 64, 70, 66), np.float32), np.ones((32, 64, 3, 3), np.float32)
    op = lk.Conv2d(w, threads=2, algorithm='direct')
    lk.set_num_threads({limit})
    want = op(x), lk.reorder(x, "NCHW", "NHWC", threads=2)
    child = os.fork()
    if child == 0:
        ok = (op(x) == want[0]).all() and (lk.reorder(x, "NCHW", "NHWC", threads=2) == want[1]).all()
        ok = ok and (lk.conv2d(x, w, threads=2, algorithm='direct') == want[0]).all() and lk.get_num_threads() == 1
        os._exit(0 if ok and len(os.listdir("/proc/self/task")) == 1 else 3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert (op(x) == want[0]).all()
    """
    for limit in ("None", "1"):
        assert in_new_python(program.format(limit=limit)) == ["0"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    program = f"""
    import multiprocessing, numpy as np, layoutkit as lk

    def work(i):
        x = np.full((1, 64, 70, 66), i, np.float32)
        return lk.reorder(x, "NCHW", "NHWC", threads=2).tobytes() == x.tobytes()

    if __name__ == "__main__":
        work(0)
        lk.conv2d(np.ones((1, 64, 70, 66), np.float32), np.ones((32, 64, 3, 3), np.float32), threads=2)
        with multiprocessing.get_context("{method}").Pool(2) as pool:
            print(pool.map_async(work, range(8)).get(60))
    """
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(textwrap.dedent(program))
        file.flush()
        done = subprocess.run([sys.executable, file.name], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("True") == 8


@pytest.mark.parametrize("order", ["import torch; import layoutkit as lk", "import layoutkit as lk; import torch"])
def test_with_torch_in_one_process(order):
    pytest.importorskip("torch")
    out = in_new_python(f"""
    {order}
    import numpy as np
    x, w = np.ones((1, 64, 40, 40), np.float32), np.ones((32, 64, 3, 3), np.float32)
    for _ in range(5):
        theirs = torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(w)).numpy()
        ours = lk.conv2d(x, w, threads=2)
        assert np.allclose(ours, theirs)
    print("equal")
    """)
    assert out == ["equal"]


def test_threads_sleep_when_there_is_nothing_to_do():
    out = in_new_python("""
    import resource, time, numpy as np, layoutkit as lk
    x = np.ones((1, 64, 200, 200), np.float32)
    for _ in range(5):
        lk.reorder(x, "NCHW", "NHWC", threads=2)
    time.sleep(0.2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    time.sleep(1)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
    """)
    assert float(out[0]) < 0.3


def test_many_threads_share_the_processors():
    """Regions of many threads at once, of all sizes, each with all of its work done once."""
    x = [np.random.default_rng(n).standard_normal((2, 16, 40 + n, 50), np.float32) for n in range(8)]
    want = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in x]
    failed, ready = [], threading.Barrier(len(x))

    def call(a, right):
        ready.wait()
        for n in range(200):
            if not np.array_equal(lk.reorder(a, "NCHW", "NHWC", threads=1 + n % 4), right):
                failed.append(n)

    callers = [threading.Thread(target=call, args=pair) for pair in zip(x, want)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not failed
