"""Resizing: nearest, linear, cubic."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .base import Builder, Result, Value, require, translates

aten = torch.ops.aten


def _resize(b: Builder, y: Result, x: Value, factors: Sequence[float | None], **attributes) -> Value:
    """Where factors are given, coordinates are by them; else by the sizes."""
    if factors and all(f is not None for f in factors):
        scales = b.constant(torch.tensor([1, 1, *factors], dtype=torch.float32))
        return b.add("Resize", [x, None, scales], y.shape, y.dtype, **attributes)
    return b.add("Resize", [x, None, None, b.ints(*y.shape)], y.shape, y.dtype, **attributes)


def _nearest_by_vector(
    b: Builder, y: Result, x: Value, size: Sequence[int] | None, factors: Sequence[float] | None
) -> Value:
    return _nearest(b, y, x, size, *(factors or ()))


def _nearest(b: Builder, y: Result, x: Value, size: Sequence[int] | None, *factors: float | None) -> Value:
    mode = dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    if factors and None not in factors:  # torch takes rows as they are, or twice, whatever the factor
        sizes = zip(factors, x.shape[2:], y.shape[2:])
        factors = tuple([m // n if m in (n, 2 * n) else factor for factor, n, m in sizes])
    return _resize(b, y, x, factors, **mode)


def _smooth(mode: str, **attributes):
    def by_vector(
        b: Builder,
        y: Result,
        x: Value,
        size: Sequence[int] | None,
        align_corners: bool,
        factors: Sequence[float] | None,
    ) -> Value:
        return translate(b, y, x, size, align_corners, *(factors or ()))

    def translate(
        b: Builder, y: Result, x: Value, size: Sequence[int] | None, align: bool, *factors: float | None
    ) -> Value:
        require(y.dtype.is_floating_point, f"resizing {y.dtype}")  # torch rounds
        of = "align_corners" if align else "half_pixel"
        return _resize(b, y, x, () if align else factors, mode=mode, coordinate_transformation_mode=of, **attributes)

    return by_vector, translate


for _of in (aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d):
    translates(_of.vec)(_nearest_by_vector)
    translates(_of.default)(_nearest)
for _of, _mode, _attributes in (
    (aten.upsample_linear1d, "linear", {}), (aten.upsample_bilinear2d, "linear", {}),
    (aten.upsample_trilinear3d, "linear", {}), (aten.upsample_bicubic2d, "cubic", {"cubic_coeff_a": -0.75}),
):  # fmt: skip
    _by_vector, _by_sizes = _smooth(_mode, **_attributes)
    translates(_of.vec)(_by_vector)
    translates(_of.default)(_by_sizes)
