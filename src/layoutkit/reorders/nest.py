"""The types that describe nests: the loops around a tile, how they are blocked, and transposes before tiling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from .loops import Loop


class Nest(NamedTuple):
    """Loops, outermost first, around a tile; see lk_move in move.h, which the tile becomes."""

    family: str  # of the micro-kernel
    bits: int  # of an element; copies have elements of 8 bits
    loops: tuple[Loop, ...]
    tile: tuple[Loop, Loop]
    src: int  # bytes from the address of the source
    dst: int  # bytes from the address of the destination
    prefetch_bytes: int = 0  # prefetch distance: from what a tile reads to what it fetches for a later one
    outer: tuple[int, int, int, int] = (0, 0, 0, 0)  # in0, out_d0, in1, out_s1 of a tile with loops of two digits
    valid: int = 0  # elements of a padded block that exist in the source; 0: all
    fused: Fused | None = None  # the digits of its tile, if both loops may have several


class Digits(NamedTuple):
    """A loop whose index has several digits (count, step), lowest first; see lk_fused_loop in transpose.h."""

    digits: tuple[tuple[int, int], ...]
    table: tuple[int | None, ...] = ()  # if not empty, the offsets of the values of the first digit; None: a pad

    @property
    def indices(self) -> int:
        """The number of indices."""
        return prod(n for n, _ in self.digits)


class Strings(NamedTuple):
    """The strings that runs are scattered to: each is one run of the destination, of many of the source. See lk_strings
    in transpose.h."""

    run: int  # bytes
    steps: tuple[tuple[int, int], ...]  # of each digit: strings, and parts of a string
    follows: tuple[int | None, ...]  # of each string, that which begins where it ends


class Fused(NamedTuple):
    """The loops of a tile: steps of columns are bytes in the destination, those of rows in the source. See lk_fused in
    transpose.h."""

    columns: Digits
    rows: Digits
    panel: int  # columns
    unit: int  # rows of a task
    sizes: tuple[int, ...] = ()  # of runs, by the first digit of the rows
    strings: Strings | None = None  # of scattered runs


class Blocking(NamedTuple):
    """How long the runs of a tile are, in which order the tiles come, and how they are moved."""

    src_run: int  # bytes of a run of the source; 0: the whole loop
    dst_run: int  # bytes of a run of the destination; 0: the whole loop
    prefetch: bool  # whether a tile fetches what a later one reads
    order: int  # the side whose memory order the tiles follow: 1 source, 2 destination
    panel: bool = False  # whether transposes pack panels in scratch; dst_run is then a minimum
    phase: int = 0  # bytes from a line boundary to where the destination begins
    fused: bool = False  # whether transposes are fused: src_run are the bytes of a panel, dst_run those of a long run
    joined: bool = False  # whether fused transposes are joined where columns are adjacent
    scattered: bool = False  # whether runs are scattered to strings in the order of the source

    @property
    def family(self) -> str:
        """The family of kernels without which there is no such variant; empty if there always is one."""
        return "joined" * self.joined or "scatter" * self.scattered


class Transpose(NamedTuple):
    """Loops of which one is contiguous in the source and another one in the destination."""

    rest: Sequence[Loop]
    src_loop: Loop  # contiguous in the source
    dst_loop: Loop  # contiguous in the destination
    src: int
    dst: int
    width: int
    whole: int = 0  # the side whose loop has two digits and is not cut: 1 source, 2 destination, 0 none
    digits: tuple[int, int, int, int] = (0, 0, 0, 0)  # `Nest.outer`
