"""Files that several processes write: whole or not at all, no endless wait, nothing left behind by the killed."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager

import pytest

from layoutkit.choosing import files
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.table import CostTable

ONE = Cost(1.0, 1.0, 0.0, 1)


@contextmanager
def process(program, *arguments, **options):
    """A process that runs `program`, killed in the end."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        stdout=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
    try:
        with child:
            yield child
            child.kill()
    finally:
        child.kill()


HOLDER = """
import sys, time
from pathlib import Path
from layoutkit.choosing import files

def content():
    print("held", flush=True)
    time.sleep(600)

files.rewrite(Path(sys.argv[1]), content, 60)
"""


def test_a_process_ends_though_another_one_has_the_lock(cache_dir):
    table = CostTable()
    leaver = """
    import time
    from layoutkit import cost_table
    from layoutkit.choosing.costfile import Cost
    for name in "ab":
        cost_table.record("p", name, Cost(1.0, 1.0, 0.0, 1))
    cost_table.save_at_exit()
    """
    with process(HOLDER, table.path) as holder:
        assert holder.stdout.readline() == "held\n"
        with process(leaver, stderr=subprocess.PIPE) as child:
            said = child.communicate(timeout=60)[1].splitlines()
            assert child.returncode == 0
    assert f"cost table {table.path}: 2 costs of 1 problems are not saved: another process has held" in said[0]
    assert CostTable().problems() == []


def test_who_waits_in_vain_keeps_what_is_new(cache_dir):
    table = CostTable()
    table.record("p", "c", ONE)
    with process(HOLDER, table.path) as holder:
        assert holder.stdout.readline() == "held\n"
        table.record("p", "d", ONE)
        with pytest.raises(TimeoutError, match=r"lock for 0.1 s"):
            table.save(0.1)
        assert table.costs("p") == {"c": ONE, "d": ONE}
    table.save(60)  # the lock went with its holder
    assert CostTable().costs("p") == {"c": ONE, "d": ONE}


def test_look_ups_do_not_wait_for_another_process(cache_dir):
    table = CostTable()
    table.record("p", "c", ONE)
    with process(HOLDER, table.path) as holder:
        assert holder.stdout.readline() == "held\n"
        thread = threading.Thread(target=table.save)
        thread.start()
        time.sleep(0.2)
        table.record("p", "d", ONE)
        assert table.costs("p") == {"c": ONE, "d": ONE} and thread.is_alive()
    thread.join(60)
    assert not thread.is_alive() and CostTable().problems() == ["p"]


KILLED = """
import os, signal, sys
from pathlib import Path
from layoutkit.choosing import files
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
files.replace(Path(sys.argv[1]), b"half")
"""
LIVING = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "(print('writes', flush=True), signal.pause())")


def test_the_next_writer_removes_what_killed_ones_left_and_nothing_else(tmp_path):
    path = tmp_path / "costs.json"
    files.replace(path, b"old")
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 2  # the second removed the first's
    others = [
        "costs.json.tmp", "costs.json.0123456789ab", "costs.json.0123456789AB.tmp", "costs.json.0123456789abc.tmp",
        "xcosts.json.0123456789ab.tmp", "costsxjson.0123456789ab.tmp", "costs.json.lock", "other.0123456789ab.tmp",
    ]  # fmt: skip
    for name in others:
        (tmp_path / name).write_text("not ours")
    (tmp_path / "target").write_text("elsewhere")
    (tmp_path / "costs.json.00000000000a.tmp").symlink_to("target")
    (tmp_path / "costs.json.00000000000b.tmp").mkdir()
    os.mkfifo(tmp_path / "costs.json.00000000000c.tmp")
    others += ["target", *(f"costs.json.00000000000{c}.tmp" for c in "abc")]
    with process(LIVING, path) as living:
        assert living.stdout.readline() == "writes\n"
        (theirs,) = {f.name for f in tmp_path.glob("*.tmp")}.difference(others)
        files.replace(path, b"new")
        assert path.read_bytes() == b"new"
        assert {f.name for f in tmp_path.iterdir()} == {"costs.json", theirs, *others}
    files.replace(path, b"newer")
    assert {f.name for f in tmp_path.iterdir()} == {"costs.json", *others}


KILLS = """
import os, random, signal, sys, time
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.table import CostTable

os.fsync = lambda handle: None  # a killed process loses nothing that the system has

def saver(i, out):
    table = CostTable()
    for k in range(10_000):
        table.record(f"p {i} {k}", "c" * 200, Cost(1.0, 1.0, 0.0, 1))
        table.save()
        os.write(out, b".")

rng = random.Random(0)
for first in range(0, 50, 5):
    savers = []
    for i in range(first, first + 5):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            saver(i, write)
        os.close(write)
        savers.append((i, child, read))
    for i, child, read in savers:
        saved = os.read(read, 1)
        time.sleep(rng.random() * 0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(i, len(saved + os.read(read, 10_000)), flush=True)
"""


def test_fifty_kills_lose_nothing_that_was_saved(cache_dir):
    done = subprocess.run([sys.executable, "-c", KILLS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    saved = {int(i): int(n) for i, n in map(str.split, done.stdout.splitlines())}
    assert sorted(saved) == list(range(50)) and all(saved.values())
    table = CostTable()
    assert {f"p {i} {k}" for i, n in saved.items() for k in range(n)} <= set(table.problems())
    assert table.save() == table.path
    assert {f.name for f in cache_dir.glob("costs-*")} == {table.path.name, f"{table.path.name}.lock"}


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    files.replace(path, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError):
            files.replace(path, bytes(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_where_files_cannot_be_locked_they_are_written_all_the_same(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(files.UNSUPPORTED[0], "no locks here")

    monkeypatch.setattr(files.fcntl, "lockf", refuse)
    left = tmp_path / "file.0123456789ab.tmp"
    left.write_text("perhaps somebody's")
    files.rewrite(tmp_path / "file", lambda: b"new", 0)
    assert (tmp_path / "file").read_bytes() == b"new" and left.exists()
