"""Threads that the system does not grant, and more than anyone needs: words or fewer threads, never the end."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import layoutkit as lk
from layoutkit._core.runtime import team
from layoutkit.bench.listed import text_cases
from layoutkit.choosing.cache import plans
from layoutkit.choosing.table import cost_table
from layoutkit.choosing.threads import MAX_THREADS
from layoutkit.convolutions import filter as filters
from layoutkit.convolutions.algorithms import sums, winograd

X = np.ones((1, 64, 70, 66), np.float32)
W = np.ones((8, 64, 3, 3), np.float32)
SQUARE = np.ones((64, 64, 3, 3), np.float32)
USABLE = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()  # by other processes


def run(program, **env):
    """A program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120,
        env={k: v for k, v in (os.environ | env).items() if v},
    )  # fmt: skip


# ---- more than anyone needs


@pytest.mark.parametrize("ask", [
    lk.set_num_threads,
    lambda n: lk.reorder(X, "NCHW", "NHWC", threads=n),
    lambda n: lk.reorder(X, "NCHW", "NHWC", dtype="float64", threads=n),
    lambda n: lk.conv2d(X, W, threads=n),
    lambda n: lk.Conv2d(W, threads=n),
    lambda n: lk.conv_transpose2d(X, W.swapaxes(0, 1), threads=n),
    lambda n: lk.plan(lk.reorder, X, "NCHW", "NHWC", threads=n),
    lambda n: text_cases([f"reorder 1x64x70x66 NCHW>NHWC x32 t{n}"], "listed", ["NHWC"], [1]),
])  # fmt: skip
@pytest.mark.parametrize("n", [MAX_THREADS + 1, 10**9])
def test_beyond_reason_is_refused_in_words(ask, n):
    with pytest.raises(ValueError, match=rf"threads: expected 1 to {MAX_THREADS} \(four times the cores .*, got {n}"):
        ask(n)


@pytest.mark.parametrize("threads", [1, 2, None])
@pytest.mark.parametrize("call", [
    lambda n: lk.conv2d(X, W, padding=1, threads=n),
    lambda n: lk.Conv2d(W, padding=1, algorithm="winograd", threads=n)(X),
    lambda n: lk.conv_transpose2d(X, W.swapaxes(0, 1), threads=n),
    lambda n: lk.grad.conv2d_input(X.shape, SQUARE, np.ones((1, 64, 68, 64), np.float32), threads=n),
])  # fmt: skip
def test_packing_keeps_to_the_threads_of_its_call(call, threads, monkeypatch):
    found = []

    def spied(inner):
        def spy(*args, **kwargs):
            found.append(lk.get_num_threads())
            return inner(*args, **kwargs)

        return spy

    for module in (sums, winograd, filters):
        for name in {"reorder", "get_num_threads", "extent"} & set(vars(module)):
            monkeypatch.setattr(module, name, spied(getattr(module, name)))
    everything = lk.get_num_threads()
    cost_table.forget()  # what tests before this recorded
    plans.clear()
    call(threads)
    assert set(found) == {min(everything, threads or everything)}
    assert lk.get_num_threads() == everything


def test_at_the_limit_is_granted():
    want = lk.reorder(X, "NCHW", "NHWC", threads=1)
    np.testing.assert_array_equal(lk.reorder(X, "NCHW", "NHWC", threads=MAX_THREADS), want)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²", "000", "9" * 5000])
def test_the_environment_is_refused_as_other_nonsense_is(text):
    done = run("import layoutkit", LAYOUTKIT_NUM_THREADS=text)
    assert done.returncode == 1
    assert f"ImportError: LAYOUTKIT_NUM_THREADS='{text}': expected a positive number" in done.stderr


def test_the_environment_is_a_limit_of_any_size():
    done = run("import layoutkit as lk; print(lk.get_num_threads())", LAYOUTKIT_NUM_THREADS="1024", OMP_NUM_THREADS="3")
    assert done.stdout == f"{min(3, USABLE)}\n"
    assert f"RuntimeWarning: LAYOUTKIT_NUM_THREADS=1024: {MAX_THREADS} are used at most" in done.stderr
    assert run("import layoutkit", LAYOUTKIT_NUM_THREADS=str(MAX_THREADS)).stderr == ""


def test_what_openmp_allows_is_limited_too():
    done = run("import layoutkit as lk; print(lk.get_num_threads())", OMP_NUM_THREADS="100000")
    assert (done.stdout, done.stderr) == (f"{USABLE}\n", "")


# ---- what the system does not grant

PROGRAM = """
import os, resource, sys, threading
import numpy as np, layoutkit as lk
from layoutkit._core.runtime import team
team.assume({n})
x, w = np.ones((1, 64, 70, 66), np.float32), np.ones((8, 64, 3, 3), np.float32)
op, out = lk.Conv2d(w, threads={n}, algorithm="direct"), np.empty((1, 8, 68, 64), np.float32)
moved, converted = np.empty((1, 70, 66, 64), np.float32), np.empty((1, 70, 66, 64), np.float64)
plan = lk.plan(lk.reorder, x, "NCHW", "NHWC", threads={n}, out=moved)
work = np.empty(op.workspace((1, 64, 70, 66)), np.uint8)

def use():
    op(x, out=out, workspace=work)
    lk.reorder(x, "NCHW", "NHWC", threads={n}, out=moved)
    lk.reorder(x, "NCHW", "NHWC", dtype="float64", threads={n}, out=converted)
    plan.run(x, moved)
    assert (out == 64 * 9).all() and (moved == 1).all() and (converted == 1).all()

{limit}
{then}
print(team.refused())
"""
MEMORY = """
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + {} * 2**20,) * 2)
"""
PROCESSES = """
if os.getuid() == 0:
    os.setuid(65534)  # the limit does not hold for root
resource.setrlimit(resource.RLIMIT_NPROC, ({0}, {0}))
"""


def limited(limit, n, then="use()", **env):
    """The smallest team that was refused."""
    done = run(PROGRAM.format(n=n, limit=limit, then=then), **env)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")


@linux
@pytest.mark.parametrize("limit", [MEMORY.format(12), MEMORY.format(2), PROCESSES.format(1)])
@pytest.mark.parametrize("n", [2, MAX_THREADS])
def test_calls_run_on_what_is_granted(limit, n):
    refused = limited(limit, n)
    assert refused in (0, n)
    if limit != MEMORY.format(12):
        assert refused == n


@linux
@pytest.mark.parametrize("limit", [MEMORY.format(60), PROCESSES.format(14)])
def test_many_threads_at_once_share_what_is_granted(limit):
    then = f"""
ready, failed = threading.Barrier(9), []
def thread():
    ready.wait()
    try:
        for _ in range(20):
            team.granted(2)
            team.granted({MAX_THREADS})
    except BaseException as error:
        failed.append(error)
    ready.wait()
threads = [threading.Thread(target=thread) for _ in range(8)]
for t in threads:
    t.start()
{limit}
ready.wait()
ready.wait()
for t in threads:
    t.join()
assert not failed, failed
"""
    assert limited("", MAX_THREADS, then) in (0, 2, MAX_THREADS)


def test_a_team_has_as_many_threads_as_processors():
    try:
        for processors in (5, 2, 1, 3):
            team.assume(processors)
            for n in (2, 3, 1, 5, 4):
                assert team.granted(n) == min(n, processors)
            assert team.allowed(10**6) <= processors
    finally:
        team.assume(max(4, os.cpu_count()))


@linux
def test_processors_taken_from_a_running_process_are_not_used():
    done = run("""
        import os, time
        import numpy as np, layoutkit as lk
        from layoutkit._core.runtime import team
        x = np.ones((8, 64, 56, 56), np.float32)
        before = lk.get_num_threads()
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        time.sleep(0.1)  # more than LK_LOOK_NS
        assert lk.get_num_threads() == team.granted(8) == 1
        lk.reorder(x, "NCHW", "NHWC", threads=8)
        assert team.led() == 1
    """)
    assert done.returncode == 0, done.stderr


@linux
def test_signals_reach_the_threads_of_the_program_only():
    done = run(
        """
        import os, numpy as np, layoutkit as lk
        from layoutkit._core.runtime import team
        team.assume(3)
        team.granted(3)
        status = [open(f"/proc/self/task/{t}/status").read() for t in os.listdir("/proc/self/task")]
        blocked = [int(text.split("SigBlk:")[1].split()[0], 16) for text in status]
        assert sum(b >> 1 & 1 for b in blocked) == 2, blocked  # SIGINT
    """,
        OPENBLAS_NUM_THREADS="1",
    )
    assert done.returncode == 0, done.stderr


def test_a_refusal_is_told_with_the_configuration(monkeypatch, capsys):
    lk.show_config()
    assert "refused" not in capsys.readouterr().out or team.refused()
    monkeypatch.setattr(team, "refused", lambda: 7)
    lk.show_config()
    assert "the system refused to start 7" in capsys.readouterr().out
