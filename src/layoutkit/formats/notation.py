"""Every written form of a layout: parse and print.

===================  =============================  ==================================================
form                 example                        reads
===================  =============================  ==================================================
tag, named           ``nChw16c`` ``OIhw16i16o``     letters outermost first, a capital is blocked further
                                                    right by ``<size><letter>``, dense, outer to inner
tag, abstract        ``aBcd16b``                    the same; a, b, c, .. are the logical dimensions
name in capitals     ``NHWC`` ``HWIO`` ``NCHW16C``  the same; here capitals say nothing
.. blocks apart      ``NC4HW4``                     ``nChw4c``
text for people      ``n c/16 h w 16c``             one word a physical axis; ``/16`` is optional
.. with both orders  ``rows cols -> cols rows``     any names: logical order, then memory order
.. grouped           ``(n h) (c w) 4c``             grouped axes count as one (`layoutkit.mace`)
DimsOrder code       ``0x1342``                     a digit a dimension, counted from 1 (VPUX)
affine map           ``(d0, d1) -> (d1, d0)``       MLIR; blocks as ``d1 floordiv 16``, ``d1 mod 16``
by name              ``mace:in_out_channel``        one of `NAMES`; torch's objects, ``torch.channels_last``
explicit strides     ``nhwc:(*,4096,64,1)``         after any of these: element stride of each physical
                                                    axis, ``*`` where dense
===================  =============================  ==================================================

Logical order is that of the alphabet, or of the family of names that has exactly these letters (`FAMILIES`).
"""

from __future__ import annotations

import re
from operator import index

from .affine import looks_affine, parse_affine
from .families import FAMILIES, family_of
from .nearest import hint
from .written import ALPHABET, MAX_DIGITS, MAX_RANK, Factored, Written, bad, block_of, is_dense, is_plain

# oneDNN's aliases that do not say what they stand for: 'I' has no block, or precedes 'O' in the name only.
MISNAMED = {
    "OhwI24o": "Ohwi24o",
    "OhwI32o": "Ohwi32o",
    "gOhwI24o": "gOhwi24o",
    "gOhwI32o": "gOhwi32o",
    "gIOhw2i8o16i2o": "gOIhw2i8o16i2o",
    "gIOdhw2i8o16i2o": "gOIdhw2i8o16i2o",
}

# Formats that have a name of their own. Groups, where they stand, are rows and columns of an image.
NAMES = {
    "mace:in_out_channel": "(n h) (c w) 4c",
    "mace:in_out_height": "(n h) (c w) 4h",
    "mace:in_out_width": "(n h) (c w) 4w",
    "mace:conv2d_filter": "(o h w) (i) 4o",
    "mace:conv2d_filter_padded": "(o h w) (i 4i) 4o",
    "mace:dw_conv2d_filter": "(i) (m h w) 4i",
    "mace:argument": "() (w) 4w",
    "mace:weight_height": "(o) (h w i) 4o",
    "mace:weight_width": "(o) (h w i) 4i",
    "mace:winograd_filter": "(a b) (c) 4c",
    "torch:channels_last": "n h w c",
    "torch:channels_last_3d": "n d h w c",
    "channels_last": "n h w c",
    "channels_first": "n c h w",
    "channels_last_3d": "n d h w c",
    "channels_first_3d": "n c d h w",
}


def parse(text: str | int) -> Written:
    """What `text` says; ValueError says what is wrong and where."""
    if isinstance(text, str):
        try:
            return _parse(text)
        except ValueError as error:
            raise ValueError(f"{error}{hint(text, _parse, NAMES)}") from None
    if type(text).__name__ == "memory_format":  # of torch
        return _parse(_name_of_torch(str(text)))
    if not isinstance(text, bool):
        try:
            number = index(text)
        except TypeError:
            pass
        else:
            return _of_integer(number)
    raise TypeError(f"Layout: expected a tag such as 'NHWC' or 'nChw16c', got {type(text).__name__}")


def _of_integer(number: int) -> Written:
    try:
        return from_code(number)
    except ValueError as error:
        raise ValueError(
            f"layout {number}: a layout is named by its axes, such as 'NCHW'; an integer is a DimsOrder code, a digit "
            f"for each axis, such as 0x1342 for NHWC ({str(error).partition(': ')[2]})"
        ) from None


def _name_of_torch(memory_format: str) -> str:
    name = memory_format.replace("torch.", "torch:")
    if name not in NAMES:
        raise ValueError(
            f"Layout: {memory_format} is no format by itself; expected torch.channels_last, torch.channels_last_3d, or "
            "the order of dimensions, such as 'NCHW'"
        )
    return name


def _parse(text: str) -> Written:
    body, colon, pitches = text.partition(":(")
    written = _parse_body(text, body)
    if not colon:
        return written
    return _with_pitches(text, written, len(body) + 2, pitches)


def _parse_body(text: str, body: str) -> Written:
    if ":" in body and body not in NAMES:
        raise bad(text, f"no format of this name, there are {', '.join(NAMES)};", 0)
    if body in NAMES:
        written = parse_spaced(NAMES[body])[0]
        return written._replace(named=":" not in body)  # those of a system are of any tensor
    if body[:2].lower() == "0x":
        if not re.fullmatch(r"[0-9A-Fa-f]+", body[2:]):
            raise bad(text, "a DimsOrder code is hexadecimal digits;", 2)
        return from_code(int(body, 16))
    if looks_affine(body):
        return parse_affine(body)
    if re.search(r"[\s()]|->", body):
        return parse_spaced(body)[0]
    return _parse_tag(text, body)


def _with_pitches(text: str, written: Written, at: int, pitches: str) -> Written:
    if not pitches.endswith(")"):
        raise bad(text, "the list of strides is not closed;", len(text) - 1)
    strides: list[int | None] = []
    for word in pitches[:-1].split(","):
        stripped = word.strip()
        if stripped != "*" and not re.fullmatch(r"[0-9]{1,18}", stripped):
            raise bad(text, "expected an element stride, a number or '*',", at)
        strides.append(None if stripped == "*" else int(stripped))
        at += len(word) + 1
    if len(strides) != len(written.factors):
        raise bad(text, f"{len(strides)} strides for {len(written.factors)} physical axes;", text.index(":("))
    return written._replace(pitches=strides)


# Tags


def _order(text: str, letters: str, at: int = 0) -> str:
    """The letters in logical order: of the alphabet, or of the family that has exactly these."""
    present = set(letters)
    for i, x in enumerate(letters):
        if x in letters[:i]:
            raise bad(text, f"dimension {x!r} stands twice, again", at + i)
    if present == set(ALPHABET[: len(present)]):
        return ALPHABET[: len(present)]
    family = FAMILIES.get(frozenset(present))
    if family is None:
        raise bad(
            text,
            f"{letters!r} are not the dimensions of any family (a, b, c, .. without gaps, up to {MAX_RANK}; "
            f"or of ncdhw, oidhw, goidhw, midhw or their like, spatial letters left out from the left)",
        )
    return family.order


def _parse_tag(text: str, body: str) -> Written:
    if body.lower() == "scalar":
        return Written(())
    body = re.sub(r"^NC([0-9]+)(D?H?W)\1$", lambda parts: f"nC{parts[2].lower()}{parts[1]}c", MISNAMED.get(body, body))
    match = re.match(r"([A-Za-z]+)((?:[0-9]+[A-Za-z])*)", body)
    if not match or match.end() != len(body):
        at = match.end() if match else 0
        empty = "" if body else " it is empty"
        raise bad(text, f"expected dimension letters, then blocks such as '16c';{empty}", at)
    outer, blocks = match[1], match[2]
    order = _order(text, outer.lower())
    capitals = outer.isupper() and (not blocks or not order.startswith("a"))
    if capitals:  # a name in capitals: case is style
        outer, blocks = outer.lower(), blocks.lower()
    dims = {x: i for i, x in enumerate(order)}
    factors = [(dims[x], 0) for x in outer.lower()]
    blocked = set()
    at = len(outer)
    for size, x in re.findall(r"([0-9]+)([A-Za-z])", blocks):
        if len(size) > MAX_DIGITS or int(size) < 1:
            shown = size[: MAX_DIGITS + 1]
            raise bad(text, f"block size {shown} at position {at} is not in 1..{10**MAX_DIGITS - 1}")
        if x not in dims:
            raise bad(text, f"block {size}{x} at position {at} is of no dimension given")
        factors.append((dims[x], int(size)))
        blocked.add(x)
        at += len(size) + 1
    for i, x in enumerate(outer):
        if not capitals and x.isupper() != (x.lower() in blocked):
            problem = "is a capital but has no block" if x.isupper() else "is blocked and must be a capital"
            raise bad(text, f"{x!r} at position {i} {problem}")
    return Written(factors, dims=order)


def _print(layout: Factored, letters: str) -> str:
    blocked = {f.dim for f in layout.factors if f.size}
    outer = "".join(
        letters[f.dim].upper() if f.dim in blocked else letters[f.dim] for f in layout.factors if not f.size
    )
    tag = outer + "".join(f"{f.size}{letters[f.dim]}" for f in layout.factors if f.size)
    return tag or "scalar"


def _print_pitches(layout: Factored) -> str:
    if is_dense(layout):
        return ""
    return ":(" + ",".join("*" if p is None else str(p) for p in layout.pitches) + ")"


def abstract_tag(layout: Factored) -> str:
    """``acdb``, ``aBcd16b``, ..: the canonical form.

    Raises
    ------
    ValueError
        A block stands outside a whole dimension (``n c 16c h``): tags cannot say it, `spaced` can.
    """
    if layout.rank > MAX_RANK:
        raise ValueError(f"a tag has letters for {MAX_RANK} dimensions, the layout has {layout.rank}")
    if not has_tag(layout):
        raise ValueError(f"{spaced(layout)!r} has no tag: a block stands outside a whole dimension")
    return _print(layout, ALPHABET) + _print_pitches(layout)


def has_tag(layout: Factored) -> bool:
    """Whether all blocks stand inside all whole dimensions, as the grammar of tags has it."""
    sizes = [f.size for f in layout.factors]
    return not any(sizes[: layout.rank])


def name(layout: Factored, dims: str | None = None) -> str:
    """The tag in the letters that the layout was written in, or in `dims`, such as ``"oihw"``: ``NHWC``.

    Falls back on `spaced` where tags cannot say it.
    """
    letters = "".join(layout.dims) if dims is None else dims
    if len(letters) != layout.rank:
        if dims is not None:
            raise ValueError(f"{dims!r} names {len(dims)} dimensions, the layout has {layout.rank}")
        return spaced(layout)
    if not has_tag(layout) or not _is_known(letters):
        return spaced(layout, letters)
    tag = _print(layout, letters)
    plain_name = is_plain(layout) and not letters.startswith("a")
    return (tag.upper() if plain_name else tag) + _print_pitches(layout)


def key(layout: Factored) -> str:
    """The one name that layouts of equal meaning share: as activations are called, where the rank has names."""
    if layout.rank > MAX_RANK:
        raise ValueError(f"layout {spaced(layout)} has {layout.rank} dimensions; operations plan at most {MAX_RANK}")
    return name(layout, {3: "ncw", 4: "nchw", 5: "ncdhw"}.get(layout.rank, ALPHABET[: layout.rank]))


def _is_known(letters: str) -> bool:
    return letters in ("", ALPHABET[: len(letters)]) or family_of(letters) is not None


# Text for people

_WORD = re.compile(r"([0-9]*)([A-Za-z_][A-Za-z_0-9]*)(?:/([0-9]+))?")


def parse_spaced(text: str) -> tuple[Written, tuple[int, ...]]:
    """The layout of ``"(n h) (c w) 4c"`` and how many physical axes each of its groups has, (2, 2, 1).

    Without ``->``, names are single letters of a known family; with it any, given in logical order first.
    """
    left, arrow, right = text.partition("->")
    start = len(left) + 2 if arrow else 0
    words, groups = _words(text, start, right if arrow else left)
    if arrow:
        order = _names(text, left)
    elif not words:
        raise bad(text, "it is empty")
    else:
        if any(len(n) > 1 for n, *_ in words):
            at = next(at for n, *_, at in words if len(n) > 1)
            raise bad(text, "names of several letters need their logical order first: 'x y -> y x';", at)
        outer = "".join(n.lower() for n, size, *_ in words if not size)
        order = list(_order(text, outer))
        words = [(n.lower(), size, part, at) for n, size, part, at in words]
    dims = {x: i for i, x in enumerate(order)}
    inner: dict[str, int] = {}
    whole = set()
    for n, size, _, at in words:
        if n not in dims:
            raise bad(text, f"{n!r} is no dimension of {order},", at)
        if size:
            inner[n] = inner.get(n, 1) * size
        elif n in whole:
            raise bad(text, f"dimension {n!r} stands twice,", at)
        else:
            whole.add(n)
    for n, size, part, at in words:
        if part and (size or part != inner.get(n, 1)):
            raise bad(text, f"'/{part}' where the blocks of {n!r} make {inner.get(n, 1)},", at)
    if len(whole) != len(order):
        missing = next(x for x in order if x not in whole)
        raise bad(text, f"dimension {missing!r} is missing from the memory order,", start)
    return Written([(dims[n], size) for n, size, *_ in words], dims=order), groups


def _names(text: str, part: str) -> list[str]:
    """The names before ``->``."""
    words, groups = _words(text, 0, part)
    names = [n for n, *_ in words]
    for i, (n, size, part_size, at) in enumerate(words):
        if n in names[:i]:
            raise bad(text, f"dimension {n!r} stands twice,", at)
        if size or part_size or len(groups) != len(words):
            raise bad(text, "before '->' stand names only, no blocks and no groups;", at)
    return names


def _words(text: str, start: int, part: str) -> tuple[list[tuple[str, int, int, int]], tuple[int, ...]]:
    """(name, block size or 0, number after '/' or 0, position) of each word, and the sizes of groups."""
    words: list[tuple[str, int, int, int]] = []
    groups: list[int] = []
    open_at = None
    i = 0
    while i < len(part):
        x, at = part[i], start + i
        match = _WORD.match(part, i)
        i += 1
        if x.isspace():
            continue
        if x == "(" and open_at is None:
            open_at = at
            groups.append(0)
        elif x == ")" and open_at is not None:
            open_at = None
        elif match and not x.isspace():
            size = match[1]
            if size and (len(size) > MAX_DIGITS or int(size) < 1):
                raise bad(text, f"block size is not in 1..{10**MAX_DIGITS - 1},", at)
            if match[3] and len(match[3]) > MAX_DIGITS:
                raise bad(text, f"number is not in 1..{10**MAX_DIGITS - 1},", at)
            words.append((match[2], int(size or 0), int(match[3] or 0), at))
            if open_at is None:
                groups.append(1)
            else:
                groups[-1] += 1
            i = match.end()
        else:
            raise bad(text, "expected a dimension, a block such as '16c', or a group in parentheses;", at)
    if open_at is not None:
        raise bad(text, "this parenthesis is not closed,", open_at)
    return words, tuple(groups)


def words(layout: Factored, dims: tuple[str, ...] | None = None) -> list[str]:
    """One word for each physical axis: ``n``, ``c/16``, ``h``, ``w``, ``16c``."""
    dims = layout.dims if dims is None else dims
    out = []
    for dim, size in layout.factors:
        part = block_of(layout, dim)
        out.append(f"{size}{dims[dim]}" if size else dims[dim] + (f"/{part}" if part > 1 else ""))
    return out


def spaced(layout: Factored, dims: str | tuple[str, ...] | None = None) -> str:
    """The text for people: ``n c/16 h w 16c``."""
    dims = tuple(layout.dims if dims is None else dims)
    text = " ".join(words(layout, dims))
    if not _is_known("".join(dims)) or any(len(x) > 1 for x in dims):
        text = f"{' '.join(dims)} -> {text}"
    return (text or "scalar") + _print_pitches(layout)


# DimsOrder codes


def from_code(code: int) -> Written:
    """The layout of a DimsOrder code: ``0x1342`` is NHWC, 0 a scalar."""
    digits = f"{code:x}" if code > 0 else ""
    if code < 0:
        raise ValueError(f"DimsOrder code {code}: must not be negative")
    if len(digits) > MAX_RANK:
        raise ValueError(f"DimsOrder code {code:#x}: {len(digits)} digits, at most {MAX_RANK} dimensions")
    dims = [int(x, 16) - 1 for x in digits]
    for i, dim in enumerate(dims):
        if dim in dims[:i]:
            raise ValueError(f"DimsOrder code {code:#x}: digit {digits[i]} at position {i} stands twice")
        if not 0 <= dim < len(dims):
            expected = f"expected digits 1..{len(dims):x}"
            raise ValueError(f"DimsOrder code {code:#x}: digit {digits[i]} at position {i}, {expected}")
    names = {1: "c", 2: "nc", 3: "chw", 4: "nchw", 5: "ncdhw"}.get(len(dims))
    return Written([(d, 0) for d in dims], dims=names, named=False)


def code(layout: Factored) -> int:
    """The DimsOrder code of a plain layout; ValueError if it is blocked or strided."""
    if not is_plain(layout) or not is_dense(layout) or layout.rank > MAX_RANK:
        raise ValueError(f"layout {layout} has no DimsOrder code: blocked, strided or above rank {MAX_RANK}")
    return sum((f.dim + 1) << 4 * (layout.rank - 1 - i) for i, f in enumerate(layout.factors))
