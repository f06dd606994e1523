"""What a call of `reorder` runs, from its arguments to a program or converter, and the array of its result."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._core.nests.moves.convert import Conversion
from .._core.nests.moves.reordering import Reordering
from .._core.runtime.arrays import address
from ..choosing.best import choices
from ..choosing.cache import plans
from ..choosing.learning import Learner, learns
from ..choosing.watching import CallInfo
from ..formats.families import check_names
from ..formats.layout import Layout
from ..memory.arguments import Argument, target
from ..memory.arrays import allocate, as_out, check_movable, check_out, check_source, contiguous_strides, nbytes_of, new
from ..memory.pad_value import pad_element
from ..memory.tensor import UNDEFINED, Tensor
from . import pairs
from .box import Box, box_of
from .convert import Numbers, Types, converter, pad_bytes, parameters, types
from .learning import LearningCall, learner_of
from .loops import LINE_BYTES
from .pairs import NOT_PACKED, Packed, packed_of
from .problem import ReorderProblem, useful_threads
from .program import Transfer, aligned_choice, program

UNCHANGED = Numbers()  # numbers are only moved


class Call(NamedTuple):
    """The arguments of `reorder`, as given."""

    array: Any
    src: Any
    dst: Any
    shape: Any
    out: Any
    numbers: Numbers
    region: Any
    at: Any
    pad_value: Any
    threads: Any


class Bound(NamedTuple):
    """What to run on arrays like those of a call, and what the result looks like."""

    run: Any  # a Program, a Converter or a learner; None: there is nothing to move
    physical: tuple[int, ...]  # shape of the result
    dtype: np.dtype
    nbytes: int
    threads: int  # how many are used
    what: str  # the operation, for errors
    explicit: tuple[Layout, tuple[int, ...]] | None  # layout and shape of the result where it has explicit strides
    layouts: tuple | None  # see `check_same_names`
    parameters: tuple = ()  # further arguments of `run` in conversions
    problem: Any = ""  # the problem, or its key
    candidate: str = ""  # that runs, unless `run` has a name

    def new(self) -> np.ndarray:
        """A new array for the result."""
        if self.explicit is None:
            return allocate(self.physical, self.dtype, self.nbytes)
        return new(*self.explicit, self.dtype, self.what)

    def call_info(self, candidate: str = "") -> CallInfo:
        """What watchers are told of a call; `candidate` instead of that which is bound."""
        candidate = candidate or (self.run.name if isinstance(self.run, LearningCall) else self.candidate)
        return CallInfo("reorder", getattr(self.problem, "key", self.problem), candidate, self.threads)


def resolved(call: Call) -> tuple[Argument, np.ndarray | None, Layout, Box]:
    """A call's source tensor, destination array (None: a new one), its layout, and the box that moves."""
    dst, out, packed = layout_argument(call.dst, "dst"), call.out, packed_of(call.numbers.dtype)
    source = pairs.packed_argument(call.array, call.src, call.shape, packed, "reorder: array")
    what = f"reorder {source.layout} -> {dst}"
    if source.layout.rank != dst.rank:
        raise ValueError(f"{what}: layouts of {source.layout.rank} and {dst.rank} dimensions")
    if any(packed) and isinstance(out, Tensor):
        raise TypeError(f"{what}: out is a Tensor, which takes no part in conversions of packed pairs")
    pairs.check_whole(packed, call.at, what)
    to = None if out is None else as_out(out.array if isinstance(out, Tensor) else out, what)
    box = Box.all_of(source.shape)
    if call.region is not None or call.at is not None:
        shape = out.shape if isinstance(out, Tensor) else None if packed.dst else held_shape(to, dst)
        box = box_of(source.shape, call.region, call.at, shape, what)
    if isinstance(out, Tensor):
        target(out, dst, box.dst_shape, call.pad_value if box.whole else UNDEFINED, what)
    return source, to, dst, box


def layout_argument(layout: str | Layout | None, name: str) -> Layout:
    """The layout `src` or `dst`."""
    if layout is None:
        raise TypeError(f"reorder: {name} was not given, expected a layout (only a Tensor brings its own, as src)")
    return Layout(layout)


def held_shape(out: np.ndarray | None, dst: Layout) -> tuple[int, ...] | None:
    """The logical shape of an array in layout `dst`."""
    return dst.padded_shape(out.shape) if isinstance(out, np.ndarray) else None


def check_same_names(src, dst, layouts: tuple) -> None:
    """Raise ValueError unless `src` and `dst` name the same dimensions, as their equals in `layouts` do: the names take
    no part in the equality of layouts."""
    if src is not layouts[0] or dst is not layouts[1]:
        check_names(Layout(src), Layout(dst), "reorder")


def layouts_of(src, dst) -> tuple | None:
    """What `check_same_names` compares with; None for strings, as equal strings have equal dimension names."""
    return None if type(src) is type(dst) is str else (src, dst)


def bind(call: Call, key: tuple | None) -> Bound:
    """The binding of a call on plain arrays whose elements only move; it is cached under `key`. The caller checks
    whether `out` fits."""
    decision = decide(call)
    bound, learner = decision.bound, decision.learner
    if learner is None or learner.finished:
        return bound
    return bound._replace(run=LearningCall(learner, partial(_learning_ended, key, bound, learner)))


def _learning_ended(key: tuple | None, bound: Bound, learner: Learner, best: Any) -> None:
    """Cache what runs such calls from now on."""
    plans.replace(key, bound._replace(run=best, candidate=learner.name))


class Decision(NamedTuple):
    """The binding of a call with its transfer, the name of its variant, and its learner; of those none where nothing
    moves."""

    bound: Bound
    move: Transfer | None = None
    variant: str = ""
    learner: Learner | None = None


def decide(call: Call, read_next: bool = False) -> Decision:
    """What runs a call; `read_next`: by variants that leave the result in the caches, without learning."""
    src, dst, array = layout_argument(call.src, "src"), layout_argument(call.dst, "dst"), call.array
    check_movable(array, "reorder")
    what = f"reorder {src} -> {dst}"
    box, physical, explicit = box_and_shape(call, src, dst, what)
    nbytes = nbytes_of(physical, array.dtype, what)
    pad = pad_element(call.pad_value, array.dtype, what).tobytes()
    bound = Bound(None, physical, array.dtype, nbytes, 1, what, explicit, layouts_of(call.src, call.dst))
    if not nbytes or (0 in box.shape and not box.whole):
        return Decision(bound)
    threads = useful_threads(prod(box.shape) * array.itemsize if call.at is not None else nbytes, call.threads)
    move = transfer(call, src, dst, box)
    problem = ReorderProblem.of(move, threads)
    ranked = choices(problem)
    if read_next:
        ranked = problem.read_next(ranked)
    learner = None if read_next else learner_of(problem, ranked, move, pad)
    name = learner.name if learner and learns(ranked) else aligned_choice(ranked, move)
    bound = bound._replace(run=program(move, name, pad), threads=threads, problem=problem, candidate=name)
    return Decision(bound, move, name, learner)


def transfer(call: Call, src: Layout, dst: Layout, box: Box) -> Transfer:
    """The transfer between the arrays of a call."""
    width, out = call.array.itemsize, call.out
    strides, phase = contiguous_strides(dst, box.dst_shape, width), 0
    if type(out) is np.ndarray and len(out.strides) == len(strides):
        strides, phase = out.strides, address(out) % LINE_BYTES
    return Transfer(src.dense, dst.dense, width, call.array.strides, strides, box, phase)


def box_and_shape(call: Call, src: Layout, dst: Layout, what: str, packed: Packed = NOT_PACKED):
    """The box that moves, the physical shape of the result, and its layout and shape if it has explicit strides."""
    check = pairs.check_source if packed.src else check_source
    box = Box.all_of(check(call.array, src, dst, call.shape, what))
    pairs.check_whole(packed, call.at, what)
    if call.region is not None or call.at is not None:
        box = box_of(box.shape, call.region, call.at, None if packed.dst else held_shape(call.out, dst), what)
    if packed.dst:
        return box, pairs.result_shape(call.out, dst, box.shape, what), None
    return box, dst.physical_shape(box.dst_shape), None if dst.is_dense else (dst, box.dst_shape)


def bind_conversion(call: Call) -> Bound:
    """The binding of a call on plain arrays whose numbers change."""
    src, dst, array, out = layout_argument(call.src, "src"), layout_argument(call.dst, "dst"), call.array, call.out
    what = f"reorder {src} -> {dst}"
    beta = call.numbers.beta
    t = types(array.dtype, call.numbers.dtype, what)
    box, physical, explicit = box_and_shape(call, src, dst, what, t.packed)
    t, numbers, axes = parameters(t, call.numbers, box.shape, what)
    if beta and out is None:
        raise ValueError(f"{what}: beta={beta} adds to out, and there is none")
    pad = pad_bytes(call.pad_value, t, what)
    nbytes = nbytes_of(physical, t.dtype, what)
    bound = Bound(None, physical, t.dtype, nbytes, 1, what, explicit, layouts_of(call.src, call.dst), numbers)
    if not nbytes or (0 in box.shape and not box.whole):
        return bound
    strides = contiguous_strides(dst, box.dst_shape, t.dtype.itemsize)
    if out is not None:
        check_out(out, physical, t.dtype, (array,), what)
        strides = strides if t.packed.dst else out.strides
    read = contiguous_strides(src, box.src_shape, 1) if t.packed.src else array.strides
    move = Transfer(src.dense, dst.dense, t.dtype.itemsize, read, strides, box)
    run = converter(move, t, pad, axes, beta != 0)
    threads = useful_threads(max(array.itemsize, t.dtype.itemsize) * prod(box.shape), call.threads)
    problem = conversion_key(ReorderProblem(move.src, move.dst, box.shape, array.itemsize, threads), t)
    return bound._replace(run=run, threads=threads, problem=problem, candidate=f"convert {t}")


def compiled(
    array: np.ndarray, src, dst, shape: tuple[int, ...], out: np.ndarray, threads: int, numbers: Numbers = UNCHANGED
) -> tuple[Reordering, int] | None:
    """What reorders arrays like these without Python, leaving the result in the caches, and its threads; None: there is
    nothing to move."""
    call = Call(array, src, dst, shape, out, numbers, None, None, 0, threads)
    if not numbers.change(array.dtype):
        bound = decide(call, read_next=True).bound
        return None if bound.run is None else (bound.run, bound.threads)
    bound = bind_conversion(call)
    return None if bound.run is None else (Conversion(bound.run, *bound.parameters), bound.threads)


def conversion_key(problem: ReorderProblem, t: Types) -> str:
    """The key of a reorder that converts."""
    return problem.key.replace(f"x{8 * problem.width}", f"{t}".replace(" to ", ">"))
