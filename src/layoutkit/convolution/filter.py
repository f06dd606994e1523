"""A filter, its bias and the attributes of a convolution: checked, in OIHW order."""

from __future__ import annotations

import numpy as np

from ..arrays import as_array
from ..layout import Layout
from ..reorder import reorder
from ..reproducible import reproducible
from .activation import parse
from .problem import ACCURACIES, ConvProblem, pad_pairs, per_axis

ALGORITHM_NAMES = ("auto", "direct", "im2col", "winograd", "folded", "planes", "depthwise",
                   "grouped", "blas")


class Filter:
    """What every form of call gives, checked; see `conv2d` for the parameters."""

    def __init__(self, what, rank, w, bias=None, *, stride=1, padding=0, dilation=1, groups=1, layout=None,
                 filter_layout=None, out_layout=None, algorithm="auto", accuracy="standard", activation=None,
                 scale=None):  # fmt: skip
        self.what = what
        spatial = "DHW"[3 - rank :]
        self.layout, self.filter_layout = [  # strides: the arrays'
            Layout(given or default + spatial).dense for given, default in ((layout, "NC"), (filter_layout, "OI"))
        ]
        self.out_layout = self.layout if out_layout is None else Layout(out_layout)
        if not self.out_layout.is_dense:
            raise ValueError(f"{what}: out_layout {self.out_layout} has explicit strides; give them by out=")
        for name, found in (("layout", self.layout), ("out_layout", self.out_layout),
                            ("filter_layout", self.filter_layout)):  # fmt: skip
            if found.rank != rank + 2:
                raise ValueError(f"{what}: {name} {found} has {found.rank} dimensions, expected {rank + 2}")
        if algorithm not in ALGORITHM_NAMES:
            raise ValueError(f"{what}: algorithm {algorithm!r} is none of {', '.join(ALGORITHM_NAMES)}")
        if accuracy not in ACCURACIES:
            raise ValueError(f"{what}: accuracy {accuracy!r} is none of {', '.join(ACCURACIES)}")
        self.algorithm, self._accuracy = algorithm, accuracy
        w = as_array(w, f"{what}: w")
        check_f32(w, f"{what}: w")
        shape = self.filter_layout.padded_shape(w.shape)
        plain = Layout("abcde"[: rank + 2])
        if self.filter_layout != plain:
            w = reorder(w, self.filter_layout, plain)
        self.w = np.ascontiguousarray(w)
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
        self.finish = parse(activation, self.oc, what)
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
            self.layout, self.out_layout, self.accuracy,
        )  # fmt: skip
        if any(n < 1 for n in p.out):
            raise ValueError(
                f"{self.what}: kernel {self.kernel} with dilation {self.dilation} does not fit into "
                f"the input of {size} padded by {pads}"
            )
        return p

    def per_channel(self, values, name: str) -> np.ndarray:
        """`values`, one for each output channel."""
        values = as_array(values, f"{self.what}: {name}")
        check_f32(values, f"{self.what}: {name}")
        if values.shape != (self.oc,):
            raise ValueError(f"{self.what}: {name} has shape {values.shape}, expected ({self.oc},)")
        return np.ascontiguousarray(values)

    def shape_of(self, x: np.ndarray) -> tuple[int, ...]:
        """The logical shape that `x` holds."""
        held = self.layout.padded_shape(x.shape)
        shape = (held[0], self.ic, *held[2:])
        if self.layout.physical_shape(shape) != x.shape:
            raise ValueError(
                f"{self.what}: x of shape {x.shape} in layout {self.layout} has {held[1]} channels, "
                f"expected {self.ic} (w has {self.ic // self.groups} in {self.groups} groups)"
            )
        return shape


def check_f32(array: np.ndarray, what: str) -> None:
    """Raise unless `array` is one of float32."""
    if array.dtype != np.float32:
        raise TypeError(f"{what}: expected dtype float32, got {array.dtype}")
