import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit.formats.layout import Layout
from layoutkit.reorders import once
from layoutkit.reorders.once import reorder_once

LAYOUTS = ("abcd", "dcba", "aBcd16b", "abCd32c", "acdb", "aBCd8b4c", "bcda")


@given(
    st.tuples(*[st.integers(0, 70)] * 2, *[st.integers(0, 5)] * 2), st.sampled_from(LAYOUTS),
    st.sampled_from([np.uint8, np.float16, np.float32, np.float64]), st.tuples(*[st.sampled_from([1, 2, -1])] * 4),
    st.booleans(), st.integers(0, 2**32),
)  # fmt: skip
def test_as_reorder(shape, dst, dtype, steps, apart, seed):
    rng = np.random.default_rng(seed)
    whole = rng.integers(0, 100, [n * abs(s) for n, s in zip(shape, steps)]).astype(dtype)
    x = whole[tuple(slice(None, None, s) for s in steps)]
    want = lk.reorder(x, "abcd", dst)
    memory = np.full([*want.shape[:-1], want.shape[-1] * (1 + apart)], 99, dtype)
    out = memory[..., : want.shape[-1]]
    reorder_once(x, Layout("abcd"), Layout(dst), out)
    np.testing.assert_array_equal(out, want)
    assert (memory[..., want.shape[-1] :] == 99).all()


def test_more_than_a_little_is_planned(monkeypatch):
    x, seen = np.ones((64, 64, 3, 3), np.float32), []
    monkeypatch.setattr(once, "reorder", lambda *a, **k: seen.append(a) or lk.reorder(*a, **k))
    for limit in (x.nbytes, x.nbytes - 1):
        monkeypatch.setattr(once, "ONCE_BYTES", limit)
        out = np.empty((3, 3, 64, 64), np.float32)
        once.reorder_once(x, Layout("abcd"), Layout("dcba"), out)
        np.testing.assert_array_equal(out, x.transpose(3, 2, 1, 0))
    assert len(seen) == 1
