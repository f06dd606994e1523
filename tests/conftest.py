"""Without the compiled half, reorders are those of the reference."""

import importlib.util
import sys
import types

import numpy as np

from layoutkit import reference
from layoutkit.layout import Layout

if importlib.util.find_spec("layoutkit._core") is None:

    def reorder(array, src, dst, *, shape=None, out=None, pad_value=0, threads=None):
        src, dst = Layout(src), Layout(dst)
        shape = src.padded_shape(array.shape) if shape is None else shape
        result = reference.reorder(np.asarray(array), src, dst, shape, pad_value)
        if out is None:
            return result
        out[...] = result
        return out

    sys.modules["layoutkit.reorder"] = types.SimpleNamespace(reorder=reorder)
