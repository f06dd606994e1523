"""Tensor: an array, the layout it is in, and the logical shape it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

from ..formats import view
from ..formats.families import check_names
from ..formats.layout import Layout
from ..formats.pads import pad_mask
from ..formats.reading import read
from ..formats.written import order_of
from . import dlpack
from .arrays import as_array, check_pitches, has_pitches, lay_out, strided
from .pad_value import pad_element
from .spans import overlaps_itself

Reorder = Callable[..., np.ndarray]  # `layoutkit.reorder`


def register_reorder(reorder: Reorder) -> None:
    """Make tensors copy by `reorder`, whose package imports this one."""
    global _reorder
    _reorder = reorder


_reorder: Reorder
UNDEFINED = None  # the padding contract that promises nothing
_KEEP = object()
_set = object.__setattr__


class Tensor:
    """A logical tensor in memory of any layout. It copies only where it must, and `explain` says why.

    Operations use its layout and logical shape, and refuse arguments that contradict them. It is frozen: attributes
    cannot be assigned; the elements of its array may change.

    Parameters
    ----------
    array : array_like
        The physical array, one axis per factor of the layout, of any strides: a numpy array, or without a
        copy anything with DLPack, ``__array_interface__`` or a buffer. Where the layout has explicit strides
        it may also be the memory itself, one-dimensional.
    layout : Layout or str
        What the axes of the array are.
    shape : sequence of int, optional
        The logical shape, in logical order. By default the largest that the array holds, no pads.
    pad_value : scalar or None
        The padding contract: what the pads hold, a value of the array's type. 0 by default, as everywhere; None
        (`UNDEFINED`) promises nothing. It is believed, and kept by `to`; `check_padding` checks it.

    Raises
    ------
    TypeError, ValueError
        No array, a Tensor (it has a layout: see `to` and `array`), or array, layout, shape and pads do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = lk.Tensor(np.arange(6).reshape(1, 2, 1, 3), "NHWC")
    >>> x.shape
    (1, 3, 2, 1)
    >>> y = x.to("nChw4c")
    >>> y
    Tensor of shape (1, 3, 2, 1) in nChw4c, int64, pads 0
    >>> y.array.tolist()
    [[[[[0, 1, 2, 0]], [[3, 4, 5, 0]]]]]
    """

    __slots__ = ("array", "layout", "pad_value", "shape")
    array: np.ndarray
    layout: Layout
    shape: tuple[int, ...]
    pad_value: object

    def __init__(
        self,
        array: object,
        layout: Layout | str,
        shape: Sequence[int] | None = None,
        *,
        pad_value: object = 0,
    ) -> None:
        layout = Layout(layout)
        what = f"Tensor in {layout}"
        if isinstance(array, Tensor):
            hint = ".to gives it in another layout, .array as it lies"
            raise TypeError(f"{what}: expected an array, got {array!r}: {hint}")
        array = as_array(array, what)
        if array.ndim == 1 and shape is not None and not layout.is_dense:
            array = _over_memory(array, layout, layout.check_shape(shape))
        shape = layout.padded_shape(array.shape) if shape is None else layout.check_shape(shape)
        expected = layout.physical_shape(shape)
        if array.shape != expected:
            raise ValueError(f"{what}: shape {shape} takes an array of {expected}, got {array.shape}")
        check_pitches(array, layout, what)
        _set(self, "array", array)
        _set(self, "layout", layout)
        _set(self, "shape", shape)
        _set(self, "pad_value", _checked(pad_value, array.dtype, what))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Tensor is frozen: {name} cannot be assigned")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Tensor is frozen: {name} cannot be deleted")

    def __copy__(self) -> Tensor:
        return _restored(self.array, self.layout, self.shape, self.pad_value)

    def __reduce__(self):  # the strides of an array do not come along
        return _restored, (np.ascontiguousarray(self.array), self.layout.dense, self.shape, self.pad_value)

    @classmethod
    def from_logical(cls, array: object, layout: Layout | str | None = None) -> Tensor:
        """The tensor of an array whose axes are the logical dimensions (as torch's are), of any strides.

        Parameters
        ----------
        array : array_like, torch tensor or Tensor
            Its axes in logical order. A Tensor is given back, or as `to` gives it.
        layout : Layout or str, optional
            Of the result: a copy if it must be. By default that which the strides say (`layoutkit.read_strides` tells
            what they leave open): no copy.

        Raises
        ------
        TypeError, ValueError
            No array, strides that no layout has, or a layout of another rank.
        """
        if isinstance(array, Tensor):
            return array if layout is None else array.to(layout)
        array = as_array(array, "Tensor")
        if layout is not None:
            plain = Layout.from_factors([(d, 0) for d in range(array.ndim)])
            return cls(array, plain).to(layout)
        stored = read(array).layout
        return cls(array.transpose(order_of(stored)), stored)

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """How many logical dimensions there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements, without pads."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.array.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the elements that the memory holds, pads included."""
        return self.array.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Element strides in logical order; ValueError where a dimension has none, because it is blocked."""
        view = self.logical()
        if view is None:
            return self.layout.strides(self.shape)  # says which
        return tuple(s // self.itemsize for s in view.strides)

    def __getitem__(self, at: Any) -> Any:
        """The element at a logical index; of a plain layout any part, a view as that of `numpy`."""
        view = self.logical()
        if view is not None:
            return view[at]
        index = at if isinstance(at, tuple) else (at,)
        if len(index) != self.ndim or not all(isinstance(i, int | np.integer) for i in index):
            raise TypeError(
                f"{self!r} is blocked: expected an index of {self.ndim} integers; .numpy()[..] takes parts of a copy"
            )
        if any(not -n <= i < n for i, n in zip(index, self.shape)):
            raise IndexError(f"{self!r}: index {index} is out of bounds")
        axes = zip(self.layout.factors, self.layout.axes(self.shape))
        return self.array[tuple(index[f.dim] % self.shape[f.dim] // axis.unit % axis.extent for f, axis in axes)]

    # What numpy's arrays do and a Tensor does not: an error, rather than a silent copy in logical order.

    __array_ufunc__ = None

    def _refused(self, *_: Any) -> NoReturn:
        raise TypeError(f"{self!r} takes no part in arithmetic, comparisons and loops; .numpy() and .array are arrays")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refused
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _refused
    __neg__ = __pos__ = __abs__ = __invert__ = __and__ = __or__ = __xor__ = __lt__ = __le__ = __gt__ = __ge__ = _refused
    __iter__ = __len__ = __bool__ = __contains__ = __float__ = __int__ = _refused
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """Whether it is the same object; TypeError for arrays and other Tensors, whose elements it does not compare."""
        if other is self:
            return True
        if isinstance(other, Tensor | np.ndarray):
            self._refused()
        return NotImplemented

    @property
    def stored(self) -> Layout | None:
        """The layout with the strides that the array really has; None if no layout has them (negative)."""
        pitches: list[int | None] = []
        inner = 1
        for n, stride in zip(reversed(self.array.shape), reversed(self.array.strides)):
            step, between = divmod(stride, self.array.itemsize)
            if n > 1 and (step < 0 or between):
                return None
            pitches.append(None if n <= 1 or step == inner else step)
            inner = (inner if pitches[-1] is None else step) * max(n, 1)
        return self.layout.with_pitches(pitches[::-1])

    def explain(self, layout: Layout | str, *, pad_value: object = _KEEP) -> view.Move:
        """What `to` would do, and why, without doing it.

        Parameters
        ----------
        layout : Layout or str
            Where to.
        pad_value : scalar or None, optional
            As of `to`.

        Returns
        -------
        Move
            As of `layoutkit.explain_view`; `view` and `reason` count strides and pads of this tensor, too.
        """
        dst = Layout(layout)
        move = view.explain(self.stored or self.layout.dense, dst, self.shape)
        is_view, reason = self._why(dst, self._contract(pad_value))
        return move._replace(view=is_view, reason=reason)

    def _contract(self, pad_value: object) -> object:
        """The padding contract of a move that was asked for with `pad_value`."""
        if pad_value is _KEEP:
            return self.pad_value
        return _checked(pad_value, self.dtype, "Tensor.to")

    def _why(self, dst: Layout, contract: object) -> tuple[bool, str]:
        """(view, reason) of a move to `dst` under a padding contract."""
        stored = self.stored
        if stored is None:
            return False, f"copy: byte strides {self.array.strides} of the array are no layout's"
        is_view, reason = view.why(stored, dst, self.shape)
        if is_view and dst.full_shape(self.shape) != self.shape and not satisfies(self.pad_value, contract):
            return False, f"copy: pads are {text_of(self.pad_value)} and must become {text_of(contract)}"
        return is_view, reason

    def to(self, layout: Layout | str, *, pad_value: object = _KEEP) -> Tensor:
        """The same tensor in another layout: a view of the same memory where no byte must move, else a copy.

        Parameters
        ----------
        layout : Layout or str
            Of as many dimensions.
        pad_value : scalar or None, optional
            The padding contract of the result; by default the one at hand.

        Raises
        ------
        ValueError
            The ranks differ, or the names (`layoutkit.formats.families`); elements of the layout overlap; the dtype
            does not have the pad value.
        """
        dst = Layout(layout)
        dst.check_shape(self.shape)
        check_names(self.layout, dst, "Tensor.to")
        contract = self._contract(pad_value)
        if self._why(dst, contract)[0]:
            return Tensor(lay_out(self.array, dst, self.shape), dst, self.shape, pad_value=contract)
        if not dst.is_one_to_one(dst.full_shape(self.shape)):
            raise ValueError(f"elements of {dst} overlap on shape {self.shape}: nothing can be copied there")
        fill = 0 if contract is UNDEFINED else contract
        out = None
        if not dst.is_dense:
            memory = np.zeros(dst.required_span_size(self.shape), self.dtype)
            out = lay_out(memory, dst, self.shape)
        array = _reorder(self.array, self.layout.dense, dst.dense, shape=self.shape, out=out, pad_value=fill)
        return Tensor(array, dst, self.shape, pad_value=contract)

    def logical(self) -> np.ndarray | None:
        """The logical array as a view of the same memory; None where strides cannot express it (blocks)."""
        if self.layout.is_plain:
            return self.array.transpose(np.argsort(order_of(self.layout)))
        stored = self.stored
        try:
            strides = None if stored is None else stored.strides(self.shape)
        except ValueError:
            strides = None
        if strides is None:
            return None
        steps = [s * self.array.itemsize for s in strides]
        return strided(self.array, self.shape, steps)

    def numpy(self) -> np.ndarray:
        """The logical array: a view where strides can express it, else a copy in logical order."""
        view = self.logical()
        if view is not None:
            return view
        return self.to(Layout.from_factors([(d, 0) for d in range(self.layout.rank)])).array

    def check_padding(self) -> None:
        """Raise ValueError if a pad does not hold what the contract says, naming the first."""
        if self.pad_value is UNDEFINED:
            return
        pads = np.argwhere(pad_mask(self.layout, self.shape))
        values = self.array[tuple(pads.T)]
        value = pad_element(self.pad_value, self.dtype, repr(self))
        wrong = values == values if value != value else values != value
        if wrong.any():
            first = int(np.argmax(wrong))
            at = tuple(int(i) for i in pads[first])
            raise ValueError(f"{self!r}: pad {at} holds {values[first]}; {wrong.sum()} pads are wrong")

    def fill_padding(self, value: object = 0) -> None:
        """Write `value` to all pads, in place; it becomes the padding contract.

        The contracts of other Tensors over the same memory do not change: `check_padding` tells if they still hold.

        Parameters
        ----------
        value : scalar
            A value of the tensor's type.

        Raises
        ------
        ValueError
            The dtype does not have the value, the memory is read-only, or elements overlap.
        """
        element = pad_element(value, self.dtype, f"{self!r}: fill_padding")
        pads, array = pad_mask(self.layout, self.shape), self.array
        if pads.any():
            if not array.flags.writeable:
                raise ValueError(f"{self!r}: fill_padding: the memory is read-only")
            if overlaps_itself(array.shape, array.strides, array.itemsize):  # a pad may lie where an element does
                raise ValueError(f"{self!r}: fill_padding: elements overlap one another (strides {array.strides})")
            array[pads] = element
        _set(self, "pad_value", value)

    def __repr__(self) -> str:
        text = f"Tensor of shape {self.shape} in {self.layout}, {self.dtype}"
        return text + (f", pads {text_of(self.pad_value)}" if len(self.layout.pads(self.shape)) else "")

    # Protocols of arrays

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        view = self.logical()
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        if copy is False and (view is None or dtype != self.dtype):
            raise ValueError(f"{self!r}: the logical array as {dtype} needs a copy; .array does not")
        if view is None:
            return self.numpy().astype(dtype, copy=False)
        return view.astype(dtype, copy=bool(copy))

    def _plain(self, protocol: str) -> np.ndarray:
        view = self.logical()
        if view is None:
            raise BufferError(f"{protocol}: {self!r} is blocked; take .array, or .to a plain layout")
        return view

    def __buffer__(self, flags: int) -> memoryview:
        view = self._plain("buffer")
        if flags & 1 and not view.flags.writeable:
            raise BufferError(f"buffer: {self!r} is read-only")
        return view.data

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """The logical tensor, without a copy unless one is asked for.

        Read-only memory is exported only to consumers that know the flag for it (DLPack 1.0, ``max_version=(1, 0)``).
        Negative strides are refused, as consumers that do not expect them crash, torch among them.
        """
        view = self._plain("DLPack")
        if not copy:
            if any(n > 1 and s < 0 for n, s in zip(view.shape, view.strides)):
                raise BufferError(f"DLPack: {self!r} has negative strides {view.strides}; take a copy, or .numpy()")
            if not view.flags.writeable and (not dlpack.FLAGS or max_version is None or tuple(max_version) < (1, 0)):
                raise BufferError(f"DLPack: {self!r} is read-only, which DLPack before 1.0 cannot say; take a copy")
        asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        if not dlpack.FLAGS:
            view, asked = view.copy() if copy else view, {"stream": stream}
        return dlpack.exported(view, **{k: v for k, v in asked.items() if v is not None})

    def torch(self):
        """The logical tensor as a torch tensor of the same memory, bfloat16 and float8 too.

        Raises
        ------
        BufferError
            It is blocked, has negative strides, or is read-only: torch tensors cannot be any of these.
        """
        import torch

        if not self.array.flags.writeable:
            raise BufferError(f"torch: {self!r} is read-only, and torch tensors can be written to; take a copy")
        return torch.from_dlpack(self)


def _restored(array: np.ndarray, layout: Layout, shape: tuple[int, ...], pad_value: object) -> Tensor:
    return Tensor(array, layout, shape, pad_value=pad_value)


def _checked(pad_value: object, dtype: np.dtype, what: str) -> object:
    """`pad_value`, unchanged; ValueError if it is no value of the dtype."""
    if pad_value is not UNDEFINED and not (type(pad_value) is int and pad_value == 0):
        pad_element(pad_value, dtype, what)
    return pad_value


def text_of(contract: object) -> str:
    return "undefined" if contract is UNDEFINED else str(contract)


def satisfies(contract: object, wanted: object) -> bool:
    """Whether pads that meet the first padding contract meet the second too."""
    if contract is UNDEFINED or wanted is UNDEFINED:
        return wanted is UNDEFINED
    return bool(contract == wanted or (contract != contract and wanted != wanted))


def _over_memory(memory: np.ndarray, layout: Layout, shape: tuple[int, ...]) -> np.ndarray:
    """The physical array over one-dimensional memory, checked; `memory` itself if it is that array already."""
    if memory.shape == layout.physical_shape(shape) and has_pitches(memory, layout):
        return memory
    need = layout.required_span_size(shape)
    if need > memory.size:
        raise ValueError(f"Tensor in {layout}: shape {shape} takes {need} elements, memory has {memory.size}")
    if not memory.flags.c_contiguous:
        raise ValueError(f"Tensor in {layout}: the memory has gaps, its byte stride is {memory.strides[0]}")
    return lay_out(memory, layout, shape)
