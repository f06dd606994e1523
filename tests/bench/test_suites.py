"""Suites: what is measured, each problem once."""

import pytest

from layoutkit.bench.suites import FIVE, FOUR, SUITES, spread_cases
from layoutkit.choosing.model import problem_of


def test_a_network_meets_convolutions_reorders_and_filters():
    found = SUITES["resnet50"](["NHWC", "NCHW"], [1, 2])
    assert len({c.key for c in found}) == len(found)
    assert sum(c.count for c in found if c.kind == "conv") == 2 * 2 * 53
    activations = [c for c in found if c.kind == "reorder" and len(c.shape) == 4]
    assert sum(c.count for c in activations if c.threads == 1) == 2 * 2 * 53
    assert all(c.threads == 1 for c in found if c.kind == "reorder" and c.title == "1x512x7x7")
    assert sum(c.count for c in found if c.kind == "pack") == 53


@pytest.mark.parametrize("name, formats", [("reorder-4d", FOUR), ("reorder-5d", FIVE)])
def test_every_ordered_pair(name, formats):
    found = SUITES[name]([], [1])
    assert {c.group for c in found} == {f"{a}>{b}" for a in formats for b in formats if a != b}


def test_three_axes_have_layouts_of_three_axes():
    found = SUITES["unet3d"](["NHWC", "nChw16c"], [1])
    assert {str(c.problem.src) for c in found if c.kind == "conv"} == {"NDHWC", "nCdhw16c"}


def test_the_spread_is_not_what_is_judged_by():
    spread = SUITES["spread"](["NHWC", "NCHW"], [1, 2])
    assert len({c.key for c in spread}) == len(spread)
    judged = spread_cases(50, 50, 2, ["NHWC", "NCHW"], [1, 2])
    assert not {c.key for c in spread} & {c.key for c in judged if c.kind != "pack"}


@pytest.mark.parametrize("name", [name for name in SUITES])
def test_the_model_sees_every_problem_as_its_candidates_are(name):
    every = SUITES[name](["NHWC", "nChw16c"], [1, 2])
    lengths = {}
    for case in every[:: max(1, len(every) // 40)]:
        problem, features = problem_of(case.key, "any")
        assert lengths.setdefault(case.kind, len(features)) == len(features)
        estimate = problem.estimates()
        for c in case.task.candidates():
            assert c.estimate > 0 and estimate(c.name) == pytest.approx(c.estimate)
