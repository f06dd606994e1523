"""Requirements on strides, gathered from different places, and the strides that meet them (after VPUX).

For each physical dimension: any stride, compact (no gap to what lies inside), aligned (a multiple), fixed.
Joining two sets keeps exactly the strides that meet both. All sizes are in bits.

What the original does and this does not: its join asserts on a dimension that both sets have, and combines
neither two alignments (here: the least common multiple) nor an alignment with a fixed stride (here: checked);
its check without requirements accepts strides that overlap, (2, 1) for shape (2, 3); its Fixed takes logical
strides and indexes them as physical (here the types tell them apart).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd, lcm
from typing import NamedTuple

from .descriptor import DimsOrder, MemDim, MemShape, MemStrides, Shape, Strides


class Req(NamedTuple):
    """What the stride of one dimension must be: all of what is set here.

    `Compact`, `Aligned` and `Fixed` make them; no entry at all means any stride.

    Attributes
    ----------
    compact : bool
        No gap to what lies inside.
    alignment : int
        Bits that the stride is a multiple of; 1: any.
    fixed : int or None
        Bits that the stride is.
    """

    compact: bool = False
    alignment: int = 1
    fixed: int | None = None

    def join(self, other: Req, dim: MemDim) -> Req:
        """Both at once; ValueError if no stride is both.

        Parameters
        ----------
        other : Req
        dim : MemDim
            Of which both are: the error names it.
        """
        joined = Req(
            self.compact or other.compact,
            lcm(self.alignment, other.alignment),
            self.fixed if other.fixed is None else other.fixed,
        )
        if self.fixed is not None and other.fixed not in (None, self.fixed):
            raise ValueError(f"{dim!r}: fixed to {self.fixed} and to {other.fixed} bits")
        if joined.fixed is not None and joined.fixed % joined.alignment:
            raise ValueError(f"{dim!r}: fixed to {joined.fixed} bits, not aligned to {joined.alignment}")
        return joined

    def __str__(self) -> str:
        parts = ["compact"] * self.compact
        parts += [f"aligned to {self.alignment}"] * (self.alignment > 1)
        parts += [f"fixed to {self.fixed}"] * (self.fixed is not None)
        return " and ".join(parts) or "any"


ANY = Req()
Compact = Req(compact=True)


def Aligned(bits: int) -> Req:
    """A stride that is a multiple of a power of two.

    Parameters
    ----------
    bits : int
        The power of two.

    Returns
    -------
    Req

    Raises
    ------
    ValueError
        It is none.
    """
    if bits < 1 or bits & (bits - 1):
        raise ValueError(f"Aligned({bits}): expected a power of two")
    return Req(alignment=bits)


def Fixed(bits: int) -> Req:
    """Exactly this stride.

    Parameters
    ----------
    bits : int

    Returns
    -------
    Req

    Raises
    ------
    ValueError
        It is not positive.
    """
    if bits < 1:
        raise ValueError(f"Fixed({bits}): expected a positive number of bits")
    return Req(fixed=bits)


class StrideReqs:
    """A set of stride requirements: a value; adding, removing and joining give new ones.

    Parameters
    ----------
    reqs : mapping of MemDim to Req, optional
    """

    __slots__ = ("_reqs",)
    _reqs: dict[MemDim, Req]

    def __init__(self, reqs: Mapping[MemDim, Req] | None = None) -> None:
        reqs = dict(reqs or {})
        for dim, req in reqs.items():
            _check_dim(dim)
            if not isinstance(req, Req):
                raise TypeError(f"{dim!r}: expected Compact, Aligned(..) or Fixed(..), got {req!r}")
        ordered = sorted(reqs.items(), key=lambda x: x[0].ind)
        object.__setattr__(self, "_reqs", {d: r for d, r in ordered if r != ANY})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("StrideReqs is frozen")

    @classmethod
    def simple(cls, count: int) -> StrideReqs:
        """The innermost of `count` dimensions compact, the others any.

        Parameters
        ----------
        count : int
        """
        return cls({MemDim(count - 1): Compact} if count else {})

    @classmethod
    def compact(cls, count: int) -> StrideReqs:
        """All of `count` dimensions compact.

        Parameters
        ----------
        count : int
        """
        return cls({MemDim(i): Compact for i in range(count)})

    @classmethod
    def fixed(cls, strides: MemStrides | Strides, order: DimsOrder | None = None) -> StrideReqs:
        """All strides fixed; logical ones need the order.

        Parameters
        ----------
        strides : MemStrides or Strides
        order : DimsOrder, optional
            Of logical strides.
        """
        if isinstance(strides, Strides) and order is not None:
            strides = order.to_memory_order(strides)
        if not isinstance(strides, MemStrides):
            raise TypeError(f"StrideReqs.fixed takes MemStrides, or Strides and their order, got {strides!r}")
        return cls({MemDim(i): Fixed(s) for i, s in enumerate(strides)})

    def __getitem__(self, dim: MemDim) -> Req:
        _check_dim(dim)
        return self._reqs.get(dim, ANY)

    def __iter__(self) -> Iterator[MemDim]:
        return iter(self._reqs)

    def __len__(self) -> int:
        return len(self._reqs)

    def __eq__(self, other: object) -> bool:
        return self._reqs == other._reqs if isinstance(other, StrideReqs) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._reqs.items()))

    def __reduce__(self):
        return StrideReqs, (self._reqs,)

    def __repr__(self) -> str:
        return "StrideReqs{" + ", ".join(f"{d!r}: {r}" for d, r in self._reqs.items()) + "}"

    def add(self, dim: MemDim, req: Req) -> StrideReqs:
        """With one more requirement; ValueError if the dimension has one (`join` combines them).

        Parameters
        ----------
        dim : MemDim
        req : Req
            `Compact`, `Aligned` or `Fixed`.
        """
        if self[dim] != ANY:
            raise ValueError(f"{dim!r} is {self[dim]} already; join combines requirements")
        return StrideReqs({**self._reqs, dim: req})

    def remove(self, dim: MemDim) -> StrideReqs:
        """Without what is required of `dim`, if anything.

        Parameters
        ----------
        dim : MemDim
        """
        _check_dim(dim)
        return StrideReqs({d: r for d, r in self._reqs.items() if d != dim})

    def join(self, other: StrideReqs, elem_size: int | None = None, mem_shape: MemShape | None = None) -> StrideReqs:
        """What both sets require: strides meet it exactly if they meet both.

        Parameters
        ----------
        other : StrideReqs
        elem_size : int, optional
            Bits of an element.
        mem_shape : MemShape, optional
            The physical shape.

        Raises
        ------
        ValueError
            No strides do: two fixed ones differ, or one is not aligned; with `elem_size` and `mem_shape` also
            where only these make it impossible.
        """
        joined = StrideReqs({d: self[d].join(other[d], d) for d in {**self._reqs, **other._reqs}})
        if elem_size is not None and mem_shape is not None:
            joined.calc_strides(elem_size, mem_shape)
        return joined

    def calc_strides(self, elem_size: int, shape: MemShape | Shape, order: DimsOrder | None = None) -> MemStrides:
        """The smallest strides that meet the requirements, from the innermost dimension outwards.

        Parameters
        ----------
        elem_size : int
            Bits of an element.
        shape : MemShape or Shape
        order : DimsOrder, optional
            Of a logical shape.

        Raises
        ------
        ValueError
            There are none: the requirements conflict on this shape.
        """
        sizes = [max(s, 1) for s in _in_memory_order(shape, order, self, elem_size)]
        needs = self._needs(elem_size, sizes)
        strides = [0] * len(sizes)
        base = elem_size
        for k in reversed(range(len(sizes))):
            need = needs[k]
            strides[k] = -(-base // need.alignment) * need.alignment if need.fixed is None else need.fixed
            if strides[k] < base or (need.compact and strides[k] != base):
                raise ValueError(f"{MemDim(k)!r} is {need}, but what lies inside takes {base} bits")
            base = strides[k] * sizes[k]
        return MemStrides(strides)

    def _needs(self, elem_size: int, sizes: list[int]) -> list[Req]:
        """The requirements, with those that compact dimensions pass on to the next one inside."""
        needs = []
        inherited = ANY
        for k, size in zip(range(len(sizes)), [*sizes[1:], 1]):
            dim = MemDim(k)
            need = self[dim].join(inherited, dim)
            needs.append(need)
            inherited = ANY
            if need.compact:
                fixed = None
                if need.fixed is not None:
                    fixed, rest = divmod(need.fixed, size)
                    if rest:
                        raise ValueError(f"{dim!r} is {need}, which {size} elements inside do not divide")
                inherited = Req(alignment=need.alignment // gcd(need.alignment, size), fixed=fixed)
        if elem_size % inherited.alignment or inherited.fixed not in (None, elem_size):
            raise ValueError(f"{MemDim(len(sizes) - 1)!r} is {needs[-1]}, but an element takes {elem_size}")
        return needs

    def why_not(self, mem_strides: MemStrides, elem_size: int, mem_shape: MemShape) -> str | None:
        """Why strides do not meet the requirements, or None if they do; overlap never does.

        Parameters
        ----------
        mem_strides : MemStrides
            In bits.
        elem_size : int
            Bits of an element.
        mem_shape : MemShape
            The physical shape.
        """
        sizes = list(_in_memory_order(mem_shape, None, self, elem_size))
        if not isinstance(mem_strides, MemStrides):
            raise TypeError(f"expected MemStrides, got {mem_strides!r}")
        if len(mem_strides) != len(sizes):
            raise ValueError(f"{len(mem_strides)} strides for {mem_shape!r}")
        base = elem_size
        for k in reversed(range(len(sizes))):
            dim = MemDim(k)
            stride, need = mem_strides[dim], self[dim]
            if stride < base:
                return f"{dim!r}: a stride of {stride} overlaps what lies inside, {base} bits"
            if need.compact and stride != base:
                return f"{dim!r}: a stride of {stride} is not compact, {base} is"
            if stride % need.alignment:
                return f"{dim!r}: a stride of {stride} is not aligned to {need.alignment}"
            if need.fixed not in (None, stride):
                return f"{dim!r}: a stride of {stride} is not the fixed {need.fixed}"
            base = stride * max(sizes[k], 1)
        return None

    def check_strides(self, mem_strides: MemStrides, elem_size: int, mem_shape: MemShape) -> bool:
        """Whether strides meet all requirements and no two elements overlap.

        Parameters
        ----------
        mem_strides : MemStrides
            In bits.
        elem_size : int
            Bits of an element.
        mem_shape : MemShape
            The physical shape.
        """
        return self.why_not(mem_strides, elem_size, mem_shape) is None


def _check_dim(dim: object) -> None:
    if type(dim) is not MemDim:
        raise TypeError(f"StrideReqs is indexed by MemDim, not by {dim!r}")


def _in_memory_order(shape: MemShape | Shape, order: DimsOrder | None, reqs: StrideReqs, elem_size: int) -> MemShape:
    """The physical shape, once all arguments are found to fit."""
    if elem_size < 1:
        raise ValueError(f"an element of {elem_size} bits: expected a positive number")
    if isinstance(shape, Shape) and order is not None:
        shape = order.to_memory_order(shape)
    if not isinstance(shape, MemShape):
        raise TypeError(f"expected MemShape, or Shape and its order, got {shape!r}")
    for dim in reqs:
        if dim.ind >= len(shape):
            raise ValueError(f"{dim!r} has a requirement, but {shape!r} has no such dimension")
    return shape
