"""A filter, its bias and the attributes of a convolution: checked, in OIHW order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..formats.families import check_meaning, meaning_of_activations, meaning_of_filters
from ..formats.layout import Layout
from ..memory.arguments import Held, hold, logical
from ..memory.arrays import as_array, held_shape
from ..memory.tensor import Tensor
from ..reorders.reorder import reorder
from .algorithms import AUTO, NAMES
from .algorithms.winograd import has_transforms
from .epilogue import parse
from .problem import ACCURACIES, ConvProblem, Pairs, pad_pairs, per_axis
from .reproducible import reproducible
from .traits import Traits, traits
from .types import check_type, types_of


class Filter:
    """What every form of call gives, checked; see `conv2d` for the parameters."""

    def __init__(self, what, rank, w, bias=None, *, stride=1, padding=0, dilation=1, groups=1, layout=None,
                 filter_layout=None, filter_shape=None, out_layout=None, algorithm=AUTO, accuracy="standard",
                 activation=None, scale=None):  # fmt: skip
        self.what = what
        activations = meaning_of_activations(rank)
        self.given_layout = Layout(activations if layout is None else layout)
        self.layout = self.given_layout.dense  # strides are the arrays'
        self.out_layout = self.layout if out_layout is None else Layout(out_layout)
        if not self.out_layout.is_dense:
            raise ValueError(f"{what}: out_layout {self.out_layout} has explicit strides; give them by out=")
        for name, found in (("layout", self.layout), ("out_layout", self.out_layout)):
            check_role(found, activations, f"{what}: {name}")
        if algorithm not in NAMES:
            raise ValueError(f"{what}: algorithm {algorithm!r} is none of {', '.join(NAMES)}")
        if accuracy not in ACCURACIES:
            raise ValueError(f"{what}: accuracy {accuracy!r} is none of {', '.join(ACCURACIES)}")
        self.algorithm, self._accuracy = algorithm, accuracy
        self.w = np.ascontiguousarray(in_order(w, filter_layout, filter_shape, Layout("abcde"[: rank + 2]), what))
        self.types = types_of(self.w, f"{what}: w")
        shape = self.w.shape
        self.oc, self.kernel = shape[0], shape[2:]
        if not all(self.kernel):
            raise ValueError(f"{what}: w of shape {shape} has an empty kernel")
        (self.groups,) = per_axis(groups, 1, f"{what}: groups", 1)
        if self.oc % self.groups:
            raise ValueError(f"{what}: {self.oc} output channels do not divide into {self.groups} groups")
        self.ic = shape[1] * self.groups
        self.bias = None if bias is None else self.per_channel(bias, "bias")
        if scale is not None:
            self.w = self.w * self.per_channel(scale, "scale").reshape(-1, *[1] * (rank + 1))
        self.activation = activation
        self.epilogue = parse(activation, self.oc, self.types.sum, what)
        self.stride = per_axis(stride, rank, f"{what}: stride", 1)
        self.dilation = per_axis(dilation, rank, f"{what}: dilation", 1)
        self.padding = padding
        pad_pairs(padding, self.kernel, self.kernel, self.stride, self.dilation)  # raises early

    @property
    def accuracy(self) -> str:
        """As asked for, or as `lk.reproducible` wants all of them."""
        return ACCURACIES[0] if reproducible() else self._accuracy

    def problem(self, shape: tuple[int, ...]) -> ConvProblem:
        """The convolution of an input of logical `shape`."""
        if len(shape) != len(self.kernel) + 2 or shape[1] != self.ic:
            raise ValueError(
                f"{self.what}: input of shape {shape}; expected {self.ic} channels "
                f"(w has {self.ic // self.groups} in {self.groups} groups) and {len(self.kernel)} spatial axes"
            )
        size = shape[2:]
        pads = pad_pairs(self.padding, size, self.kernel, self.stride, self.dilation)
        p = ConvProblem(
            shape[0], self.ic, self.oc, size, self.kernel, self.stride, pads, self.dilation, self.groups,
            self.layout, self.out_layout, *self.allowed(self.w, pads), self.types,
        )  # fmt: skip
        if any(n < 1 for n in p.out):
            raise ValueError(
                f"{self.what}: kernel {self.kernel} with dilation {self.dilation} does not fit into "
                f"the input of {size} padded by {pads}"
            )
        return p

    def allowed(self, w: np.ndarray, pads: Pairs) -> tuple[str, bool]:
        """Accuracy and `zeros` of a problem with filter `w`, this one or a part of it: what its values allow."""
        padded = any(map(any, pads))
        loose = ACCURACIES.index(self.accuracy) > ACCURACIES.index("strict")
        winograd = loose and w.shape[-1] == 3 and self.algorithm in (AUTO, "winograd") and has_transforms(self.types)
        if not padded and not winograd:
            return self.accuracy, False
        found = self.traits if w is self.w else traits(w)
        zeros = padded and not found.finite
        if not winograd or found.why_strict is None:
            return self.accuracy, zeros
        if self.algorithm == "winograd":
            raise ValueError(f"{self.what}: algorithm 'winograd' is not for this filter: {found.why_strict}")
        return "strict", zeros

    @property
    def traits(self) -> Traits:
        """Of the whole filter."""
        found = self.__dict__.get("_traits")  # no cached_property: see `ConvProblem.out`
        if found is None:
            found = self.__dict__["_traits"] = traits(self.w)
        return found

    def note(self, p: ConvProblem) -> str:
        """What the values of the filter changed about `p`, a line; "" if nothing."""
        if p.accuracy == self.accuracy and not p.zeros:
            return ""
        return f"filter: {self.traits.why_strict}: {p.accuracy}" + ", its padding is summed" * p.zeros

    def per_channel(self, values, name: str) -> np.ndarray:
        """`values`, one for each output channel."""
        values = logical(values, f"{self.what}: {name}")
        check_type(values, self.types.sum, f"{self.what}: {name}")
        if values.shape != (self.oc,):
            raise ValueError(f"{self.what}: {name} has shape {values.shape}, expected ({self.oc},)")
        return np.ascontiguousarray(values)

    def take(self, x, shape: Sequence[int] | None) -> Held:
        """An input `x`, of logical `shape` where that is given."""
        what = f"{self.what}: x"
        if isinstance(x, Tensor):
            check_role(x.layout, meaning_of_activations(len(self.kernel)), f"{what} is a Tensor whose layout")
            held = hold(x, self.given_layout, shape, what)
        else:
            array = as_array(x, what)
            held = Held(array, self.layout, self.shape_of(array, shape))
        check_type(held.array, self.types.src, what)
        return held

    def shape_of(self, x: np.ndarray, shape: Sequence[int] | None = None) -> tuple[int, ...]:
        """The logical shape that `x` holds: `shape`, or all of it but pads of the channels."""
        held = held_shape(x, self.given_layout, shape, f"{self.what}: x")
        if shape is not None:
            return held
        found = (held[0], self.ic, *held[2:])
        if self.layout.physical_shape(found) != x.shape:
            raise ValueError(
                f"{self.what}: x of shape {x.shape} in layout {self.layout} has {held[1]} channels, "
                f"expected {self.ic} (w has {self.ic // self.groups} in {self.groups} groups)"
            )
        return found


def in_order(w, layout: str | Layout | None, shape: Sequence[int] | None, order: Layout, what: str) -> np.ndarray:
    """A filter as an array whose axes are in `order`, a plain layout; copied where it must be."""
    rank = order.rank - 2
    filters = meaning_of_filters(rank)
    if layout is None:
        layout = None if isinstance(w, Tensor) else filters
    elif (layout := Layout(layout)).rank != rank + 2:
        raise ValueError(f"{what}: filter_layout {layout} has {layout.rank} dimensions, expected {rank + 2}")
    w, layout, shape = hold(w, layout, shape, f"{what}: w")
    check_role(layout, filters, f"{what}: filter_layout")
    types_of(w, f"{what}: w")  # raises early
    return w if layout.dense == order else reorder(w, layout.dense, order, shape=shape)


def check_role(layout: Layout, meaning: str, what: str) -> None:
    """Raise ValueError unless `layout` has as many dimensions as `meaning`, and no names of others."""
    if layout.rank != len(meaning):
        raise ValueError(f"{what} {layout} has {layout.rank} dimensions, expected {len(meaning)}")
    check_meaning(layout, meaning, what)
