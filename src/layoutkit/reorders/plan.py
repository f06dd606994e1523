"""`lk.plan(lk.reorder, ..)`: the candidates of a reorder or a conversion, and what runs it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from .._core.nests.moves.convert import Conversion
from .._core.nests.moves.reordering import BoundReorder
from ..choosing.best import choices
from ..choosing.limits import copy_limit, disturbed
from ..choosing.machine import last_level_cache
from ..choosing.plan import Plan, planner
from ..choosing.problem import Candidate, Choice, Description
from ..choosing.threads import check_threads
from ..memory.arrays import as_array, check_out, contiguous_strides
from .binding import Call, Decision, bind_conversion, box_and_shape, conversion_key, decide, layout_argument, resolved
from .convert import Numbers, types
from .pairs import packed_of
from .problem import ReorderProblem, in_words, useful_threads
from .program import stages_of
from .reorder import reorder
from .variants import VARIANTS, describe_nests

# Assumed rates of a conversion on one thread, read and written: from memory, from the caches.
MEMORY_BYTES_PER_SECOND = 12e9
CACHE_BYTES_PER_SECOND = 30e9


@planner(reorder)
def _plan(
    array, src=None, dst=None, *, shape=None, out=None, region=None, at=None, pad_value=0, threads=None, **conversion
) -> Plan:
    numbers = Numbers(**conversion)
    call = Call(array, src, dst, shape, out, numbers, region, at, pad_value, check_threads(threads))
    source, to, dst, _ = resolved(call)
    call = call._replace(array=source.array, src=source.layout, dst=dst, shape=source.shape, out=to)
    array, src, what = source.array, source.layout, f"reorder {source.layout} -> {dst}"
    packed = packed_of(numbers.dtype)
    box, physical, _ = box_and_shape(call, src, dst, what, packed)
    threads = useful_threads(array.itemsize * prod(physical), call.threads)
    problem = ReorderProblem(src.dense, dst.dense, box.shape, array.itemsize, threads)
    title, moved, element = problem.key, problem.work, str(array.dtype)
    if numbers.change(array.dtype):
        t = types(array.dtype, numbers.dtype, what)
        moved = int(prod(box.shape) * (t.widths[0] + t.widths[1] * (2 if numbers.beta else 1)))
        seconds = moved / (MEMORY_BYTES_PER_SECOND if moved > 2 * last_level_cache() else CACHE_BYTES_PER_SECOND)
        only = Candidate(f"convert {t}", seconds, lambda: None, describe=lambda: Description(f"converted {t.words}"))
        ranked: tuple[Choice, ...] = (Choice(only, seconds, "estimated"),)
        title, element = conversion_key(problem, t), t.words
        lines, run = Lines(), None if numbers.beta and to is None else _bound_conversion(call)
    else:
        decision = decide(call)
        problem = decision.bound.problem or problem
        title, moved = problem.key, problem.work
        run, name, lines = _bound_reorder(call, decision)
        ranked = tuple(sorted(choices(problem), key=lambda c: c.candidate.name != name))  # that which runs first

    def facts(verbose: bool) -> Iterator[str]:
        best = ranked[0]
        rate = moved / best.seconds
        yield from (*lines.nests, *lines.learnt) if verbose else (line.partition(":")[0] for line in lines.learnt)
        copy, verb = copy_limit(rate, moved, threads), "achieved" if best.source == "measured" else "expected"
        share = "" if copy is None else f"{rate / copy:.0%} of a copy ({copy / 1e9:.1f} GB/s, measured now)"
        share = share or disturbed("a copy", best.source)
        yield f"{moved / 1e6:.3g} MB read and written, {rate / 1e9:.1f} GB/s {verb}, {share}"

    words = in_words(box.shape, element, src.dense, dst.dense, threads)
    return Plan(title, ranked, facts, words=words, run=run)


class Lines(NamedTuple):
    """Lines about what runs: its nests, and what was learnt by use."""

    nests: tuple[str, ...] = ()
    learnt: tuple[str, ...] = ()


def _bound_reorder(call: Call, decision: Decision):
    """What a plan runs on arrays like those of a call, the name of its variant, and lines about it."""
    bound, move, name, learner = decision
    if move is None:
        return None, "", Lines()
    array, what = call.array, bound.what
    if call.out is not None:
        check_out(call.out, bound.physical, bound.dtype, (array,), what)
    src, dst = (array.shape, array.strides), (bound.physical, move.dst_strides)
    stages = stages_of(move, name)
    moves = [nest for stage in stages for nest in stage.moves]
    run = BoundReorder(bound.run, (bound.dtype, bound.dtype), src, dst, bound.threads, what, as_array)
    learnt = (learner.report(),) if learner else ()
    return run, name, Lines(describe_nests(moves, VARIANTS[name], stages[0].slab), learnt)


def _bound_conversion(call: Call) -> BoundReorder | None:
    """What a plan runs on arrays like those of a call whose numbers change; None: there is nothing to move."""
    bound, array, out = bind_conversion(call), call.array, call.out
    if bound.run is None:
        return None
    moves = Conversion(bound.run, *bound.parameters)
    dst = layout_argument(call.dst, "dst")
    if out is not None:
        strides = out.strides
    elif packed_of(call.numbers.dtype).dst:
        strides = (1,)
    else:
        src, packed = layout_argument(call.src, "src"), packed_of(call.numbers.dtype)
        box, _, _ = box_and_shape(call, src, dst, bound.what, packed)
        strides = contiguous_strides(dst, box.dst_shape, bound.dtype.itemsize)
    read, written = (array.shape, array.strides), (bound.physical, strides)
    return BoundReorder(moves, (array.dtype, bound.dtype), read, written, bound.threads, bound.what, as_array)
