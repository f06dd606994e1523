"""A filter, its bias and the attributes of a convolution: checked, in the order O I .., and what its values allow."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from .._core.runtime.arrays import strides_key
from ..choosing.cache import plans
from ..choosing.threads import at_most, get_num_threads
from ..formats.families import check_meaning, meaning_of_activations, meaning_of_filters
from ..formats.layout import Layout
from ..formats.nearest import none_of
from ..memory.arguments import Argument, logical, tensor_argument
from ..memory.arrays import as_array, shape_held
from ..memory.faults import Faults
from ..memory.tensor import Tensor
from ..reorders.convert import LIMITS
from ..reorders.reorder import reorder
from .algorithms import AUTO, NAMES
from .algorithms.bf16x import has_components
from .algorithms.winograd import has_transforms
from .attributes import FilterAttributes
from .border import MODES, OTHER_NAMES, SYNONYMS, Border, border_of
from .epilogue import parse, with_own_array
from .filter_values import IntegerTraits, Traits, integer_traits, quick_traits, traits
from .hints import lacks_channels, other_layout, other_order
from .order import reproducible
from .problem import ACCURACIES, ACCURACY_SYNONYMS, MAX_SIZE, ConvProblem, Pairs, pad_pairs, per_axis
from .types import F32, ArrayTypes, check_type, converted, types_of

_OIHW = {rank: Layout("abcde"[: rank + 2]) for rank in (1, 2, 3)}  # the order that packing takes filters in


class CheckedAttributes:
    """The attributes of a convolution, checked once for all calls with the same ones.

    Parameters
    ----------
    what : str
        The operation, for errors.
    rank : int
        How many spatial axes it has.
    w : Argument
        A filter of such convolutions: its type, layout and shape count.
    a : FilterAttributes
    """

    def __init__(self, what: str, rank: int, w: Argument, a: FilterAttributes) -> None:
        self.what = what
        self.layout_defaulted = a.layout is None and a.out_layout is None
        activations = meaning_of_activations(rank)
        self.given_layout = Layout(activations if a.layout is None else a.layout)
        self.layout = self.given_layout.dense  # arrays have their own strides
        self.out_layout = self.layout if a.out_layout is None else Layout(a.out_layout)
        one, none = (1,) * rank, ((0, 0),) * rank
        faults = Faults(what)
        faults.check(_check_layouts, self.layout, self.out_layout, activations, what, default=None)
        self.padding, self.padding_mode = a.padding, a.padding_mode
        if isinstance(a.padding_mode, str):
            self.padding_mode = SYNONYMS.get(a.padding_mode, a.padding_mode)
        self.algorithm, self._accuracy = a.algorithm, a.accuracy
        for name, value, known, synonyms in (
            ("algorithm", a.algorithm, NAMES, {}), ("accuracy", a.accuracy, ACCURACIES, ACCURACY_SYNONYMS),
            ("padding_mode", self.padding_mode, MODES, OTHER_NAMES),
        ):  # fmt: skip
            if value not in known:
                faults.errors.append(ValueError(none_of(f"{what}: {name}", value, known, synonyms)))
        float32 = ArrayTypes(F32, F32.src, F32.dst)
        self.types, self.src_dtype, self.dst_dtype = faults.check(types_of, w.array, a.dtype, what, default=float32)
        self.w_layout, self.shape = w.layout.dense, w.shape
        self.filter_layout_given = a.filter_layout is not None
        self.is_oihw = self.w_layout == _OIHW[rank]
        dims = [factor.dim for factor in self.w_layout.factors]
        self._axes = [dims.index(dim) for dim in range(rank + 2)] if self.w_layout.is_plain else None
        self.oc, self.kernel = w.shape[0], w.shape[2:]
        if not all(self.kernel):
            faults.errors.append(ValueError(f"{what}: w of shape {w.shape} has an empty kernel"))
        (self.groups,) = faults.check(per_axis, a.groups, 1, f"{what}: groups", 1, default=one[:1])
        if self.oc % self.groups:
            text = f"{what}: {self.oc} output channels do not divide into {self.groups} groups"
            faults.errors.append(ValueError(text))
        self.ic = w.shape[1] * self.groups
        self.stride = faults.check(per_axis, a.stride, rank, f"{what}: stride", 1, default=one)
        self.dilation = faults.check(per_axis, a.dilation, rank, f"{what}: dilation", 1, default=one)
        pads = faults.check(self.pads, self.kernel, default=none)  # raises early
        faults.done()
        same = isinstance(a.padding, str) and a.padding.startswith("same")
        ranged = self.kernel[-1] == 3 or has_components(self.types.wide.name)
        self.depends_on_values = ranged or same or any(map(any, pads))  # which candidates there are

    def pads(self, size: Sequence[int]) -> Pairs:
        """The padding of an input of such a spatial size, as pairs."""
        where = f"{self.what}: padding"
        return pad_pairs(self.padding, size, self.kernel, self.stride, self.dilation, where, -MAX_SIZE)


def checked_attributes(what: str, rank: int, w, attributes: dict[str, Any]):
    """The checked attributes of a convolution, the array of its filter, and whether other calls share the attributes.

    `attributes`: fields of `FilterAttributes`.
    """
    key = None
    if attributes.get("filter_shape") is None:
        key = call_key((CheckedAttributes, what), (w,), attributes)
        checked = None if key is None else plans.get(key)
        if checked is not None:
            return checked, w, True
    fields = FilterAttributes(**attributes)
    weights = filter_argument(w, fields.filter_layout, fields.filter_shape, rank, what)
    checked = CheckedAttributes(what, rank, weights, fields)
    checked.filter_layout_given |= isinstance(w, Tensor)
    return checked if key is None else plans.put(key, checked), weights.array, key is not None


def call_key(what: Hashable, arrays: Sequence[Any], arguments: dict[Any, Any]) -> tuple | None:
    """The key in `plans` of a call of `what`: everything about its arguments except the numbers in its arrays. None if
    an array is not numpy's, or an argument is not hashable, such as a list of pads."""
    if any(type(a) is not np.ndarray for a in arrays):
        return None
    # Names take no part in the equality of layouts; 2.0 == 2, but is refused.
    values = tuple([(v, v.family) if type(v) is Layout else v for v in arguments.values()])
    forms = tuple([(strides_key(a), a.dtype) for a in arrays])
    key = what, forms, tuple(arguments), values, tuple(map(type, values)), reproducible()
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _check_layouts(layout: Layout, out_layout: Layout, activations: str, what: str) -> None:
    if not out_layout.is_dense:
        raise ValueError(f"{what}: out_layout {out_layout} has explicit strides; give them by out=")
    for name, value in (("layout", layout), ("out_layout", out_layout)):
        check_dimensions(value, activations, f"{what}: {name}")


class Filter(CheckedAttributes):
    """A filter with its bias, epilogue and attributes, checked; see `conv2d` for the parameters.

    `strided`: it may stay a view. `attributes`: fields of `FilterAttributes`.
    """

    threads: int | None = None  # at most so many look at its values

    def __init__(self, what, rank, w, bias=None, *, activation=None, scale=None, zero_point=0, out_scale=1.0,
                 out_zero_point=0, strided=False, **attributes):  # fmt: skip
        layout = attributes.get("filter_layout")
        if layout is not None and Layout(layout).rank == rank + 3:
            shape, groups = attributes.get("filter_shape"), attributes.get("groups", 1)
            w, groups = without_groups(w, Layout(layout), shape, groups, what)
            attributes |= {"groups": groups, "filter_layout": None, "filter_shape": None}
        checked, array, shared = checked_attributes(what, rank, w, attributes)
        self.__dict__.update(checked.__dict__)
        self.shared = checked if shared else None
        self.strided = strided
        self.w = self.ordered(array)
        self.activation = activation
        if self.types.integers:
            self.bias, quantisation = self._quantisation(bias, scale, zero_point, out_scale, out_zero_point)
            parsed = parse(activation, self.oc, self.types.real, what, **quantisation)
            self.epilogue, self.operands, self.uses_residual = parsed
            return
        for name, value, default in (("zero_point", zero_point, 0), ("out_scale", out_scale, 1),
                                     ("out_zero_point", out_zero_point, 0)):  # fmt: skip
            if (not isinstance(value, (int, float)) and np.ndim(value)) or value != default:
                raise ValueError(f"{what}: {name} is of convolutions of integers, w is of {self.types.filter}")
        self.bias = factors = None
        if bias is not None or scale is not None:
            faults = Faults(what)
            self.bias = None if bias is None else faults.check(self.per_channel, bias, "bias", default=None)
            factors = None if scale is None else faults.check(self.per_channel, scale, "scale", default=None)
            faults.done()
        if factors is not None:
            wide = self.widened(np.ascontiguousarray(self.w)) * factors.reshape(-1, *[1] * (rank + 1))
            self.w = converted(wide, self.types.elements[2], self.types.elements[1])
        self.epilogue, self.operands, self.uses_residual = parse(activation, self.oc, self.types.sum, what)

    def ordered(self, w: np.ndarray) -> np.ndarray:
        """The caller's filter as (O, I/groups, *k): contiguous, or a view of the caller's memory if that is allowed."""
        if not self.is_oihw:
            if self.strided and self._axes is not None:
                return w.transpose(self._axes)
            w = reorder(w, self.w_layout, _OIHW[len(self.kernel)], shape=self.shape)
        return w if self.strided else np.ascontiguousarray(w)

    def with_weights(self, w: np.ndarray) -> Filter:
        """The same with other weights, (O, I/groups, *k)."""
        other = object.__new__(type(self))  # as copy() does, in a quarter of its time
        other.__dict__ = self.__dict__ | {"w": w, "_traits": None, "_ordinary": None}
        return other

    def with_padding(self, pads: Pairs) -> Filter:
        """The same with this padding."""
        other = self.with_weights(self.w)
        other.__dict__ |= {"padding": pads, "shared": None, "_traits": self.__dict__.get("_traits")}
        other.depends_on_values |= any(map(any, pads))
        return other

    def copy_arrays(self) -> None:
        """Copy the caller's arrays: filter, bias, and the tensors of the epilogue."""
        self.w, self.bias = self.w.copy(), None if self.bias is None else self.bias.copy()
        self.operands = tuple(map(with_own_array, self.operands))

    def _quantisation(self, bias, scale, zero_point, out_scale, out_zero_point):
        """Of integers: the bias in s32, and what `core.route.Epilogue` takes to make results of the sums."""
        src, dst = (e if e in LIMITS else "s32" for e in (self.types.elements[0], self.types.elements[3]))
        zero = _integer(zero_point, src, f"{self.what}: zero_point")
        out_zero = _integer(out_zero_point, dst, f"{self.what}: out_zero_point")
        if not isinstance(out_scale, (int, float, np.number)) or not 0 < np.float32(out_scale) < np.inf:
            raise ValueError(f"{self.what}: out_scale must be a finite number above 0, got {out_scale!r}")
        only_sums = self.activation is None and scale is None and out_scale == 1 and not out_zero_point
        if self.types.elements[3] == "s32" and not only_sums:
            raise ValueError(f"{self.what}: results of int32 are the sums: no scale, activation or zero point follows")
        if self.types.elements[3] == "f32" and (out_scale != 1 or out_zero):
            raise ValueError(f"{self.what}: results of float32 have no out_scale and out_zero_point")
        self.x_offset = zero + (
            128 if self.types.elements[0] == "s8" else 0
        )  # added to every input before it is multiplied
        s32_bias, off = np.zeros(self.oc, np.int32), None
        if bias is not None:
            values = logical(bias, f"{self.what}: bias")
            if values.dtype == np.float32 and self.types.elements[3] != "s32":
                off = self._check_per_channel(values, "bias")
            else:
                check_type(values, self.types.sum, f"{self.what}: bias")
                s32_bias = self._check_per_channel(values, "bias")
        mul = np.ones(self.oc, np.float32)
        if scale is not None:
            if not isinstance(scale, (int, float)):
                scale = logical(scale, f"{self.what}: scale")
                check_type(scale, mul.dtype, f"{self.what}: scale")
            mul[...] = self._check_per_channel(scale, "scale") if np.ndim(scale) else scale
            if not np.isfinite(mul).all():
                raise ValueError(f"{self.what}: scale must be finite, got {scale!r}")
        return s32_bias, dict(mul=mul, off=off, scale=float(np.float32(out_scale)), zero=out_zero, x_zero=zero)

    def bias_over(self, w: np.ndarray, channels: np.ndarray | None = None) -> np.ndarray | None:
        """The bias of a convolution with `w`, this filter or some of its taps; of integers without `x_offset`.

        `channels`: those of this filter that `w` has, in its order."""
        own = self.bias if self.bias is None or channels is None else self.bias[channels]
        if not self.types.integers:
            return own
        bias = own - self.x_offset * w.sum(tuple(range(1, w.ndim)), dtype=np.int64)
        return bias.astype(np.int32)  # wraps around, as the sums of the kernels do

    @property
    def accuracy(self) -> str:
        """The accuracy that was asked for, or that `lk.reproducible` sets for all."""
        if self.types.integers:
            return "standard"  # integers are exact, by any algorithm
        return ACCURACIES[0] if reproducible() else self._accuracy

    def problem(self, shape: tuple[int, ...]) -> ConvProblem:
        """The convolution of an input of logical `shape`."""
        if len(shape) != len(self.kernel) + 2 or shape[1] != self.ic:
            raise ValueError(
                f"{self.what}: input of shape {shape}; expected {self.ic} channels "
                f"(w has {self.ic // self.groups} in {self.groups} groups) and {len(self.kernel)} spatial axes"
                f"{self._layout_hint(shape)}"
            )
        border, pads = self.border(shape)
        size, layout = (
            (shape[2:], self.layout) if border is None else (border.convolved_shape[2:], border.convolved_layout)
        )
        p = ConvProblem(
            shape[0], self.ic, self.oc, size, self.kernel, self.stride, pads, self.dilation, self.groups,
            layout, self.out_layout, *self.allowed(self.w, pads), self.types,
        )  # fmt: skip
        if any(n < 1 for n in p.out):
            raise ValueError(
                f"{self.what}: kernel {self.kernel} with dilation {self.dilation} does not fit into "
                f"the input of {size} padded by {pads}"
            )
        return p

    def border(self, shape: tuple[int, ...]) -> tuple[Border | None, Pairs]:
        """How an input of logical `shape` is prepared, and the padding by zeros that remains."""
        pads = self.pads(shape[2:])
        threads = get_num_threads() if self.threads is None else self.threads
        return border_of(self.layout, shape, pads, self.padding_mode, threads, self.what)

    def with_layout(self, layout: Layout) -> Filter:
        """The same for inputs and results in another layout."""
        other = self.with_weights(self.w)
        other.given_layout = other.layout = other.out_layout = layout
        other.shared = None
        return other

    def allowed(self, w: np.ndarray, pads: Pairs) -> tuple[str, bool]:
        """Accuracy and `zeros` of a problem with filter `w`, this one or a part of it: what its values allow."""
        padded, ranged = self.values_matter(w.shape[2:], pads)
        if (not padded and not ranged) or (w is not self.w and self.is_ordinary):
            return self.accuracy, False
        values = self.traits if w is self.w else self.traits_of(w)
        zeros = padded and not values.finite
        if not ranged or values.why_strict is None:
            return self.accuracy, zeros
        if self.algorithm == "winograd" and not (self.types.integers and self.types.dst != self.types.sum):
            raise ValueError(f"{self.what}: algorithm 'winograd' is not for this filter: {values.why_strict}")
        return "strict", zeros

    def values_matter(self, kernel: Sequence[int], pads: Pairs) -> tuple[bool, bool]:
        """Whether the values of a filter of so many taps matter because of padding, and because algorithms need them in
        a range: Winograd's, and sums by components."""
        winograd = max(kernel[-2:]) > 1 and self.algorithm in (AUTO, "winograd") and has_transforms(self.types.wide)
        ranged = winograd or (self.algorithm in (AUTO, "im2col") and has_components(self.types.wide.name))
        return any(map(any, pads)), ranged and ACCURACIES.index(self.accuracy) > ACCURACIES.index("strict")

    @property
    def traits(self) -> Traits | IntegerTraits:
        """The traits of the whole filter."""
        own = self.__dict__.get("_traits")  # no cached_property: see `ConvProblem.out`
        if own is None:
            own = self.__dict__["_traits"] = self.traits_of(self.w)
        return own

    @property
    def is_ordinary(self) -> bool:
        """Whether no part of the filter holds values that change a problem, see `allowed`; False if that takes long."""
        ordinary = self.__dict__.get("_ordinary")
        if ordinary is None:
            with at_most(self.threads):
                quick = quick_traits(self.w) if self.types.elements[1] == "f32" else None
            ordinary = self.__dict__["_ordinary"] = quick is not None and quick.why_strict is None
        return ordinary

    def traits_of(self, w: np.ndarray) -> Traits | IntegerTraits:
        """The traits of a part of the filter."""
        with at_most(self.threads):
            return self._traits_of(w)

    def _traits_of(self, w: np.ndarray) -> Traits | IntegerTraits:
        if self.types.integers:
            return integer_traits(w)
        if self.types.elements[1] == "f32" and not w.flags.c_contiguous and (quick := quick_traits(w)):
            return quick
        return traits(self.widened(np.ascontiguousarray(w)))

    @property
    def values(self) -> tuple[bool, bool] | None:
        """What `allowed` depends on: whether values are finite, and whether Winograd is allowed; None if on neither."""
        if not self.depends_on_values:
            return None
        traits = self.traits
        return traits.finite, traits.why_strict is None

    def describe_values(self, p: ConvProblem) -> str:
        """A line about what the values of the filter changed about `p`; "" if nothing."""
        if p.accuracy == self.accuracy and not p.zeros:
            return ""
        return f"filter: {self.traits.why_strict}: {p.accuracy}" + ", its padding is summed" * p.zeros

    def widened(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers of the filter's type, contiguous, in that of the sums."""
        return converted(numbers, self.types.elements[1], self.types.elements[2])

    def per_channel(self, values, name: str) -> np.ndarray:
        """`values`, one for each output channel, of the type of the sums or of the filter."""
        values = logical(values, f"{self.what}: {name}")
        if values.dtype == self.src_dtype != self.types.sum:
            values = self.widened(np.ascontiguousarray(values))
        check_type(values, self.types.sum, f"{self.what}: {name}")
        return self._check_per_channel(values, name)

    def _check_per_channel(self, values: np.ndarray, name: str) -> np.ndarray:
        if values.shape != (self.oc,):
            rank = len(self.kernel)
            hint = f"; the order is Conv{rank}d(filter, bias), conv{rank}d(x, filter, bias)" * (values.ndim == rank + 2)
            raise ValueError(f"{self.what}: {name} has shape {values.shape}, expected ({self.oc},){hint}")
        return np.ascontiguousarray(values)

    def input_argument(self, x, shape: Sequence[int] | None) -> Argument:
        """An input `x`, of logical `shape` where that is given."""
        what = f"{self.what}: x"
        if isinstance(x, Tensor):
            check_dimensions(x.layout, meaning_of_activations(len(self.kernel)), f"{what} is a Tensor whose layout")
            source = tensor_argument(x, self.given_layout, shape, what)
        else:
            array = as_array(x, what)
            source = Argument(array, self.layout, self.shape_of(array, shape))
        check_type(source.array, self.src_dtype, what)
        return source

    def shape_of(self, x: np.ndarray, shape: Sequence[int] | None = None) -> tuple[int, ...]:
        """The logical shape that `x` holds: `shape`, or all of it but pads of the channels."""
        if x.ndim != len(self.layout.factors):
            axes = len(self.layout.factors)
            raise ValueError(
                f"{self.what}: x of shape {x.shape} has {x.ndim} axes; layout {self.layout} is held by an array of "
                f"{axes}, or of {axes - 1} without the batch"
                f"{lacks_channels('x', self.layout, x.shape, self.ic)}"
            )
        stored = shape_held(x, self.given_layout, shape, f"{self.what}: x")
        if shape is not None:
            return stored
        expected = (stored[0], self.ic, *stored[2:])
        if self.layout.physical_shape(expected) != x.shape:
            raise ValueError(
                f"{self.what}: x of shape {x.shape} in layout {self.layout} has {stored[1]} channels, "
                f"expected {self.ic} (w has {self.ic // self.groups} in {self.groups} groups)"
                f"{self._layout_hint(stored)}"
            )
        return expected

    def _layout_hint(self, x_shape: tuple[int, ...]) -> str:
        hint = "" if self.filter_layout_given else other_order(self, x_shape, self.shape)
        return hint or other_layout(self, self.layout, x_shape, self.shape)


def _integer(value, element: str, what: str) -> int:
    """An integer that an element holds."""
    limits = LIMITS[element]
    if not isinstance(value, (int, np.integer)) or not limits.min <= value <= limits.max:
        raise ValueError(f"{what} must be an integer of {limits.min} to {limits.max}, got {value!r}")
    return int(value)


def filter_argument(w, layout: str | Layout | None, shape: Sequence[int] | None, rank: int, what: str) -> Argument:
    """The caller's filter, with so many spatial axes."""
    filters = meaning_of_filters(rank)
    if layout is None:
        layout = None if isinstance(w, Tensor) else filters
    elif (layout := Layout(layout)).rank != rank + 2:
        raise ValueError(f"{what}: filter_layout {layout} has {layout.rank} dimensions, expected {rank + 2}")
    try:
        weights = tensor_argument(w, layout, shape, f"{what}: w")
    except ValueError as error:
        hint = "" if layout is None else lacks_channels("w", Layout(layout), np.shape(w))
        raise ValueError(f"{error}{hint}") from None
    check_dimensions(weights.layout, filters, f"{what}: filter_layout")
    return weights


def without_groups(w, layout: Layout, shape: Sequence[int] | None, groups: Any, what: str) -> tuple[np.ndarray, int]:
    """A filter in a layout of (G, O/G, I/G, *k) as (O, I/G, *k), and G, which `groups` must be if it is not 1."""
    weights = tensor_argument(w, layout, shape, f"{what}: w")
    check_dimensions(layout, "g" + meaning_of_filters(layout.rank - 3), f"{what}: filter_layout")
    (count, per_group, *rest) = weights.shape
    (number,) = per_axis(groups, 1, f"{what}: groups", 1)
    if number not in (1, count):
        raise ValueError(f"{what}: w of shape {weights.shape} in {layout} has {count} groups, groups is {number}")
    w, plain = weights.array, Layout("abcdef"[: layout.rank])
    if weights.layout != plain:
        w = reorder(w, weights.layout.dense, plain, shape=weights.shape)
    return w.reshape(count * per_group, *rest), max(count, 1)


def check_dimensions(layout: Layout, meaning: str, what: str) -> None:
    """Raise ValueError unless `layout` has as many dimensions as `meaning`, and no names of others."""
    if layout.rank != len(meaning):
        raise ValueError(f"{what} {layout} has {layout.rank} dimensions, expected {len(meaning)}")
    check_meaning(layout, meaning, what)
