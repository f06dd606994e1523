"""What type checkers know of the public functions; read by mypy (`.ci/types`), not run."""

from typing import assert_type

import numpy as np

import layoutkit as lk

x: np.ndarray = np.zeros((1, 4, 5, 6), np.float32)
w: np.ndarray = np.zeros((2, 4, 3, 3), np.float32)
t = lk.Tensor(x, "NCHW")

assert_type(lk.reorder(x, "NCHW", "NHWC", threads=1), np.ndarray)
assert_type(lk.reorder(t, dst="NHWC"), lk.Tensor)
assert_type(lk.conv2d(x, w, padding=1, padding_mode="reflect"), np.ndarray)
assert_type(lk.conv2d(t, w, activation="relu"), lk.Tensor)
assert_type(lk.conv1d(x, w, stride=2), np.ndarray)
assert_type(lk.conv3d(t, w), lk.Tensor)
assert_type(lk.Conv2d(w).stride, tuple[int, ...])
assert_type(lk.layout_of(x), lk.Layout)
assert_type(lk.Layout("NHWC").strides((1, 2, 3, 4)), tuple[int, ...])
assert_type(lk.plan(lk.reorder, x, "NCHW", "NHWC").explain(), str)
assert_type(t.shape, tuple[int, ...])
lk.plan(lk.reorder, x, "NCHW", "NHWC")(x)

# Each of these must be an error: mypy tells ignores that are not needed.
lk.conv2d(x, w, strides=2)  # type: ignore[call-overload]
lk.conv1d(x, w, paddings=2)  # type: ignore[call-overload]
lk.reorder(x, "NCHW", "NHWC", thread=2)  # type: ignore[call-overload]
lk.Conv2d(w, strides=2)  # type: ignore[call-arg]
lk.max_pool1d(x, 2, strides=2)  # type: ignore[call-arg]
