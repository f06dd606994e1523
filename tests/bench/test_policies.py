"""What choosing gained over what could have been decided without measuring."""

import made_up_run
import pytest

from layoutkit.bench.policies import policies


def result(**times):
    """A result with candidates such as direct_a, whose algorithm is direct."""
    return {
        "seconds": min(times.values()),
        "candidates": {name.replace("_", " "): {"min": seconds} for name, seconds in times.items()},
    }


def test_each_algorithm_with_what_stands_in_for_it():
    found = policies([
        result(direct_a=4.0, direct_b=2.0, winograd=1.0),
        result(direct_a=3.0, im2col=6.0),
        result(direct_a=8.0, im2col=2.0, blas=1.0),
    ])  # fmt: skip
    assert {str(p): (p.problems, p.ratios) for p in found} == {
        "always direct": (3, (2.0, 1.0, 8.0)),
        "always winograd, else direct": (1, (1.0, 1.0, 8.0)),
        "always im2col, else direct": (2, (2.0, 2.0, 2.0)),
        "always blas, else direct": (1, (2.0, 1.0, 1.0)),
    }
    assert [p.mean for p in found] == sorted(p.mean for p in found)
    assert found[0].mean == pytest.approx(2 ** (1 / 3))


def test_where_nothing_runs_everywhere():
    found = policies([result(a=1.0, b=2.0), result(b=2.0, c=1.0), result(c=1.0), result(c=2.0, d=1.0)])
    assert {str(p): p.ratios for p in found} == {
        "always a, else c": (1.0, 1.0, 1.0, 2.0),
        "always b, else c": (2.0, 2.0, 1.0, 2.0),
        "always c, else b": (2.0, 1.0, 1.0, 2.0),
        "always d, else c": (2.0, 1.0, 1.0, 1.0),
    }


def test_of_two_that_run_everywhere_the_faster_stands_in():
    found = policies([result(slow=4.0, fast=2.0, rare=1.0), result(slow=4.0, fast=1.0)])
    assert {str(p) for p in found} == {"always slow", "always fast", "always rare, else fast"}


def test_all_are_judged_by_the_same_problems():
    results = [r.json() for r in made_up_run.results("resnet50") if r.case.kind == "conv"]
    found = policies(results)
    assert {len(p.ratios) for p in found} == {len(results)}
    assert all(ratio >= 1 for p in found for ratio in p.ratios), "no policy beats the choice"
    assert policies([]) == []
