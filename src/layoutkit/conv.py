"""Convolution: check, plan, execute."""

from __future__ import annotations

import numpy as np

from .algorithms import contiguous_strides
from .arrays import as_array, check_out, empty
from .cost import cost_table
from .layout import Layout
from .limits import peak_rate
from .plan import Plan, planner
from .problem import ACCURACIES, ConvProblem, pad_pairs, per_axis
from .reorder import reorder
from .routes import best_route, choices, route_key
from .tensor import Tensor
from .threads import check_threads

F32 = np.dtype(np.float32)
MAX_BOUND = 256  # kinds of input that one object remembers the decision for
ALGORITHM_NAMES = ("auto", "direct", "im2col", "winograd")


class _Filter:
    """A filter, its bias and the attributes of a convolution, checked; what both forms of call share."""

    def __init__(self, rank, w, bias, stride, padding, dilation, groups, layout, filter_layout, out_layout,
                 algorithm, accuracy, what):  # fmt: skip
        self.what = what
        self.layout, self.filter_layout = Layout(layout).dense, Layout(filter_layout).dense  # strides: the arrays'
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
        self.algorithm, self.accuracy = algorithm, accuracy
        w = as_array(w, f"{what}: w")
        _check_f32(w, f"{what}: w")
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
        self.bias = None
        if bias is not None:
            bias = as_array(bias, f"{what}: bias")
            _check_f32(bias, f"{what}: bias")
            if bias.shape != (self.oc,):
                raise ValueError(f"{what}: bias has shape {bias.shape}, expected ({self.oc},)")
            self.bias = np.ascontiguousarray(bias)
        self.stride = per_axis(stride, rank, f"{what}: stride", 1)
        self.dilation = per_axis(dilation, rank, f"{what}: dilation", 1)
        self.padding = padding
        pad_pairs(padding, self.kernel, self.kernel, self.stride, self.dilation)  # raises early

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


def _check_f32(array: np.ndarray, what: str) -> None:
    if array.dtype != np.float32:
        raise TypeError(f"{what}: expected dtype float32, got {array.dtype}")


class _Conv:
    """A convolution with its filter packed once; see `conv2d` for the parameters."""

    rank: int
    _once = False  # whether the filter is packed for one call only

    def __init__(self, w, bias=None, *, stride=1, padding=0, dilation=1, groups=1, layout=None,
                 filter_layout=None, out_layout=None, algorithm="auto", accuracy="standard",
                 threads=None):  # fmt: skip
        self._set(w, bias, stride, padding, dilation, groups, layout, filter_layout, out_layout, algorithm,
                  accuracy, threads)  # fmt: skip
        f = self._filter
        f.w, f.bias = f.w.copy(), None if f.bias is None else f.bias.copy()

    @classmethod
    def _over(cls, *args) -> _Conv:
        """A convolution over the caller's filter, not copied: for one call."""
        self = object.__new__(cls)
        self._once = True
        self._set(*args)
        return self

    def _set(self, w, bias, stride, padding, dilation, groups, layout, filter_layout, out_layout, algorithm,
             accuracy, threads):  # fmt: skip
        rank = self.rank
        self._filter = _Filter(
            rank, w, bias, stride, padding, dilation, groups,
            layout or "NC" + "DHW"[3 - rank :], filter_layout or "OI" + "DHW"[3 - rank :], out_layout,
            algorithm, accuracy, f"conv{rank}d",
        )  # fmt: skip
        check_threads(threads)
        self._threads = threads
        self._packed: dict = {}  # packing -> filter and bias
        self._bound: dict = {}  # what a call's arrays look like -> what to run

    def _bind(self, x: np.ndarray, out_strides: tuple[int, ...] | None):
        """Route, packed filter and bias, and shape of the output, for inputs like `x`."""
        f = self._filter
        p = f.problem(f.shape_of(x))
        physical = p.dst.physical_shape(p.dst_shape)
        if out_strides is None:
            out_strides = contiguous_strides(p.dst, p.dst_shape)
        route = best_route(p, f.algorithm, check_threads(self._threads), x.strides, out_strides, self._once)
        packed = self._packed.get(route.packing)
        if packed is None:
            packed = self._packed[route.packing] = route.pack(f.w, f.bias)
        return route.run, *packed, physical

    def __call__(self, x, out: np.ndarray | None = None) -> np.ndarray:
        """Convolve `x`, a float32 array in this object's layout; returns `out` or a new array.

        `x` may be a `Tensor` in this layout; then the result is one.
        """
        if isinstance(x, Tensor):
            return self._tensor(x, out)
        if type(x) is not np.ndarray:
            x = as_array(x, f"{self._filter.what}: x")
        if x.dtype != F32:
            _check_f32(x, f"{self._filter.what}: x")
        if out is not None and type(out) is not np.ndarray:
            raise TypeError(f"{self._filter.what}: out must be a numpy array, got {type(out).__name__}")
        threads = check_threads(self._threads)  # another one after a fork, or when the limits change
        key = (x.shape, x.strides, None if out is None else out.strides, cost_table.generation, threads)
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bind(x, key[2])
            if len(self._bound) >= MAX_BOUND:
                self._bound.clear()
            self._bound[key] = bound
        run, w, bias, shape = bound
        if out is None:
            out = empty(shape, F32, self._filter.what)
        else:
            check_out(out, shape, F32, (x, self._filter.w, self._filter.bias), self._filter.what)
        if out.size:
            run(x, w, bias, out)
        return out

    def _tensor(self, x: Tensor, out: np.ndarray | None) -> Tensor:
        f = self._filter
        if x.layout.dense != f.layout.dense:
            raise ValueError(f"{f.what}: x is a Tensor in {x.layout}, this convolution takes {f.layout}")
        if x.shape[1] != f.ic:
            raise ValueError(f"{f.what}: x has shape {x.shape}, expected {f.ic} channels")
        y = self(x.array, out)
        return Tensor(y, f.out_layout, f.problem(x.shape).dst_shape)

    def plan(self, shape) -> Plan:
        """What a call on an input of logical `shape` would do."""
        f = self._filter
        p = f.problem(tuple(int(n) for n in shape))
        threads = check_threads(self._threads)
        found = choices(p, f.algorithm, threads, once=self._once)

        def note() -> str:
            rate, peak = p.flops / found[0].seconds, peak_rate(threads)
            return (f"{p.flops / 1e6:.3g} MFLOP, {rate / 1e9:.1f} GFLOP/s, {rate / peak:.0%} of the FMA peak "
                    f"({peak / 1e9:.0f} GFLOP/s on {threads} thread{'s' * (threads > 1)}, measured now)")  # fmt: skip

        return Plan(route_key(p, threads), found, note)

    def explain(self, shape) -> str:
        """Why: the candidates for an input of logical `shape`, in order."""
        return self.plan(shape).explain()


class Conv1d(_Conv):
    __doc__ = _Conv.__doc__.replace("conv2d", "conv1d")
    rank = 1


class Conv2d(_Conv):
    __doc__ = _Conv.__doc__
    rank = 2


class Conv3d(_Conv):
    __doc__ = _Conv.__doc__.replace("conv2d", "conv3d")
    rank = 3


_CLASSES = {1: Conv1d, 2: Conv2d, 3: Conv3d}


def conv2d(
    x, w, bias=None, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW", filter_layout="OIHW",
    out_layout=None, algorithm="auto", accuracy="standard", out=None, threads=None,
) -> np.ndarray:  # fmt: skip
    """Two-dimensional convolution (cross-correlation, as in torch) in the layout that the data has.

    Parameters
    ----------
    x : array_like of float32, or Tensor
        Input; its axes are the physical axes of `layout`. Any strides. A `Tensor` brings its own layout.
    w : array_like of float32
        Filter, logically (O, I/groups, kernel height, kernel width); its axes are those of `filter_layout`.
    bias : array_like of float32, optional
        (O,).
    stride, dilation : int or pair of int
    padding : int, pair of int, pair of (before, after) pairs, "same" or "valid"
    groups : int
    layout, out_layout : str or Layout
        Of `x` and of the result; `out_layout` is `layout` by default.
    filter_layout : str or Layout
    algorithm : {"auto", "direct", "im2col", "winograd"}
        "auto" takes the route that the cost table thinks fastest.
    accuracy : {"standard", "strict", "fast"}
        What "auto" may choose from. "strict": direct summation only, an Inf or NaN reaches no other outputs than
        those it is summed into. "standard": also Winograd's F(2x2, 3x3) and F(4x4, 3x3), whose error in the L2 norm
        is at most 2.5 times that of direct summation. "fast": also F(6x6, 3x3).
    out : ndarray, optional
        Where to write; must not overlap `x`, `w` or `bias`.
    threads : int, optional
        At most this many.

    Returns
    -------
    ndarray of float32, or Tensor
        The physical array of the result: `out`, or a new one; a `Tensor` if `x` is one.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: dtype, shapes, layouts, `out` or `algorithm` do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)       # N H W C
    >>> w = np.ones((1, 1, 2, 2), np.float32)                        # O I H W
    >>> lk.conv2d(x, w, layout="NHWC")[0, :, :, 0].tolist()
    [[8.0, 12.0], [20.0, 24.0]]
    """
    return _functional(2, x, w, bias, stride, padding, dilation, groups, layout, filter_layout, out_layout,
                       algorithm, accuracy, out, threads)  # fmt: skip


def _functional(rank, x, w, bias, stride, padding, dilation, groups, layout, filter_layout, out_layout,
                algorithm, accuracy, out, threads):  # fmt: skip
    if isinstance(x, Tensor):
        layout, out_layout = x.layout, x.layout.dense if out_layout is None else out_layout
    op = _CLASSES[rank]._over(
        w, bias, stride, padding, dilation, groups, layout, filter_layout, out_layout, algorithm, accuracy,
        threads,
    )
    return op(x, out)


@planner(conv2d)
def _plan_conv2d(x, w, bias=None, *, out=None, **kwargs) -> Plan:
    op = Conv2d(w, bias, **kwargs)
    op._once = True
    return op.plan(op._filter.shape_of(as_array(x, "conv2d: x")))
