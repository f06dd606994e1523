"""Ctrl-C: wherever KeyboardInterrupt comes, no lock stays held, no limit stays set, nothing recorded is lost."""

import gc
import random
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import LONG
from threadpoolctl import ThreadpoolController

import layoutkit as lk
from layoutkit.choosing import blas_threads
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.table import CostTable

OURS = str(Path(lk.__file__).parent)
ONE = Cost(1.0, 1.0, 0.0, 1)


def interrupted(work, at):
    """Call `work`, and raise KeyboardInterrupt before step `at` of layoutkit's Python code; whether it had so many.

    A step is an instruction of the interpreter: signals come after some of them only, this at all.
    """
    steps = 0

    def each(frame, event, _):
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_code.co_filename.startswith(OURS):
            steps += 1
            if steps > at:
                raise KeyboardInterrupt
        return each

    before = sys.gettrace()
    sys.settrace(each)
    try:
        work()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)


def at_every_step(work, after):
    """Interrupt `work` at its steps in turn, and call `after` each time; how many steps it has.

    At every other in CI, else at every third; others in each run.
    """
    stride = 2 if LONG else 3
    at = random.randrange(stride)
    while interrupted(work, at):
        after(at)
        at += stride
    return at


def in_time(work):
    """Call `work` in another thread, which must come to its end."""
    done = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(60)
    assert done, "a lock is held for ever"
    return done[0]


def test_the_array_pool():
    def mapped():
        return sum("rw-p" in line and "00:00 0" in line for line in Path("/proc/self/maps").read_text().splitlines())

    def work():
        x = lk.empty((5 << 20,), "a", "u1")
        y = lk.empty((6 << 20,), "a", "u1")
        del x
        lk.release_memory(8 << 20)
        del y

    def after(at):
        assert in_time(lambda: lk.empty((5 << 20,), "a", "u1")).size == 5 << 20

    work()
    gc.collect()
    lk.release_memory()
    before = mapped()
    assert at_every_step(work, after) > 300
    lk.release_memory()
    assert mapped() <= before + 8  # the threads' stacks, in caches of the C library's


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("what", ["record", "costs", "save", "load", "export", "merge"])
def test_the_cost_table(what, cache_dir):
    table, path, recorded = CostTable(), cache_dir / "exported", 1

    def record():
        nonlocal recorded
        table.record("p", "c", ONE)
        recorded += 1

    def save():
        record()
        table.save(5)

    works = {
        "record": record, "costs": lambda: table.costs("p"), "save": save, "load": table.load,
        "export": lambda: table.export(path), "merge": lambda: table.merge(path),
    }  # fmt: skip

    def after(at):
        def other():
            table.record("q", "d", ONE)
            return table.costs("p")["c"].count

        assert in_time(other) >= recorded

    table.record("p", "c", ONE)
    table.export(path)
    assert at_every_step(works[what], after) > 200
    in_time(table.save)
    table.export(path)
    assert CostTable().costs("p")["c"].count >= recorded
    assert {f.name for f in cache_dir.iterdir()} == {table.path.name, f"{table.path.name}.lock", "exported"}


def test_the_limit_of_blas():
    np.ones((2, 2)) @ np.ones((2, 2))
    held = ThreadpoolController().select(user_api="blas")  # found once: that takes longer than all else here

    def blas():
        return [p["num_threads"] for p in held.info()]

    before = blas()

    def work():
        with blas_threads.limited(before[0] + 2), blas_threads.limited(before[0] + 1):
            pass

    def after(at):
        assert blas() == before, at

    work()
    assert at_every_step(work, after) > 300
    in_time(work)
    assert blas() == before


@pytest.mark.alone
def test_a_storm_of_signals(cache_dir):
    program = """
    import random, signal, sys, threading, time
    import numpy as np, layoutkit as lk
    from layoutkit.choosing import blas_threads
    from layoutkit.choosing.costfile import Cost
    from threadpoolctl import threadpool_info

    def blas():
        return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]

    armed, over, interrupts = False, False, 0

    def handler(*_):
        if armed:
            raise KeyboardInterrupt

    def storm():
        rng = random.Random(0)
        while not over:
            time.sleep(rng.random() * 2e-3)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def neighbour():
        i = 0
        while not over:
            lk.cost_table.record("p", f"c{i % 50}", one)
            lk.empty((5 << 20,), "a", "u1")
            with blas_threads.limited(2):
                pass
            i += 1

    one = Cost(1.0, 1.0, 0.0, 1)
    x = np.ones((1, 64, 70, 66), np.float32)
    op = lk.Conv2d(np.ones((8, 64, 1, 1), np.float32), threads=1, algorithm="blas")
    op(x)
    before = blas()
    signal.signal(signal.SIGINT, handler)
    threads = [threading.Thread(target=f, daemon=True) for f in (storm, neighbour, neighbour)]
    for t in threads:
        t.start()
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        try:
            armed = True
            lk.cost_table.record("mine", "c", one)  # first: on a busy machine no signal may leave time for more
            op(x)
            a = lk.empty((5 << 20,), "a", "u1")
            lk.cost_table.save()
            lk.release_memory()
            armed = False
        except KeyboardInterrupt:
            armed = False
            interrupts += 1
    over = True
    for t in threads:
        t.join(30)
        assert not t.is_alive()
    lk.cost_table.save(10)
    assert blas() == before, (blas(), before)
    assert interrupts > 50, interrupts
    assert lk.cost_table.costs("mine")
    print([f.name for f in lk.cost_table.path.parent.iterdir() if f.suffix == ".tmp"])
    """
    command = [sys.executable, "-c", textwrap.dedent(program), "4" if LONG else "1.5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
