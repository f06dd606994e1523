"""Joined phases of a transposed convolution between the caller's arrays: see `joined`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._core.nests.convolutions.route import view_at
from .._core.runtime.arrays import address
from ..choosing.best import choices
from ..choosing.problem import Candidate, Description
from ..formats.layout import Layout
from ..memory.arrays import contiguous_strides, placeholder
from ..reorders.binding import UNCHANGED, Call, decide
from .epilogue import NO_ACTIVATION, Epilogue
from .filter import Filter
from .joined import ORDERS, Joined, Rows, joined, joined_tasks, letters_of, move_of, name_of, problems_of
from .phases_route import DST, SRC, WORK, Workspace, aligned
from .route import Arrays, ConvRoute
from .task import ConvTask, best_route

if TYPE_CHECKING:
    from .phases import TransposedTask


MOVE_SECONDS = 1e-6  # of each piece that moves, whatever its size


class Move(NamedTuple):
    """A piece on its way from z to y: where it begins in them, in bytes, and the axes that it is seen with."""

    program: Any
    threads: int
    source: int
    to: int
    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], tuple[int, ...]]

    def run(self, z: np.ndarray, y: np.ndarray) -> None:
        """Move z to y."""
        self.program.between(z, self.source, y, self.to, self.threads)

    def back(self, y: np.ndarray, z: np.ndarray) -> None:
        """Move y to z."""
        source, to = (
            view_at(a, at, self.shape, strides) for a, at, strides in zip((z, y), (self.source, self.to), self.strides)
        )
        source[...] = to


class Step(NamedTuple):
    """A convolution, where its results go, and what moves them on."""

    part: Joined
    route: ConvRoute
    z: np.ndarray  # a placeholder
    start: int  # of its results in y, in bytes, if it writes that
    moves: tuple[Move, ...]  # none: it writes y

    def results(self, y: np.ndarray, memory: Workspace) -> np.ndarray:
        """Where the convolution writes its results."""
        return memory.array(self.z.shape, self.z.dtype) if self.moves else self.like_results(y, memory)

    def like_results(self, a: np.ndarray, memory: Workspace, to: np.ndarray | None = None) -> np.ndarray:
        """The numbers of `a`, an array like y, laid out as the results of the convolution: in `to`, if they move."""
        if not self.moves:
            return view_at(a, self.start, self.z.shape, self.z.strides)
        z = memory.array(self.z.shape, self.z.dtype) if to is None else to
        for move in self.moves:
            move.back(a, z)
        return z


class JoinedRoute:
    """Joined phases between the caller's arrays, ready to run on arrays of exact strides; see `PhasesRoute`."""

    def __init__(self, task: TransposedTask, order: str, arrays: Arrays, compiled: bool = False) -> None:
        self.task = task
        self.x = placeholder(task.src.physical_shape(task.x_shape), task.types.src, arrays.x_strides)
        self.native = placeholder(task.dst.physical_shape(task.y_shape), task.types.dst, arrays.y_strides)
        self.parts = [
            self._step(part, conv, compiled) for part, conv in zip(joined(task, order), joined_tasks(task, order))
        ]

    def _step(self, part: Joined, conv: ConvTask, compiled: bool) -> Step:
        p, task, y, start = part.problem, self.task, self.native, 0
        moves: tuple[Move, ...] = ()
        strides = part.writes(y, task.dst, task.stride)
        own = strides or contiguous_strides(p.dst, p.dst_shape, p.types.dst.itemsize)
        z = placeholder(p.dst.physical_shape(p.dst_shape), p.types.dst, own)
        in_y = part.strides_in(y, task.dst, task.stride)
        if strides is None:
            moves = tuple(_move(part, z, y, in_y, piece, task.threads) for piece in part.pieces())
        else:
            (piece,) = part.pieces()
            start = _start_in_y(piece, in_y)
        x_strides = self.x[part.inputs(task.src)].strides
        return Step(part, best_route(conv, Arrays(x_strides, own), compiled), z, start, moves)

    @property
    def steps(self) -> list[tuple[Joined, ConvRoute]]:
        """What is packed for each convolution."""
        return [(step.part, step.route) for step in self.parts]

    def needs(self, add: bool, epilogue: Epilogue | None = None) -> int:
        """Bytes of workspace for a call, with `add` and the tensors of `epilogue`."""
        tensors = 0 if epilogue is None else len(epilogue.tensors)
        most = 0
        for step in self.parts:
            steps = epilogue.over([step.z] * tensors) if epilogue is not None and tensors else None
            inner = (1 + tensors) * aligned(nbytes_of(step.z)) if step.moves else 0
            most = max(most, inner + step.route.run.needs(step.z, step.z if add else None, steps))
        return most

    def pack(self, part: Joined, step: ConvRoute, f: Filter):
        """Its part of a filter and the bias, as a step reads them."""
        w = part.filter(f.w, self.task.stride)
        return step.pack(w, f.bias_over(w, part.channels()))

    def run(self, x, packed, y, epilogue: Epilogue | None, add, workspace: np.ndarray | None = None) -> None:
        """Convolve `x` into `y` with filter and bias of each step; `add` has the strides of `y`, and may be it."""
        for step, (w, bias) in zip(self.parts, packed):
            memory, steps, residual = Workspace(workspace), epilogue, None
            z = step.results(y, memory)
            if add is not None:
                residual, steps = step.like_results(add, memory, z), epilogue or NO_ACTIVATION
            if steps is not None:
                tensors = [step.like_results(tensor, memory) for tensor in steps.tensors]
                steps = steps.of_channels(step.part.channels(), tensors)
            step.route.run(x[step.part.inputs(self.task.src)], w, bias, z, steps, residual, memory.rest)
            for move in step.moves:
                move.run(z, y)

    def compiled_steps(self, packed: Sequence, epilogue: Epilogue | None) -> tuple[list[tuple], int]:
        """As of `PhasesRoute`."""
        steps: list[tuple] = []
        for step, (w, bias) in zip(self.parts, packed):
            source = SRC, address(self.x[step.part.inputs(self.task.src)]) - address(self.x)
            then = None if epilogue is None else epilogue.of_channels(step.part.channels())
            steps.append((step.route.run, w, bias, then, source, (WORK, 0) if step.moves else (DST, step.start)))
            for move in step.moves:
                run = move.program, move.threads
                steps.append((run, None, None, None, (WORK, move.source), (DST, move.to)))
        return steps, max((nbytes_of(step.z) for step in self.parts if step.moves), default=0)


def _move(
    part: Joined, z: np.ndarray, y: np.ndarray, in_y: dict[str, int], piece: Sequence[Rows], threads: int
) -> Move:
    in_z, letters, sizes, rank = part.strides(z), letters_of(len(piece)), part.sizes(), len(piece)
    shape = (*(sizes[c] for c in "ngo"), *(rows.rows for rows in piece), *(rows.phases for rows in piece))
    strides = tuple(in_z[c] for c in letters), tuple(in_y[c] for c in letters)
    start = sum(
        rows.first * in_z[letters[3 + i]] + rows.phase * in_z[letters[3 + rank + i]] for i, rows in enumerate(piece)
    )
    same = Layout("abcdefghi"[: len(letters)])
    source, to = (placeholder(shape, z.dtype, s) for s in strides)
    bound = decide(Call(source, same, same, None, to, UNCHANGED, None, None, 0, threads)).bound
    return Move(bound.run, bound.threads, start, _start_in_y(piece, in_y), shape, strides)


def _start_in_y(piece: Sequence[Rows], in_y: dict[str, int]) -> int:
    """Bytes from the first element of y to that of a piece."""
    return sum(rows.output * in_y[c] for rows, c in zip(piece, letters_of(len(piece))[3 + len(piece) :]))


def nbytes_of(z: np.ndarray) -> int:
    """Of a contiguous array like a placeholder."""
    return z.size * z.itemsize


def joined_candidates(task: TransposedTask) -> Iterator[Candidate]:
    """By what is innermost in the results of the convolution."""
    for order in ORDERS:
        try:
            seconds = sum(choices(each)[0].seconds for each in problems_of(task, order))
        except ValueError:  # the algorithm that was asked for is not for these
            continue
        parts, tasks = joined(task, order), joined_tasks(task, order)
        if parts:
            pieces = sum(len(list(part.pieces())) for part in parts if move_of(task, part) is not None)
            yield Candidate(
                name_of(task, order), seconds + pieces * MOVE_SECONDS, partial(JoinedRoute, task, order),
                describe=partial(_describe, tasks),
            )  # fmt: skip


def _describe(tasks: Sequence[ConvTask]) -> Description:
    """The convolution of the most saving says why."""
    most = max((choices(task)[0].candidate.words for task in tasks), key=lambda words: words.saving)
    several = f"{len(tasks)} convolutions" if len(tasks) > 1 else most.algorithm
    return most._replace(algorithm=f"{several} of joined phases of the stride")
