"""The main job on photographs (bench/photo.py): as scipy.ndimage and torch have it, in every layout."""

import functools
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import layoutkit as lk

spec = importlib.util.spec_from_file_location("photo", Path(__file__).parents[1] / "bench" / "photo.py")
photo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(photo)


@functools.cache
def by_scipy(name):
    """A photograph, what scipy makes of it, and how far f32 rounding may be off."""
    image, filters = photo.photo(name), photo.bank()
    bound = photo.filtered_by_scipy(image, abs(filters)) * 2**-24 * (photo.per_channel(filters)[0].size + 2)
    return image, photo.filtered_by_scipy(image, filters), bound


@pytest.mark.parametrize("layout", photo.LAYOUTS)
@pytest.mark.parametrize("name", ["astronaut", "chelsea"])
def test_a_filter_bank_is_as_scipy_has_it(name, layout):
    image, want, bound = by_scipy(name)
    got = photo.filtered(image, photo.bank(), layout)
    assert got.shape == want.shape and got.dtype == np.float32
    assert (abs(got - want) <= bound).all()


@pytest.mark.parametrize("layout", photo.LAYOUTS)
def test_a_photograph_there_and_back_is_bit_identical(layout):
    for name in photo.PHOTOS:
        image = photo.photo(name)
        x = lk.reorder(image, "NHWC", layout)
        back = lk.reorder(x, layout, "NHWC", shape=(1, 3, *image.shape[1:3]))
        assert back.tobytes() == image.tobytes()


@functools.cache
def by_torch():
    images = photo.batch()
    return images, photo.network_by_torch(images)


@pytest.mark.parametrize("layout", photo.LAYOUTS)
def test_the_first_layers_of_resnet50_are_as_torch_has_them(layout):
    images, want = by_torch()
    got = photo.network(images, layout)
    assert got.shape == want.shape == (len(photo.PHOTOS), 256, 56, 56)
    assert abs(got - want).max() <= 2e-5 * abs(want).max()
    assert np.linalg.norm(got - want) <= 1e-6 * np.linalg.norm(want)


def test_the_filters_are_what_they_are_called():
    bank = photo.bank()
    np.testing.assert_allclose(bank[2:5].sum((1, 2)), 1)
    np.testing.assert_allclose(bank[:2].sum((1, 2)), 0, atol=1e-15)
    ramp = np.broadcast_to(np.arange(20, dtype=np.float32)[None, None, :, None], (1, 20, 20, 1))
    w = bank[:2, None].astype(np.float32)
    slopes = lk.conv2d(np.ascontiguousarray(ramp), w, layout="NHWC")
    np.testing.assert_allclose(slopes[..., 0], -1, rtol=1e-5)
    np.testing.assert_allclose(slopes[..., 1], 0, atol=1e-5)
