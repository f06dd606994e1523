"""Decisions in files: found by who decides the same, never by anybody else, harmless whatever they hold."""

import itertools
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import Known

import layoutkit as lk
from layoutkit.choosing import decision_files
from layoutkit.choosing.best import choices
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.decision_files import Rankings
from layoutkit.choosing.problem import Candidate
from layoutkit.choosing.table import cost_table

keys = (f"test kept {i}" for i in itertools.count())


@pytest.fixture
def folder(cache_dir, monkeypatch):
    monkeypatch.setattr(decision_files, "MAX_FILES", 5)
    cost_table.load()
    return cache_dir


def test_what_is_written_is_read(folder):
    path = decision_files.path_of("a network")
    assert decision_files.read(path) is None
    decision_files.write(path, {"kinds": [1, 2]})
    assert decision_files.read(path) == {"kinds": [1, 2]} and path.parent == folder
    assert decision_files.path_of("a network") == path != decision_files.path_of("another")


def test_costs_are_part_of_the_key(folder):
    before, key = decision_files.path_of("a network"), next(keys)
    cost_table.record(key, "a", Cost(1.0, 1.0, 0.0, 1))
    assert decision_files.path_of("a network") is None  # no other process knows them
    cost_table.save()
    cost_table.load()
    after = decision_files.path_of("a network")
    assert after not in (None, before)
    cost_table.record(key, "b", Cost(1.0, 1.0, 0.0, 1), doubtful=True)
    assert decision_files.path_of("a network") is None


@pytest.mark.parametrize("mode", ["measure", "off"])
def test_nothing_is_found_while_tuning_measures_or_is_off(folder, mode):
    before = lk.tuning(mode)
    try:
        assert decision_files.path_of("a network") is None
    finally:
        lk.tuning(before)


def test_threads_and_profile_are_part_of_the_key(folder, monkeypatch):
    from layoutkit.choosing import machine, packaged
    from layoutkit.choosing.machine_profile import UNIT_SCALE

    before = decision_files.path_of("a network")
    monkeypatch.setattr(packaged, "this_machine", lambda: UNIT_SCALE._replace(stream=2.0))
    other_profile = decision_files.path_of("a network")
    monkeypatch.setattr(machine, "build", lambda: "another")
    assert len({before, other_profile, decision_files.path_of("a network")}) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-9], lambda text: text[:9], lambda text: b"", lambda text: text.replace(b"1", b"2"),
        lambda text: text.replace(b"[1, 2]", b"[1, 3]"), lambda text: b"\xff\x00" * 99,
        lambda text: text + b" " * decision_files.MAX_BYTES, lambda text: text.split(b"\n")[1],
    ],
)  # fmt: skip
def test_a_damaged_file_is_none(folder, damage):
    path = decision_files.path_of("a network")
    decision_files.write(path, {"kinds": [1, 2]})
    path.write_bytes(damage(path.read_bytes()))
    assert decision_files.read(path) is None


@pytest.mark.parametrize("body", ["[]", "7", '{"of": 1}', "{}", "[" * 100_000, "NaN"])
def test_anything_else_is_none(folder, body):
    path = decision_files.path_of("a network")
    path.write_text(f"{decision_files._head(body)}\n{body}")
    assert decision_files.read(path) is None


def test_the_file_of_another_network_is_none(folder):
    one, other = decision_files.path_of("a network"), decision_files.path_of("another")
    decision_files.write(one, {"kinds": []})
    os.replace(one, other)
    assert decision_files.read(other) is None


def test_the_oldest_make_room(folder):
    (folder / "plan-of-a-house.txt").write_text("mine")
    paths = [decision_files.path_of(f"network {i}") for i in range(9)]
    for age, path in enumerate(paths):
        decision_files.write(path, {})
        os.utime(path, (age, age))
    assert [decision_files.read(path) is not None for path in paths] == [False] * 4 + [True] * 5
    decision_files.write(paths[-1], {"again": 1})  # takes no more room
    assert decision_files.read(paths[4]) == {} and (folder / "plan-of-a-house.txt").exists()


def test_what_cannot_be_written_is_not(folder, monkeypatch):
    path = decision_files.path_of("a network")
    decision_files.write(path, {"long": "x" * decision_files.MAX_BYTES})
    assert not path.exists()
    monkeypatch.setattr(cost_table, "read_only", True)
    decision_files.write(path, {})
    assert not path.exists()
    monkeypatch.undo()
    (folder / "file").write_text("")
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", str(folder / "file" / "under it"))
    decision_files.write(folder / "file" / "under it" / path.name, {})
    monkeypatch.setenv("LAYOUTKIT_CACHE_DIR", "relative")
    monkeypatch.setattr(decision_files, "MAX_FILES", 5)
    with pytest.warns(RuntimeWarning, match="absolute"):
        assert decision_files.path_of("a network") is None


def problem():
    return Known(next(keys), [Candidate("a", 1.0, int), Candidate("b", 2.0, int), Candidate("c", 3.0, int)])


def as_read(rankings):
    return json.loads(json.dumps(rankings))


def test_rankings_are_kept(folder):
    p, first, again = problem(), Rankings(), None
    with first.used():
        ranked = choices(p)
    assert first.ranked == [p]
    again = Rankings(as_read(first.content))
    with again.used():
        assert [c[:3] for c in choices(p)] == [c[:3] for c in ranked] and not again.ranked
    assert again.content == as_read(first.content)
    assert choices(p) is ranked  # others are told what it rests on
    backwards = Rankings({repr(p): as_read(first.content[repr(p)])[::-1]})
    with backwards.used():
        assert [c.candidate.name for c in choices(p)] == ["c", "b", "a"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["a", "b", "c", "measured", ""]),
    lambda some: st.lists(some, max_size=4) | st.dictionaries(st.sampled_from(["a", "b"]), some, max_size=2),
)
triples = st.tuples(
    st.sampled_from(["a", "b", "c", "d"]), st.sampled_from([1.0, float("nan"), float("inf"), -1.0, 1, "1", None]),
    st.sampled_from(["measured", "estimated", "else", 1]),
)  # fmt: skip


@pytest.mark.parametrize(
    "entry",
    [["a", float("nan"), "estimated"], ["a", float("inf"), "estimated"], ["a", -1.0, "estimated"],
     ["a", 1, "estimated"], ["a", 1.0, "else"], ["a", 1.0], ["b", 1.0, "estimated"],
     [None, 1.0, "estimated"], "a", None],
)  # fmt: skip
def test_one_entry_that_does_not_fit_is_enough(entry):
    p = problem()
    rankings = Rankings({repr(p): [entry, ["b", 1.0, "estimated"], ["c", 1.0, "measured"]]})
    assert rankings.of(p) is None
    assert Rankings({repr(p): [[n, 1.0, "measured"] for n in "cba"]}).of(p) is not None


@given(anything | st.lists(triples.map(list), max_size=4))
def test_any_ranking_is_whole_or_none(ranking):
    p = problem()
    with Rankings({repr(p): ranking}).used() as _:
        ranked = choices(p)
    assert sorted(c.candidate.name for c in ranked) == ["a", "b", "c"]
    assert all(0 <= c.seconds < float("inf") for c in ranked)
