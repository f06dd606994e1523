"""Gradients of inputs: of a convolution a transposed convolution with the same filter, and the other way round."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ..choosing.cache import plans
from ..choosing.plan import Plan, planner
from ..convolutions import conv, transposed
from ..convolutions.algorithms import AUTO
from ..convolutions.conv import filter_of
from ..convolutions.filter import call_key, filter_argument
from ..convolutions.problem import in_sizes, pad_pairs
from ..convolutions.types import dtype_for
from ..memory.arguments import layout_for, target
from ..memory.arrays import check_out
from ..memory.foreign import takes_torch
from ..memory.tensor import Tensor
from ..signatures import like, with_parameters
from .accumulate import add_scaled, check_beta
from .arguments import exchanged, outputs, sizes
from .attributes import InputAttributes


class InputGradient(NamedTuple):
    """A checked call: the gradient of an input."""

    op: Any  # the operation that computes it from the gradient of the output
    size: tuple[int, ...]  # of the result
    grad_shape: tuple[int, ...]  # of the gradient of the output


def _checked(what, rank, input_size, w, grad_output, a: InputAttributes, of_transposed: bool) -> InputGradient:
    """Check what `conv2d_input` was given; `of_transposed`: of a transposed convolution."""
    size = sizes(input_size, rank, f"{what}: input_size")
    filter_layout = a.filter_layout
    if filter_layout is None and not isinstance(w, Tensor):
        filter_layout = ("IO" if of_transposed else "OI") + "DHW"[3 - rank :]
    filters = filter_argument(w, filter_layout, a.filter_shape, rank, what)
    kernel = filters.shape[2:]
    a = a.checked(what, rank, of_transposed)
    pads = pad_pairs(a.padding, size[2:], kernel, a.stride, a.dilation, f"{what}: padding")
    grad_layout = layout_for(grad_output, a.grad_layout)
    grad_layout = a.layout if grad_layout is None else grad_layout
    options = dict(
        stride=a.stride, padding=pads, dilation=a.dilation, groups=a.groups, layout=grad_layout,
        out_layout=grad_layout if a.layout is None else a.layout,
        filter_layout=exchanged(filters.layout.dense), filter_shape=(filters.shape[1], filters.shape[0], *kernel),
        algorithm=a.algorithm, accuracy=a.accuracy, dtype=dtype_for(a.dtype, grad_output, filters.array),
        threads=a.threads,
    )  # fmt: skip
    grad_shape = a.grad_shape
    if of_transposed:
        classes: Any = conv.CLASSES
    else:
        classes = transposed.CLASSES
        out = outputs(size[2:], kernel, a.stride, pads, a.dilation, what)
        least = in_sizes(out, kernel, a.stride, pads, a.dilation)
        options["output_padding"] = tuple(n - m for n, m in zip(size[2:], least))
        if grad_shape is None:  # it follows
            grad_shape = size[0], filters.shape[0], *out
    op = classes[rank].once(filters.array, what=what, **options)
    grad_shape = filter_of(op).input_argument(grad_output, grad_shape).shape
    input_shape = result_shape(op, grad_shape)
    if input_shape != size:
        raise ValueError(f"{what}: grad_output of shape {grad_shape} is of an input of {input_shape}, not of {size}")
    return InputGradient(op, size, grad_shape)


def _cached(what, rank, input_size, w, grad_output, of_transposed, attributes) -> InputGradient:
    """As `_checked`, but calls that differ in the numbers of their arrays only are checked once."""
    key = call_key((InputGradient, what), (w, grad_output), dict(attributes, input_size=input_size))
    cached = None if key is None else plans.get(key)
    if cached is not None:
        return cached._replace(op=cached.op.over(w))
    gradient = _checked(what, rank, input_size, w, grad_output, InputAttributes(**attributes), of_transposed)
    if key is not None:
        plans.put(key, gradient._replace(op=gradient.op.emptied()))
    return gradient


def _input(
    what, rank, input_size, w, grad_output, out=None, beta=0.0, workspace=None, of_transposed=False, **attributes
) -> Any:
    check_beta(beta, out, what)
    op, size, grad_shape = _cached(what, rank, input_size, w, grad_output, of_transposed, attributes)
    shape = None if isinstance(grad_output, Tensor) else grad_shape
    if beta in (0, 1):
        return op(grad_output, out, out if beta else None, workspace, shape=shape)
    f = filter_of(op)
    to = target(out, f.out_layout, size, 0, what)
    check_out(to, f.out_layout.physical_shape(size), f.dst_dtype, (w, grad_output), what)
    result = op(grad_output, None, None, workspace, shape=shape)
    add_scaled(
        result.array if isinstance(result, Tensor) else result, to, f.out_layout, size, f.types.elements[3], beta
    )
    return out


def result_shape(op: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The logical shape of what an operation makes of an input of `shape`."""
    if isinstance(op, transposed.ConvTranspose1d | transposed.ConvTranspose2d | transposed.ConvTranspose3d):
        return transposed.out_shape(op, shape)
    return filter_of(op).problem(shape).dst_shape


@takes_torch
def conv2d_input(
    input_size, w, grad_output, *, stride=1, padding=0, dilation=1, groups=1, layout=None, grad_layout=None,
    filter_layout=None, filter_shape=None, grad_shape=None, algorithm=AUTO, accuracy="standard", dtype=None, out=None,
    beta=0.0, threads=None, workspace=None,
) -> Any:  # fmt: skip
    """The gradient of the input of `conv2d`.

    Parameters
    ----------
    input_size : sequence of int
        The logical shape of the input, (N, C, height, width).
    w : array_like of float32, float64, float16 or bfloat16 (of ml_dtypes), or Tensor
        The filter of the convolution, as of `conv2d`.
    grad_output : array_like of the type of `w`, or Tensor
        The gradient of the result, in `grad_layout`. Any strides.
    stride, padding, dilation, groups
        Of the convolution, as of `conv2d`.
    layout, grad_layout : str or Layout, optional
        Of the result, and of `grad_output`: each is as the other by default, both "NCHW" if none is given. A `Tensor`
        has its own.
    filter_layout, filter_shape
        Of `w`, as of `conv2d`.
    grad_shape : sequence of int, optional
        The logical shape of `grad_output`, which follows from the rest.
    algorithm, accuracy
        As of `conv_transpose2d`, which this is.
    dtype : dtype or str, optional
        Of the result: that of `w` by default; of float16 and bfloat16 also float32.
    out : ndarray or Tensor, optional
        Where to write; it must not overlap the inputs.
    beta : float, optional
        ``gradient + beta * out`` is written: 1 accumulates.
    threads : int, optional
        At most this many threads. The result of an algorithm does not depend on how many; which one "auto" takes may,
        except with accuracy "reproducible".
    workspace : ndarray, optional
        Contiguous memory used in place of new, of the bytes that ``lk.plan(lk.grad.conv2d_input, ..).workspace`` says
        of contiguous arrays. A packed filter is new memory.

    Returns
    -------
    ndarray of the type of `w` or `dtype`, or Tensor
        The physical array of the gradient: `out`, or a new one; a `Tensor` if `grad_output` is one.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: types, shapes, layouts or attributes do not fit.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> w = np.array([[[[1, 10]]]], np.float32)
    >>> dy = np.array([[[[1, 2]]]], np.float32)
    >>> lk.grad.conv2d_input((1, 1, 1, 3), w, dy).tolist()
    [[[[1.0, 12.0, 20.0]]]]
    """
    return _input(
        "grad.conv2d_input", 2, input_size, w, grad_output, stride=stride, padding=padding, dilation=dilation,
        groups=groups, layout=layout, grad_layout=grad_layout, filter_layout=filter_layout, filter_shape=filter_shape,
        grad_shape=grad_shape, algorithm=algorithm, accuracy=accuracy, dtype=dtype, out=out, beta=beta, threads=threads,
        workspace=workspace,
    )  # fmt: skip


_FILTER = """\
w : array_like of float32, float64, float16 or bfloat16 (of ml_dtypes), or Tensor
    The filter of the transposed convolution, "IOHW" by default, as of `conv_transpose2d`.
"""
_SHAPE = """\
grad_shape : sequence of int, optional
    The logical shape of `grad_output`: needed where blocks are padded.
"""
_ALGORITHM = """\
algorithm, accuracy
    As of `conv2d`, which this is.
"""


@with_parameters(conv2d_input, w=_FILTER, grad_shape=_SHAPE, algorithm=_ALGORITHM)
@takes_torch
def conv_transpose2d_input(input_size, w, grad_output, **attributes) -> Any:
    """The gradient of the input of `conv_transpose2d`: a convolution of `grad_output` with the same filter.

    Parameters
    ----------
    {PARAMETERS}

    Returns
    -------
    ndarray of the type of `w` or `dtype`, or Tensor
        The physical array of the gradient: `out`, or a new one; a `Tensor` if `grad_output` is one.

    Raises
    ------
    TypeError, ValueError
        Before anything is written: types, shapes, layouts or attributes do not fit.
    """
    return _input("grad.conv_transpose2d_input", 2, input_size, w, grad_output, of_transposed=True, **attributes)


@like(conv2d_input, 1)
@takes_torch
def conv1d_input(input_size, w, grad_output, **attributes) -> Any:
    return _input("grad.conv1d_input", 1, input_size, w, grad_output, **attributes)


@like(conv_transpose2d_input, 1)
@takes_torch
def conv_transpose1d_input(input_size, w, grad_output, **attributes) -> Any:
    return _input("grad.conv_transpose1d_input", 1, input_size, w, grad_output, of_transposed=True, **attributes)


@like(conv2d_input, 3)
@takes_torch
def conv3d_input(input_size, w, grad_output, **attributes) -> Any:
    return _input("grad.conv3d_input", 3, input_size, w, grad_output, **attributes)


@like(conv_transpose2d_input, 3)
@takes_torch
def conv_transpose3d_input(input_size, w, grad_output, **attributes) -> Any:
    return _input("grad.conv_transpose3d_input", 3, input_size, w, grad_output, of_transposed=True, **attributes)


def _plan(what, rank, of_transposed, input_size, w, grad_output, out=None, beta=0.0, workspace=None,
          **attributes) -> Plan:  # fmt: skip
    gradient = _checked(what, rank, input_size, w, grad_output, InputAttributes(**attributes), of_transposed)
    plan = gradient.op.plan(gradient.grad_shape)
    plan.workspace = gradient.op.workspace(gradient.grad_shape, add=beta == 1)
    return plan


for _rank, _operations in {
    1: (conv1d_input, conv_transpose1d_input), 2: (conv2d_input, conv_transpose2d_input),
    3: (conv3d_input, conv_transpose3d_input),
}.items():  # fmt: skip
    for _operation in _operations:
        planner(_operation)(partial(_plan, f"grad.{_operation.__name__}", _rank, "transpose" in _operation.__name__))
