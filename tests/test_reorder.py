import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit import reference


@st.composite
def layouts(draw, rank):
    letters = "abcdef"[:rank]
    outer = draw(st.permutations(letters))
    blocks = draw(st.lists(st.tuples(st.sampled_from([2, 3, 4, 8, 12, 16]), st.sampled_from(letters)), max_size=3))
    capital = {x for _, x in blocks}
    return lk.Layout(
        "".join(x.upper() if x in capital else x for x in outer) + "".join(f"{n}{x}" for n, x in blocks)
    )


DTYPES = ["u1", "u2", "f4", "f8", "c16"]


@st.composite
def cases(draw):
    rank = draw(st.integers(1, 6))
    top = {1: 300, 2: 70, 3: 30, 4: 20, 5: 9, 6: 5}[rank]
    shape = tuple(draw(st.lists(st.integers(1, top), min_size=rank, max_size=rank)))
    return shape, draw(layouts(rank)), draw(layouts(rank)), draw(st.sampled_from(DTYPES)), draw(st.integers(1, 2))


def tensor(shape, dtype):
    n = int(np.prod(shape))
    return np.random.default_rng(n).integers(1, 250, n).astype(dtype).reshape(shape)


@given(cases())
@settings(max_examples=400, deadline=None)
def test_any_layout_to_any_layout(case):
    shape, src, dst, dtype, threads = case
    x = reference.to_physical(tensor(shape, dtype), src, pad_value=7)
    got = lk.reorder(x, src, dst, shape=shape, pad_value=3, threads=threads)
    np.testing.assert_array_equal(got, reference.reorder(x, src, dst, shape, pad_value=3))
