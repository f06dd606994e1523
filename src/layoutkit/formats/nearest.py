"""What a word that is not known may have been meant to be: the hint at the end of its error."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

ORDERS = (  # the names that people use, to be recognised through a slip of the keyboard
    *("NCHW NHWC CHWN HWCN BCHW BHWC NCDHW NDHWC NCW NWC NCL NLC CHW HWC OIHW OHWI HWIO OIDHW OIW GOIHW").split(),
    *("nChw4c nChw8c nChw16c nCdhw8c nCdhw16c nCw16c OIhw8i8o OIhw16i16o NC4HW4 channels_last channels_first").split(),
)
CLOSE = 0.74  # of difflib's ratio: one letter of four


def near(word: Any, known: Iterable[str], meant: Mapping[str, str] | None = None) -> str:
    """The word of `known` that `word` may have been meant to be, "" if none is near. `meant`: words of other libraries,
    and what is called so here."""
    if not isinstance(word, str):
        return ""
    meant = meant or {}
    spelt = {name.lower(): name for name in (*meant, *known)}
    found = _matches(word[:64].strip().lower(), spelt, 1)
    return meant.get(spelt[found[0]], spelt[found[0]]) if found else ""


def none_of(what: str, word: Any, known: Iterable[str], meant: Mapping[str, str] | None = None) -> str:
    """The text of an error: `word` is none of `known`, with the one that is near. `what`: the argument."""
    names = tuple(known)
    close = near(word, names, meant)
    return f"{what} {word!r} is none of {', '.join(names)}" + (f"; did you mean {close!r}?" if close else "")


def hint(text: str, reads: Callable[[str], object], names: Iterable[str]) -> str:
    """``"; did you mean 'NHWC'?"``, or nothing. `reads` raises ValueError for what is no format; `names` are formats
    that have a name of their own."""
    for candidate in itertools.chain(_recased(text), _close(text, tuple(names))):
        try:
            reads(candidate)
        except ValueError:
            continue
        return f"; did you mean {candidate!r}?"
    return ""


def _recased(text: str) -> Iterable[str]:
    """The tag with capitals where its blocks ask for them: "nchw16c" and "NCHW16"."""
    match = re.fullmatch(r"([A-Za-z]+?)((?:[0-9]+[A-Za-z])*)([0-9]*)", text)
    if not match or not (match[2] or match[3]):
        return
    outer, blocks = match[1].lower(), match[2].lower() + (f"{match[3]}c" if match[3] else "")
    blocked = {x for x in blocks if x.isalpha()}
    yield "".join(x.upper() if x in blocked else x for x in outer) + blocks


@lru_cache(64)
def _close(text: str, names: tuple[str, ...]) -> list[str]:
    known = {name.lower(): name for name in (*ORDERS, *names)}
    return [known[letters] for letters in _matches(text[:64].lower(), known, 3)]


def _matches(text: str, known: Iterable[str], count: int) -> list[str]:
    import difflib  # only where there is an error to be told: importing layoutkit stays cheap

    return difflib.get_close_matches(text, list(known), count, CLOSE)
