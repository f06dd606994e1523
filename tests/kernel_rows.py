"""The rows of the registry that kernels are tested by."""

import numpy as np
from conftest import EMULATED

from layoutkit._core.runtime import registry

ROWS = [k for k in registry.kernels(all_isas=True) if k.isa in (*registry.isas(), *EMULATED)]
REAL = {"f32": np.float32, "f64": np.float64}


def reals(kernel):
    """The type of the sums of a row that convolves; of whole units, where it has such, they are the bytes."""
    return REAL[registry.TYPES[kernel.types][2]]
