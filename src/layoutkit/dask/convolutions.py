"""Convolutions of arrays past memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm, prod
from typing import Any

import dask.array as da
import numpy as np

from ..choosing.threads import check_threads
from ..convolutions import conv as memory
from ..convolutions.algorithms.base import CHANNELS_LAST
from ..convolutions.conv import CLASSES
from ..convolutions.epilogue import in_words
from ..convolutions.filter import Filter
from ..convolutions.order import SMALL_GROUP_CHANNELS, reproducible
from ..convolutions.types import check_type, dtype_for
from ..memory.arguments import logical
from ..memory.tensor import Tensor
from .activations import have_tensors, of_channels, split, with_tensors
from .axes import Range, Window, WindowAxis
from .chunking import DimCuts, cuts_of
from .lazy import in_memory, lazily, placeholder, with_batch, without_batch
from .physical_windows import PhysicalWindow, gathered, physical_window
from .reads import Pieces, Reads, Result, Tile
from .reorders import reorder
from .shared_costs import SharedCosts
from .sources import source_of
from .task_graph import tiled
from .tile_compute import compute_tile, pads_of, strips_of


class Convolution:
    """Makes tiles of a convolution.

    Parameters
    ----------
    f : Filter
        Of the whole.
    shape, out_shape : tuple of int
        Logical shapes of the whole input and result.
    axes : tuple of WindowAxis
        Of images and the spatial dimensions.
    options : dict
        Keywords of `conv2d` for the whole; the activation as `activations.split` has it.
    adds : bool
        Whether the first input besides x is added.
    """

    key_prefixes: tuple[str, ...] = ("conv ", "pack ", "reorder ")
    shared_costs: SharedCosts | None = None

    def __init__(self, f: Filter, shape, out_shape, axes: tuple[WindowAxis, ...], options: dict[str, Any], adds: bool):
        self.what, self.rank, self.groups = f.what, len(f.kernel), f.groups
        self.w = np.array(f.w, order="C")  # the caller may change its own before anything is computed
        self.src, self.dst, self.dtype, self.itemsize = f.layout, f.out_layout, f.dst_dtype, f.src_dtype.itemsize
        self.shape, self.out_shape, self.axes = shape, out_shape, axes
        self.options, self.adds = options, adds
        self._ops: dict[Any, Any] = {}

    def __dask_tokenize__(self):
        return self.what, self.w, self.options, self.groups, str(self.dtype), self.shape, self.axes, self.adds

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ops": {}}

    def channels(self, outputs: Range) -> Range:
        """The input channels that a range of output channels reads."""
        per_out, per_in = self.out_shape[1] // self.groups, self.shape[1] // self.groups
        return outputs[0] // per_out * per_in, -(-outputs[1] // per_out) * per_in

    def window(self, dim: int, outputs: Range) -> Range:
        """The input that a range of outputs reads along a dimension."""
        return self.channels(outputs) if dim == 1 else self.axes[max(0, dim - 1)].window(*outputs).inputs

    @property
    def nbytes(self) -> int:
        """Bytes of the filter, the caller's and the packed one."""
        return 2 * self.w.nbytes

    def scratch(self, outputs: Sequence[Range], gathers: bool) -> int:
        """See `reads.TileMaker`: the assembled input of a strip, and the workspace of its convolution."""
        channels = outputs[1]
        strip = list(outputs)
        if gathers:
            read = self.channels(channels)
            strips = strips_of(outputs, self.src, self.dst, self.axes, self.shape, read, self.itemsize)
            strip = strips[len(strips) // 2]
        windows = [axis.window(*r) for axis, r in zip(self.axes, (strip[0], *strip[2:]))]
        box = physical_window(self.src, self.shape, [self.window(dim, r) for dim, r in enumerate(strip)])
        workspace = self._op(channels, pads_of(box, windows)).workspace(box.shape)
        return workspace + gathers * prod(box.sizes) * self.itemsize

    def __call__(self, tile: Tile, pieces: Sequence[Pieces]) -> np.ndarray:
        x, *more = pieces
        channels = tile.outputs[1]

        def compute(x: np.ndarray, box: PhysicalWindow, windows: Sequence[Window], outputs: Sequence[Range], out: Any):
            def tensor(number: int) -> np.ndarray:
                window = physical_window(self.dst, self.out_shape, outputs)
                return gathered(more[number], window.ranges, allow_gaps=True)

            pads, add = pads_of(box, windows), tensor(0) if self.adds else None
            if not have_tensors(self.options["activation"]):
                return self._op(channels, pads)(x, out, add, shape=box.shape)
            options = self._options(channels)
            steps = with_tensors(options["activation"], tensor)
            op = CLASSES[self.rank].once(padding=pads, **options | {"activation": steps})
            return op(x, out, add, shape=box.shape)

        return compute_tile(
            compute, x, self.src, self.shape, self.dst, self.axes, tile.outputs, self.channels(channels), self.dtype
        )

    def _op(self, channels: Range, pads: tuple[Range, ...]) -> Any:
        """The convolution of some output channels with this padding; its filter is packed once for all padding."""
        op = self._ops.get((channels, pads))
        if op is None:
            whole = self._ops.get(channels)
            if whole is None:
                whole = self._ops[channels] = CLASSES[self.rank](**self._options(channels))
            op = self._ops[channels, pads] = whole.padded(pads)
        return op

    def _options(self, channels: Range) -> dict[str, Any]:
        """Keywords of `conv2d` for some output channels."""
        (start, stop), count = channels, self.out_shape[1]
        options = dict(self.options, activation=of_channels(self.options["activation"], channels, count))
        for name in ("bias", "scale"):
            if np.ndim(options[name]):
                options[name] = options[name][start:stop]
        groups = -(-stop * self.groups // count) - start * self.groups // count
        return options | {"w": self.w[start:stop], "groups": groups}


_X = "Input; its axes are the physical axes of `layout`, or of a dask array all of them but the batch's."


@lazily(memory.conv1d, _X)
def conv1d(x, w, bias=None, *, chunks=None, threads=1, **attributes) -> da.Array:
    return _conv("conv1d", 1, x, w, bias, chunks, threads, **attributes)


@lazily(memory.conv2d, _X)
def conv2d(x, w, bias=None, *, chunks=None, threads=1, **attributes) -> da.Array:
    return _conv("conv2d", 2, x, w, bias, chunks, threads, **attributes)


@lazily(memory.conv3d, _X)
def conv3d(x, w, bias=None, *, chunks=None, threads=1, **attributes) -> da.Array:
    return _conv("conv3d", 3, x, w, bias, chunks, threads, **attributes)


def _conv(what, rank, x, w, bias, chunks, threads, *, shape=None, add=None, **attributes) -> da.Array:
    attributes["dtype"] = dtype_for(attributes.get("dtype"), x, w)
    attributes |= {name: in_memory(attributes.get(name), what, name) for name in ("scale",)}
    parameters = dict(attributes, w=in_memory(w, what, "w"), bias=in_memory(bias, what, "bias"))
    plain = Filter(what, rank, strided=True, **parameters | {"activation": None})
    steps, checked, tensors = split(parameters.get("activation"), plain.oc, int(add is not None))
    f = Filter(what, rank, strided=True, **parameters | {"activation": checked}) if steps else plain
    if f.uses_residual and add is None:
        raise ValueError(f"{what}: activation {in_words(f.activation)} sums up with add, which was not given")
    x, unbatched = with_batch(x, f.layout, what)
    source = source_of(x, what, "x")
    x_like = placeholder(source)
    check_type(x_like, f.src_dtype, f"{what}: x")
    shape = f.shape_of(x_like, (1, *shape) if unbatched and shape is not None else shape)
    operands = [with_batch(v, f.out_layout, what)[0] if unbatched else v for v in [add] * (add is not None) + tensors]
    if f.padding_mode != "zeros" and any(f.layout.block(dim) > 1 for dim in range(2, rank + 2)):
        last = CHANNELS_LAST[rank + 2]  # what is beyond the edges is assembled from single elements
        x = reorder(x, f.layout, last, shape=shape, threads=threads)
        y = _conv(what, rank, x, w, bias, chunks, threads, add=operands[0] if add is not None else None,
                  **attributes | {"layout": last, "out_layout": f.out_layout})  # fmt: skip
        return without_batch(y, f.out_layout, unbatched)
    p = f.problem(shape)
    batch, channels = WindowAxis(shape[0], shape[0]), WindowAxis(f.ic, f.oc)
    spatial = [
        WindowAxis(n, m, s, before, after, d * (k - 1) + 1, f.padding_mode, f.out_layout.block(dim))
        for dim, (n, m, s, (before, after), k, d) in enumerate(
            zip(shape[2:], p.out, f.stride, f.pads(shape[2:]), f.kernel, f.dilation), 2
        )
    ]  # fmt: skip
    work = Convolution(
        f, shape, p.dst_shape, (batch, *spatial), _options(f, parameters, steps, threads), add is not None
    )
    dims = [
        DimCuts(batch, lcm(f.layout.block(0), f.out_layout.block(0))),
        DimCuts(channels, _unit_of_channels(f), f.groups == f.ic == f.oc),
        *(DimCuts(axis, f.out_layout.block(dim)) for dim, axis in enumerate(spatial, 2)),
    ]
    cuts = cuts_of(source, f.layout, f.out_layout, dims, f.dst_dtype, chunks, what)
    runs = None if f.padding_mode == "zeros" else lambda dim, a, b: (batch, channels, *spatial)[dim].runs(a, b)
    reads = [Reads(source, f.layout, shape, work.window, runs)]
    names = ["add"] * (add is not None) + [f"tensor {k} of activation" for k in range(len(tensors))]
    reads += [_operand_reads(value, f, p.dst_shape, name) for name, value in zip(names, operands)]
    y = tiled(work, reads, Result(f.out_layout, p.dst_shape, f.dst_dtype, cuts))
    return without_batch(y, f.out_layout, unbatched)


def _options(f: Filter, parameters: dict[str, Any], steps: list | None, threads: int | None) -> dict[str, Any]:
    """The keywords of tiles; scales of floats are in the filter already."""
    accuracy = parameters.get("accuracy", "standard")
    if accuracy == "strict" or reproducible():
        accuracy = "reproducible"  # which is strict, too, and depends on no shape: tiles have the bits of the whole
    names = "zero_point", "out_scale", "out_zero_point"
    integer_options = {name: parameters[name] for name in names if name in parameters}
    return integer_options | dict(
        bias=_copied(parameters["bias"], f"{f.what}: bias"), stride=f.stride, dilation=f.dilation,
        scale=_copied(parameters["scale"], f"{f.what}: scale") if f.types.integers else None, layout=f.layout,
        out_layout=f.out_layout, algorithm=f.algorithm, accuracy=accuracy, activation=steps, dtype=parameters["dtype"],
        threads=check_threads(1 if threads is None else threads),
    )  # fmt: skip


def _copied(value: Any, what: str) -> Any:
    """A copy of an argument that is one number or one for each channel."""
    return value if value is None or isinstance(value, int | float) else logical(value, what).copy()


def _unit_of_channels(f: Filter) -> int:
    """Where output channels can be cut: at whole groups, and whole blocks of both layouts; 0: nowhere."""
    src, dst = f.layout.block(1), f.out_layout.block(1)
    if f.groups == 1:
        return dst
    per_in, per_out = f.ic // f.groups, f.oc // f.groups
    if 1 < per_in <= SMALL_GROUP_CHANNELS:
        return 0  # the order of their sums depends on how many groups there are
    return lcm(per_out * (src // gcd(src, per_in)), dst)


def _operand_reads(value: Any, f: Filter, shape: tuple[int, ...], name: str) -> Reads:
    """An input that is a tensor like the result."""
    value = value.array if isinstance(value, Tensor) else value
    source = source_of(value, f.what, name)
    if source.shape != f.out_layout.physical_shape(shape):
        expected = f.out_layout.physical_shape(shape)
        raise ValueError(f"{f.what}: {name} has shape {source.shape}, expected the result's {expected}")
    check_type(placeholder(source), f.dst_dtype, f"{f.what}: {name}")
    return Reads(source, f.out_layout, shape, lambda dim, outputs: outputs)
