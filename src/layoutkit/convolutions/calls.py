"""What all convolutions share, transposed ones too: residual and workspace of a call, what a plan tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from .._core.arrays import address
from .._core.route import Epilogue, laid_out_as
from ..choosing.best import choices
from ..choosing.limits import disturbed, peak_limit
from ..choosing.plan import Plan
from ..choosing.problem import Choice, Problem
from ..choosing.threads import get_num_threads
from ..choosing.watching import Ran
from ..memory.arguments import hold
from ..memory.arrays import as_array, overlap
from ..memory.tensor import Tensor
from .epilogue import NOTHING, Operand, in_words
from .filter import Filter
from .task import PackTask
from .types import check_type
from .words import on_threads


class OverFilter:
    """What convolutions over the caller's filter have in common: what does not depend on its weights may be kept."""

    _filter: Filter
    _packed: dict
    _bound: dict

    def emptied(self) -> Self:
        """The same without a filter, to be kept: a view would keep the caller's memory."""
        return self._with(np.empty(0, self._filter.w.dtype))

    def _with(self, w: np.ndarray) -> Self:
        """The same with another filter, (O, I/groups, *k)."""
        other = object.__new__(type(self))
        other.__dict__ = self.__dict__ | {"_filter": self._filter.over(w), "_packed": {}, "_bound": {}}
        return other


def shape_asked(f: Filter, given: Any) -> tuple[int, ...]:
    """The logical shape of an input: as it is given, or that of an array or Tensor."""
    if isinstance(given, Tensor) or getattr(given, "ndim", 1) > 1:
        return f.take(given, None).shape
    try:
        return f.layout.check_shape(given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{f.what}: shape: expected an array, or a logical shape; {error}") from None


def residual(f: Filter, add, out: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, bool]:
    """`add`, a tensor like the result of logical `shape`; and whether it must be copied to `out` first."""
    what = f"{f.what}: add"
    add = _like_result(f, add, out, shape, what)
    if add.strides == out.strides:
        if address(add) == address(out) or not overlap(add, out):
            return add, False
    elif not overlap(add, out):
        return add, True
    raise ValueError(f"{what} and out share memory without being the same array")


def _like_result(f: Filter, value, out: np.ndarray, shape: tuple[int, ...], what: str) -> np.ndarray:
    """The array of a tensor like the result, of logical `shape`; raise if it is not."""
    array = hold(value, f.out_layout, shape, what).array if isinstance(value, Tensor) else as_array(value, what)
    check_type(array, f.dst_dtype, what)
    if array.shape != out.shape:
        raise ValueError(f"{what} has shape {array.shape}, expected the result's {out.shape}")
    return array


def finish(f: Filter, add, out: np.ndarray, shape: tuple[int, ...]) -> tuple[Epilogue, np.ndarray | None, bool]:
    """The epilogue of a call with its tensors, `add` unless it is one of them, and whether that must be copied to `out`
    first."""
    if add is not None and f.types.elements[3] == "s32":
        raise ValueError(f"{f.what}: results of int32 are the sums: no add follows")
    if f.sums and add is None:
        raise ValueError(f"{f.what}: activation {in_words(f.activation)} sums up with add, which was not given")
    epilogue, copied = f.epilogue or NOTHING, False
    if f.operands:
        epilogue = epilogue.over([_tensor(f, operand, add, out, shape) for operand in f.operands])
    if any(operand.value is None for operand in f.operands):
        add = None
    if add is not None:
        add, copied = residual(f, add, out, shape)
    return epilogue, add, copied


def _tensor(f: Filter, operand: Operand, add, out: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor that takes part in the epilogue, with the strides of `out`."""
    value, what = operand.value, f"{f.what}: {operand.name}"
    if value is None:
        value, what = add, f"{f.what}: add"
    array = _like_result(f, value, out, shape, what)
    same = array.strides == out.strides
    if operand.value is None and same and address(array) == address(out):
        return array
    if overlap(array, out):
        raise ValueError(f"{what} and out share memory" + " without being the same array" * (operand.value is None))
    return array if same or not out.size else laid_out_as(array, out)


def imagined(f: Filter, y: np.ndarray, add: bool) -> tuple[np.ndarray | None, Epilogue | None]:
    """For how much workspace a call needs: `add`, which may be `y`, and an epilogue with its tensors."""
    if not f.operands:
        return y if add else None, f.epilogue
    other = np.lib.stride_tricks.as_strided(np.broadcast_to(y.dtype.type(0), y.shape), y.shape, y.strides)
    epilogue = (f.epilogue or NOTHING).over([y if operand.value is None else other for operand in f.operands])
    return y if add and all(operand.value is not None for operand in f.operands) else None, epilogue


def check_workspace(
    what: str, workspace: Any, needed: int, arrays: Iterable[np.ndarray | None], epilogue: Epilogue | None
) -> None:
    """Raise unless `workspace` has the bytes that a call needs, apart from its arrays."""
    what = f"{what}: workspace"
    if not isinstance(workspace, np.ndarray) or not workspace.flags.c_contiguous or not workspace.flags.writeable:
        raise TypeError(f"{what} must be a contiguous, writeable numpy array, got {type(workspace).__name__}")
    if workspace.nbytes < needed:
        raise ValueError(f"{what} of {workspace.nbytes} bytes, this call needs {needed}")
    tensors = () if epilogue is None else epilogue.tensors
    if any(overlap(workspace, a) for a in (*arrays, *tensors) if a is not None):
        raise ValueError(f"{what} overlaps x, out or add")


def ran(what: str, task: Problem, threads: int) -> Ran:
    """What a call of an operation `what` runs by its best candidate."""
    return Ran(what, task.key, choices(task)[0].candidate.name, threads)


def ran_packing(f: Filter, packing: str) -> Ran:
    """What packs the filter of an operation."""
    return Ran("pack", PackTask(f.oc, f.ic, f.kernel, f.groups, f.types).key, packing, get_num_threads())


def plan_of(
    task: Problem,
    threads: int,
    rows: str,
    told: Callable[[Sequence[Choice], bool], Iterable[str | None]],
    what: str,
    activation: Any = None,
    **others: Any,
) -> Plan:
    """The plan of a problem of an operation `what`: its rate as a share of that of the machine on so many threads by
    kernels of type `rows`, and lines that `told` makes of the choices; `others` as of `Plan`."""
    found = choices(task)

    def facts(verbose: bool) -> Iterable[str]:
        best, words = found[0], found[0].candidate.words
        rate = task.work / best.seconds
        peak = peak_limit(rate / words.saving, threads, rows)
        if peak is None:
            share = disturbed("the FMA peak", best.source)
        else:
            share = f"{rate / peak:.0%} of the FMA peak ({peak / 1e9:.0f} GFLOP/s {on_threads(threads)}, measured now)"
        then = "" if activation is None else f", then {in_words(activation)}"
        yield f"{task.work / 1e6:.3g} MFLOP, {rate / 1e9:.1f} GFLOP/s, {share}{then}"
        if peak is not None and rate > peak and words.why:
            yield f"more than 100%: {words.why}"
        yield from filter(None, told(found, verbose))

    words = task.words if task.words.startswith(f"{what} ") else f"{what}, which is {task.words}"
    return Plan(task.key, found, facts, words=words, **others)
