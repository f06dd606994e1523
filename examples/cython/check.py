"""What the installed package computes is what layoutkit computes from Python. In this folder:

python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/python -P check.py
"""

import numpy as np
from batch import filter_images

import layoutkit as lk

rng = np.random.default_rng(0)
images = rng.standard_normal((23, 30, 31, 20), np.float32)
filters = rng.standard_normal((18, 20, 3, 3), np.float32)
out = np.zeros((23, 28, 29, 18), np.float32)
want = lk.conv2d(images, filters, layout="NHWC")
for threads in (1, 2, 3):
    out[...] = 0
    filter_images(images, filters, out, threads)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
try:
    filter_images(images, filters[..., :0, :0].copy(), out, 1)
except (ValueError, IndexError) as error:
    print(f"as it should be, refused: {error}")
print("images filtered in a parallel loop: right")
