"""Affine maps of MLIR: ``affine_map<(d0, d1, d2, d3) -> (d0, d1 floordiv 16, d2, d3, d1 mod 16)>``.

The results are the physical axes outermost first, each a dimension, or a digit of one. It says all that a tag
says; VPUX writes its DimsOrder so (permutations only).
"""

from __future__ import annotations

import re

from .written import MAX_DIGITS, Factored, Written, bad, digits_of, is_dense

_MAP = re.compile(r"\s*(?:affine_map<)?\s*\(([\sd0-9,]*)\)\s*->\s*\((.*)\)\s*>?\s*", re.DOTALL)
_TOKEN = re.compile(r"\s*(d[0-9]+|[0-9]+|floordiv|mod|[()])")


def looks_affine(text: str) -> bool:
    """Whether `text` is meant as an affine map, well-formed or not."""
    return re.match(r"\s*(affine_map|\(\s*(d[0-9]|\)\s*->))", text) is not None


def affine_map(layout: Factored) -> str:
    """The affine map of a dense layout; ValueError if it has explicit strides."""
    if not is_dense(layout):
        raise ValueError(f"layout {layout} has explicit strides, which a map of its axes does not say")
    results = [""] * len(layout.factors)
    for dim in range(layout.rank):
        unit = 1
        for place in reversed(digits_of(layout, dim)):
            size = layout.factors[place].size
            text = f"d{dim}" if unit == 1 else f"d{dim} floordiv {unit}"
            if size:
                text = f"{text} mod {size}" if unit == 1 else f"({text}) mod {size}"
            unit *= size or 1
            results[place] = text
    dims = ", ".join(f"d{d}" for d in range(layout.rank))
    return f"affine_map<({dims}) -> ({', '.join(results)})>"


def parse_affine(text: str) -> Written:
    """The layout of an affine map; ValueError says what is wrong and where."""
    match = _MAP.fullmatch(text)
    if not match or ("affine_map<" in text) != text.rstrip().endswith(">"):
        raise bad(text, "expected an affine map, such as '(d0, d1) -> (d1, d0)'")
    names = [x.strip() for x in match[1].split(",")] if match[1].strip() else []
    if names != [f"d{i}" for i in range(len(names))]:
        raise bad(text, f"the dimensions must be d0, d1, .. in turn, got ({match[1]})", match.start(1))
    digits = []
    at = match.start(2)
    for part in match[2].split(",") if match[2].strip() else []:
        digits.append((*_digit(text, part, at), at + len(part) - len(part.lstrip())))
        at += len(part) + 1
    wanted = [1] * len(names)  # of each dimension, the unit that its next digit, going outwards, must have
    for dim, _, _, at in digits:
        if dim >= len(names):
            raise bad(text, f"d{dim} is no dimension of the map,", at)
    for dim, unit, extent, at in sorted(reversed(digits), key=lambda digit: not digit[2]):  # wholes last
        if unit != wanted[dim]:
            left = f"divided by {wanted[dim]}" if wanted[dim] else "nothing"
            raise bad(text, f"this result takes d{dim} divided by {unit}, the smaller digits leave {left};", at)
        wanted[dim] *= extent  # extent 0: all that remains
    if any(wanted):
        missing = next(d for d, w in enumerate(wanted) if w)
        raise bad(text, f"what remains of d{missing} is no result")
    return Written([(dim, extent) for dim, _, extent, _ in digits])


def _digit(text: str, part: str, at: int) -> tuple[int, int, int]:
    """(dimension, unit, extent or 0) of one result: x -> (x floordiv unit) mod extent."""
    tokens: list[tuple[str, int]] = []
    i = 0
    while i < len(part.rstrip()):
        match = _TOKEN.match(part, i)
        if not match:
            raise bad(text, "expected d<i>, 'floordiv', 'mod', a number or a parenthesis,", at + i)
        tokens.append((match[1], at + match.start(1)))
        i = match.end()
    tokens.append(("the end of the result", at + len(part)))

    def atom(depth: int) -> tuple[int, int, int]:
        token, where = tokens.pop(0)
        if token == "(" and depth < 9:
            inside = expression(depth + 1)
            token, where = tokens.pop(0)
            if token != ")":
                raise bad(text, f"expected ')', got {token}", where)
            return inside
        if token[0] != "d" or not token[1:].isdigit() or len(token) > 4:
            raise bad(text, f"expected a dimension, got {token}", where)
        return int(token[1:]), 1, 0

    def expression(depth: int = 0) -> tuple[int, int, int]:
        dim, unit, extent = atom(depth)
        while tokens[0][0] in ("floordiv", "mod"):
            op, _ = tokens.pop(0)
            number, where = tokens.pop(0)
            if not number.isdigit() or len(number) > MAX_DIGITS or int(number) < 1:
                raise bad(text, f"expected a positive number after '{op}', got {number}", where)
            n = int(number)
            if extent % n:
                raise bad(text, f"{op} {n} of a digit below {extent}, which {n} does not divide,", where)
            if op == "floordiv":
                unit, extent = unit * n, extent // n
            else:
                extent = n
        return dim, unit, extent

    digit = expression()
    if len(tokens) > 1:
        raise bad(text, f"expected the end of the result, got {tokens[0][0]}", tokens[0][1])
    return digit
