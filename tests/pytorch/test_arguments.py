"""layoutkit.torch beside torch over all that its convolutions can be given: the same result, or an error of both."""

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import layoutkit.torch as lkt  # noqa: E402
from layoutkit.torch.memory import FORMATS  # noqa: E402

WRONG = [None, 1.0, "1", True, 0, -1, (), (1,) * 4, (1.0, 1.0), [None], range(1, 3), np.ones(2, int), torch.ones(3)]


def spelled(draw, values, uniform):
    """Numbers for each axis in one of the ways that torch takes, sometimes in one that it does not."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.sampled_from(WRONG))
    one = draw(st.sampled_from([int, np.int64, np.int32, torch.tensor])) if draw(st.booleans()) else int
    if uniform and draw(st.booleans()):
        return draw(st.sampled_from([one(values[0]), (one(values[0]),), [one(values[0])], torch.Size(values[:1])]))
    values = values[:1] * len(values) if uniform else values
    return draw(st.sampled_from([tuple(map(one, values)), [one(v) for v in values], torch.Size(values)]))


def tensor(draw, shape, dtype):
    """A tensor of that shape, of any strides, those along extents of 1 included."""
    rank = len(shape)
    how = draw(st.sampled_from(["contiguous", "last", "permuted", "sliced", "expanded"]))
    parts = (
        [1, 1, 3] if max(shape[1:]) > 1 else [1]
    )  # torch forgets the format of a part with one number for each image
    cut = [n * draw(st.sampled_from(parts)) if n == 1 else n for n in shape]
    t = (torch.arange(int(np.prod(cut))) * 37 % 17 - 8.0).reshape(cut).to(dtype)
    if how == "last" and rank - 2 in FORMATS:
        t = t.to(memory_format=FORMATS[rank - 2])
    elif how == "permuted":
        order = draw(st.permutations(range(rank)))
        t = t.permute(order).contiguous().permute([order.index(d) for d in range(rank)])
    elif how == "sliced":
        t = t.repeat_interleave(2, -1)[..., ::2]
    elif how == "expanded" and shape[0]:
        t = t[:1].expand(cut)
    # Elsewhere torch's own convolutions of bfloat16 read past the memory.
    t = t.contiguous() if dtype == torch.bfloat16 else t
    return t[tuple(slice(n) for n in shape)]


def packed(t):
    """A copy without odd strides, of which torch's own convolutions compute nonsense."""
    return torch.empty(t.shape, dtype=t.dtype).copy_(t)


@st.composite
def calls(draw):
    rank, transposed = draw(st.sampled_from([1, 2, 2, 3])), draw(st.booleans())
    dtype = draw(st.sampled_from([torch.float32] * 4 + [torch.float64, torch.bfloat16]))

    def each(*values):
        return tuple(draw(st.sampled_from(values)) for _ in range(rank))

    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inputs, outputs = (groups * draw(st.integers(1, 3)) for _ in range(2))
    shape = [draw(st.sampled_from([0, 1, 1, 2, 3])), inputs, *each(1, 2, 4, 5, 5, 6)]
    if draw(st.integers(0, 9)) == 0:  # wrong channels, or no pixels
        at = draw(st.integers(1, rank + 1))
        shape[at] = draw(st.sampled_from([shape[at] + 1, shape[at] * 2] if at == 1 else [0, 1]))
    unbatched = draw(st.integers(0, 4)) == 0 and shape[0] > 0
    channels = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    x, w = tensor(draw, shape, dtype), tensor(draw, (*channels, *each(1, 1, 2, 3)), dtype)
    bias = draw(st.sampled_from([None, outputs, outputs, outputs, outputs + 1]))
    keywords = {}
    if bias is not None:
        keywords["bias"] = torch.arange(bias).to(torch.float64 if draw(st.integers(0, 19)) == 0 else dtype)
    names = [("stride", (1, 1, 2, 3)), ("dilation", (1, 1, 2, 3)), ("padding", (0, 1, 2))]
    for name, values in names + [("output_padding", (0, 1, 2))] * transposed:
        if draw(st.booleans()):
            keywords[name] = spelled(draw, each(*values), draw(st.booleans()))
    if draw(st.integers(0, 9)) == 0:
        keywords["padding"] = draw(st.sampled_from(["same", "same", "valid", "SAME", "same_lower"]))
    if groups > 1 or draw(st.booleans()):
        kinds = [groups, groups, np.int64(groups), torch.tensor(groups), groups + 1, 0, -1, True, (1,), 1.0, None]
        keywords["groups"] = draw(st.sampled_from(kinds))
    return rank, transposed, x[0] if unbatched else x, w, keywords


def outcome(function, *args, **keywords):
    try:
        return function(*args, **keywords)
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        return error


def same_strides_expected(rank, transposed, x, w, y):
    """Where the strides of torch's results neither depend on the machine nor say nothing."""
    if not y.numel() or y.shape[-rank:].numel() == 1:
        return False
    if rank == 3:
        many = x.dim() == 5 and len(x) > 1
        return torch.backends.mkldnn.is_available() and x.dtype == torch.float32 and many
    return x.dtype == torch.float32


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@given(calls())
def test_every_argument_as_torch(call):
    rank, transposed, x, w, keywords = call
    ours = lkt.conv_transpose if transposed else lkt.conv
    theirs = getattr(torch.nn.functional, f"conv{'_transpose' * transposed}{rank}d")
    note(f"strides {x.stride()}, {w.stride()}")
    want, got = outcome(theirs, x, w, **keywords), outcome(ours, x, w, **keywords)
    if isinstance(got, Exception):
        assert isinstance(got, (TypeError, ValueError))
        assert f"layoutkit.torch.conv{'_transpose' * transposed}" in str(got)
        if not x.numel() and x.dim() == rank + 2:  # of which torch does not check what it checks of others
            want = outcome(theirs, torch.ones(1, *x.shape[1:], dtype=x.dtype), w, **keywords)
        # Some of torch's algorithms add a bias of another type, or have results without pixels; others do not.
        assert isinstance(want, Exception) or "bias is of" in str(got) or 0 in want.shape[-rank:]
        return
    assert not isinstance(want, Exception), want
    rtol = 2e-2 if x.dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(got, theirs(packed(x), packed(w), **keywords), rtol=rtol, atol=rtol * 100)
    if same_strides_expected(rank, transposed, x, w, want):
        assert got.stride() == want.stride()
