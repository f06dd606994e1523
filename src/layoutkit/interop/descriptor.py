"""Tensor descriptors after VPUX: logical and physical dimensions that refuse each other's place.

A `Dim` is a logical dimension, fixed in meaning (N C H W); a `MemDim` is a physical one, MemDim(0) the
outermost. Neither is a number: no arithmetic, no implicit conversion, only ``.ind``. Shapes and strides come
in both kinds, each indexed by its own dimensions only. A `DimsOrder` turns one kind into the other.

Strides here are in bits, so that types below a byte have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import ClassVar, overload

from ..formats import notation
from ..formats.affine import affine_map, parse_affine
from ..formats.layout import Layout
from ..formats.written import order_of

BYTE = 8


class _Index:
    """A dimension's index: equal to its own kind only."""

    __slots__ = ("ind",)
    ind: int

    def __init__(self, ind: int) -> None:
        if isinstance(ind, bool) or not isinstance(ind, int):
            raise TypeError(f"{type(self).__name__}: expected an integer, got {type(ind).__name__}")
        if ind < 0:
            raise ValueError(f"{type(self).__name__}({ind}): must not be negative")
        object.__setattr__(self, "ind", ind)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return self.ind == other.ind if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self.ind))

    def __reduce__(self):
        return type(self), (self.ind,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ind})"


class Dim(_Index):
    """A logical dimension.

    Parameters
    ----------
    ind : int
        Its place in logical order.
    """

    __slots__ = ()


class MemDim(_Index):
    """A physical dimension, counted from the outermost.

    Parameters
    ----------
    ind : int
        Its place in memory, 0 the outermost.
    """

    __slots__ = ()


class _PerDim:
    """One number for each dimension, indexed by dimensions of one kind."""

    __slots__ = ("_values",)
    key: ClassVar[type[_Index]]
    _values: tuple[int, ...]

    def __init__(self, values: Iterable[int]) -> None:
        values = tuple(int(v) for v in values)
        if any(v < 0 for v in values):
            raise ValueError(f"{type(self).__name__}{values}: must not be negative")
        object.__setattr__(self, "_values", values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __getitem__(self, dim: _Index) -> int:
        if type(dim) is not self.key:
            raise TypeError(f"{type(self).__name__} is indexed by {self.key.__name__}, not by {dim!r}")
        if dim.ind >= len(self._values):
            raise IndexError(f"{dim!r} is out of range of {self!r}")
        return self._values[dim.ind]

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._values))

    def __reduce__(self):
        return type(self), (self._values,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values})"


class Shape(_PerDim):
    """Sizes of the logical dimensions.

    Parameters
    ----------
    values : iterable of int
    """

    __slots__ = ()
    key = Dim


class MemShape(_PerDim):
    """Sizes of the physical dimensions, outermost first.

    Parameters
    ----------
    values : iterable of int
    """

    __slots__ = ()
    key = MemDim


class Strides(_PerDim):
    """Strides of the logical dimensions, in bits.

    Parameters
    ----------
    values : iterable of int
    """

    __slots__ = ()
    key = Dim


class MemStrides(_PerDim):
    """Strides of the physical dimensions, in bits, outermost first.

    Parameters
    ----------
    values : iterable of int
    """

    __slots__ = ()
    key = MemDim


_TO_MEMORY: dict[type, type] = {Shape: MemShape, Strides: MemStrides}
_TO_LOGICAL = {mem: logical for logical, mem in _TO_MEMORY.items()}


class DimsOrder:
    """An order of dimensions as one integer: four bits a dimension, its index + 1, outermost in the highest.

    Parameters
    ----------
    code : int
        ``0x1342`` is NHWC; 0 the order of a scalar.

    Raises
    ------
    ValueError
        The digits are not 1..n, each once, or more than 15. VPUX lets 0x13 and 0x2 through; here they are
        refused.
    """

    __slots__ = ("code", "layout")
    code: int
    layout: Layout

    def __init__(self, code: int) -> None:
        try:
            code = index(code)
        except TypeError:
            hint = f"; DimsOrder.from_layout({code!r}) reads texts" if isinstance(code, str) else ""
            raise TypeError(f"DimsOrder: code: expected an integer such as 0x1342, got {code!r}{hint}") from None
        object.__setattr__(self, "layout", Layout.from_factors(*notation.from_code(code)))
        object.__setattr__(self, "code", code)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("DimsOrder is frozen")

    @classmethod
    def from_code(cls, code: int) -> DimsOrder:
        """The order of a code.

        Parameters
        ----------
        code : int
            As ``0x1342``.
        """
        return cls(code)

    @classmethod
    def from_num_dims(cls, count: int) -> DimsOrder:
        """The identity: logical order.

        Parameters
        ----------
        count : int
        """
        return cls.from_permutation([Dim(i) for i in range(count)])

    @classmethod
    def from_permutation(cls, dims: Sequence[Dim]) -> DimsOrder:
        """The order that has these dimensions, outermost first; ValueError if they are no permutation.

        Parameters
        ----------
        dims : sequence of Dim
            Outermost first.
        """
        for dim in dims:
            if type(dim) is not Dim:
                raise TypeError(f"DimsOrder.from_permutation takes Dims, got {dim!r}")
        order = [d.ind for d in dims]
        if sorted(order) != list(range(len(order))):
            raise ValueError(f"DimsOrder: {tuple(order)} is no permutation of 0..{len(order) - 1}")
        return cls.from_layout(Layout.from_factors([(d, 0) for d in order]))

    @classmethod
    def from_layout(cls, layout: Layout | str) -> DimsOrder:
        """The order of a plain layout, in any written form; ValueError if it is blocked or strided.

        Parameters
        ----------
        layout : str or Layout
            Plain and dense.
        """
        return cls(notation.code(Layout(layout)))

    @classmethod
    def from_affine_map(cls, text: str) -> DimsOrder:
        """The order of a permutation map, such as ``(d0, d1) -> (d1, d0)``.

        Parameters
        ----------
        text : str
            In MLIR's syntax.
        """
        return cls.from_layout(Layout.from_factors(*parse_affine(text)))

    @classmethod
    def from_strides(cls, strides: Strides) -> DimsOrder:
        """The order of falling strides; equal ones (sizes of 1 make them) stay in logical order.

        Parameters
        ----------
        strides : Strides
        """
        dims = sorted((Dim(i) for i in range(len(strides))), key=lambda d: -strides[d])
        return cls.from_permutation(dims)

    def to_affine_map(self) -> str:
        """The permutation map, in MLIR's text."""
        return affine_map(self.layout)

    @property
    def num_dims(self) -> int:
        """How many dimensions it orders."""
        return self.layout.rank

    def to_permutation(self) -> tuple[Dim, ...]:
        """The dimensions, outermost first."""
        return tuple(Dim(d) for d in order_of(self.layout))

    def has_dim(self, dim: Dim) -> bool:
        """Whether it orders `dim`.

        Parameters
        ----------
        dim : Dim
        """
        return dim in self.to_permutation()

    def dim_pos(self, dim: Dim) -> int:
        """The position of a logical dimension, 0 for the outermost.

        Parameters
        ----------
        dim : Dim
        """
        return self.to_mem_dim(dim).ind

    def dim_at(self, pos: int) -> Dim:
        """The logical dimension at a position.

        Parameters
        ----------
        pos : int
            0 for the outermost.
        """
        return self.to_dim(MemDim(pos))

    def to_mem_dim(self, dim: Dim) -> MemDim:
        """The physical place of a logical dimension.

        Parameters
        ----------
        dim : Dim
        """
        if type(dim) is not Dim:
            raise TypeError(f"DimsOrder.to_mem_dim takes a Dim, got {dim!r}")
        dims = self.to_permutation()
        if dim not in dims:
            raise ValueError(f"{self!r} has no {dim!r}")
        return MemDim(dims.index(dim))

    def to_dim(self, dim: MemDim) -> Dim:
        """The logical dimension at a physical place.

        Parameters
        ----------
        dim : MemDim
        """
        if type(dim) is not MemDim:
            raise TypeError(f"DimsOrder.to_dim takes a MemDim, got {dim!r}")
        if dim.ind >= self.num_dims:
            raise ValueError(f"{self!r} has no {dim!r}")
        return self.to_permutation()[dim.ind]

    @overload
    def to_memory_order(self, values: Shape) -> MemShape: ...

    @overload
    def to_memory_order(self, values: Strides) -> MemStrides: ...

    def to_memory_order(self, values: Shape | Strides) -> MemShape | MemStrides:
        """A logical shape or strides in physical order.

        Parameters
        ----------
        values : Shape or Strides
        """
        kind = _TO_MEMORY.get(type(values))
        if kind is None:
            raise TypeError(f"DimsOrder.to_memory_order takes Shape or Strides, got {values!r}")
        self.check_count(values)
        return kind(values[d] for d in self.to_permutation())

    @overload
    def to_logical_order(self, values: MemShape) -> Shape: ...

    @overload
    def to_logical_order(self, values: MemStrides) -> Strides: ...

    def to_logical_order(self, values: MemShape | MemStrides) -> Shape | Strides:
        """A physical shape or strides in logical order.

        Parameters
        ----------
        values : MemShape or MemStrides
        """
        kind = _TO_LOGICAL.get(type(values))
        if kind is None:
            raise TypeError(f"DimsOrder.to_logical_order takes MemShape or MemStrides, got {values!r}")
        self.check_count(values)
        return kind(values[self.to_mem_dim(Dim(i))] for i in range(self.num_dims))

    def check_count(self, values: _PerDim) -> None:
        """ValueError unless there is one number for each dimension.

        Parameters
        ----------
        values : Shape, MemShape, Strides or MemStrides
        """
        if len(values) != self.num_dims:
            raise ValueError(f"{self!r} orders {self.num_dims} dimensions, got {values!r}")

    @property
    def is_identity(self) -> bool:
        """Whether physical order is logical order."""
        return order_of(self.layout) == tuple(range(self.num_dims))

    def is_compatible_layout(self, strides: Strides) -> bool:
        """Whether strides may be of this order: as many, and none larger than one outside it.

        Parameters
        ----------
        strides : Strides
        """
        if len(strides) != self.num_dims:
            return False
        ordered = list(self.to_memory_order(strides))
        return ordered == sorted(ordered, reverse=True)

    @property
    def canonical_name(self) -> str:
        """``"NHWC"``, ..; ``""`` if it has none; ``"SCALAR"`` for no dimensions. A code has one name."""
        return _NAMES.get(self.code, "")

    def __eq__(self, other: object) -> bool:
        return self.code == other.code if isinstance(other, DimsOrder) else NotImplemented

    def __hash__(self) -> int:
        return hash((DimsOrder, self.code))

    def __reduce__(self):
        return DimsOrder, (self.code,)

    def __str__(self) -> str:
        return self.canonical_name or str(tuple(d.ind for d in self.to_permutation()))

    def __repr__(self) -> str:
        return f"DimsOrder({self.code:#x})"


_NAMES = {0: "SCALAR"} | {
    notation.code(Layout(text)): text
    for text in ("C", "NC", "CHW", "HWC", "HCW", "NCHW", "NHWC", "NHCW", "NCDHW", "NDHWC", "YXOI")
}


def layout_of(order: DimsOrder, strides: MemStrides, elem_size: int) -> Layout:
    """The layout of this order and these strides; `elem_size` in bits.

    Raises
    ------
    ValueError
        A stride is no multiple of the element.
    """
    order.check_count(strides)
    if any(s % elem_size for s in strides):
        raise ValueError(f"{strides!r}: not all are multiples of an element of {elem_size} bits")
    pitches = [s // elem_size for s in strides]
    return order.layout.with_pitches(pitches)
