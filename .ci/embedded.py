"""The module of docs/doors/engine.md, in the working directory, does what it says."""

import sys

import numpy as np

import layoutkit as lk

sys.path.insert(0, ".")
from embedded import filter_images

rng = np.random.default_rng(0)
images, filters = rng.random((3, 9, 9, 5), np.float32), rng.random((4, 5, 3, 3), np.float32)
out = np.zeros((3, 7, 7, 4), np.float32)
filter_images(images, filters, out)
np.testing.assert_allclose(out, lk.conv2d(images, filters, layout="NHWC"), rtol=1e-4)
print("docs/doors/engine.md: right")
