"""ONNX models that run: `lk.onnx.load`."""

from __future__ import annotations

from typing import Any

from ..formats.nearest import none_of
from .model import DTYPES, Model
from .onnx import graph_of
from .quantize.fastest import fastest

TOLERANCE = 1e-2  # of the fastest type


def load(
    model: Any, *, threads: int | None = None, accuracy: str = "standard", dtype: str = "float32", samples: Any = None,
    tolerance: float = TOLERANCE,
) -> Model:  # fmt: skip
    """A model that runs, from an ONNX file.

    Parameters
    ----------
    model : str, path, bytes or onnx.ModelProto
        External tensors must be in files in its folder or below. A file is held open, and read again for inputs of
        another shape, so that its numbers do not stay in memory.
    threads : int, optional
        At most this many.
    accuracy : {"standard", "reproducible", "strict", "fast"}
        Of its convolutions, see `conv2d`.
    dtype : {"float32", "bfloat16", "float16", "auto"}
        What convolutions and products multiply; they sum in float32, and everything else is in the model's types.
        ``"auto"`` tries float32, bfloat16, float16 and int8 (by `quantize`) on the samples, and takes the one that is
        fastest there among those whose error is within the tolerance; float32, unless another is clearly faster.
        Of a model that is quantised, int8 is what it has already. `explain` tells the times and errors.
    samples : dict of str to array, array, or list of these, optional
        For ``"auto"``, which needs them: inputs like those that the model is for, as `quantize` takes them. Times are
        of a run on the first.
    tolerance : float
        For ``"auto"``: the largest error. That of an output y is ``max|y - y32| / max|y32|``, both over all samples,
        where y32 is the output in float32; of several outputs, that of the worst.

    Returns
    -------
    Model
        ``.run({name: array})`` gives the outputs by name; `explain()` tells how.

    Raises
    ------
    Unsupported
        Operators that are not supported: all are named.
    ValueError, TypeError
        Something that is no model, or a model that violates ONNX's definition of an operator; samples that it does not
        take, or that are missing or of no use.
    OSError
        A file of the model that cannot be read.
    """
    if dtype not in (*DTYPES, "auto"):
        raise ValueError(none_of("onnx.load: dtype", dtype, (*DTYPES, "auto")))
    if dtype == "auto":
        return fastest(model, samples, tolerance, threads=threads, accuracy=accuracy)
    if samples is not None:
        raise ValueError(f'onnx.load: samples are for dtype="auto", got dtype={dtype!r}')
    return Model(graph_of(model), threads=threads, accuracy=accuracy, dtype=dtype)
