"""Families of names: what is of another one is refused by name, however it is said, whatever was cached before."""

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from strategies import fitted, layouts, shapes

import layoutkit as lk
from layoutkit.formats import families, notation
from layoutkit.formats.families import FAMILIES, family_of
from layoutkit.formats.layout import Layout

ALL = list(FAMILIES.values())
CONV = {1: lk.conv1d, 2: lk.conv2d, 3: lk.conv3d}
TRANSPOSED = {1: lk.conv_transpose1d, 2: lk.conv_transpose2d, 3: lk.conv_transpose3d}


def named(layout, order):
    return Layout.from_factors(layout.factors, layout.pitches, order)


def said(layout, how):
    """A layout as text (where it is a text of its own) or as a new object."""
    return str(layout) if how == "text" and notation.has_tag(layout) else named(layout, layout.dims)


@st.composite
def pairs(draw):
    """Two layouts of equal rank in the names of two families; a shape."""
    first = draw(st.sampled_from(ALL))
    second = draw(st.sampled_from([f for f in ALL if len(f.order) == len(first.order)]))
    rank = len(first.order)
    shape = draw(shapes(rank, 1, 100))
    src, dst = (fitted(draw(layouts(min_rank=rank, max_rank=rank, max_blocks=1)), shape, 2000) for _ in range(2))
    return first, second, src, dst, shape


def allowed(first, second):
    return first.meaning == second.meaning


@given(pairs(), st.lists(st.sampled_from(["names", "letters", "one"]), min_size=1, max_size=4), st.data())
def test_a_reorder_between_families_is_refused_whatever_was_cached(pair, calls, data):
    first, second, src, dst, shape = pair
    x = reference.to_physical(np.arange(np.prod(shape), dtype=np.int32).reshape(shape), src)
    want = reference.reorder(x, src, dst, shape)
    more = data.draw(st.sampled_from([{}, {"dtype": "f8"}, {"region": (None,) * len(shape)}]))
    names = {"names": (first.order, second.order), "letters": (None, None), "one": (first.order, None)}
    how = data.draw(st.sampled_from(["text", "object"]))
    moves = (
        lambda a, b: lk.reorder(x, a, b, shape=shape, **more),
        lambda a, b: lk.reorder(lk.Tensor(x, a, shape), None, b, **more).array,
        lambda a, b: lk.Tensor(x, a, shape).to(b).array,
    )
    questions = (
        lambda a, b: lk.is_view(a, b, shape), lambda a, b: lk.explain_view(a, b, shape),
        lambda a, b: lk.plan(lk.reorder, x, a, b, shape=shape), lambda a, b: lk.Tensor(x, a, shape).explain(b),
    )  # fmt: skip
    for call in calls:
        a, b = (said(named(layout, order), how) for layout, order in zip((src, dst), names[call]))
        if call != "names" or allowed(first, second):
            for operation in moves:
                np.testing.assert_array_equal(operation(a, b), want)
            for operation in questions:
                operation(a, b)
        else:
            for operation in (*moves, *questions):
                with pytest.raises(ValueError, match=f"names .* of {first.kind}, .* of {second.kind}"):
                    operation(a, b)


@given(st.data(), st.sampled_from([1, 2, 3]))
def test_convolutions_take_activations_and_filters_in_their_places(data, spatial):
    rank = spatial + 2
    activations, filters = families.meaning_of_activations(spatial), families.meaning_of_filters(spatial)
    some = st.sampled_from([None, *(f.order for f in ALL if len(f.order) == rank)])
    x_names, w_names, y_names = (data.draw(some) for _ in range(3))
    factors = [(d, 0) for d in data.draw(st.permutations(range(rank)))]
    x_layout, w_layout, y_layout = (Layout.from_factors(factors, dims=names) for names in (x_names, w_names, y_names))
    x, w = (np.ones(x_layout.physical_shape((2,) * rank), np.float32) for _ in range(2))
    fine = all(
        names is None or family_of(names).meaning == meant
        for names, meant in ((x_names, activations), (w_names, filters), (y_names, activations))
    )
    for operation in (CONV[spatial], TRANSPOSED[spatial]):
        for x_given, w_given, layouts_given in (
            (x, w, dict(layout=x_layout, filter_layout=w_layout)),
            (lk.Tensor(x, x_layout), lk.Tensor(w, w_layout), {}),
            (lk.Tensor(x, x_layout), w, dict(filter_layout=str(w_layout))),
        ):
            if fine:
                operation(x_given, w_given, out_layout=y_layout, **layouts_given)
            else:
                with pytest.raises(ValueError, match=f"^{operation.__name__}: .* has the names .* expected those of"):
                    operation(x_given, w_given, out_layout=y_layout, **layouts_given)


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        (lambda: lk.conv1d(np.ones((2, 3, 4), "f4"), np.ones((1, 2, 1), "f4"), layout="NTC"),
         "conv1d: layout NTC has the names T N C of recurrent networks; expected those of activations, N C W"),
        (lambda: lk.reorder(np.ones((2, 3, 4), "f4"), "NCW", "NTC"),
         "reorder NCW -> NTC: NCW has the names N C W of activations, NTC has T N C of recurrent networks"),
        (lambda: lk.conv2d(np.ones((2, 3, 4, 5), "f4"), np.ones((1, 5, 1, 1), "f4"), layout="HWIO"),
         "conv2d: layout HWIO has the names O I H W of filters; expected those of activations, N C H W"),
        (lambda: lk.conv2d(np.ones((2, 3, 4, 5), "f4"), np.ones((1, 3, 1, 1), "f4"), filter_layout="NCHW"),
         "conv2d: filter_layout NCHW has the names N C H W of activations; expected those of filters, O I H W"),
        (lambda: lk.conv2d(np.ones((2, 3, 4, 5), "f4"), np.ones((1, 3, 1, 1), "f4"), out_layout="cdhw"),
         "conv2d: out_layout CDHW has the names C D H W of activations"),
        (lambda: lk.conv2d(np.ones((2, 3, 4, 5), "f4"), np.ones((1, 3, 1, 1), "f4"), filter_layout="MIHW"),
         "conv2d: filter_layout MIHW has the names M I H W of filters; expected those of filters, O I H W"),
        (lambda: lk.compensation(np.ones((2, 3, 4, 5), "i1"), "NHWC"), "its names are those of activations"),
        (lambda: lk.mace.winograd_to_image(lk.Tensor(np.ones((2, 3, 3, 3), "f4"), "NCHW"), 2), "names N C H W"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(operation, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        operation()


@pytest.mark.parametrize(
    "text", ["0x1342", 0x1342, "torch:channels_last", "mace:conv2d_filter", "mace:in_out_channel", "acdb", "aBcd16b",
             "(d0, d1, d2, d3) -> (d0, d2, d3, d1)", "x y z w -> x w z y", "scalar"],
)  # fmt: skip
def test_what_has_no_family_goes_everywhere(text):
    assert Layout(text).family is None


def test_names_that_were_read_from_strides_are_for_people():
    weights = np.ones((4, 3, 3, 3), np.float32)
    contiguous = lk.torch_format.layout_of("contiguous_format", 4)
    for tensor in (lk.Tensor.from_logical(weights), lk.Tensor(weights, contiguous)):
        assert str(tensor.layout) == "NCHW" and tensor.layout.family is None
        assert tensor.to("HWIO").layout.family.kind == families.FILTERS
        np.testing.assert_array_equal(lk.conv2d(np.ones((1, 3, 5, 5), "f4"), tensor), np.full((1, 4, 3, 3), 27))
        assert lk.Image("conv2d_filter").from_tensor(tensor.to("OIHW")).shape == (9, 3, 4)


@pytest.mark.parametrize(
    "text", ["NHWC", "nChw16c", "HWIO", "RSCK", "oIyx4i", "n c/16 h w 16c", "ldigo", "n h w c:(*,99,9,1)"]
)
def test_a_family_stays_with_its_layout(text):
    layout = Layout(text)
    family = family_of(layout.dims)
    assert family is not None
    for same in (layout, layout.dense, pickle.loads(pickle.dumps(layout)), Layout(str(layout)), eval(repr(layout)),
                 layout.with_pitches((None,) * len(layout.factors))):  # fmt: skip
        assert same.family is family
    if layout.is_dense:
        assert layout.compose("abcdefgh"[: len(layout.factors)]).family is family


def test_families_are_no_part_of_equality():
    assert Layout("NCHW") == Layout("OIHW") == Layout("abcd") and len({Layout("NCHW"), Layout("OIHW")}) == 1
    with pytest.raises(AttributeError, match="frozen"):
        Layout("NCHW").family = None
    with pytest.raises(AttributeError, match="frozen"):
        del Layout("NCHW").family
