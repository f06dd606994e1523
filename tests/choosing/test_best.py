"""Deciding: once a problem, again when the table, the tuning or the instruction set has changed."""

import itertools

import pytest
from conftest import using_isa
from problems import Known

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing import best
from layoutkit.choosing.best import choices
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.problem import Candidate
from layoutkit.choosing.ranking import candidates_of
from layoutkit.choosing.table import cost_table

keys = (f"test best {i}" for i in itertools.count())


class Counted(Known):
    """Counts how often its candidates are made."""

    def __init__(self, *args, depends=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.made, self._depends = 0, depends

    __hash__ = Known.__hash__

    @property
    def depends_on_others(self):
        return self._depends

    def candidates(self):
        self.made += 1
        return super().candidates()


@pytest.fixture
def problem(cache_dir):
    cost_table.load()  # reading it lets everything be decided again
    return Counted(next(keys), [Candidate("a", 1.0, int), Candidate("b", 2.0, int)])


def names(problem):
    return [c.candidate.name for c in choices(problem)]


def again():
    """Let everything be decided again."""
    lk.tuning(lk.tuning("estimate"))


def test_decided_once(problem, monkeypatch):
    ranked = []
    monkeypatch.setattr(best, "rank", lambda p, rank=best.rank: ranked.append(p) or rank(p))
    first = choices(problem)
    assert choices(problem) is first and choices(Known(problem.key, problem.candidates())) is first
    assert ranked == [problem]


def test_decided_again_by_what_the_table_learns(problem):
    assert names(problem) == ["a", "b"]
    cost_table.record(problem.key, "b", Cost(0.5, 0.5, 0.0, 3))
    cost_table.record(problem.key, "a", Cost(0.7, 0.7, 0.0, 3))
    assert names(problem) == ["b", "a"]


def test_decided_again_in_another_mode_of_tuning(problem):
    cost_table.record(problem.key, "a", Cost(3.0, 3.0, 0.0, 3))
    assert choices(problem)[0].source == "measured"
    before = lk.tuning("off")
    try:
        assert [(c.candidate.name, c.source) for c in choices(problem)] == [("a", "estimated"), ("b", "estimated")]
    finally:
        lk.tuning(before)
    assert choices(problem)[0].source == "measured"


@pytest.mark.skipif(len(registry.isas()) < 2, reason="one instruction set only")
def test_decided_for_each_instruction_set(problem):
    for isa in registry.isas()[:2]:  # each has a table of its own
        with using_isa(isa):
            cost_table.load()
    found = []
    for isa in registry.isas()[:2] * 2:
        with using_isa(isa):
            found.append(choices(problem))
    assert found[0] is found[2] and found[1] is found[3] and found[0] is not found[1]
    assert problem.made == 2, "candidates are made for each"


def test_candidates_are_made_once_a_problem(problem):
    made = candidates_of(problem)
    for _ in range(3):
        choices(problem)
        again()
    assert candidates_of(problem) is made and problem.made == 1


def test_candidates_that_depend_on_other_decisions_are_made_again_with_them(cache_dir):
    cost_table.load()
    problem = Counted(next(keys), [Candidate("a", 1.0, int)], depends=True)
    for n in (1, 2, 3):
        choices(problem)
        choices(problem)
        assert problem.made == n
        again()


def test_measuring_looks_at_every_part_that_has_work(cache_dir, monkeypatch):
    class Whole(Known):
        def measured_parts(self):
            return parts

    looked = []
    monkeypatch.setattr(best, "first_use", looked.append)
    parts = [Known(next(keys), [Candidate("a", 1.0, int)]) for _ in range(2)]
    problem = Whole(next(keys), [Candidate("a", 1.0, int)])
    choices(problem)
    assert looked == [], "only where tuning measures"
    before = lk.tuning("measure")
    try:
        choices(problem)
        assert looked == parts
        problem.work = 0
        choices(problem)
        assert looked == parts, "nothing to do, nothing to measure"
    finally:
        lk.tuning(before)
