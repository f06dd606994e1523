"""Spans: the bytes that a plan will touch, checked against those that its arrays have, before anything runs.

A span counts bytes from the address of an array's first element. A plan is made of loops, each with a count and a
stride; as loops are independent of one another, the bytes they reach together are the sum of what each one reaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class PlanError(RuntimeError):
    """A plan would touch memory outside of its arrays: a defect of layoutkit, found before anything was written."""


class Span(NamedTuple):
    """Bytes [lo, hi); empty if hi <= lo."""

    lo: int
    hi: int

    def contains(self, other: Span) -> bool:
        """Whether all of `other` lies inside."""
        return other.hi <= other.lo or (self.lo <= other.lo and other.hi <= self.hi)

    def at(self, offset: int) -> Span:
        """The span, moved by `offset` bytes."""
        return Span(self.lo + offset, self.hi + offset)

    def plus(self, other: Span) -> Span:
        """The bytes reached by an offset within this span plus one within the other."""
        return Span(self.lo + other.lo, self.hi + other.hi)

    def joined(self, other: Span) -> Span:
        """The smallest span that holds both."""
        if other.hi <= other.lo or self.hi <= self.lo:
            return self if other.hi <= other.lo else other
        return Span(min(self.lo, other.lo), max(self.hi, other.hi))


EMPTY = Span(0, 0)


def of_steps(steps: Iterable[tuple[int, int]], run: int) -> Span:
    """The bytes reached by a run of `run` bytes, repeated by loops (count, stride); none if a count is 0."""
    lo = hi = 0
    for count, stride in steps:
        if count < 1:
            return EMPTY
        far = (count - 1) * stride
        lo, hi = lo + min(0, far), hi + max(0, far)
    return Span(lo, hi + run)


def of_ranges(steps: Iterable[tuple[int, int, int]], run: int) -> Span:
    """As `of_steps`, for loops (first, last, stride) over the indices first to last; none if one of them is empty."""
    lo = hi = 0
    for first, last, stride in steps:
        if last < first:
            return EMPTY
        lo, hi = lo + min(first * stride, last * stride), hi + max(first * stride, last * stride)
    return Span(lo, hi + run)


def of_array(shape: Sequence[int], strides: Sequence[int], width: int) -> Span:
    """The bytes of an array of these sizes and byte strides, with elements of `width` bytes."""
    return of_steps(zip(shape, strides), width)


def overlaps_itself(shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
    """Whether two elements of an array may share a byte. They do not where each axis steps over all axes of smaller
    strides; other arrays count as overlapping."""
    extent = width
    for n, stride in sorted(zip(shape, map(abs, strides)), key=lambda axis: axis[1]):
        if n > 1 and stride < extent:
            return 0 not in shape
        extent += (n - 1) * stride if n else 0
    return False


def check(touched: Span, available: Span, what: str) -> None:
    """PlanError unless the bytes `touched` lie within those that are `available`."""
    if not available.contains(touched):
        raise PlanError(
            f"{what}: the plan would touch bytes {touched.lo} to {touched.hi} of memory that has bytes "
            f"{available.lo} to {available.hi}; nothing was written. This is a defect of layoutkit: please report it"
        )
