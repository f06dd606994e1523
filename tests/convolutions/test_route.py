"""Executors say what they touch; a route that would touch anything else never runs."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from kernel_rows import ROWS

from layoutkit import Layout
from layoutkit._core.runtime import registry
from layoutkit.convolutions.algorithms import ALGORITHMS
from layoutkit.convolutions.algorithms.bf16x import Bf16Components
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.route import Route, useful_threads
from layoutkit.convolutions.task import contiguous
from layoutkit.convolutions.types import TYPES
from layoutkit.memory.spans import PlanError


def problem(layout="NHWC", groups=1, channels=32, kernel=(3, 3)):
    return ConvProblem(2, channels, channels, (12, 12), kernel, (1, 1), tuple((k // 2, k // 2) for k in kernel), (1, 1),
                       groups, Layout(layout), Layout(layout), "fast")  # fmt: skip


PROBLEMS = [
    problem(), problem("NCHW"), problem("nChw16c"), problem("nChw8c"), problem("NCHW", kernel=(1, 1)), problem("CNHW"),
    problem("NHWC", 32), problem("nChw8c", 32), problem("NHWC", 8), problem("NCHW", 32), problem("NHWC", channels=3),
    replace(problem(channels=128), types=TYPES["u8s8_f32"]), replace(problem("NHWC", 8), types=TYPES["u8s8_u8"]),
    replace(problem("NHWC"), size=(13, 13), stride=(2, 2)),
]  # fmt: skip


def row_of(p, a):
    """The best row that an algorithm runs on, if need be an emulated one; None if this machine has neither."""
    if p is not None and p.types.integers and a.name == "winograd":
        return a.kernels(p)[0]
    if not isinstance(a, Bf16Components):
        return registry.best(a.family, p.types.rows)[0]
    return next((k for k in ROWS if k.types == a.filters), None)


COMPILED = [a for a in ALGORITHMS if a.name != "blas" and (not isinstance(a, Bf16Components) or row_of(None, a))]


def routes_of(p):
    """Of every algorithm that takes `p` on its layouts, the route by its best kernel."""
    for a in COMPILED:
        if a.supports(p) is None and (a.name == "winograd" or a.family == "gemm_groups" or not p.types.integers):
            q = replace(p, types=TYPES["u8s8_s32"]) if a.family == "depthwise_dot" else p
            yield q, a, lambda a=a, q=q: route_of(q, a)


def route_of(p, a, **instead):
    """The route of an algorithm, some of its methods others."""
    a = copy.copy(a)
    vars(a).update(instead)
    return Route(p, p, a, row_of(p, a), 1, contiguous(p))


CASES = [case for p in PROBLEMS for case in routes_of(p)]
IDS = [f"{a.name} {a.variant} {p.src} g{p.groups}" for p, a, _ in CASES]


def test_every_algorithm_is_here():
    assert {a for _, a, _ in CASES} == set(COMPILED)


@pytest.mark.parametrize(("p", "a", "make"), CASES, ids=IDS)
@pytest.mark.parametrize("side", ["input", "output"])
def test_a_loop_nest_that_reaches_outside_is_an_error(p, a, make, side):
    make()

    def farther(p, kernel, threads, arrays):
        at = next(i for i, f in enumerate((p.src if side == "input" else p.dst).factors) if f.dim == 0)
        strides = [list(s) for s in arrays]
        strides[side == "output"][at] += 128
        return a.build(p, kernel, threads, type(arrays)(*map(tuple, strides)))

    with pytest.raises(PlanError, match=f"{a.name} by .*{side}: the plan would touch"):
        route_of(p, a, build=farther)


@pytest.mark.parametrize(("p", "a", "make"), CASES, ids=IDS)
def test_a_packed_filter_too_short_is_an_error(p, a, make):
    w, bias = np.ones((p.oc, p.ic // p.groups, *p.kernel), p.types.filter), np.ones(p.oc, p.types.sum)
    route = make()
    route.pack(w, bias)
    short = route_of(p, a, pack=lambda *given: (a.pack(*given)[0].reshape(-1)[:-1], a.pack(*given)[1]))
    with pytest.raises(PlanError, match="packed filter"):
        short.pack(w, bias)


def test_a_padded_copy_whose_elements_overlap_is_an_error():
    p = problem("CNHW")
    planes = next(a for a in ALGORITHMS if a.name == "planes")

    def overlapping(p, strides):
        found = planes.padded(p, strides)
        return found._replace(strides=(found.strides[1], found.strides[1], *found.strides[2:]))

    with pytest.raises(PlanError, match="overlap"):
        route_of(p, planes, padded=overlapping)


@pytest.mark.parametrize("channels,size,groups,threads", [
    (16, (1, 1), 1, 1), (16, (12, 12), 1, 1), (512, (1, 1), 1, 4), (512, (12, 12), 512, 4), (256, (12, 12), 1, 4),
])  # fmt: skip
def test_threads_share_much_arithmetic_or_many_bytes(channels, size, groups, threads):
    p = replace(problem("NHWC", groups, channels, (1, 1)), size=size)
    assert useful_threads(p, 4) == threads
