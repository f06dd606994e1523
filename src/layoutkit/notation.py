"""Every written form of a layout: parse and print.

Tags, abstract or named: letters name the logical dimensions outermost first, a capital marks one that is
blocked further right, ``<size><letter>`` are the inner blocks. Names without blocks may be all capitals.
"""

from __future__ import annotations

import re

from .layout import Layout

# Families of named dimensions, each in logical order. A name may leave out any of the spatial letters.
FAMILIES = ("ncdhw", "oidhw", "goidhw", "midhw")
MAX_RANK = 12
_TAG = re.compile(r"([A-Za-z]+)((?:\d+[A-Za-z])*)")


def _dims(letters: set[str]) -> dict[str, int] | None:
    """Letter -> logical dimension, for the alphabet or the family that has exactly these letters."""
    for family in ("abcdefghijkl"[: len(letters)], *FAMILIES):
        if letters <= set(family) and (set(family) - letters) <= set("dhw"):
            return {x: i for i, x in enumerate(x for x in family if x in letters)}
    return None


def parse(text: str) -> Layout:
    """The layout that `text` names; ValueError says what is wrong and where."""
    match = _TAG.match(text)
    if not match or match.end() != len(text):
        at = match.end() if match else 0
        where = f"at position {at} ({text[at:]!r})" if text else "it is empty"
        raise ValueError(f"format {text!r}: expected dimension letters, then blocks such as '16c'; {where}")
    outer, blocks = match[1], re.findall(r"(\d+)([A-Za-z])", match[2])
    if not blocks and outer.isupper():
        outer = outer.lower()
    letters = outer.lower()
    for i, x in enumerate(letters):
        if x in letters[:i]:
            raise ValueError(f"format {text!r}: dimension {x!r} stands twice, again at position {i}")
    dims = _dims(set(letters))
    if dims is None:
        raise ValueError(
            f"format {text!r}: {letters!r} are not the dimensions of any family "
            f"(a, b, c, .. without gaps, at most {MAX_RANK}; or letters of {', '.join(FAMILIES)})"
        )
    factors = [(dims[x], 0) for x in letters]
    at = len(outer)
    for size, x in blocks:
        if int(size) < 1:
            raise ValueError(f"format {text!r}: block size 0 at position {at}")
        if x not in dims:
            raise ValueError(f"format {text!r}: block {size}{x} at position {at} is of no dimension given")
        factors.append((dims[x], int(size)))
        at += len(size) + 1
    blocked = {x for _, x in blocks}
    for i, x in enumerate(outer):
        if x.isupper() != (x.lower() in blocked):
            raise ValueError(
                f"format {text!r}: {x!r} at position {i} is "
                + ("a capital but has no block" if x.isupper() else "blocked and must be a capital")
            )
    return Layout.from_factors(factors)


def _print(layout: Layout, letters: str) -> str:
    blocked = {f.dim for f in layout.factors if f.size}
    outer = "".join(
        letters[f.dim].upper() if f.dim in blocked else letters[f.dim] for f in layout.factors if not f.size
    )
    return outer + "".join(f"{f.size}{letters[f.dim]}" for f in layout.factors if f.size)


def abstract_tag(layout: Layout) -> str:
    """``acdb``, ``aBcd16b``, ..: the canonical form."""
    return _print(layout, "abcdefghijkl")


def name(layout: Layout) -> str:
    """The activation name (``NHWC``, ``nChw16c``) where the rank has one, else ``""``."""
    letters = {3: "ncw", 4: "nchw", 5: "ncdhw"}.get(layout.rank)
    if letters is None:
        return ""
    tag = _print(layout, letters)
    return tag.upper() if tag.islower() and tag.isalpha() else tag
