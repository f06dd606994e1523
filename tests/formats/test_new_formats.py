"""A new format costs a string and nothing else: invented ones pass through everything that takes a layout."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from strategies import BLOCKS, shapes

from layoutkit import Image, Layout, Tensor, explain_view

LETTERS = "uvwxyz"


@st.composite
def texts(draw):
    """A format as a person would write it, of names and blocks nobody has used: (text, rank)."""
    rank = draw(st.integers(1, 5))
    word = st.text(LETTERS, min_size=2, max_size=6)
    names = draw(st.lists(word, min_size=rank, max_size=rank, unique=True))
    memory = draw(st.permutations(names))
    for name in draw(st.lists(st.sampled_from(names), max_size=3)):
        at = draw(st.integers(memory.index(name) + 1, len(memory)))
        memory.insert(at, f"{draw(st.sampled_from(BLOCKS))}{name}")
    return f"{' '.join(names)} -> {' '.join(memory)}", rank


@st.composite
def tags(draw):
    """An abstract tag: (text, rank)."""
    rank = draw(st.integers(1, 12))
    letters = draw(st.permutations("abcdefghijkl"[:rank]))
    blocks = draw(st.lists(st.tuples(st.sampled_from(letters), st.sampled_from(BLOCKS)), max_size=4))
    blocked = {x for x, _ in blocks}
    outer = "".join(x.upper() if x in blocked else x for x in letters)
    return outer + "".join(f"{size}{x}" for x, size in blocks), rank


def by_hand(text):
    """(dimension, block or 0) of each axis, read off the text itself."""
    if "->" in text:
        names, memory = (side.split() for side in text.split("->"))
        split = [(w.lstrip("0123456789"), w) for w in memory]
        words = [(name, int(w.removesuffix(name) or 0)) for name, w in split]
        return [(names.index(name), size) for name, size in words]
    factors, size = [], ""
    for x in text:
        if x.isdigit():
            size += x
        else:
            factors.append((ord(x.lower()) - ord("a"), int(size or 0)))
            size = ""
    return factors


@given(texts() | tags(), st.data())
def test_invented_formats_hold_tensors(format_, data):
    text, rank = format_
    layout = Layout(text)
    assert [tuple(f) for f in layout.factors] == by_hand(text)
    shape = data.draw(shapes(rank, min_size=1, most=120))
    logical = 1 + np.arange(np.prod(shape)).reshape(shape)
    plain = Tensor(logical, Layout.from_factors([(d, 0) for d in range(rank)]))
    if np.prod(layout.physical_shape(shape)) > 50_000:
        return
    held = plain.to(text)
    # Each dimension is padded and cut from the inside out: the same by reshape and transpose alone.
    padded = np.zeros(layout.full_shape(shape), logical.dtype)
    padded[tuple(map(slice, shape))] = logical
    cuts, order = [], []
    for dim in range(rank):
        axes = [k for k, (d, _) in enumerate(by_hand(text)) if d == dim]
        cuts += [layout.physical_shape(shape)[k] for k in axes]
        order += axes
    np.testing.assert_array_equal(held.array, padded.reshape(cuts).transpose(np.argsort(order)))
    held.check_padding()
    np.testing.assert_array_equal(held.to(plain.layout).array, logical)
    assert explain_view(layout, text, shape).view
    assert reference.offsets(layout, shape).max() < layout.required_span_size(shape)


@given(st.permutations(["n", "c", "h", "w"]), st.integers(0, 4), st.sampled_from("nchw"), st.data())
def test_invented_images_hold_tensors(order, rows, lane, data):
    text = f"({' '.join(order[:rows])}) ({' '.join(order[rows:])}) 4{lane}"
    shape = data.draw(st.tuples(*[st.integers(1, 5)] * 4))
    logical = 1 + np.arange(np.prod(shape)).reshape(shape)
    image = Image(text)
    pixels = image.from_tensor(Tensor(logical, "NCHW"))
    assert pixels.shape == image.array_shape(shape)
    sizes = dict(zip("nchw", shape))
    sizes[lane] = -(-sizes[lane] // 4)
    assert pixels.shape[0] == np.prod([sizes[x] for x in order[:rows]])
    np.testing.assert_array_equal(image.to_tensor(pixels, shape).numpy(), logical)
