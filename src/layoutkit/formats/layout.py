"""Layout: how the elements of a logical tensor lie in memory.

A layout is an ordered list of *factors*, outermost first. Each factor is a whole logical dimension or
one block of it, so ``nChw16c`` is the five factors  n, C (what is left of c), h, w, 16c. An index along a
dimension is a number in a mixed radix: the whole is its most significant digit, wherever it stands, and its blocks
follow from left to right. So ``n 2h 2w c h w`` is space-to-depth: neighbours along h lie a quarter of an image apart.
The physical array that holds a tensor has one axis per factor. Sizes and strides of the logical tensor
are always given in logical order (N C [D] H W; O I [D] H W), whatever the layout.

A layout knows no shape. Given one, it is a map from logical index to element offset, a sum over the
dimensions, and the questions below are answered exactly by `layoutkit.algebra`, in integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import index
from typing import TYPE_CHECKING, NamedTuple

from . import algebra, notation
from .algebra import Map, Mode
from .describe import describe
from .families import Family, family_of
from .pads import Pads
from .strides import of_strides
from .written import ALPHABET, Factor, block_of, digits_of, is_dense, is_plain, units_of

if TYPE_CHECKING:
    from .drawing import Drawing


class Axis(NamedTuple):
    """A factor on an exact shape: axis digit x stands for logical index ``unit * x`` along ``dim``.

    Attributes
    ----------
    dim : int
        The dimension, in logical order.
    unit : int
        Elements of the dimension from one index along the axis to the next.
    extent : int
        Size of the axis.
    """

    dim: int
    unit: int
    extent: int


class Layout:
    """A memory format: a value, frozen and hashable, equal when it means the same.

    ``layout == "NHWC"`` holds too; as with numpy's dtypes, texts are not found in sets and dictionaries of layouts.

    Parameters
    ----------
    text : str, int or Layout
        Any written form: a tag, abstract (``"aBcd16b"``) or named (``"nChw16c"``, ``"NHWC"``), text for
        people (``"n c h w 16c"``), an affine map, a DimsOrder code (``0x1342``), a MACE buffer type
        (``"mace:in_out_channel"``); with explicit strides where it is not dense
        (``"nhwc:(*,4096,64,1)"``). See `layoutkit.formats.notation`.

    Attributes
    ----------
    factors : tuple of Factor
        The physical axes, outermost first.
    pitches : tuple of (int or None)
        The explicit element stride of each factor; None where it follows from the axes inside, as if dense.
    rank : int
        How many logical dimensions it has.
    dims : tuple of str
        Their names in logical order, as they were written: no part of equality.
    family : Family or None
        What those names are of, if they are those of activations, filters, .. and were given as such: no part of
        equality either, but operations refuse what they are not about (`layoutkit.formats.families`). Read back from
        strides or from a DimsOrder code, names are for people only.

    Raises
    ------
    ValueError
        The text is not a format; the message says what is wrong and where.
    """

    __slots__ = ("_hash", "dims", "factors", "family", "pitches", "rank")
    _hash: int
    family: Family | None
    factors: tuple[Factor, ...]
    pitches: tuple[int | None, ...]
    rank: int
    dims: tuple[str, ...]

    def __new__(cls, text: str | int | Layout) -> Layout:
        return text if isinstance(text, Layout) else _read(text)

    @classmethod
    def from_factors(
        cls,
        factors: Sequence[tuple[int, int]],
        pitches: Sequence[int | None] | None = None,
        dims: Sequence[str] | None = None,
        named: bool = True,
    ) -> Layout:
        """Build from (dim, size) pairs, outermost first; exactly one size-0 factor per dimension.

        Parameters
        ----------
        factors : sequence of (int, int)
            Dimension, and block size in elements; 0 is all that remains of the dimension.
        pitches : sequence of (int or None), optional
            The explicit element stride of each factor; None where it follows from the axes inside.
        dims : sequence of str, optional
            Names of the dimensions in logical order; ``a``, ``b``, .. by default.
        named : bool
            Whether `dims` say what the dimensions are; else they are for people only.

        Raises
        ------
        TypeError
            Factors are no pairs of integers, or strides no integers.
        ValueError
            A dimension is missing or is whole twice, a number is negative, or there are not as many strides as factors
            or names as dimensions.
        """
        self = object.__new__(cls)
        try:
            fs = tuple(Factor(index(d), index(s)) for d, s in factors)
        except (TypeError, ValueError):
            raise TypeError(f"Layout: expected factors as pairs of integers (dim, size), got {factors!r}") from None
        rank = 1 + max((f.dim for f in fs), default=-1)
        whole = sorted(f.dim for f in fs if f.size == 0)
        if whole != list(range(rank)):
            raise ValueError(f"Layout: dimensions {whole} given once each as a whole, expected 0..{rank - 1}")
        for f in fs:
            if f.size < 0:
                raise ValueError(f"Layout: block size {f.size} of dimension {f.dim} must be positive")
        strides = (None,) * len(fs) if pitches is None else tuple(pitches)
        try:
            strides = tuple(None if p is None else index(p) for p in strides)
        except TypeError:
            raise TypeError(f"Layout: expected strides that are integers or None, got {strides}") from None
        if len(strides) != len(fs):
            raise ValueError(f"Layout: {len(strides)} strides given for {len(fs)} physical axes")
        if any(p is not None and p < 0 for p in strides):
            raise ValueError(f"Layout: a stride is negative in {strides}")
        if dims is None:
            dims = ALPHABET[:rank] if rank <= len(ALPHABET) else [f"d{i}" for i in range(rank)]
        if len(dims) != rank:
            raise ValueError(f"Layout: {len(dims)} names {tuple(dims)} for {rank} dimensions")
        object.__setattr__(self, "factors", fs)
        object.__setattr__(self, "pitches", strides)
        object.__setattr__(self, "rank", rank)
        object.__setattr__(self, "dims", tuple(dims))
        object.__setattr__(self, "family", family_of(self.dims) if named else None)
        object.__setattr__(self, "_hash", hash((fs, strides)))
        return self

    @classmethod
    def from_strides(cls, shape: Sequence[int], strides: Sequence[int]) -> Layout:
        """The plain layout that has these element strides (logical order) on `shape`, dense if it can be.

        `layoutkit.read_strides` also says what the strides leave open: where dimensions of size 1 stand.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        strides : sequence of int
            In elements, one for each dimension.

        Raises
        ------
        TypeError, ValueError
            Lengths differ, or a number is negative or no integer.
        """
        return cls.from_factors(*of_strides(shape, strides)[0])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Layout is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("Layout is frozen")

    def __eq__(self, other: object) -> bool:
        """Whether both mean the same; `other` may be a text, which must be a format."""
        if isinstance(other, str):
            other = Layout(other)
        if not isinstance(other, Layout):
            return NotImplemented
        return self.factors == other.factors and self.pitches == other.pitches

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self):
        return Layout.from_factors, (self.factors, self.pitches, self.dims, self.family is not None)

    @property
    def tag(self) -> str:
        """The canonical abstract tag, such as ``"acdb"`` or ``"aBcd16b"``."""
        return notation.abstract_tag(self)

    def __str__(self) -> str:
        return notation.name(self)

    def __repr__(self) -> str:
        return f"Layout({str(self) if self.is_plain else notation.spaced(self)!r})"

    # What it is, whatever the shape

    @property
    def is_plain(self) -> bool:
        """Whether no dimension is blocked: a permutation, and one stride a dimension."""
        return is_plain(self)

    @property
    def is_dense(self) -> bool:
        """Whether all strides follow from the shape."""
        return is_dense(self)

    @property
    def dense(self) -> Layout:
        """The same factors without explicit strides."""
        return self if self.is_dense else self.with_pitches(None)

    def with_pitches(self, pitches: Sequence[int | None] | None) -> Layout:
        """The same factors with these explicit strides.

        Parameters
        ----------
        pitches : sequence of (int or None), or None
            The element stride of each factor, outermost first; None where it follows from the axes inside.
        """
        return Layout.from_factors(self.factors, pitches, self.dims, self.family is not None)

    def block(self, dim: int) -> int:
        """The number that dimension `dim` is padded up to a multiple of (1: not blocked).

        Parameters
        ----------
        dim : int
            In logical order.
        """
        return block_of(self, dim)

    def compose(self, other: Layout | str) -> Layout:
        """`other` laid over the physical axes of this layout; ``Layout("nchw")`` is neutral on the left.

        offset(i) of the result is other.offset(p) where p is the physical index of i in this layout. So
        ``Layout("nChw16c").compose("abdce")`` swaps its axes h and w: ``nCwh16c``.

        Parameters
        ----------
        other : str or Layout
            Of as many dimensions as this layout has factors.

        Raises
        ------
        ValueError
            Ranks do not meet, this layout has explicit strides, or the outcome is no blocked layout: a block
            cut by what does not divide it, or put outside a factor of its dimension that it lay inside.
        """
        other = Layout(other)
        if other.rank != len(self.factors):
            raise ValueError(f"{self} has {len(self.factors)} physical axes, {other} orders {other.rank}")
        if not self.is_dense:
            raise ValueError(f"compose: {self} has explicit strides; only the outer layout may")
        factors = []
        rank = {axis: k for dim in range(self.rank) for k, axis in enumerate(self.digits(dim))}
        last = [(0, False)] * self.rank  # of each dimension, how insignificant the last block was
        for axis, size in other.factors:
            dim, whole = self.factors[axis]
            if whole or size:  # the whole of a dimension may stand anywhere
                if (rank[axis], size > 0) < last[dim]:
                    raise ValueError(f"compose: {other} turns blocks of {self.dims[dim]} in {self} inside out")
                last[dim] = rank[axis], size > 0
            if size == 0 and whole:
                size, rest = divmod(whole, other.block(axis))
                if rest:
                    cut = other.block(axis)
                    raise ValueError(f"compose: {other} cuts the block of {whole} in {self} by {cut}")
            factors.append((dim, size))
        return Layout.from_factors(factors, other.pitches, self.dims, self.family is not None)

    def digits(self, dim: int) -> tuple[int, ...]:
        """The physical axes of dimension `dim`, most significant first: the whole, then its blocks left to right.

        Parameters
        ----------
        dim : int
            In logical order.
        """
        return digits_of(self, dim)

    # On an exact shape

    def check_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """`shape` as a tuple of ints, or an error naming this layout.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.

        Raises
        ------
        TypeError, ValueError
            Sizes are no integers or negative, or not as many as there are dimensions.
        """
        shape = self._integers(shape, "a shape")
        if len(shape) != self.rank:
            raise ValueError(f"layout {self} has {self.rank} dimensions, shape {shape} has {len(shape)}")
        if shape and min(shape) < 0:
            raise ValueError(f"layout {self}: negative size in shape {shape}")
        return shape

    def _integers(self, values: Sequence[int], name: str) -> tuple[int, ...]:
        try:
            return tuple(map(index, values))
        except TypeError:
            raise TypeError(f"layout {self}: expected {name} of integers, got {values!r}") from None

    def axes(self, shape: Sequence[int]) -> tuple[Axis, ...]:
        """The factors on an exact logical shape, outermost first.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        shape = self.check_shape(shape)
        return tuple([Axis(dim, unit, size or -(-shape[dim] // unit)) for dim, unit, size in units_of(self.factors)])

    def axis_strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Element stride of each physical axis, outermost first; an empty axis counts as one of size 1.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        shape = self.check_shape(shape)
        strides = []
        stride = 1
        for (dim, unit, size), pitch in zip(reversed(units_of(self.factors)), reversed(self.pitches)):
            stride = stride if pitch is None else pitch
            strides.append(stride)
            stride *= max(size or -(-shape[dim] // unit), 1)
        return tuple(reversed(strides))

    def physical_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Shape of the array that holds a tensor of logical `shape`, padding included.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        if self.is_plain:
            shape = self.check_shape(shape)
            return tuple([shape[dim] for dim, _ in self.factors])
        return tuple([a.extent for a in self.axes(shape)])

    def padded_shape(self, physical: Sequence[int]) -> tuple[int, ...]:
        """The largest logical shape that an array of shape `physical` holds.

        Parameters
        ----------
        physical : sequence of int
            Size of each physical axis, outermost first.

        Raises
        ------
        TypeError, ValueError
            Sizes are no integers, not as many as there are factors, or one of a block is not the block's.
        """
        physical = self._integers(physical, "a physical shape")
        if len(physical) != len(self.factors):
            raise ValueError(f"layout {self} is held by an array of {len(self.factors)} axes, got shape {physical}")
        shape = [1] * self.rank
        for (dim, size), extent in zip(self.factors, physical):
            if size and extent != size:
                raise ValueError(f"layout {self}: block axis of {size} has size {extent} in shape {physical}")
            shape[dim] *= extent
        return tuple(shape)

    def full_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The logical shape with its padding: every dimension rounded up to its blocks.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        return self.padded_shape(self.physical_shape(shape))

    def modes(self, shape: Sequence[int]) -> tuple[Map, ...]:
        """One map per logical dimension; the offset of an index is the sum of what each says of its part.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        modes = [Mode(a.extent, stride) for a, stride in zip(self.axes(shape), self.axis_strides(shape))]
        return tuple([tuple([modes[k] for k in self.digits(dim)]) for dim in range(self.rank)])

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Element strides in logical order.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.

        Raises
        ------
        ValueError
            A dimension has none: it is blocked, and on this shape takes more than one of its factors.
        """
        out = []
        for dim, (size, m) in enumerate(zip(self.check_shape(shape), self.modes(shape))):
            taken = algebra.restrict(m, size) or m[-1:]
            if len(taken) > 1:
                spelled = " and ".join(str(s) for _, s in taken)
                raise ValueError(
                    f"layout {self} on shape {tuple(shape)}: dimension {self.dims[dim]} is blocked: "
                    f"its strides are {spelled}"
                )
            out.append(taken[0].stride)
        return tuple(out)

    def offset(self, at: Sequence[int], shape: Sequence[int]) -> int:
        """Element offset of the logical index `at`.

        Parameters
        ----------
        at : sequence of int
            One index for each dimension, not negative.
        shape : sequence of int
            The logical shape.

        Raises
        ------
        ValueError
            `at` lies outside `shape`.
        """
        shape, at = self.check_shape(shape), self._integers(at, "an index")
        if len(at) != self.rank or any(not 0 <= i < s for i, s in zip(at, shape)):
            raise ValueError(f"layout {self}: index {at} lies outside shape {shape}")
        return sum(algebra.apply(m, i) for m, i in zip(self.modes(shape), at))

    def index(self, offset: int, shape: Sequence[int]) -> tuple[int, ...] | None:
        """The logical index at element `offset`, or None where there is none: a pad, a gap, beyond the end.

        Where layouts overlap (explicit strides), the first in logical order.

        Parameters
        ----------
        offset : int
            In elements.
        shape : sequence of int
            The logical shape.
        """
        shape = self.check_shape(shape)
        axes = self.axes(shape)
        steps = [(0, a.extent - 1, s) for a, s in zip(axes, self.axis_strides(shape))]
        indices = []
        for digits in algebra.solutions(steps, index(offset)):
            at = [0] * self.rank
            for (dim, unit, _), digit in zip(axes, digits):
                at[dim] += unit * digit
            if all(i < s for i, s in zip(at, shape)):
                indices.append(tuple(at))
        return min(indices, default=None)

    def map(self, shape: Sequence[int]) -> Map:
        """The layout as one map: flat (row-major) index of the padded shape -> element offset.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        return tuple(mode for m in self.modes(shape) for mode in m)

    def coalesce(self, shape: Sequence[int]) -> Map:
        """`map` with the fewest modes: equal for two layouts of equal padding iff they lie alike.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        return algebra.coalesce(self.map(shape))

    def inverse(self, shape: Sequence[int]) -> Map:
        """The map from element offset to the flat (row-major) index of the padded shape.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.

        Raises
        ------
        ValueError
            Explicit strides leave gaps or overlap; ask `index` of single offsets.
        """
        return algebra.inverse(self.map(shape))

    def divide(self, shape: Sequence[int], tile: Sequence[int]) -> tuple[tuple[Map, ...], tuple[Map, ...]]:
        """(tiles, inside), one map per dimension each: offset = sum of tiles[d](i // t) + inside[d](i % t).

        What a loop over tiles needs: a start for each tile, and one way through all of them. Tiles may hang
        over the end of the shape.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        tile : sequence of int
            Size of a tile along each dimension, in elements.

        Raises
        ------
        ValueError
            A tile ends inside a block that it does not divide.
        """
        tile = self.check_shape(tile)
        pairs = []
        for dim, (m, t) in enumerate(zip(self.modes(shape), tile)):
            try:
                pairs.append(algebra.split(m, t))
            except ValueError as e:
                raise ValueError(f"layout {self}, tile {tile}, dimension {self.dims[dim]}: {e}") from None
        return tuple(outer for outer, _ in pairs), tuple(inner for _, inner in pairs)

    def refine(self, other: Layout | str, shape: Sequence[int]) -> tuple[tuple[Axis, int, int], ...]:
        """Both layouts cut into common factors: (axis, stride here, stride there), dimension by dimension.

        Sums of digit x stride give the offset of every logical index in either; digits of extent 1 are left
        out. The outermost digit of a padded dimension reaches past the shape. Loops of a reorder.

        Parameters
        ----------
        other : str or Layout
            Of as many dimensions.
        shape : sequence of int
            The logical shape.

        Raises
        ------
        ValueError
            Blocks of a dimension have no common factors, as 16 and 12.
        """
        shape = self.check_shape(shape)
        other = Layout(other)
        out = []
        for dim, (a, b, size) in enumerate(zip(self.modes(shape), other.modes(shape), shape)):
            try:
                mine, others = algebra.refine(a, b, size)
            except ValueError as e:
                raise ValueError(f"{self} and {other} on {shape}, dimension {self.dims[dim]}: {e}") from None
            for (extent, stride), (_, stride_there), unit in zip(mine, others, algebra.units(mine)):
                out.append((Axis(dim, unit, extent), stride, stride_there))
        return tuple(out)

    def required_span_size(self, shape: Sequence[int]) -> int:
        """How many elements the memory has, pads and gaps included: 1 + the largest offset, or 0.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        return algebra.span(self.map(shape))

    def equivalent(self, other: Layout | str, shape: Sequence[int]) -> bool:
        """Whether both put every logical element of `shape` at the same offset. Exact; pads do not count.

        Parameters
        ----------
        other : str or Layout
        shape : sequence of int
            The logical shape.
        """
        other = Layout(other)
        shape = self.check_shape(shape)
        if 0 in shape:
            return other.rank == self.rank
        return all(
            algebra.restrict(a, n) == algebra.restrict(b, n)
            for a, b, n in zip(self.modes(shape), other.modes(shape), shape)
        )

    def is_one_to_one(self, shape: Sequence[int]) -> bool:
        """Whether no two logical elements share an offset. Exact for any explicit strides.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        shape = self.check_shape(shape)
        if self.is_dense or 0 in shape:
            return True
        axes = self.axes(shape)
        steps = [(1 - a.extent, a.extent - 1, s) for a, s in zip(axes, self.axis_strides(shape))]
        return not any(any(d) and _is_step(axes, d, shape) for d in algebra.solutions(steps, 0))

    def is_exhaustive(self, shape: Sequence[int]) -> bool:
        """Whether every element of the memory is a logical one: no pads, no gaps.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        shape = self.check_shape(shape)
        span = self.required_span_size(shape)
        if self.is_one_to_one(shape):
            return prod(shape) == span
        return all(self.index(x, shape) is not None for x in range(span))

    def describe(self, shape: Sequence[int]) -> str:
        """A table for people: each physical axis with its extent and stride, and what the memory holds.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.
        """
        return describe(self, shape)

    def draw(self, shape: Sequence[int]) -> Drawing:
        """A picture of the memory: where each element lies, pads, strides. Text when printed, SVG in notebooks.

        Parameters
        ----------
        shape : sequence of int
            The logical shape; a small one shows most.

        Returns
        -------
        Drawing
            Of at most 24 rows of 32 elements. ``.save("picture.svg")`` writes it to a file.

        Raises
        ------
        TypeError, ValueError
            As `check_shape`.

        Examples
        --------
        >>> import layoutkit as lk
        >>> print(lk.Layout("NHWC").draw((1, 3, 1, 2)))
        NHWC, acdb: n h w c, outermost first
        on (1, 3, 1, 2): 6 elements of memory, 6 of the tensor, 0 pads, 0 unused
        axis  extent  stride
        n          1       6
        h          1       6
        w          2       3
        c          3       1
        memory, c across; numbers are elements in the order n c h w, . is a pad
        at 0  w0  0 2 4
        at 3  w1  1 3 5
        """
        from .drawing import Drawing  # importing layoutkit stays cheap

        return Drawing(self, shape)

    def pads(self, shape: Sequence[int]) -> Pads:
        """The exact set of offsets that belong to the padded shape only.

        Parameters
        ----------
        shape : sequence of int
            The logical shape.

        Returns
        -------
        collections.abc.Set of int
            Offsets in elements; made as they are asked for.
        """
        return Pads(self, self.check_shape(shape))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Layout:
    return Layout.from_factors(*notation.parse(text))


def _read(text: str | int) -> Layout:
    return _parsed(text) if type(text) is str else Layout.from_factors(*notation.parse(text))


def _is_step(axes: Sequence[Axis], digits: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether some two logical elements of `shape` differ by `digits`: then the least two that do exist."""
    for dim, size in enumerate(shape):
        of_dim = [(a.unit, d) for a, d in zip(axes, digits) if a.dim == dim]
        if max(sum(u * max(d, 0) for u, d in of_dim), sum(u * max(-d, 0) for u, d in of_dim)) >= size:
            return False
    return True
