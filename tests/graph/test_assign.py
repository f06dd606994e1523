"""The least total of factors, against trying every assignment."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.graph import assign
from layoutkit.graph.assign import Factor, cost, moved, solve


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
        found = solve(sizes, factors)
    least = min(cost(values, factors) for values in itertools.product(*map(range, sizes)))
    assert found.bound <= least <= found.seconds == cost(found.values, factors)


def test_readers_of_one_layout_share_a_reorder():
    seconds = np.array([[0.0, 1, 10], [2, 0, 20], [3, 5, 0]])
    table = moved(seconds, 2)
    assert table[0, 1, 1] == 1
    assert table[0, 1, 2] == 11
    assert table[2, 2, 2] == 0
    assert table[1, 1, 0] == 2


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
