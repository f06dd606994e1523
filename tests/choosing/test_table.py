"""The cost table: what is recorded lasts, what is not a table of this machine is not used, nobody's work is lost."""

import multiprocessing
import os
import subprocess
import sys
import threading
import warnings

import pytest
from tables import IDENTITY, TABLE

from layoutkit.choosing import costfile, machine
from layoutkit.choosing import table as cost
from layoutkit.choosing.costfile import Cost, dump
from layoutkit.choosing.table import CostTable

ONE = {"c": Cost(1.0, 1.0, 0.0, 1)}


@pytest.fixture
def table(cache_dir):
    return CostTable()


def test_what_is_recorded_counts_at_once_and_saved_lasts(table):
    assert table.costs("p") == {}
    table.record("p", "c", Cost(2.0, 3.0, 0.0, 1))
    table.record("p", "c", Cost(1.0, 5.0, 0.0, 1))
    want = {"c": Cost(1.0, 4.0, 0.0, 2)}
    assert table.costs("p") == want
    assert table.save() == table.path
    assert table.costs("p") == CostTable().costs("p") == want
    table.save()
    assert CostTable().costs("p") == want, "saved twice, counted once"
    assert [f.suffix for f in table.path.parent.iterdir() if f.suffix != ".lock"] == [".json"]


def test_the_doubtful_is_held_apart_until_there_is_better_and_is_not_saved(table):
    table.record("p", "c", Cost(9.0, 9.0, 0.0, 1), doubtful=True)
    table.record("p", "d", Cost(8.0, 8.0, 0.0, 1), doubtful=True)
    assert table.doubtful("p") == {"c": Cost(9.0, 9.0, 0.0, 1), "d": Cost(8.0, 8.0, 0.0, 1)}
    assert table.costs("p") == {} and table.problems() == []
    table.record("p", "c", Cost(10.0, 10.0, 0.0, 1))
    table.save()
    assert table.costs("p") == {"c": Cost(10.0, 10.0, 0.0, 1)}
    assert table.doubtful("p") == {"d": Cost(8.0, 8.0, 0.0, 1)}
    assert CostTable().costs("p") == {"c": Cost(10.0, 10.0, 0.0, 1)}


def test_every_change_changes_the_generation(table):
    seen = {table.generation}
    for change in (lambda: table.record("p", "c", Cost(1.0, 1.0, 0.0, 1)), table.save, table.load):
        change()
        assert table.generation not in seen
        seen.add(table.generation)


@pytest.mark.parametrize("content", [
    b"", b"{}", b"\xff\xfe", b"null", dump(TABLE, IDENTITY).encode(), dump(TABLE, {}).encode()[:-30], None,
])  # fmt: skip
def test_what_is_no_table_is_said_once_and_written_over(table, content):
    if content is None:
        table.path.mkdir()
    else:
        table.path.write_bytes(content)
    with pytest.warns(RuntimeWarning, match="is not used") as caught:
        assert table.costs("p") == {}
    assert len(caught) == 1 and str(table.path) in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.load()
        table.record("p", "c", Cost(1.0, 1.0, 0.0, 1))
        if content is not None:
            table.save()
            assert CostTable().costs("p") == {"c": Cost(1.0, 1.0, 0.0, 1)}
    assert table.costs("p") == {"c": Cost(1.0, 1.0, 0.0, 1)}


def test_a_file_beyond_reason_is_not_read(table, monkeypatch):
    monkeypatch.setattr(cost, "MAX_BYTES", 100)
    table.path.write_text(dump(TABLE, machine.identity()))
    with pytest.warns(RuntimeWarning, match=r"is not used: 0\.0 MB, at most"):
        assert table.problems() == []
    with pytest.raises(ValueError, match="at most"):
        table.load(table.path)


def test_a_file_beyond_reason_is_refused_before_it_is_read(table):
    with open(table.path, "wb") as f:
        f.truncate(1 << 40)  # of holes: reading it would take until the memory is full
    for refused in (table.load, table.merge):
        with pytest.raises(ValueError, match=r"1048576\.0 MB, at most 8 MB are read"):
            refused(table.path)
    with pytest.warns(RuntimeWarning, match="at most 8 MB"):
        assert table.problems() == []


def test_what_is_saved_can_be_read(table, monkeypatch):
    monkeypatch.setattr(cost, "MAX_BYTES", 4000)
    for i in range(20):
        for k in range(20):
            table.record(f"p{i}", f"c{k}", Cost(1.0 + k, 1.0 + k, 0.0, 1))
    table.record("conv of nobody", "c", ONE["c"])
    table.save()
    found = CostTable()
    assert found.problems() == sorted(f"p{i}" for i in range(20))
    assert all("c0" in found.costs(p) for p in found.problems())
    assert table.costs("conv of nobody") == ONE, "in this process it counts"
    table.path.unlink()
    monkeypatch.setattr(cost, "MAX_BYTES", 100)
    with pytest.raises(OSError, match="take more than 100 bytes") as caught:
        table.save()
    assert str(table.path) in str(caught.value)


def test_each_instruction_set_and_directory_has_its_own(table, tmp_path, monkeypatch):
    table.record("p", "c", Cost(1.0, 1.0, 0.0, 1))
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", str(tmp_path / "other"))
    assert table.costs("p") == {}
    monkeypatch.setattr(machine, "identity", lambda: IDENTITY)
    assert table.costs("p") == {}
    table.record("q", "c", Cost(1.0, 1.0, 0.0, 1))
    table.save()
    monkeypatch.undo()
    assert table.costs("q") == {}


def test_never_in_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("LAYOUTKIT_CACHE_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert tmp_path not in CostTable().path.parents


@pytest.mark.parametrize("name", ["LAYOUTKIT_CACHE_DIR", "XDG_CACHE_HOME"])
def test_never_of_a_relative_directory(name, monkeypatch, tmp_path):
    monkeypatch.delenv("LAYOUTKIT_CACHE_DIR", raising=False)
    monkeypatch.setenv(name, "here")
    monkeypatch.chdir(tmp_path)
    table = CostTable()
    if not table.path.is_absolute():
        table.path.parent.mkdir(parents=True)
        table.path.write_text(dump({"p": ONE}, machine.identity()))
        with pytest.warns(RuntimeWarning, match="absolute"):
            assert table.problems() == []
        with pytest.raises(OSError, match="absolute"):
            table.save()


def test_a_pipe_is_no_table(table):
    os.mkfifo(table.path)
    with pytest.warns(RuntimeWarning, match="not a file"):
        assert table.costs("p") == {}


def test_threads_lose_nothing(table):
    def work(i):
        for k in range(20):
            table.record(f"p{k}", f"c{i}", Cost(1.0, 1.0, 0.0, 1))
            if k % 10 == i:
                table.save()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    table.save()
    found = CostTable()
    for k in range(20):
        assert found.costs(f"p{k}") == {f"c{i}": Cost(1.0, 1.0, 0.0, 1) for i in range(6)}


WRITER = """
import sys
from layoutkit.choosing.table import CostTable
from layoutkit.choosing.costfile import Cost
table = CostTable()
table.costs("shared")
for k in range(5):
    table.record("shared", f"{sys.argv[1]} {k}", Cost(1.0, 1.0, 0.0, 1))
    table.record("shared", "met by all", Cost(1.0, 1.0, 0.0, 1))
    table.save()
"""


def test_eight_processes_lose_nothing(table):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(i)]) for i in range(8)]
    assert [w.wait() for w in writers] == [0] * 8
    found = table.costs("shared")
    assert found.pop("met by all") == Cost(1.0, 1.0, 0.0, 40)
    assert sorted(found) == sorted(f"{i} {k}" for i in range(8) for k in range(5))


GOOD = {"p": ONE, "q": {"d": Cost(2.0, 2.0, 0.0, 1)}}


def sealed(costs, before, after):
    """The text of `costs` with a change that its checksum covers."""
    text = dump(costs, machine.identity())
    assert before in text
    body = text.partition("\n")[2].replace(before, after)
    return f"{costfile._head(body)}\n{body}"


def test_costs_of_nonsense_are_dropped_and_said_once(table):
    table.path.write_text(sealed(GOOD, '"c": [1000000, 1000000, 0, 1]', '"c": [-1, 1, 0, 1]'))
    with pytest.warns(RuntimeWarning, match="1 of its problems are not used, such as 'p': cost of 'c'") as caught:
        assert table.costs("p") == {} == table.costs("p")
    assert len(caught) == 1 and str(table.path) in str(caught[0].message)
    assert table.costs("q") == GOOD["q"] and table.problems() == ["q"]
    table.record("r", "c", ONE["c"])
    table.save()
    assert CostTable().problems() == ["q", "r"]


@pytest.mark.parametrize("look", [lambda t: t.costs("q"), lambda t: t.problems(), lambda t: t.save()])
def test_problems_that_cannot_be_are_dropped_and_said_once(table, look):
    table.path.write_text(sealed(GOOD, '"p"', '"conv n1 c8 t-1"'))
    with pytest.warns(RuntimeWarning, match="1 of its problems are not used, such as 'conv n1 c8 t-1'") as caught:
        look(table)
        table.load()
    assert len(caught) == 1
    assert table.problems() == ["q"] and table.costs("q") == GOOD["q"]


@pytest.mark.parametrize("name", ["load", "merge"])
def test_a_table_that_was_asked_for_tells_what_of_it_is_not_used(table, tmp_path, name):
    file = tmp_path / "there.json"
    file.write_text(sealed(GOOD, '"c": [1000000, 1000000, 0, 1]', '"c": [1, 1, 0, 0]'))
    with pytest.warns(RuntimeWarning, match="1 of its problems are not used, such as 'p'") as caught:
        getattr(table, name)(file)
    assert str(file) in str(caught[0].message)
    assert table.problems() == ["q"]


def test_an_export_that_cannot_be_names_what_was_asked_for(table, tmp_path):
    (tmp_path / "file").write_text("")
    for path, error in ((tmp_path / "no" / "out.json", FileNotFoundError),
                        (tmp_path / "file" / "out.json", NotADirectoryError)):  # fmt: skip
        with pytest.raises(error, match=rf"cost_table\.export: path: '{path.parent}' is no folder") as caught:
            table.export(path)
        assert caught.value.filename == str(path)


# ---- tables that travel


def test_export_load_merge(table, tmp_path):
    table.record("p", "c", ONE["c"])
    table.record("doubtful", "c", ONE["c"], doubtful=True)
    file = table.export(tmp_path / "out.json")
    other = CostTable()
    other.record("q", "c", ONE["c"])
    other.merge(file)
    assert other.problems() == ["p", "q"]
    other.save()
    assert CostTable().problems() == ["p", "q"]
    shipped = CostTable()
    shipped.load(file)
    assert shipped.problems() == ["p"] and shipped.costs("p") == ONE, "in place of the one in the cache"
    shipped.save()
    assert CostTable().problems() == ["p", "q"], "and only in this process"


@pytest.mark.parametrize("name", ["load", "merge"])
@pytest.mark.parametrize("content, error, why", [
    (dump(TABLE, IDENTITY), ValueError, r"another machine or build: cpu 'a' there and .* here"),
    (dump(TABLE, IDENTITY)[:-9], ValueError, "damaged"),
    ("{}", ValueError, "not a layoutkit cost table"),
    ('{"layoutkit": 1, "crc32"', ValueError, "not of version 2"),
    (None, FileNotFoundError, "there.json"),
])  # fmt: skip
def test_a_table_that_was_asked_for_must_fit(table, tmp_path, name, content, error, why):
    table.record("p", "c", ONE["c"])
    file = tmp_path / "there.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(error, match=why) as caught:
        getattr(table, name)(file)
    assert str(file) in str(caught.value)
    assert table.problems() == ["p"]


def test_read_only_reads_and_never_writes(table, monkeypatch):
    table.record("p", "c", ONE["c"])
    table.save()
    before = table.path.read_bytes()
    monkeypatch.setenv("LAYOUTKIT_READ_ONLY", "1")
    frozen = CostTable()
    assert frozen.costs("p") == ONE
    frozen.record("q", "c", ONE["c"])
    with pytest.raises(PermissionError, match="LAYOUTKIT_READ_ONLY"):
        frozen.save()
    frozen._at_exit()
    assert table.path.read_bytes() == before


def test_saved_at_exit_only_where_asked(cache_dir):
    program = """
import sys
from layoutkit import cost_table
from layoutkit.choosing.costfile import Cost
cost_table.record("p", "c", Cost(1.0, 1.0, 0.0, 1))
if sys.argv[1] == "save":
    cost_table.save_at_exit()
"""
    for argument, want in (("not", []), ("save", ["p"])):
        subprocess.run([sys.executable, "-c", program, argument], check=True)
        assert CostTable().problems() == want


def test_a_forked_child_does_not_save_what_is_its_parents(table):
    table.record("p", "c", ONE["c"])

    def child():
        assert table.costs("p") == ONE
        table.record("q", "c", ONE["c"])
        table.save()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = multiprocessing.get_context("fork").Process(target=child)
        p.start()
    p.join()
    assert p.exitcode == 0
    table.save()
    assert CostTable().costs("p") == CostTable().costs("q") == ONE


# ---- forgetting, and merging twice


def test_what_is_forgotten_is_gone_here_at_once_and_from_the_file_once_saved(table):
    for problem in ("pa", "pb", "qa"):
        table.record(problem, "c", ONE["c"])
    table.save()
    table.record("pa", "d", ONE["c"])
    table.record("pb", "d", ONE["c"], doubtful=True)
    before = table.generation, table.loads
    assert table.forget("pa") == 1
    assert table.problems() == ["pb", "qa"] and table.costs("pa") == {}
    assert table.generation != before[0] and table.loads != before[1], "what was decided is decided again"
    assert CostTable().problems() == ["pa", "pb", "qa"]
    table.save()
    assert CostTable().problems() == table.problems() == ["pb", "qa"]
    assert table.forget(containing="p") == 1 and table.doubtful("pb") == {}
    assert table.forget(containing="nothing") == 0
    table.record("pb", "e", ONE["c"])
    table.save()
    assert CostTable().costs("pb") == {"e": Cost(1.0, 1.0, 0.0, 1)}, "what is measured after that stays"
    assert table.forget() == 2
    table.save()
    assert CostTable().problems() == table.problems() == []


def test_what_others_write_stays_unless_it_was_to_be_forgotten(table):
    table.record("p", "c", ONE["c"])
    table.save()
    table.costs("p")
    other = CostTable()
    other.record("q", "c", ONE["c"])
    other.save()
    assert table.forget() == 2, "what others have written by then is forgotten, too"
    other.record("r", "c", ONE["c"])
    other.save()
    table.save()
    assert CostTable().problems() == table.problems() == ["r"]


def test_load_brings_back_what_was_forgotten_and_not_saved(table):
    table.record("p", "c", ONE["c"])
    table.save()
    table.forget("p")
    table.load()
    table.save()
    assert table.costs("p") == CostTable().costs("p") == ONE


def test_what_was_forgotten_stays_to_be_when_saving_fails(table, monkeypatch):
    table.record("p", "c", ONE["c"])
    table.save()
    table.forget()
    with monkeypatch.context() as m:
        m.setattr(cost, "content_of", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            table.save()
    assert table.problems() == [] and CostTable().problems() == ["p"]
    table.save()
    assert CostTable().problems() == []


def test_what_is_forgotten_is_saved_at_exit(table):
    table.record("p", "c", ONE["c"])
    table.save()
    table.forget("p")
    table._at_exit()
    assert CostTable().problems() == []


def test_forget_says_what_it_cannot_do(table):
    table.record("p", "c", ONE["c"])
    with pytest.raises(KeyError, match=r"cost_table\.forget: problem 'q' is none of the 1 that are known"):
        table.forget("q")
    with pytest.raises(TypeError, match="expected a problem or containing, got both"):
        table.forget("p", containing="p")
    with pytest.raises(TypeError, match=r"cost_table\.forget: problem: expected a text, got int"):
        table.forget(3)
    assert table.costs("p") == ONE


def test_merging_a_table_twice_changes_nothing(table, tmp_path):
    table.record("p", "c", Cost(2.0, 3.0, 0.5, 4))
    file = table.export(tmp_path / "out.json")
    other = CostTable()
    other.record("p", "c", Cost(1.0, 5.0, 0.5, 2))
    other.merge(file)
    want = {"c": Cost(1.0, 3.667, 0.5, 6)}
    assert other.costs("p") == want
    generation = other.generation
    other.merge(file)
    assert other.costs("p") == want and other.generation == generation
    other.save()
    assert other.costs("p") == CostTable().costs("p") == want
    again = CostTable()
    again.merge(file)
    again.save()
    assert again.costs("p") == CostTable().costs("p") == want, "in another process, too"


@pytest.mark.parametrize("known", ["loaded", "exported"])
def test_merging_a_table_that_is_known_changes_nothing(table, tmp_path, known):
    table.record("p", "c", Cost(2.0, 3.0, 0.5, 4))
    file = table.export(tmp_path / "out.json")
    if known == "loaded":
        table = CostTable()
        table.load(file)
    generation = table.generation
    table.merge(file)
    assert table.costs("p") == {"c": Cost(2.0, 3.0, 0.5, 4)} and table.generation == generation
    table.save()
    assert CostTable().costs("p") == table.costs("p") == {"c": Cost(2.0, 3.0, 0.5, 4)}, "merged, it lasts"


def test_it_says_what_it_is(table):
    table.record("p", "c", ONE["c"])
    table.save()
    table.record("q", "c", ONE["c"])
    assert repr(table) == f"CostTable(2 problems, 1 of them changed since they were saved, {str(table.path)!r})"
