"""The bytes that the nests of a reorder or a conversion will touch, counted from the nests themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..memory import spans
from ..memory.spans import Span
from . import conversions
from .nest import Digits, Nest
from .slabs import Slab


def of_nests(nests: Iterable[Nest]) -> tuple[Span, Span]:
    """Source and destination of a reorder's nests."""
    src = dst = spans.EMPTY
    for nest in nests:
        read, written = _of_nest(nest)
        src, dst = src.joined(read), dst.joined(written)
    return src, dst


def _of_nest(nest: Nest) -> tuple[Span, Span]:
    width = nest.bits // 8
    first, second = nest.tile
    if nest.fused:
        f = nest.fused
        read = spans.of_steps([(x.n, x.src) for x in nest.loops], 0).plus(
            _in_table(f.rows, f.sizes or (width * first.n,))
        )
        written = spans.of_steps([(x.n, x.dst) for x in nest.loops], 0)
        size = f.strings.run if f.strings else (second.n - 1) * second.dst + width
        written = written.plus(_in_table(f.columns, (size,)))
        return read.at(nest.src), written.at(nest.dst)
    in0, out_d0, in1, out_s1 = nest.outer
    loops = [(x.n, x.dst) for x in nest.loops]
    written = spans.of_steps([*loops, (second.n, second.dst)], width)
    written = _in_digits(written, first.n, first.dst, in0, out_d0).at(nest.dst)
    if nest.family == "fill":
        return spans.EMPTY, written
    count, run = second.n, width
    if nest.valid and width >= 16:  # one wide element, of which the source has some bytes
        run = nest.valid
    elif nest.valid:
        count = nest.valid
    read = spans.of_steps([*((x.n, x.src) for x in nest.loops), (first.n, first.src)], run)
    return _in_digits(read, count, second.src, in1, out_s1).at(nest.src), written


def _in_table(loop: Digits, runs: Sequence[int]) -> Span:
    """The bytes reached by a run at every index of a loop: runs[v] bytes where the first digit is v, or runs of one
    size."""
    (n, step), *upper = loop.digits
    table = loop.table or (0, (n - 1) * step)
    sizes = runs if len(runs) == len(table) else [runs[0]] * len(table)
    span = spans.EMPTY
    for at, size in zip(table, sizes):
        if at is not None:
            span = span.joined(Span(at, at + size))
    return span.plus(spans.of_steps(upper, 0))


def _in_digits(span: Span, count: int, stride: int, inner: int, outer_stride: int) -> Span:
    """`span`, repeated `count` times: index i at i * stride, or, if `inner` is not 0, at
    (i // inner) * outer_stride + (i % inner) * stride."""
    if not inner:
        return spans.of_steps([(count, stride)], 0).plus(span)
    whole, rest = divmod(count, inner)
    reached = spans.of_steps([(whole, outer_stride), (inner, stride)], 0).plus(span) if whole else spans.EMPTY
    if rest:
        reached = reached.joined(spans.of_steps([(rest, stride)], 0).at(whole * outer_stride).plus(span))
    return reached


def of_slabs(slab: Slab) -> tuple[Span, Span]:
    """Where slabs begin in the source and in the destination."""
    loops = [*slab.boxes, *slab.loops]
    read = spans.of_steps([(x.n, x.src) for x in loops], 0)
    return read.at(slab.src), spans.of_steps([(x.n, x.dst) for x in loops], 0).at(slab.dst)


def of_conversion(nests: Sequence[conversions.Nest], widths: conversions.Widths) -> tuple[Span, Span, Span]:
    """Source (in elements, if of packed pairs), destination and parameters (elements) of a conversion's nests."""
    src = dst = par = spans.EMPTY
    for nest in nests:
        convert, loops = nest.convert, nest.loops
        read = list(zip(convert.n, convert.s))
        if nest.before:
            read = list(zip(nest.before.n, nest.before.s))
        if nest.unpack:
            read = list(zip(nest.unpack.n, nest.unpack.s))
        written = list(zip(convert.n, convert.d))
        if nest.after:
            written = list(zip(nest.after.n, nest.after.d))
        src = src.joined(spans.of_steps([*((x.n, x.src) for x in loops), *read], widths.src).at(nest.offsets[0]))
        dst = dst.joined(spans.of_steps([*((x.n, x.dst) for x in loops), *written], widths.dst).at(nest.offsets[1]))
        counted = [*((x.n, x.par) for x in loops), *zip(convert.n, convert.par)]
        par = par.joined(spans.of_steps(counted, 1).at(nest.offsets[2]))
    return src, dst, par
