"""Arrays of any strides, between guard pages."""

import numpy as np
from hypothesis import strategies as st
from oracle.guard import guarded


@st.composite
def placements(draw, rank, written=False):
    """How an array lies in memory: the order of its axes, their direction, gaps, an axis that is repeated."""
    order = draw(st.permutations(range(rank)) | st.just(tuple(range(rank))))
    repeated = draw(st.sampled_from(range(rank))) if rank and not written and draw(st.integers(0, 5)) == 0 else None
    few = st.sampled_from([0, 0, 0, 1])
    return order, [draw(few) for _ in range(rank)], [1 + draw(few) for _ in range(rank)], repeated, draw(st.booleans())


def placed(values, placement):
    """An array with these values (of the first index of a repeated axis) and strides, between guard pages."""
    order, turned, gaps, repeated, high = placement
    inner = values if repeated is None else values.take([0] if values.shape[repeated] else [], repeated)
    shape = [inner.shape[axis] * gaps[axis] for axis in order]
    around = 1 if values.dtype.kind in "biu" else np.nan
    memory = guarded(
        np.full(max(1, np.prod(shape)), around, values.dtype).view(np.uint8), "high" if high else "low"
    ).array
    array = memory.view(values.dtype)[: np.prod(shape, dtype=int)].reshape(shape).transpose(np.argsort(order))
    # where memory ends with the last gap, begin as late as possible: the last element lies at the guard page
    array = array[tuple(slice(gap - 1 if high else 0, None, gap) for gap in gaps)]
    array = array[tuple(slice(None, None, -1 if turn else 1) for turn in turned)]
    array[...] = inner
    return array if repeated is None else np.broadcast_to(array, values.shape)


@st.composite
def products(draw, extents, long_k):
    """Of matrices and batches of them: shapes of both operands and of the result, and how they lie in memory. `long_k`:
    more lengths of the sums, where there are few."""
    m, n = draw(extents), draw(extents)
    k = draw(extents if m * n > 3000 else extents | long_k)
    batch = draw(st.lists(st.sampled_from([1, 2, 3, 5]), max_size=3)) if m * n * k < 50000 else []
    shapes = []
    for inner in ((m, k), (k, n)):
        outer = [draw(st.sampled_from([size, 1])) for size in batch]
        shapes.append((*outer[draw(st.integers(0, len(outer))) if draw(st.booleans()) else 0 :], *inner))
    shapes.append((*batch, m, n))
    return shapes, [draw(placements(len(shape), i == 2)) for i, shape in enumerate(shapes)]
