"""Concatenations and divisions: what has no place in the array of the whole is copied."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...._core.nests.axes import is_contiguous, merged
from ...._core.nests.moves.joined_rows import JoinedRows
from ...._core.nests.moves.reorder_operation import ReorderOperation
from ...._core.nests.operation import MAX_ARRAYS, Operation
from ...._core.runtime.arrays import address
from ...ir import Node
from ...operators.kernels.joins import cut_at
from .building import Build, Building, Part, Place, copying

MOST_BYTES = 64 << 20  # copied by rows; more by reorders, which look for signals meanwhile
Piece = tuple[Place | np.ndarray, Part]  # a tensor or constant, and the part of the whole that it is copied to or from


def _concat(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind = program.known, kinds[0]
    whole, stored = program.result(node.outputs[0], kind), known[node.outputs[0]].stored_type
    axis, cuts = cut_at(node, known, kind)
    reads: list[Place] = []
    pieces: list[Piece] = []
    for name, (begin, end) in zip(node.inputs, cuts):
        part, value = Part(whole, axis, begin, end), known[name].value
        if value is not None:
            pieces.append((np.ascontiguousarray(value), part))
            continue
        reads.append(program.operand(name, kind, stored))
        if program.part_of(reads[-1]) != part:
            pieces.append((reads[-1], part))
    _copied(program, node, pieces, tuple(reads), (whole,))


def _split(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind = program.known, kinds[0]
    whole, stored = program.operand(node.inputs[0], kind), known[node.inputs[0]].stored_type
    axis, cuts = cut_at(node, known, kind)
    writes = tuple(program.result(name, kind, stored) for name in node.outputs)
    parts = [Part(whole, axis, *cut) for cut in cuts]
    pieces: list[Piece] = [(y, part) for y, part in zip(writes, parts) if program.part_of(y) != part]
    _copied(program, node, pieces, (whole,), writes)


def _copied(
    program: Building, node: Node, pieces: list[Piece], reads: tuple[Place, ...], writes: tuple[Place, ...]
) -> None:
    """Append the steps that copy pieces to the whole, of a concatenation, or from it; if there are none, one that has
    nothing to do."""
    if not pieces:
        program.nothing(node, reads, writes)
    for i in range(0, len(pieces), MAX_ARRAYS - 1):
        _copy(program, node, pieces[i : i + MAX_ARRAYS - 1])


def _copy(program: Building, node: Node, pieces: list[Piece]) -> None:
    """Append a step that copies pieces to or from the whole."""
    joins, whole = node.op == "Concat", pieces[0][1].whole
    places = tuple(place for place, _ in pieces if not isinstance(place, np.ndarray))

    def make(*arrays: np.ndarray) -> Operation:
        at_whole, at = (len(arrays) - 1, 0) if joins else (0, 1)
        whole, threads = arrays[at_whole], program.costs.threads
        by_rows = _by_rows(arrays, at_whole, at, pieces, joins, threads)
        if by_rows is not None:
            return by_rows
        moves: list[tuple[Any, int | np.ndarray, int, int, int, int]] = []
        for piece, part in pieces:
            constant = piece if isinstance(piece, np.ndarray) else None
            x, y = arrays[at] if constant is None else constant, part.of(whole)
            move, begin = copying(x, y, threads) if joins else copying(y, x, threads), address(y) - address(whole)
            if move is not None and joins:
                moves.append((move[0], at if constant is None else constant, 0, at_whole, begin, move[1]))
            elif move is not None:
                moves.append((move[0], at_whole, begin, at, 0, move[1]))
            at += constant is None
        return ReorderOperation(arrays, moves)

    program.operation(node, make, places if joins else (whole,), (whole,) if joins else places)


def _by_rows(
    arrays: tuple[np.ndarray, ...], at_whole: int, at: int, pieces: list[Piece], joins: bool, threads: int
) -> JoinedRows | None:
    """What copies pieces of rows, each contiguous in both arrays; None where they are not, or are too large."""
    whole, axis = arrays[at_whole], pieces[0][1].axis
    rows, steps, found = prod(whole.shape[:axis]), set(), []
    for piece, part in pieces:
        y: np.ndarray = piece if isinstance(piece, np.ndarray) else arrays[at]
        inside = part.of(whole)
        if not all(is_contiguous(a.shape[axis:], a.strides[axis:], a.itemsize) for a in (inside, y)):
            return None
        outer = merged(zip(y.shape[:axis], inside.strides, y.strides)) or [(1, 0, 0)]
        if len(outer) > 1:
            return None
        steps.add(outer[0][1])
        begin, held = part.begin * whole.strides[axis], piece if isinstance(piece, np.ndarray) else at
        found.append((held, begin, prod(y.shape[axis:]) * y.itemsize, outer[0][2]))
        at += not isinstance(piece, np.ndarray)
    if len(steps) > 1 or rows * sum(nbytes for _, _, nbytes, _ in found) > MOST_BYTES:
        return None
    return JoinedRows(arrays, (at_whole, rows, steps.pop()), found, joins, threads)


BUILDS: dict[str, Build] = {"Concat": _concat, "Split": _split}
