"""The cost table: what is written is read, what is not a table of this machine is not, nobody's work is lost."""

import json
import subprocess
import sys
import threading
import warnings
import zlib

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from layoutkit import cost, machine
from layoutkit.cost import Cost, CostTable, dump, merge, parse

IDENTITY = {"cpu": "a", "caches": [1, 2], "cores": 2, "isa": "avx2", "version": "0", "build": "00"}
seconds = st.floats(1e-9, 1e3)


@st.composite
def a_cost(draw):
    least, median = sorted(draw(st.tuples(seconds, seconds)))
    return Cost(least, median, draw(st.integers(1, 10_000)))


some_costs = st.dictionaries(st.text(max_size=20), st.dictionaries(st.text(max_size=20), a_cost()), max_size=5)
TABLE = {
    "conv n1": {"direct": Cost(1.5e-6, 2e-6, 3), "im2col": Cost(2.5e-6, 3e-6, 7)},
    "reorder 2x3": {"store": Cost(1e-7, 2e-7, 100)},
}


@pytest.fixture
def table(cache_dir):
    return CostTable()


# ---- the text


@given(some_costs)
def test_what_is_written_is_read(costs):
    text = dump(costs, IDENTITY)
    assert parse(text, IDENTITY) == costs
    assert text.count("\n") == 4 + max(1, len(costs)), "a line per problem"


def test_every_truncation_is_refused():
    text = dump(TABLE, IDENTITY)
    for end in range(len(text)):
        with pytest.raises(ValueError):
            parse(text[:end], IDENTITY)


def test_every_bit_flip_is_refused():
    good = dump(TABLE, IDENTITY).encode()
    assert parse(good.decode(), IDENTITY) == TABLE
    for at in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[at] ^= 1 << bit
            try:
                found = parse(bad.decode(), IDENTITY)
            except ValueError:
                continue
            pytest.fail(f"byte {at}, bit {bit}: {found} from {bytes(bad)!r}")


@given(st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_any_text_is_refused(text):
    with pytest.raises(ValueError):
        parse(text, IDENTITY)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(max_size=5), x, max_size=4),
    max_leaves=10,
)  # fmt: skip


def sealed(data):
    """The text of `data` with a head and a checksum that fit, for an adversary who can compute them."""
    body = json.dumps(data)[1:]
    return f'{{"layoutkit": {cost.VERSION}, "crc32": {zlib.crc32(body.encode())},\n{body}'


@given(values | st.fixed_dictionaries({"problem": values | st.fixed_dictionaries({"candidate": values})}))
@settings(max_examples=300)
def test_sealed_nonsense_is_refused_or_is_costs(costs):
    try:
        found = parse(sealed({"machine": IDENTITY, "costs": costs}), IDENTITY)
    except ValueError:
        return
    for candidates in found.values():
        for c in candidates.values():
            assert 0 < c.min <= c.median <= cost.MAX_SECONDS and c.count >= 1
    assert parse(dump(found, IDENTITY), IDENTITY) == found


@pytest.mark.parametrize("fields", [
    [1.0, 2.0], [1.0, 2.0, 0], [1.0, 2.0, True], [0, 2.0, 1], [-1.0, 2.0, 1], [2.0, 1.0, 1], [1.0, 1e300, 1],
    [float("nan"), 1.0, 1], [1.0, float("inf"), 1], [10**400, 10**400, 1], [1.0, 2.0, 2**60], ["1", 2.0, 1], None,
])  # fmt: skip
def test_no_cost_is_made_of(fields):
    with pytest.raises(ValueError, match="'candidate' for 'problem'"):
        parse(sealed({"machine": IDENTITY, "costs": {"problem": {"candidate": fields}}}), IDENTITY)


@given(some_costs, st.sampled_from(sorted(IDENTITY)), st.integers())
def test_another_machines_table_is_refused(costs, field, value):
    assume(value != IDENTITY[field])
    with pytest.raises(ValueError, match="another machine"):
        parse(dump(costs, IDENTITY), IDENTITY | {field: value})


def test_nesting_without_end_is_refused():
    with pytest.raises(ValueError):
        parse("[" * 200_000, IDENTITY)


# ---- merging


@given(a_cost(), a_cost(), a_cost())
def test_merging_costs_is_a_mean_and_a_least(a, b, c):
    assert a.merge(b) == b.merge(a)
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    assert left.min == right.min == min(a.min, b.min, c.min)
    assert left.count == right.count == a.count + b.count + c.count
    assert left.median == pytest.approx(right.median)
    assert min(a.median, b.median) * (1 - 1e-12) <= a.merge(b).median <= max(a.median, b.median) * (1 + 1e-12)
    assert parse(dump({"p": {"c": left}}, IDENTITY), IDENTITY) == {"p": {"c": left}}


@given(some_costs, some_costs)
def test_merging_tables_loses_nothing(a, b):
    def union(x, y):
        out = {}
        merge(out, x)
        merge(out, y)
        return out

    both = union(a, b)
    assert both == union(b, a)
    assert set(both) == set(a) | set(b)
    assert all(set(both[p]) == set(a.get(p, {})) | set(b.get(p, {})) for p in both)
    assert union(a, {}) == a


def test_counts_never_outgrow_the_format():
    c = Cost(1.0, 1.0, cost.MAX_COUNT)
    assert parse(dump({"p": {"c": c.merge(c)}}, IDENTITY), IDENTITY)


# ---- the file


def test_what_is_recorded_counts_at_once_and_saved_lasts(table):
    assert table.costs("p") == {}
    table.record("p", "c", Cost(2.0, 3.0, 1))
    table.record("p", "c", Cost(1.0, 5.0, 1))
    want = {"c": Cost(1.0, 4.0, 2)}
    assert table.costs("p") == want
    assert table.save() == table.path
    assert table.costs("p") == CostTable().costs("p") == want
    table.save()
    assert CostTable().costs("p") == want, "saved twice, counted once"
    assert [f.suffix for f in table.path.parent.iterdir() if f.suffix != ".lock"] == [".json"]


def test_the_doubtful_serves_until_there_is_better_and_is_not_saved(table):
    table.record("p", "c", Cost(9.0, 9.0, 1), doubtful=True)
    table.record("p", "d", Cost(8.0, 8.0, 1), doubtful=True)
    assert table.costs("p") == {"c": Cost(9.0, 9.0, 1), "d": Cost(8.0, 8.0, 1)}
    assert table.problems() == []
    table.record("p", "c", Cost(10.0, 10.0, 1))
    table.save()
    assert table.costs("p") == {"c": Cost(10.0, 10.0, 1), "d": Cost(8.0, 8.0, 1)}
    assert CostTable().costs("p") == {"c": Cost(10.0, 10.0, 1)}


def test_every_change_changes_the_generation(table):
    seen = {table.generation}
    for change in (lambda: table.record("p", "c", Cost(1.0, 1.0, 1)), table.save, table.load):
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
        table.record("p", "c", Cost(1.0, 1.0, 1))
        if content is not None:
            table.save()
            assert CostTable().costs("p") == {"c": Cost(1.0, 1.0, 1)}
    assert table.costs("p") == {"c": Cost(1.0, 1.0, 1)}


def test_a_file_beyond_reason_is_not_read(table, monkeypatch):
    monkeypatch.setattr(cost, "MAX_BYTES", 100)
    table.path.write_text(dump(TABLE, machine.identity()))
    with pytest.warns(RuntimeWarning, match="larger than"):
        assert table.problems() == []


def test_each_instruction_set_and_directory_has_its_own(table, tmp_path, monkeypatch):
    table.record("p", "c", Cost(1.0, 1.0, 1))
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", str(tmp_path / "other"))
    assert table.costs("p") == {}
    monkeypatch.setattr(machine, "identity", lambda: IDENTITY)
    assert table.costs("p") == {}
    table.record("q", "c", Cost(1.0, 1.0, 1))
    table.save()
    monkeypatch.undo()
    assert table.costs("q") == {}


def test_never_in_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("LAYOUTKIT_CACHE_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert tmp_path not in CostTable().path.parents


def test_threads_lose_nothing(table):
    def work(i):
        for k in range(20):
            table.record(f"p{k}", f"c{i}", Cost(1.0, 1.0, 1))
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
        assert found.costs(f"p{k}") == {f"c{i}": Cost(1.0, 1.0, 1) for i in range(6)}


WRITER = """
import sys
from layoutkit.cost import Cost, CostTable
table = CostTable()
table.costs("shared")
for k in range(5):
    table.record("shared", f"{sys.argv[1]} {k}", Cost(1.0, 1.0, 1))
    table.record("shared", "met by all", Cost(1.0, 1.0, 1))
    table.save()
"""


def test_eight_processes_lose_nothing(table):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(i)]) for i in range(8)]
    assert [w.wait() for w in writers] == [0] * 8
    found = table.costs("shared")
    assert found.pop("met by all") == Cost(1.0, 1.0, 40)
    assert sorted(found) == sorted(f"{i} {k}" for i in range(8) for k in range(5))
