import contextlib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import dask
import pytest


@pytest.fixture(scope="session")
def pool():
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def processes(pool):
    """A context, to be entered again and again, in which dask computes by other processes."""

    class Processes(contextlib.ContextDecorator):
        def __enter__(self):
            self.config = dask.config.set(scheduler="processes", pool=pool)

        def __exit__(self, *error):
            self.config.__exit__(*error)

    return Processes()
