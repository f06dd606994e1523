"""Whole networks on arrays past memory: over the images of a batch, or by overlapping tiles of an image."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from ..choosing.threads import check_threads
from ..formats.layout import Layout
from ..formats.nearest import none_of
from ..graph.ir import Graph
from ..graph.loading import load
from ..graph.model import Model
from ..graph.operators import Known, Unsupported
from ..graph.shapes import infer
from ..graph.tiles import MAX_BYTES, tiling
from ..graph.tiles import Axis as NetworkAxis
from .axes import Range, Window, WindowAxis, ranges
from .chunking import DimCuts, cuts_of
from .physical_windows import gathered, physical_window
from .reads import Pieces, Reads, Result, Tile
from .shared_costs import SharedCosts
from .sources import ChunkedArray, Source, StoredArray, source_of
from .task_graph import tiled

LETTERS = "abcdefghijkl"


class Field(NamedTuple):
    """A spatial axis of a network, as `axes.WindowAxis` is one of an operation.

    Attributes
    ----------
    size, out : int
        Of the input and the output.
    along : graph.tiles.Axis
        What operators read along it.
    """

    size: int
    out: int
    axis: NetworkAxis

    def window(self, start: int, stop: int) -> Window:
        """The window of a range of the output."""
        first, last, _ = self.axis.window(start, stop)
        return Window((start, stop), (first, last), (0, 0))

    def cuts(self, inputs: Iterable[int], unit: int = 1) -> list[int]:
        """Where the output is cut so that tiles are near chunks of the input, at whole steps of the network."""
        step = self.axis.step
        outputs = int(step / self.axis.tensors[-1].pitch)
        cuts = {cut for end in inputs if 0 < (cut := round(end / step) * outputs) < self.out}
        return sorted(cuts | {0, self.out})


class Network:
    """Makes tiles of an output of a network.

    Parameters
    ----------
    graph : Graph
        With one input and one output.
    options : dict
        Of `Model`.
    shape : tuple of int
        Of the whole input.
    fields : sequence of Field, or None
        Of the spatial axes; None where only the batch is cut.
    cuts : sequence of sequence of int
        Of the output, by dimension.
    """

    what = "run"
    key_prefixes: tuple[str, ...] = ("",)
    shared_costs: SharedCosts | None = None

    def __init__(self, graph: Graph, options: dict[str, Any], shape, fields: Sequence[Field] | None, cuts) -> None:
        self.graph, self.options, self.shape, self.fields = graph, options, shape, fields
        # All windows of an axis are as long as the longest, so that few programs are planned.
        self._lengths = [
            max(b - a for a, b in (field.window(*r).inputs for r in ranges(of)))
            for field, of in zip(fields or (), cuts[2:])
        ]
        self._models = threading.local()

    def __dask_tokenize__(self):
        nodes = [(n.op, n.inputs, n.outputs, sorted(n.attributes.items(), key=str)) for n in self.graph.nodes]
        return nodes, sorted(self.graph.constants.items()), self.graph.outputs, self.options, self.shape, self._lengths

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_models"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _models=threading.local())

    @property
    def nbytes(self) -> int:
        """Bytes of its constants, the model's and the packed ones."""
        return 2 * sum(value.nbytes for value in self.graph.constants.values())

    def scratch(self, outputs: Sequence[Range], gathers: bool) -> int:
        """See `reads.TileMaker`: the most that an operator reads and writes, and its window."""
        ((name, of),) = self.graph.inputs.items()
        window = [b - a for a, b in (self.window(dim, outputs[dim] if dim < len(outputs) else (0, 0))
                                     for dim in range(len(self.shape)))]  # fmt: skip
        known = infer(self.graph, {name: tuple(window)})
        most = max(
            sum(prod(known[t].shape) * known[t].itemsize for t in (*node.present_inputs(), *node.outputs) if t)
            for node in self.graph.nodes
        )
        return most + gathers * prod(window) * of.dtype.itemsize

    def window(self, dim: int, outputs: Range) -> Range:
        """The input that a range of outputs reads along a dimension."""
        if dim == 0:
            return outputs
        if dim == 1 or not self.fields:
            return 0, self.shape[dim]
        field, length = self.fields[dim - 2], self._lengths[dim - 2]
        step, (start, stop) = field.axis.step, field.window(*outputs).inputs
        start = max(0, min(start, (field.size - length) // step * step))
        return start, max(stop, start + length)

    def __call__(self, tile: Tile, pieces: Sequence[Pieces]) -> np.ndarray:
        outputs = [*tile.outputs, *[(0, 0)] * len(self.shape)][: len(self.shape)]
        window = [self.window(dim, r) for dim, r in enumerate(outputs)]
        x = gathered(pieces[0], physical_window(_plain(len(self.shape)), self.shape, window).ranges)
        y = self._model().run(x)[self.graph.outputs[0]]
        at: list[slice] = [slice(None)] * y.ndim
        for dim, field in enumerate(self.fields or (), 2):
            (begin, end), pitch = tile.outputs[dim], field.axis.tensors[-1].pitch
            first = begin - int(window[dim][0] / pitch)
            at[dim] = slice(first, first + end - begin)
        tile_array = y[tuple(at)]
        return tile_array if tile_array.size == y.size else np.ascontiguousarray(tile_array)

    def _model(self) -> Model:
        """The model of this thread: its buffers are used by one call at a time."""
        model: Model | None = getattr(self._models, "model", None)
        if model is None:
            model = self._models.model = Model(self.graph, **self.options)
        return model


def run(model: Any, x: Any, *, output: str | None = None, chunks: Any = None, threads: int | None = 1) -> da.Array:
    """An output of a network for an array past memory, as a dask array.

    Nothing is computed yet. Where only the batch is cut, each task runs the network on some images. Where an image is
    cut, each runs it on a window that overlaps with those of its neighbours by what the operators between input and
    output read, and keeps what the whole would have given.

    Parameters
    ----------
    model : Model, or what `layoutkit.onnx.load` takes
        With one input.
    x : dask array, or array of Zarr, HDF5 or numpy
        The input: (N, C, spatial axes), or of any axes that begin with the batch where only that is cut.
    output : str, optional
        Which one; by default the only one.
    chunks : optional
        Of the result, as dask takes them: by default it is cut where `x` is, at whole strides of the network.
    threads : int, optional
        Of each task. One by default, as dask runs as many tasks as there are cores.

    Returns
    -------
    dask.array.Array
        With ``accuracy="reproducible"`` of the model its bits are those of the whole, but for operators that sum in an
        order of their own: means and sums over channels, Softmax, AveragePool.

    Raises
    ------
    Unsupported
        An image is cut, and an operator needs it whole: the message names it. The batch can still be cut.
    TypeError, ValueError
        The input is of another type or rank, or the output is none of the model's.

    Examples
    --------
    >>> import dask.array as da, layoutkit.dask                        # doctest: +SKIP
    >>> x = da.from_zarr("scan.zarr")                                  # doctest: +SKIP
    >>> y = layoutkit.dask.run("unet.onnx", x)                         # doctest: +SKIP
    """
    model = model if isinstance(model, Model) else load(model)
    graph = model.graph
    if output is None and len(graph.outputs) > 1:
        raise ValueError(f"run: which output is it? output= is one of {', '.join(graph.outputs)}")
    output = graph.outputs[0] if output is None else output
    if output not in graph.outputs:
        raise ValueError(none_of("run: output", output, graph.outputs))
    if len(graph.inputs) != 1:
        raise ValueError(f"run: the model has the inputs {', '.join(graph.inputs)}, expected one")
    graph = graph.needed([output])
    ((name, of),) = graph.inputs.items()
    source = source_of(x, "run", "x")
    shape = source.shape
    if source.dtype != of.dtype or len(shape) != len(of.shape):
        raise TypeError(f"run: x is {source.dtype} {shape}, input {name!r} is {of.dtype} {tuple(of.shape)}")
    options = dict(model.options, threads=check_threads(1 if threads is None else threads))
    src = _plain(len(shape))
    fields = _fields(graph, source, chunks)
    batch = WindowAxis(shape[0], shape[0])
    if fields is None:
        y = _output_of(graph, name, (1, *shape[1:]))
        out_shape = (shape[0], *y.shape[1:])
        sizes = [*shape[1:], *[1] * len(out_shape)]
        dims = [DimCuts(batch, 1), *(DimCuts(WindowAxis(n, m), 0) for n, m in zip(sizes, out_shape[1:]))]
    else:
        y = _output_of(graph, name, shape)
        out_shape = y.shape
        channels = WindowAxis(shape[1], out_shape[1])
        dims = [DimCuts(batch, 1), DimCuts(channels, 0), *(DimCuts(field, 1) for field in fields)]
    dst = _plain(len(out_shape))
    cuts = cuts_of(source, src, dst, dims, y.dtype, chunks, "run")
    if fields is None:
        _check_batches(graph, name, shape, cuts[0])
    work = Network(graph, options, shape, fields, cuts)
    return tiled(work, [Reads(source, src, shape, work.window)], Result(dst, out_shape, y.dtype, cuts))


def _plain(rank: int) -> Layout:
    return Layout(LETTERS[:rank])


def _fields(graph: Graph, source: Source, chunks: Any) -> list[Field] | None:
    """The spatial axes of a network whose images are cut; None if only the batch is."""
    cut = isinstance(source, ChunkedArray) and any(len(sizes) > 1 for sizes in source.chunks[2:])
    if not cut and not isinstance(source, StoredArray) and chunks is None:
        return None
    try:
        tiles = tiling(graph, source.shape)
    except Unsupported as error:
        if not cut:
            return None
        raise Unsupported(f"run: x is cut within images; with x.rechunk() to whole ones it is not: {error}") from None
    return [Field(n, m, axis) for n, m, axis in zip(source.shape[2:], tiles.out_shape[2:], tiles.axes)]


def _output_of(graph: Graph, name: str, shape: tuple[int, ...]) -> Known:
    return infer(graph, {name: shape}, MAX_BYTES)[graph.outputs[0]]


def _check_batches(graph: Graph, name: str, shape: tuple[int, ...], cuts: Sequence[int]) -> None:
    """Raise ValueError unless the output of any of these parts of a batch has as many images."""
    for count in {stop - start for start, stop in ranges(cuts)}:
        out_shape = _output_of(graph, name, (count, *shape[1:])).shape
        if not out_shape or out_shape[0] != count:
            raise ValueError(f"run: {count} images give an output of shape {out_shape}: it does not follow the batch")
