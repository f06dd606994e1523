"""The least total of factors, against trying every assignment."""

import itertools

import numpy as np
import pytest
from conftest import fewer
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.graph.layout import assign, problem
from layoutkit.graph.layout.assign import Factor, cost, moved, solve
from layoutkit.graph.layout.elimination import order_of
from layoutkit.graph.operators.layouts import PLAIN


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=7))
    factors = []
    for _ in range(draw(st.integers(0, 10))):
        variables = tuple(draw(st.permutations(range(len(sizes))))[: draw(st.integers(1, min(3, len(sizes))))])
        shape = [sizes[v] for v in variables]
        seconds = draw(
            st.lists(st.integers(0, 9) | st.just(np.inf), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
        )
        factors.append(Factor(variables, np.array(seconds, float).reshape(shape)))
    return sizes, factors


@given(problems())
def test_nothing_costs_less(problem):
    sizes, factors = problem
    found = solve(sizes, factors)
    least = min(cost(values, factors) for values in itertools.product(*map(range, sizes)))
    assert found.seconds == cost(found.values, factors) == least == found.bound


@given(problems(), st.integers(1, 4))
def test_where_tables_are_too_large_the_bound_still_holds(problem, entries):
    sizes, factors = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assign, "MAX_TABLE", entries)
        patch.setattr(assign, "SMALL_TABLE", entries)
        patch.setattr(assign, "SMALL_TABLES", entries)
        found = solve(sizes, factors)
    least = min(cost(values, factors) for values in itertools.product(*map(range, sizes)))
    assert found.bound <= least <= found.seconds == cost(found.values, factors)
    assert found.bound >= sum(f.seconds.min() for f in factors)  # of each factor alone


def test_readers_of_one_layout_share_a_reorder():
    seconds = np.array([[0.0, 1, 10], [2, 0, 20], [3, 5, 0]])
    table = moved(seconds, 2)
    assert table[0, 1, 1] == 1
    assert table[0, 1, 2] == 11
    assert table[2, 2, 2] == 0
    assert table[1, 1, 0] == 2


@st.composite
def tensors(draw):
    """How many operators there are; what each takes by layout; and tensors: who makes it (None: it has the layout of
    the model), who reads it, and what it takes from a layout to another."""
    count = draw(st.integers(1, 5))
    whole = st.integers(0, 9).map(float)
    seconds = [draw(st.lists(whole, min_size=3, max_size=3)) for _ in range(count)]
    found = []
    for _ in range(draw(st.integers(1, 4))):
        maker = draw(st.none() | st.integers(0, count - 1))
        readers = draw(st.lists(st.none() | st.integers(0, count - 1), unique=True, min_size=1))
        moves = np.array(draw(st.lists(whole, min_size=9, max_size=9))).reshape(3, 3)
        np.fill_diagonal(moves, 0)
        found.append((maker, [r for r in readers if r != maker], moves))
    return seconds, [each for each in found if each[1]]


def brought(values, maker, readers, moves):
    """What it takes to bring a tensor to its readers: once for each layout that it is not made in."""
    made, *read = (PLAIN if v is None else values[v] for v in (maker, *readers))
    return sum(moves[made, to] for to in set(read) - {made})


@pytest.mark.parametrize("few", [0, 1, problem.FEW_READERS, 9])
@pytest.mark.parametrize("entries", [1, assign.MAX_TABLE])
@given(tensors())
@fewer(3)
def test_tensors_of_many_readers_are_brought_to_each_layout_once(few, entries, case):
    seconds, all_tensors = case
    sizes, factors = [3] * len(seconds), [Factor((v,), np.array(s)) for v, s in enumerate(seconds)]
    for maker, readers, moves in all_tensors:
        if len(readers) > few:
            factors += problem._of_many(maker, readers, moves, len(sizes))
            sizes += [2] * 3
        else:
            factors += problem._of_few(maker, readers, moves)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assign, "MAX_TABLE", entries)
        patch.setattr(assign, "SMALL_TABLE", entries)
        patch.setattr(assign, "SMALL_TABLES", entries)
        found = solve(sizes, factors)

    def total(values):
        own = sum(s[v] for s, v in zip(seconds, values))
        return own + sum(brought(values, *each) for each in all_tensors)

    least = min(map(total, itertools.product(range(3), repeat=len(seconds))))
    assert found.bound <= least <= found.seconds == cost(found.values, factors)
    assert total(found.values[: len(seconds)]) <= found.seconds
    if entries > 1:
        assert found.bound == least == found.seconds
    elif found.bound == found.seconds:
        assert found.seconds == least


@given(problems(), st.integers(1, 60), st.integers(1, 200))
def test_the_smallest_table_is_the_next_and_no_table_is_too_large(problem, most, most_of_all):
    sizes, factors = problem
    sizes = [n + 1 for n in sizes]  # neighbours of one value count as others do
    order, exact = order_of(sizes, [f.variables for f in factors], most, most_of_all)
    assert sorted(order) == list(range(len(sizes)))
    scopes, left, entries = [set(f.variables) for f in factors], set(range(len(sizes))), []
    for at in order:
        tables = {v: {v}.union(*(s for s in scopes if v in s)) for v in left}
        size = {v: int(np.prod([sizes[u] for u in table])) for v, table in tables.items()}
        if size[at] > most or sum(entries) + size[at] > most_of_all:
            assert not exact and size[at] >= min(size.values())
            break
        entries.append(size[at])
        assert (size[at], at) == min((n, v) for v, n in size.items())
        scopes = [s for s in scopes if at not in s] + [tables[at] - {at}]
        left.discard(at)
    else:
        assert exact


def milp(sizes, factors):
    """The least total by another way: a 0/1 variable for every value, and for every entry of every table."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_matrix

    starts = np.concatenate([[0], np.cumsum(sizes)])
    seconds, entries = [np.zeros(starts[-1])], []
    for f in factors:
        entries.append(sum(map(len, seconds)))
        seconds.append(np.where(np.isinf(f.seconds), 1e6, f.seconds).ravel())
    rows = len(sizes) + sum(sum(f.seconds.shape) for f in factors)
    a, b, row = lil_matrix((rows, sum(map(len, seconds)))), np.zeros(rows), 0
    for v, n in enumerate(sizes):  # one value each
        a[row, starts[v] : starts[v] + n] = 1
        b[row], row = 1, row + 1
    for f, at in zip(factors, entries):  # the entries of a table with a value of a variable are one if that is
        places = at + np.arange(f.seconds.size).reshape(f.seconds.shape)
        for axis, v in enumerate(f.variables):
            for value in range(sizes[v]):
                a[row, np.take(places, value, axis).ravel()] = 1
                a[row, starts[v] + value], row = -1, row + 1
    cost_of = np.concatenate(seconds)
    holds = LinearConstraint(a.tocsr(), b, b)
    found = milp(cost_of, integrality=np.ones(len(cost_of)), bounds=Bounds(0, 1), constraints=holds)
    return found.fun


@pytest.mark.parametrize("seed", range(8))
def test_a_solver_of_integer_programs_finds_the_same(seed):
    pytest.importorskip("scipy", reason="the extra test")
    rng = np.random.default_rng(seed)
    sizes = [3] * 24  # a chain with branches that join, as networks have them
    edges = [(i, i + 1) for i in range(23)] + [(i, i + 3) for i in range(0, 20, 4)]
    factors = [Factor(edge, rng.integers(0, 50, (3, 3)).astype(float)) for edge in edges]
    factors += [Factor((v,), rng.integers(0, 20, 3).astype(float)) for v in range(24)]
    assert solve(sizes, factors).seconds == pytest.approx(milp(sizes, factors))
