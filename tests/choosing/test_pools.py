"""Thread pools of others: held while something is measured, told where they spoil it."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from layoutkit.choosing import pools


def blas():
    return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]


def test_blas_is_held_and_let_go():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas()
    with pools.held():
        assert all(n == 1 for n in blas())
    assert blas() == before


@pytest.mark.parametrize("count", [0, 1, 2])
def test_two_openmp_runtimes_are_told(count, monkeypatch):
    class Controller:
        def info(self):
            one = {"user_api": "openmp", "prefix": "libgomp", "num_threads": 2}
            return [one] * count + [{"user_api": "blas", "prefix": "libopenblas", "num_threads": 2}]

    monkeypatch.setattr(pools, "ThreadpoolController", Controller)
    notes = pools.notes()
    assert len(notes) == (count == 2)
    assert count < 2 or "2 OpenMP runtimes: libgomp (2 threads), libgomp (2 threads)" in notes[0]
