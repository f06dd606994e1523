"""Convolution: check, plan, execute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np

from .._core.nests.convolutions import convolution as operations
from .._core.nests.convolutions import route as core
from .._core.nests.convolutions.route import Epilogue
from .._core.runtime import registry
from .._core.runtime.arrays import can_hold_result, extents_overlap, strides_key
from ..choosing.cache import plans
from ..choosing.plan import Plan, planner
from ..choosing.problem import Choice
from ..choosing.table import cost_table
from ..choosing.threads import at_most, check_threads
from ..choosing.watching import watched, watchers
from ..formats.layout import Layout
from ..memory.arguments import layout_for, target
from ..memory.arrays import allocate, as_array, check_out, contiguous_strides, nbytes_of, placeholder
from ..memory.foreign import is_torch, takes_torch
from ..memory.tensor import Tensor
from ..reorders.binding import compiled as compiled_reorder
from ..signatures import like
from .algorithms import AUTO, NAMES
from .border import BorderedRoute
from .calls import (
    ConvolutionBase,
    Repeated,
    bind_epilogue,
    call_info,
    check_workspace,
    documented_by,
    input_shape,
    packing_info,
    plan_of,
    with_input,
    with_swapped,
    workspace_operands,
)  # fmt: skip
from .epilogue import NO_ACTIVATION
from .filter import Filter
from .problem import ConvProblem, Pairs
from .route import Arrays, ConvRoute
from .task import ConvTask, best_route, contiguous, slowness
from .types import check_type, dtype_for

MAX_BOUND = 256  # shapes and strides of inputs that an object remembers the decision for
MAX_ROUTES = 8  # of repeated calls: for filters of all kinds of values, and numbers of threads


class _Conv(ConvolutionBase):
    """A convolution with its filter packed once; see `conv2d` for the parameters."""

    rank: int
    _internal = frozenset(("emptied", "of_constant", "once", "over", "padded", "repeatable"))  # what other rooms call
    _once = False  # whether the filter is packed for one call only
    _of_network = False  # whether it is a layer, see `ConvTask`

    def __init__(self, w, bias=None, *, stride=1, padding=0, dilation=1, groups=1, layout=None,
                 filter_layout=None, filter_shape=None, out_layout=None, algorithm=AUTO, accuracy="standard",
                 activation=None, scale=None, dtype=None, zero_point=0, out_scale=1.0, out_zero_point=0,
                 padding_mode="zeros", threads=None):  # fmt: skip
        f = Filter(
            f"conv{self.rank}d", self.rank, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups,
            layout=layout, filter_layout=filter_layout, filter_shape=filter_shape, out_layout=out_layout,
            algorithm=algorithm, accuracy=accuracy, activation=activation, scale=scale, dtype=dtype,
            zero_point=zero_point, out_scale=out_scale, out_zero_point=out_zero_point, padding_mode=padding_mode,
        )  # fmt: skip
        f.copy_arrays()
        self._set(f, threads)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self._internal]

    @classmethod
    def _over(cls, f: Filter, threads) -> _Conv:
        """A convolution over the caller's filter, not copied: for one call."""
        self = object.__new__(cls)
        self._once = True
        self._set(f, threads)
        return self

    @classmethod
    def of_constant(cls, w, bias=None, threads=None, **attributes) -> _Conv:
        """A layer of a network: its filter is packed once, of an array that never changes and so is not copied.

        Parameters
        ----------
        w, bias, threads, **attributes
            As of the class.
        """
        self = object.__new__(cls)
        self._of_network = True
        self._set(Filter(f"conv{cls.rank}d", cls.rank, w, bias, **attributes), threads)
        return self

    @classmethod
    def once(cls, w, bias=None, what="", threads=None, **attributes) -> _Conv:
        """A convolution over the caller's filter, not copied: for one call.

        Parameters
        ----------
        w, bias : array_like or Tensor
            As of the class. The memory of `w` must stay as it is until the call is done.
        what : str
            The name in errors; that of the function by default.
        threads : int, optional
            At most this many.
        **attributes
            The keywords of the class.

        Raises
        ------
        TypeError, ValueError
            Types, shapes, layouts or attributes do not fit.
        """
        f = Filter(what or f"conv{cls.rank}d", cls.rank, w, bias, strided=True, **attributes)
        return cls._over(f, threads)

    def over(self, w: np.ndarray, bias: np.ndarray | None = None) -> _Conv:
        """The same over another filter, not copied.

        Parameters
        ----------
        w : ndarray
            Of the layout, shape and type of the filter that was given.
        bias : ndarray, optional
            Of a convolution without one.
        """
        return self._with_weights(self._filter.ordered(w), bias)

    def repeatable(self, x: np.ndarray, out: np.ndarray) -> Repeated:
        """Calls on arrays like these over other filters: a function of (x, w, bias, out), none of which it checks.

        Parameters
        ----------
        x, out : ndarray
            Of the shapes, strides and types of those that will be given.
        """
        routes: dict[tuple, ConvRoute] = {}

        def computed(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, out: np.ndarray) -> None:
            op = self.over(w, bias)
            f = op._filter
            key = f.values, check_threads(self._threads), cost_table.generation, registry.isa()
            route = routes.get(key)
            if route is None or watchers:
                op(x, out)
                if route is None and out.size:
                    if len(routes) >= MAX_ROUTES:
                        routes.clear()
                    routes[key] = op._decide(x, out, None)[0]
                return
            with at_most(self._threads):
                packed = route.pack(f.w, f.bias_over(f.w))
            route.run(x, *packed, out, f.epilogue)

        return computed

    def padded(self, pads: Pairs) -> _Conv:
        """The same with other padding, of the same packed filter.

        Parameters
        ----------
        pads : tuple of (int, int)
            Before and after, by spatial axis.
        """
        other = object.__new__(type(self))
        other.__dict__ = self.__dict__ | {"_filter": self._filter.with_padding(pads), "_bound": {}, "_by_layout": {}}
        return other

    def _set(self, f: Filter, threads) -> None:
        check_threads(threads)
        self._filter, self._threads = f, threads
        f.threads = threads
        self._src_dtype, self._dst_dtype = f.src_dtype, f.dst_dtype
        # Filter and bias by instruction set and packing: vectors are of other lengths elsewhere.
        self._packed: dict[tuple[str, str], tuple[np.ndarray, np.ndarray | None]] = {}
        self._bound: dict = {}  # by shapes and strides of a call's arrays
        self._by_layout: dict = {}

    def _bind(self, x: np.ndarray, out: np.ndarray | None, shape: tuple[int, ...] | None, key: tuple) -> tuple:
        """The bound call for arrays of this `key`: what runs, packed filter and bias, and the rest of `_decide`."""
        f = self._filter
        decided = None
        if f.shared is not None:
            key = f.shared, f.values, self._once, self._of_network, *key
            decided = plans.get(key)
        if decided is None:
            decided = self._decide(x, out, shape)
            if f.shared is not None:
                plans.put(key, decided)
        return decided[0].run, *self._pack(decided[0]), *decided[1:]

    def _decide(self, x: np.ndarray, out: np.ndarray | None, shape: tuple[int, ...] | None, compiled: bool = False):
        """Route, the output's physical shape, bytes and logical shape, and the problem; `compiled`: as `best_route`."""
        f = self._filter
        x_shape = f.shape_of(x, shape)
        p, border = f.problem(x_shape), f.border(x_shape)[0]
        physical = p.dst.physical_shape(p.dst_shape)
        if out is not None and out.ndim != len(physical):
            check_out(out, physical, f.dst_dtype, (), f.what)
        strides = contiguous_strides(p.dst, p.dst_shape, f.types.dst.itemsize) if out is None else out.strides
        if border is not None and compiled:
            raise ValueError(f"{f.what}: padding {f.padding!r} of mode {f.padding_mode!r} needs Python")
        x_strides = x.strides if border is None else border.strides(x.strides, x.itemsize)
        task = self._task(p)
        route: ConvRoute = best_route(task, Arrays(x_strides, strides), compiled)
        if border is not None:
            route = BorderedRoute(border, route, x.dtype)
        return route, physical, nbytes_of(physical, f.types.dst, f.what), p.dst_shape, task

    def _pack(self, route: ConvRoute) -> tuple[np.ndarray, np.ndarray | None]:
        """Filter and bias as a route reads them."""
        key = registry.isa(), route.packing
        packed = self._packed.get(key)
        if packed is None:
            f = self._filter
            pack = partial(watched, partial(packing_info, f, route.packing), route.pack) if watchers else route.pack
            with at_most(self._threads):
                packed = self._packed[key] = pack(f.w, f.bias_over(f.w))
        return packed

    def _task(self, p: ConvProblem) -> ConvTask:
        return ConvTask(p, check_threads(self._threads), self._filter.algorithm, self._once, self._of_network)

    def __call__(self, x, out: np.ndarray | Tensor | None = None, add: np.ndarray | Tensor | None = None,
                 workspace: np.ndarray | None = None, *, shape=None) -> Any:  # fmt: skip
        """Convolve an input.

        Parameters
        ----------
        x : array_like of the filter's type (of uint8 or int8 with a filter of int8), torch tensor, or Tensor
            Input; its axes are the physical axes of this object's layout, or all of them but the batch's. A `Tensor`
            must be in that layout; a tensor of torch brings its memory format if the object was given no layout.
        out : ndarray, torch tensor or Tensor, optional
            Where to write; must not overlap `x`, nor `add` unless it is `add`.
        add : array_like, torch tensor or Tensor, optional
            Like the result; added before the activation, unless that says where.
        workspace : ndarray, optional
            Contiguous, writeable, of at least the bytes that `workspace` asks for; overlaps no other argument. With
            it and `out` nothing is allocated.
        shape : sequence of int, optional
            The logical shape of `x`, where blocks of other dimensions than the channels are padded. By default all of
            it; a `Tensor` has its own.

        Returns
        -------
        ndarray, torch tensor or Tensor, as `x`
            The physical array of the result, in `out_layout`: `out`, or a new one.

        Raises
        ------
        TypeError, ValueError
            Before anything is written: types, shapes, layouts, `out` or `workspace` do not fit.
        """
        if type(x) is not np.ndarray:
            if isinstance(x, Tensor):
                return self._tensor(x, out, add, workspace, shape)
            if is_torch(x):
                return self._torch(x, out, add, workspace, shape)
            x = as_array(x, f"{self._filter.what}: x")
        if x.dtype is not self._src_dtype:
            check_type(x, self._src_dtype, f"{self._filter.what}: x")
        if out is not None and type(out) is not np.ndarray:
            return self._call_into(x, out, add, workspace, shape)
        if shape is not None:
            shape = self._filter.layout.check_shape(shape)
        threads = check_threads(self._threads)  # another one after a fork, or when the limits change
        key = strides_key(x, out), shape, threads, cost_table.generation, registry.isa()
        bound = self._bound.get(key)
        if bound is None:
            if self._lacks_batch(x):
                return self._unbatched(x, out, add, workspace, shape)
            bound = self._bind(x, out, shape, key)
            if len(self._bound) >= MAX_BOUND:
                self._bound.clear()
            self._bound[key] = bound
        run, w, bias, physical, nbytes, y_shape, task = bound
        if out is None:
            out = allocate(physical, self._dst_dtype, nbytes, x)
        elif self._once or not can_hold_result(out, physical, self._dst_dtype) or extents_overlap(out, x):
            f = self._filter
            inputs = (x, f.w, f.bias) if self._once else (x,)  # a kept filter is our own
            check_out(out, physical, self._dst_dtype, inputs, f.what)
        epilogue, copied = self._filter.epilogue, False
        if add is not None or self._filter.uses_residual or self._filter.operands:
            epilogue, add, copied = bind_epilogue(self._filter, add, out, y_shape)
        if workspace is not None:
            needed = run.needs(out, out if copied else add, epilogue)
            check_workspace(self._filter.what, workspace, needed, (x, out, add), epilogue)
        if copied:
            out[...] = add
            add = out
        if out.size:
            if watchers:
                info = partial(call_info, self._filter.what, task, threads)
                watched(info, run, x, w, bias, out, epilogue, add, workspace)
            else:
                run(x, w, bias, out, epilogue, add, workspace)
        return out

    def workspace(self, shape, *, add: bool = False) -> int:
        """Bytes of `workspace` for calls on contiguous inputs.

        Parameters
        ----------
        shape : sequence of int, array or Tensor
            The logical shape, (N, C, spatial axes), or an input of it.
        add : bool
            Whether the calls have an `add`.

        Raises
        ------
        TypeError, ValueError
            The shape does not fit the filter.
        """
        f = self._filter
        shape = input_shape(f, shape)
        p, border = f.problem(shape), f.border(shape)[0]
        arrays = contiguous(p)
        if border is not None:
            width = f.src_dtype.itemsize
            arrays = arrays._replace(x_strides=border.strides(contiguous_strides(f.layout, shape, width), width))
        route: ConvRoute = best_route(self._task(p), arrays)
        if border is not None:
            route = BorderedRoute(border, route, f.src_dtype)
        y = placeholder(p.dst.physical_shape(p.dst_shape), f.types.dst, arrays.y_strides)
        return route.run.needs(y, *workspace_operands(f, y, add))

    def _tensor(self, x: Tensor, out, add, workspace, shape) -> Tensor:
        f = self._filter
        source = f.input_argument(x, shape)
        y = self(source.array, out, add, workspace, shape=source.shape)
        return y if isinstance(y, Tensor) else Tensor(y, f.out_layout, f.problem(source.shape).dst_shape)

    def _call_into(self, x: np.ndarray, out, add, workspace, shape):
        """A call that writes into a Tensor, or into an array of a subclass of numpy's."""
        f = self._filter
        y_shape = f.problem(f.shape_of(x, shape)).dst_shape
        self(x, target(out, f.out_layout, y_shape, 0, f.what), add, workspace, shape=shape)
        return out

    def plan(self, shape) -> Plan:
        """What a call on a contiguous input would do: the candidates and what they cost.

        Parameters
        ----------
        shape : sequence of int, array or Tensor
            The logical shape, (N, C, spatial axes), or an input of it.

        Raises
        ------
        TypeError, ValueError
            The shape does not fit the filter.
        """
        f = self._filter
        p = f.problem(input_shape(f, shape))
        task = self._task(p)
        rows = f.types.peak

        def more_facts(ranked: Sequence[Choice], _: bool) -> tuple[str | None, ...]:
            return slowness(task, ranked), f.describe_values(p)

        return plan_of(task, task.threads, rows, more_facts, f.what, f.activation, call=self)


def compiled(op: _Conv, x: np.ndarray, y: np.ndarray, shape: tuple[int, ...]):
    """The route of arrays like these that runs without Python, its packed filter and bias."""
    route = op._decide(x, y, shape, compiled=True)[0]
    return route.run, *op._pack(route)


def task_of(op: _Conv, shape: tuple[int, ...]) -> ConvTask:
    """What is planned for inputs of a shape; it holds nothing of the filter."""
    return op._task(op._filter.problem(shape))


Bound = operations.Convolution | Callable[..., None]


def bind(op: _Conv, x: np.ndarray, y: np.ndarray, add: np.ndarray | None) -> Bound:
    """`op` on arrays like these: an operation on (x, y) or (x, add, y), or a function of them where that needs Python.

    It keeps only the packed form of the filter. `add` and `y` share no memory."""
    f = op._filter
    assert not f.operands and not f.uses_residual
    route = op._decide(x, y, None)[0]
    packed, epilogue = op._pack(route), f.epilogue if add is None else f.epilogue or NO_ACTIVATION
    if not isinstance(route.run, core.Route):
        return partial(_in_python, route.run, packed, epilogue)
    if add is None:
        return operations.Convolution((x, y), route.run, *packed, epilogue)
    strided_add = None
    if add.strides != y.strides and y.size:
        axes = "abcdefgh"[: y.ndim]
        strided_add = compiled_reorder(add, axes, axes, add.shape, y, check_threads(op._threads))
    return operations.Convolution((x, add, y), route.run, *packed, epilogue, strided_add)


def _in_python(run: Any, packed: tuple, epilogue: Epilogue | None, x: np.ndarray, *arrays: np.ndarray) -> None:
    """A route that needs Python, on arrays (x, y) or (x, add, y)."""
    add, y = arrays if len(arrays) == 2 else (None, arrays[0])
    if add is not None and add.strides != y.strides:
        y[...] = add
        add = y
    if y.size:
        run(x, *packed, y, epilogue, add)


def filter_of(op: Any) -> Filter:
    """The filter of a convolution object, transposed ones too."""
    return op._filter


def packed_of(op: Any) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """The packed filters and biases that a convolution object has so far, transposed ones too."""
    return list(op._packed.values())


T = TypeVar("T")


class ConvOptions(TypedDict, total=False):
    """The keywords of a convolution, for type checkers."""

    stride: Any
    padding: Any
    dilation: Any
    groups: int
    layout: str | Layout | None
    shape: Sequence[int] | None
    filter_layout: str | Layout | None
    filter_shape: Sequence[int] | None
    out_layout: str | Layout | None
    algorithm: str
    accuracy: str
    activation: Any
    scale: Any
    dtype: Any
    zero_point: int
    out_scale: float
    out_zero_point: int
    padding_mode: str
    add: Any
    out: Any
    threads: int | None


class Convolution(Protocol):
    """A function that convolves, for type checkers: arrays give arrays, other tensors their own kind."""

    __name__: str

    @overload
    def __call__(self, x: np.ndarray, w: Any, bias: Any = None, **options: Unpack[ConvOptions]) -> np.ndarray: ...
    @overload
    def __call__(self, x: T, w: Any, bias: Any = None, **options: Unpack[ConvOptions]) -> T: ...


def _convolution(function: Callable[..., Any]) -> Convolution:
    return cast(Convolution, takes_torch(function))


@_convolution
def conv2d(
    x, w, bias=None, *, stride=1, padding=0, dilation=1, groups=1, layout=None, shape=None, filter_layout=None,
    filter_shape=None, out_layout=None, algorithm=AUTO, accuracy="standard", activation=None, scale=None, dtype=None,
    zero_point=0, out_scale=1.0, out_zero_point=0, padding_mode="zeros", add=None, out=None, threads=None,
) -> Any:  # fmt: skip
    """Two-dimensional convolution (cross-correlation, as in torch) in the layout that the data has.

    Parameters
    ----------
    x : array_like of the type of `w`, with a filter of int8 of uint8 or int8, torch tensor, or Tensor
        Input; its axes are the physical axes of `layout`, or all of them but the batch's. Any strides. A `Tensor`
        brings its layout and shape; a tensor of torch its memory format where no `layout` is given.
    w : array_like of float32, float64, float16, bfloat16 (of ml_dtypes) or int8, or Tensor
        Filter, logically (O, I/groups, kernel height, kernel width); its axes are those of `filter_layout`. A `Tensor`
        brings its layout and shape.
    bias : array_like of the type of `w` or of the sums, or Tensor, optional
        (O,). Sums are float32; of float64 float64; of int8 int32, of which the bias is, unless it is of float32 and
        added after `scale`.
    stride, dilation : int or pair of int
        Distance of the windows, and of the taps in a window.
    padding : int, pair of int, pair of (before, after) pairs, "same", "same_lower" or "valid"
        Negative numbers crop. "same" has ``ceil(size / stride)`` outputs along each axis, as in ONNX and TensorFlow
        (torch refuses it with a stride); of an odd number of pads the one left over is after, or before with
        "same_lower".
    groups : int
        Of channels: each group of outputs reads one of inputs.
    layout : str or Layout, optional
        Of `x`: "NCHW", or that of a `Tensor`. In the names of activations or in abstract ones (``abcd``).
    shape : sequence of int, optional
        The logical shape of `x`, where blocks of other dimensions than the channels are padded. By default all of it.
    filter_layout : str or Layout, optional
        Of `w`: "OIHW", or that of a `Tensor`. In the names of filters or in abstract ones. One that has groups, such
        as "GOIHW", says how many.
    filter_shape : sequence of int, optional
        The logical shape of `w`, where its blocks are padded. By default all of it.
    out_layout : str or Layout, optional
        Of the result; that of `x` by default. Pads are zeros.
    algorithm : {ALGORITHMS}
        "auto" takes the route that the cost table thinks fastest.
    accuracy : {"standard", "reproducible", "strict", "fast"}
        What "auto" may choose from. "reproducible": sums in one order, see `reproducible`. "strict": direct
        summation only, an Inf or NaN reaches no other outputs than those it is summed into. "standard": also
        Winograd's F(2x2, 3x3) and F(4x4, 3x3), "fast": also F(6x6, 3x3), all within the bound of
        `layoutkit.winograd.error_bound`. Filters for which that does not hold are summed directly.
    activation : str, tuple or list of them, optional
        What follows the sum: "relu", "relu6", ("clip", lo, hi), ("leaky_relu", slope), ("prelu", slopes),
        ("elu", alpha), "silu", ("swish", alpha), "mish", "gelu" (by erf), "gelu_tanh", "hardswish",
        ("hardswish", alpha, beta), ("hardsigmoid", alpha, beta), "sigmoid", "tanh", "softplus", "exp", "log", "sqrt",
        "square", "abs", "round" (to nearest even), ("linear", alpha, beta), ("pow", alpha, beta), "erf",
        ("selu", alpha, gamma), ("celu", alpha), "softsign", ("thresholded_relu", alpha), ("shrink", bias, limit),
        "floor", "ceil", "sign", "neg", "reciprocal".
        At Inf and -Inf they are their limits: "silu" of -Inf is -0. NaN stays NaN.
        A list is applied one after another. Then there are also ("add", b), ("mul", b), ("max", b), ("min", b),
        ("sub", b), ("div", b), ("rsub", b), which is b - x, ("rdiv", b), which is b / x, and "sum" or ("sum", scale),
        where `add` is added rather than first. b and slopes are a number, (O,), or a tensor like the result, of its
        type: an array or a `Tensor`, which must not overlap `out`.
    scale : array_like of the type of `w` or of the sums, optional
        (O,): the filter of each output channel is multiplied by it, and rounded to its type. With a filter of int8: a
        number or float32 (O,) by which the sums are multiplied.
    dtype : dtype, str or pair of them, optional
        Of the result: that of `w` by default; of float16 and bfloat16 also float32; with a filter of int8 int32 by
        default, also float32, uint8 and int8. A pair names the type of `x` too: ``("bfloat16", "bfloat16")`` takes
        uint16 as bfloat16, ``("int8", "int8")`` is for a kept object, which otherwise expects uint8.
    zero_point : int, optional
        Of `x`, with a filter of int8; the padding holds it.
    out_scale, out_zero_point : float and int, optional
        Results of uint8 and int8 are ``round(v / out_scale) + out_zero_point``, saturated, and so is `add`.
    padding_mode : {"zeros", "reflect", "circular", "edge"}
        What is read beyond the edges: ``0 0 | a b c | 0 0``, ``c b | a b c | b a``, ``b c | a b c | a b``,
        ``a a | a b c | c c``. "replicate" is "edge", "wrap" is "circular". Other than zeros the input is copied first.
    add : array_like of the type of the result, unless that is int32, or Tensor, optional
        Added before the activation, unless that says where, and before the result is rounded to its type: an array like
        the result, or `out` itself.
    out : ndarray or Tensor, optional
        Where to write; must not overlap `x`, `w` or `bias`, nor `add` unless it is `add`. A `Tensor` must be in
        `out_layout`, of the shape of the result, and promise no other pads than zeros.
    threads : int, optional
        At most this many.

    Returns
    -------
    ndarray of the type of `w` or `dtype`, torch tensor, or Tensor
        The physical array of the result: `out`, or a new one; a `Tensor` if `x` is one; a tensor of torch, in the
        memory format of `x`, if that is one.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: dtype, shapes, layouts, `out` or `algorithm` do not fit, or a `Tensor` is in another
        layout or of another shape than an argument says.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)       # N H W C
    >>> w = np.ones((1, 1, 2, 2), np.float32)                        # O I H W
    >>> lk.conv2d(x, w, layout="NHWC")[0, :, :, 0].tolist()
    [[8.0, 12.0], [20.0, 24.0]]
    """
    try:
        f = Filter(
            "conv2d", 2, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups,
            layout=layout_for(x, layout), filter_layout=filter_layout, filter_shape=filter_shape,
            out_layout=out_layout, algorithm=algorithm, accuracy=accuracy, activation=activation, scale=scale,
            dtype=dtype_for(dtype, x, w), zero_point=zero_point, out_scale=out_scale, out_zero_point=out_zero_point,
            padding_mode=padding_mode, strided=True,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        given = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)
        raise with_input(error, "conv2d", 2, x, w, filter_layout=filter_layout, **given) from None
    try:
        return Conv2d._over(f, threads)(x, out, add, shape=shape)
    except ValueError as error:
        given = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)
        raise with_swapped(error, 2, x, w, filter_layout=filter_layout, **given) from None


# Without docstrings (python -OO) there is nothing to replace.
conv2d.__doc__ = (conv2d.__doc__ or "").replace("ALGORITHMS", ", ".join(f'"{name}"' for name in NAMES))


@like(conv2d, 1)
@takes_torch
def conv1d(x, w, bias=None, *, shape=None, add=None, out=None, threads=None, **attributes) -> Any:
    return _once(Conv1d, x, w, bias, add, out, threads, shape, **attributes)


@like(conv2d, 3)
@takes_torch
def conv3d(x, w, bias=None, *, shape=None, add=None, out=None, threads=None, **attributes) -> Any:
    return _once(Conv3d, x, w, bias, add, out, threads, shape, **attributes)


@documented_by(conv1d, "convolution")
class Conv1d(_Conv):
    rank = 1


@documented_by(conv2d, "convolution")
class Conv2d(_Conv):
    rank = 2


@documented_by(conv3d, "convolution")
class Conv3d(_Conv):
    rank = 3


CLASSES = {1: Conv1d, 2: Conv2d, 3: Conv3d}  # by the number of spatial axes


def _once(cls, x, w, bias, add, out, threads, shape, **attributes) -> Any:
    op = _for_one_call(cls, x, w, bias, threads, **attributes)
    try:
        return op(x, out, add, shape=shape)
    except ValueError as error:
        raise with_swapped(error, cls.rank, x, w, **attributes) from None


def _for_one_call(cls, x, w, bias, threads=None, layout=None, dtype=None, **attributes) -> _Conv:
    attributes["dtype"] = dtype_for(dtype, x, w)
    try:
        return cls.once(w, bias, threads=threads, layout=layout_for(x, layout), **attributes)
    except (TypeError, ValueError) as error:
        raise with_input(error, f"conv{cls.rank}d", cls.rank, x, w, layout=layout, **attributes) from None


def _plan(cls, x, w, bias=None, add=None, out=None, shape=None, **attributes) -> Plan:
    op = _for_one_call(cls, x, w, bias, **attributes)
    return op.plan(op._filter.input_argument(x, shape).shape)


for _rank, _operation in {1: conv1d, 2: conv2d, 3: conv3d}.items():
    planner(_operation)(partial(_plan, CLASSES[_rank]))
