"""What a plan says: in words, and by the names of the cost table where all is asked for."""

import pytest

from layoutkit.choosing.plan import Plan
from layoutkit.choosing.problem import Candidate, Choice, Description, PackingStep
from layoutkit.choosing.ranking import DOUBT_RATIO


def candidate(name, words=None, estimate=1.0, steps=()):
    return Candidate(name, estimate, int, steps, None if words is None else lambda: words)


MEASURED = Choice(
    candidate("short", Description("direct", "6 pixels", "no reorder")), 1e-6, "measured", "7 timings +-0.5%"
)
ESTIMATED = Choice(candidate("much longer", Description("other")), 2.5e-6, "estimated", "near: x")


def test_it_is_the_problem_a_table_facts_and_what_decided():
    plan = Plan("key", [MEASURED, ESTIMATED], lambda verbose: ["a fact"], words="the problem")
    assert plan.explain().splitlines() == [
        "the problem",
        "   algorithm  register tile  path          time             relative",
        "-> direct     6 pixels       no reorder  1.0 us  measured      1.00x",
        "   other                                 2.5 us  estimated     2.50x",
        "a fact",
        "decided by measured cost: 7 timings +-0.5%",
    ]


def test_all_of_it_has_the_names_of_the_cost_table():
    plan = Plan("key", [MEASURED, ESTIMATED], lambda verbose: [f"verbose {verbose}"], words="the problem")
    assert plan.explain(verbose=True).splitlines() == [
        "the problem",
        "key",
        "   algorithm  register tile  path          time             relative  candidate    basis",
        "-> direct     6 pixels       no reorder  1.0 us  measured      1.00x  short        7 timings +-0.5%",
        "   other                                 2.5 us  estimated     2.50x  much longer  near: x",
        "verbose True",
        "decided by measured cost: 7 timings +-0.5%",
    ]


def test_columns_that_are_empty_are_left_out_and_names_are_words_where_there_are_no_others():
    assert Plan("problem", [Choice(candidate("a"), 1e-6, "measured")]).explain().splitlines() == [
        "problem",
        "   algorithm    time            relative",
        "-> a          1.0 us  measured     1.00x",
        "the only candidate",
    ]


def test_what_was_estimated_says_on_what_it_rests_where_all_is_asked_for():
    plan = Plan("problem", [ESTIMATED, ESTIMATED])
    said = 'decided by estimated cost: not measured here, which lk.tuning("measure") does on first use'
    assert plan.explain().endswith(said)
    assert plan.explain(verbose=True).endswith(f"{said}; near: x")
    unlike = Plan("p", [ESTIMATED._replace(basis="")] * 2)
    assert unlike.explain(verbose=True).endswith(f"{said}; by counting: nothing like it was measured")


def test_only_the_first_are_shown():
    many = [MEASURED._replace(seconds=1e-6 * (1 + i)) for i in range(11)]
    assert Plan("p", many).explain().splitlines()[-2] == "   and 3 more, up to 11.00x"


@pytest.mark.parametrize("ratio, doubted", [(0.9, False), (1.1, True)])
def test_costs_that_may_have_been_disturbed_are_said_to_be(ratio, doubted):
    far = MEASURED._replace(seconds=ratio * DOUBT_RATIO * ESTIMATED.seconds)
    text = Plan("p", [ESTIMATED, far]).explain()
    assert ("1 measured at more than 8 times that, which is doubted" in text) == doubted
    step = PackingStep(None, "pack", 0.5e-6)
    only = Choice(candidate("a", estimate=0.5e-6, steps=(step,)), ratio * DOUBT_RATIO * 1e-6, "measured")
    assert ("times what was expected: the machine may have been disturbed" in Plan("p", [only]).explain()) == doubted
