"""The keys of problems in cost tables: a grammar for each operation, every part of it bounded.

A table may come from anywhere. Its keys are checked against this when it is read, in time that is linear in their
length; whatever passes describes a problem of bounded size to those that look at it.
"""

from __future__ import annotations

import re

MAX_KEY = 1000  # characters; the longest that a grammar allows are below
MAX_NAME = 200  # characters of a candidate's name
MAX_CANDIDATES = 512  # of a problem

NUMBER = "[1-9][0-9]{0,17}"
CHANNELS = "[1-9][0-9]{0,5}"  # planning some convolutions takes memory for each of them
THREADS = "t[1-9][0-9]{0,3}"
_TAG = "[A-Za-z]{1,15}(?:[0-9]{1,9}[A-Za-z]){0,16}"
_WORD = "[0-9]{0,9}[a-z](?:/[0-9]{1,18})?"
LAYOUT = f"(?:{_TAG}|{_WORD}(?: {_WORD}){{0,30}})"  # as `notation.key` writes it, a space only where no tag can say it

_grammars: dict[str, str] = {}  # patterns


def sizes(most: int) -> str:
    """The pattern of 1 to `most` numbers such as 1x64x56."""
    return f"{NUMBER}(?:x{NUMBER}){{0,{most - 1}}}"


def parts(key: str, pattern: str, what: str) -> tuple[str, ...]:
    """The groups of a pattern that `key` matches, whole; ValueError that it is not `what`."""
    match = re.fullmatch(pattern, key)
    if not match:
        raise ValueError(f"not {what}: {key!r}")
    return match.groups()


def numbers(text: str) -> tuple[int, ...]:
    """The sizes of 1x64x56."""
    return tuple(map(int, text.split("x")))


def grammar(operation: str, pattern: str) -> None:
    """Keys that begin with `operation` must match `pattern`, whole."""
    _grammars[operation] = pattern


def operation(key: str) -> str:
    """The first word of a key."""
    return key.partition(" ")[0]


def why_invalid(key: str) -> str | None:
    """Why a table may not hold `key`; None if it may. Keys of unknown operations may be any text."""
    if len(key) > MAX_KEY:
        return f"a key of {len(key)} characters, at most {MAX_KEY}"
    grammar = _grammars.get(operation(key))
    if grammar is None or re.fullmatch(grammar, key):
        return None
    return f"not the key of a {operation(key)}, or of one beyond any size"
