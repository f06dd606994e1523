"""Suites: what is measured, each problem once."""

import pytest

from layoutkit.bench.suites import DTYPES, FIVE, FOUR, SUITES, in_types, spread_cases
from layoutkit.choosing.machine_profile import scaled
from layoutkit.choosing.model import problem_of
from layoutkit.choosing.packaged import this_machine


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


def test_a_network_in_other_types():
    wide = SUITES["tiny"](["NHWC", "nChw16c"], [1])
    assert in_types(wide, [DTYPES["float32"]]) == wide
    found = in_types(wide, [DTYPES["bfloat16"], DTYPES["int8"]])
    assert len({c.key for c in found}) == len(found) == 2 * len(wide)
    convs = [c for c in found if c.kind == "conv"]
    assert {c.problem.types.name for c in convs} == {"bf16", "u8s8_u8"}
    assert {c.group for c in convs} == {f"{a} {t}" for a in ("NHWC", "nChw16c") for t in ("bf16", "u8s8_u8")}
    assert {c.width for c in found if c.kind == "reorder"} == {2, 1}
    assert {c.title.split()[-1] for c in found if c.kind == "pack"} == {"bf16", "u8s8_u8"}


def test_cases_of_other_types_stay_as_they_are():
    narrow = in_types(SUITES["tiny"](["NHWC"], [1]), [DTYPES["float16"]])
    assert in_types(narrow, [DTYPES["int8"], DTYPES["float64"]]) == narrow


@pytest.mark.parametrize("name", DTYPES)
def test_problems_in_narrow_types_lie_apart(name):
    case = next(c for c in SUITES["tiny"](["NHWC"], [1]) if c.kind == "conv")
    (other,) = in_types([case], [DTYPES[name]])
    distance = sum(abs(a - b) for a, b in zip(case.task.features(), other.task.features()))
    assert (distance > 1) == other.problem.types.narrow


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
        with scaled(this_machine()):
            estimate = problem.estimates()
            for c in case.task.candidates():
                assert c.estimate > 0 and estimate(c.name) == pytest.approx(c.estimate)
