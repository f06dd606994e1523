"""Warnings point at the line of the user's code, by whatever way it came."""

import inspect
import warnings

import numpy as np
import pytest
from conftest import using_isa

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing.cache import plans
from layoutkit.choosing.warn import warn
from layoutkit.convolutions import task


def test_the_innermost_line_of_the_user_is_named():
    def deeper():
        warn("here")

    with pytest.warns(RuntimeWarning, match="here") as found:
        deeper()
    assert (found[0].filename, found[0].lineno) == (__file__, inspect.getsourcelines(deeper)[1] + 1)


SLOW = dict(groups=4, accuracy="strict", padding=((2, 2), (1, 1)))


@pytest.mark.parametrize("way", ["function", "object", "plan", "tensor", "workspace"])
def test_a_slow_problem_is_told_where_it_was_asked_for(way):
    x, w = np.ones((1, 132, 2500, 2), np.float32), np.ones((4, 33, 5, 3), np.float32)
    task._warned.clear()
    plans.clear()
    with using_isa(registry.isas()[-1]), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1
        ways = {"function": lambda: lk.conv2d(x, w, **SLOW), "object": lambda: lk.Conv2d(w, **SLOW)(x),
                "plan": lambda: lk.plan(lk.conv2d, x, w, **SLOW),
                "tensor": lambda: lk.conv2d(lk.Tensor(x, "NCHW"), w, **SLOW),
                "workspace": lambda: lk.Conv2d(w, **SLOW).workspace(x.shape)}  # fmt: skip
        ways[way]()
        ways[way]()
    (only,) = [f for f in found if f.category is lk.SlowPathWarning]
    assert only.filename == __file__ and line <= only.lineno <= line + 4


def test_what_was_warned_of_is_bounded():
    assert task._warned.most == task.MAX_WARNED


def test_a_damaged_table_is_told_where_it_was_asked_for(cache_dir):
    lk.cost_table.path.write_text("no table")
    with pytest.warns(RuntimeWarning, match="is not used") as found:
        lk.cost_table.load()
        line = inspect.currentframe().f_lineno - 1
    assert [(f.filename, f.lineno) for f in found] == [(__file__, line)]
