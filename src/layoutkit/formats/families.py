"""Families of dimension names: which letters belong together, their logical order, and what has such dimensions.

Names decide nothing about memory, and layouts of other names are equal if they lie alike. They say what a tensor is: a
layout in the names of one family is refused where a tensor of another is meant, because it would be misread in
silence ("NTC" read as N C W: the time as the batch). Layouts without a family, such as ``abcd``, go everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .layout import Layout


class Family(NamedTuple):
    """Names that belong together."""

    order: str  # a letter a dimension, in logical order
    kind: str  # what has these dimensions
    meaning: str  # the same dimensions in the letters most used for them: "oihw" of "kcrs"


ACTIVATIONS, FILTERS, RECURRENT, VECTORS = "activations", "filters", "recurrent networks", "vectors"
_SPATIAL = ("", "w", "hw", "dhw")


def _families():
    for base, kind in (("nc", ACTIVATIONS), ("c", ACTIVATIONS), ("oi", FILTERS), ("goi", FILTERS), ("mi", FILTERS)):
        for tail in _SPATIAL:
            if base + tail != "c":
                yield Family(base + tail, kind, base + tail)
    for tail in _SPATIAL:
        yield Family("bc" + tail, ACTIVATIONS, "nc" + tail)  # b for batch
    for base in ("nc", "bc", "c"):
        yield Family(base + "l", ACTIVATIONS, base.replace("b", "n") + "w")  # l for length
    for base in ("oi", "goi"):
        for tail, meant in zip(("x", "yx", "zyx"), _SPATIAL[1:]):
            yield Family(base + tail, FILTERS, base + meant)
    for tail, meant in zip(("s", "rs", "trs"), _SPATIAL[1:]):
        yield Family("kc" + tail, FILTERS, "oi" + meant)
    for order in ("tn", "tnc", "ldnc", "ldigo", "ldio", "ldgo"):  # time, layer, direction, gates
        yield Family(order, RECURRENT, order)
    for order in "cwx":
        yield Family(order, VECTORS, "x")


FAMILIES: dict[frozenset[str], Family] = {frozenset(f.order): f for f in _families()}  # found by their letters


def family_of(names: Sequence[str]) -> Family | None:
    """The family that has these names in this logical order."""
    family = FAMILIES.get(frozenset(names))
    return family if family is not None and tuple(family.order) == tuple(names) else None


def meaning_of_activations(spatial: int) -> str:
    """The names of an activation with so many spatial dimensions."""
    return "nc" + _SPATIAL[spatial]


def meaning_of_filters(spatial: int) -> str:
    """The names of a filter with so many spatial dimensions."""
    return "oi" + _SPATIAL[spatial]


def check_meaning(layout: Layout, meaning: str, what: str) -> None:
    """Raise ValueError if `layout` is in names of other dimensions than those of `meaning`, such as "nchw"."""
    family = layout.family
    if family is not None and family.meaning != meaning:
        wanted = FAMILIES[frozenset(meaning)]
        raise ValueError(
            f"{what} {layout} has the names {_spell(family.order)} of {family.kind}; expected those of {wanted.kind}, "
            f"{_spell(meaning)}, or abstract ones (a, b, c, ..)"
        )


def check_names(src: Layout, dst: Layout, what: str) -> None:
    """Raise ValueError if two layouts, for one tensor, are in names of other dimensions."""
    a, b = src.family, dst.family
    if a is not b and a is not None and b is not None and a.meaning != b.meaning:
        raise ValueError(
            f"{what}: {src} has the names {_spell(a.order)} of {a.kind}, {dst} has {_spell(b.order)} of {b.kind}; "
            f"expected the same dimensions, or abstract names (a, b, c, ..)"
        )


def _spell(order: str) -> str:
    return " ".join(order.upper())
