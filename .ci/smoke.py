"""An installed layoutkit works: one reorder and one convolution against numpy; prints what ran."""

import itertools
import os
import tempfile

os.environ["LAYOUTKIT_CACHE_DIR"] = tempfile.mkdtemp()

import numpy as np

import layoutkit as lk
from layoutkit._core.runtime import registry

rng = np.random.default_rng(0)
x = rng.standard_normal((1, 20, 9, 8), np.float32)
w, bias = rng.standard_normal((7, 20, 3, 3), np.float32), rng.standard_normal(7, np.float32)
blocked = lk.reorder(x, "NCHW", "nChw16c", threads=1)
assert (lk.reorder(blocked, "nChw16c", "NHWC", shape=x.shape, threads=1) == x.transpose(0, 2, 3, 1)).all()
want = np.zeros((1, 7, 7, 6), np.float32) + bias[:, None, None]
for i, j in itertools.product(range(3), repeat=2):
    want += np.einsum("nchw,oc->nohw", x[:, :, i : i + 7, j : j + 6], w[:, :, i, j])
for layout in ("NCHW", "NHWC"):
    y = lk.conv2d(lk.reorder(x, "NCHW", layout, threads=1), w, bias, layout=layout, threads=1)
    assert abs(lk.reorder(y, layout, "NCHW", threads=1) - want).max() < 1e-4
print(f"reorder and convolution are right on {registry.isa()}, of {' '.join(registry.isas())}")
