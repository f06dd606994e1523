"""A quantised model, and what is known of its layers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


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
    """

    op: str
    name: str
    dtype: str
    error: float


class Quantized:
    """A quantised model. Printed, it tells the error and the type of each layer.

    Parameters
    ----------
    model : onnx.ModelProto
        An ordinary ONNX model, with QuantizeLinear and DequantizeLinear.
    layers : list of LayerReport
        What is known of each layer, in the order of the model.
    error : float
        Of its results over all samples, see `quantize`.
    """

    def __init__(self, model: Any, layers: Sequence[LayerReport], error: float) -> None:
        self.model, self.layers, self.error = model, list(layers), error

    def __str__(self) -> str:
        rows = [("layer", "error alone", "type")]
        rows += [(f"{layer.op} {layer.name}", f"{layer.error:.2e}", layer.dtype) for layer in self.layers]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = ("  ".join(text.ljust(n) for text, n in zip(row, widths)).rstrip() for row in rows)
        return "\n".join([self._head(), *lines])

    def __repr__(self) -> str:
        return f"<Quantized: {self._head()}>"

    def _head(self) -> str:
        narrow = sum(layer.dtype == "int8" for layer in self.layers)
        return f"{narrow} of {len(self.layers)} layers multiply int8, the error is {self.error:.2e}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as an ONNX file.

        Parameters
        ----------
        path : str or path
            Of the file; one that is there is replaced.
        """
        Path(path).write_bytes(self.model.SerializeToString())
