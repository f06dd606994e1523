"""A transposed convolution some images at a time.

Its phases read the input once each, and write the output between one another: what they share is in the caches then.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..choosing.machine import last_level_cache
from ..formats.layout import Layout
from .epilogue import Epilogue

if TYPE_CHECKING:
    from .joined_route import JoinedRoute
    from .phases import TransposedTask
    from .phases_route import PhasesRoute

CACHE_PARTS = 6  # input and output of images that are taken together are such a part of the last cache at most ..
LEAST_PARTS = 48  # .. and such a part at least: each time costs some calls
BATCH_PARTS = 2  # those of all images are more than such a part of it


def images_at_a_time(task: TransposedTask) -> int:
    """All, where the last cache has room for them or has none for one."""
    n, cache = task.n, last_level_cache()
    each = sum(dtype.itemsize * prod(shape[1:]) for dtype, shape in (
        (task.types.src, task.x_shape), (task.types.dst, task.y_shape)))  # fmt: skip
    if task.single or BATCH_PARTS * n * each <= cache or not (_is_outermost(task.src) and _is_outermost(task.dst)):
        return n
    most = cache // CACHE_PARTS // each
    found = next((k for k in range(min(most, n), 0, -1) if n % k == 0), n)
    return found if found * each >= cache // LEAST_PARTS else n


def _is_outermost(layout: Layout) -> bool:
    """Whether images are the first axis of arrays, and no other."""
    return [i for i, f in enumerate(layout.factors) if f.dim == 0] == [0] and not layout.factors[0].size


class ImagesRoute:
    """The route of some images, run on all; see `PhasesRoute`.

    Parameters
    ----------
    task : TransposedTask
        Of all images.
    some : PhasesRoute or JoinedRoute
        Of so many that several times as many are all.
    """

    def __init__(self, task: TransposedTask, some: PhasesRoute | JoinedRoute) -> None:
        self.task, self.some = task, some
        self.steps, self.native = some.steps, some.native
        self.pack, self.needs = some.pack, some.needs

    def run(
        self, x: np.ndarray, packed: Sequence[Any], y: np.ndarray, epilogue: Epilogue | None, add: np.ndarray | None,
        workspace: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """As of `PhasesRoute`."""
        count = self.some.task.n
        for first in range(0, self.task.n, count):
            images = slice(first, first + count)
            steps = epilogue
            if epilogue is not None and epilogue.tensors:
                steps = epilogue.over([t[images] for t in epilogue.tensors])
            self.some.run(x[images], packed, y[images], steps, None if add is None else add[images], workspace)
