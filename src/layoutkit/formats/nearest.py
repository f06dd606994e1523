"""What a malformed format may have been meant to be: the hint at the end of its error."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterable
from functools import lru_cache

ORDERS = (  # the names that people use, to be recognised through a slip of the keyboard
    *("NCHW NHWC CHWN HWCN BCHW BHWC NCDHW NDHWC NCW NWC NCL NLC CHW HWC OIHW OHWI HWIO OIDHW OIW GOIHW").split(),
    *("nChw4c nChw8c nChw16c nCdhw8c nCdhw16c nCw16c OIhw8i8o OIhw16i16o NC4HW4 channels_last channels_first").split(),
)
CLOSE = 0.74  # of difflib's ratio: one letter of four


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
    return [known[letters] for letters in difflib.get_close_matches(text[:64].lower(), known, 3, CLOSE)]
