"""A quantised model, and what is known of its layers: error, time and type, as a table and as a page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import pages
from ...choosing import machine

HEAD = "layer", "error alone", "ms in float32", "ms here", "type"


class LayerReport(NamedTuple):
    """A layer of a quantised model.

    Attributes
    ----------
    op : str
        Its operator.
    name : str
        That of its node, or of its result.
    dtype : {"int8", "float32"}
        What it multiplies.
    error : float
        Of the model, on the first samples, where only this layer is quantised; infinite if its input is not finite.
    seconds : float or None
        That it takes in the quantised model, on the first samples, with what became part of it; None where it is part
        of another step.
    float_seconds : float or None
        That it takes in float32.
    """

    op: str
    name: str
    dtype: str
    error: float
    seconds: float | None
    float_seconds: float | None


class Quantized:
    """A quantised model. Printed, it tells the error, the time and the type of each layer; notebooks show a table.

    Parameters
    ----------
    model : onnx.ModelProto
        An ordinary ONNX model, with QuantizeLinear and DequantizeLinear.
    layers : list of LayerReport
        What is known of each layer, in the order of the model.
    error : float
        Of its results over all samples, see `quantize`.
    seconds, float_seconds : float
        That a run on the first samples takes, quantised and in float32.
    """

    def __init__(
        self, model: Any, layers: Sequence[LayerReport], error: float, seconds: float, float_seconds: float
    ) -> None:  # fmt: skip
        self.model, self.layers, self.error = model, list(layers), error
        self.seconds, self.float_seconds = seconds, float_seconds

    def __str__(self) -> str:
        rows = [HEAD, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
        return "\n".join([self._head(), *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)])

    def __repr__(self) -> str:
        return f"<Quantized: {self._head()}>"

    def _repr_html_(self) -> str:
        return pages.fragment([self._head()], HEAD, [*self._rows()])

    def _head(self) -> str:
        narrow = sum(layer.dtype == "int8" for layer in self.layers)
        return (
            f"{narrow} of {len(self.layers)} layers multiply int8; the error is {self.error:.2e}; "
            f"{1e3 * self.seconds:.3g} ms a run, {1e3 * self.float_seconds:.3g} in float32"
        )

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for layer in self.layers:
            times = ("" if s is None else f"{1e3 * s:.3f}" for s in (layer.float_seconds, layer.seconds))
            yield (f"{layer.op} {layer.name}", f"{layer.error:.2e}", *times, layer.dtype)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as an ONNX file.

        Parameters
        ----------
        path : str or path
            Of the file; one that is there is replaced.
        """
        Path(path).write_bytes(self.model.SerializeToString())

    def page(self, title: str) -> str:
        """A page of one file, as HTML: the layers with the largest errors first, then all in the model's order.

        Parameters
        ----------
        title : str
            Such as the name of the model.
        """
        here = machine.identity()
        on = f"{here['cpu']}, {here['isa']}; layoutkit {here['version']}"
        finite = [layer.error for layer in self.layers if np.isfinite(layer.error)]
        most = max(finite, default=0.0) or 1.0
        rows = sorted(zip(self.layers, self._rows()), key=lambda pair: -pair[0].error)
        parts = [
            f"<h1>{escape(title)}</h1>", f"<p class=quiet>{escape(on)}</p>", f"<p>{escape(self._head())}</p>",
            "<h2>Error of the model where only this layer is quantised</h2>",
            pages.bars((f"{name} ({dtype})", error, "", min(layer.error / most, 1.0))
                       for layer, (name, error, *_, dtype) in rows),
            "<h2>Layers</h2>", f"<div class=scroll tabindex=0>{pages.table(HEAD, self._rows())}</div>",
        ]  # fmt: skip
        return pages.document(title, parts)
