"""Dimensions of two kinds, and the orders that turn one into the other."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.formats.layout import Layout
from layoutkit.interop.descriptor import (
    Dim,
    DimsOrder,
    MemDim,
    MemShape,
    MemStrides,
    Shape,
    Strides,
    layout_of,
)

NHWC = DimsOrder(0x1342)
orders = (
    st.integers(0, 15)
    .flatmap(lambda n: st.permutations(range(n)))
    .map(lambda p: DimsOrder.from_permutation([Dim(d) for d in p]))
)


def test_dimensions_refuse_to_be_numbers_or_each_other():
    assert Dim(1) == Dim(1) != MemDim(1) and Dim(1) != 1 and len({Dim(1), MemDim(1), 1}) == 3
    for operation in (lambda d: d + 1, int, range, lambda d: [0, 1][d], lambda d: d < Dim(2), float):
        with pytest.raises(TypeError):
            operation(Dim(1))
    for kind, key, wrong in (
        (Shape, Dim, MemDim),
        (Strides, Dim, MemDim),
        (MemShape, MemDim, Dim),
        (MemStrides, MemDim, Dim),
    ):
        values = kind((2, 3, 4))
        assert values[key(1)] == 3
        with pytest.raises(TypeError, match=f"{kind.__name__} is indexed by {key.__name__}, not by"):
            values[wrong(1)]
        with pytest.raises(TypeError, match="is indexed by"):
            values[1]
        with pytest.raises(IndexError, match="out of range"):
            values[key(3)]
        with pytest.raises(ValueError, match="must not be negative"):
            kind((1, -1))
    assert Shape((1, 0)) != MemShape((1, 0)) and tuple(Shape((1, 0))) == (1, 0)
    with pytest.raises(ValueError, match=r"Dim\(-1\): must not be negative"):
        Dim(-1)
    with pytest.raises(TypeError, match="expected an integer, got bool"):
        MemDim(True)


@given(orders)
def test_orders_go_both_ways_in_every_form(order):
    assert DimsOrder.from_code(order.code) == order
    assert DimsOrder.from_permutation(order.to_permutation()) == order
    assert DimsOrder.from_affine_map(order.to_affine_map()) == order
    assert DimsOrder.from_layout(order.layout) == DimsOrder.from_layout(str(order.layout)) == order
    assert pickle.loads(pickle.dumps(order)) == order and hash(eval(repr(order))) == hash(order)
    assert order.is_identity == (order == DimsOrder.from_num_dims(order.num_dims))
    sizes = Shape(range(10, 10 + order.num_dims))
    assert order.to_logical_order(order.to_memory_order(sizes)) == sizes
    for i in range(order.num_dims):
        assert order.dim_at(order.dim_pos(Dim(i))) == order.to_dim(order.to_mem_dim(Dim(i))) == Dim(i)
        assert order.to_memory_order(sizes)[order.to_mem_dim(Dim(i))] == sizes[Dim(i)]
        assert order.has_dim(Dim(i))
    assert not order.has_dim(Dim(order.num_dims))
    strides = Strides(order.layout.strides((2,) * order.num_dims))
    assert order.is_compatible_layout(strides) and DimsOrder.from_strides(strides) == order


def test_vectors():
    assert DimsOrder.from_num_dims(5).code == 0x12345
    assert NHWC.to_mem_dim(Dim(1)) == MemDim(3) and NHWC.dim_at(1) == Dim(2)
    assert DimsOrder.from_layout("NCHW").code == 0x1234 and DimsOrder.from_layout("NDHWC").code == 0x13452
    assert DimsOrder.from_layout("YXOI").code == 0x3412
    names = {0x1342: "NHWC", 0x231: "HWC", 0x213: "HCW", 0x1: "C", 0: "SCALAR", 0x3412: "YXOI", 0x21: ""}
    assert {code: DimsOrder(code).canonical_name for code in names} == names
    assert str(NHWC) == "NHWC" and str(DimsOrder(0x21)) == "(1, 0)"
    hcw = DimsOrder(0x213)  # logical C H W
    assert hcw.is_compatible_layout(Strides((6, 6, 1)))
    assert not hcw.is_compatible_layout(Strides((12, 6, 1)))
    assert not hcw.is_compatible_layout(Strides((6, 6, 1, 1)))


@pytest.mark.parametrize("code", [0x11, -10, 0x13, 0x2, 0x102])
def test_codes_refused(code):
    with pytest.raises(ValueError, match="DimsOrder code"):
        DimsOrder.from_code(code)


@pytest.mark.parametrize("permutation", [(1,), (1, 2), (0, 1, 1)])
def test_permutations_refused(permutation):
    with pytest.raises(ValueError, match="is no permutation of 0"):
        DimsOrder.from_permutation([Dim(d) for d in permutation])


def test_misuse_is_refused():
    with pytest.raises(TypeError, match="takes Dims, got 0"):
        DimsOrder.from_permutation([0, 1])
    with pytest.raises(TypeError, match=r"takes a Dim, got MemDim\(1\)"):
        NHWC.to_mem_dim(MemDim(1))
    with pytest.raises(TypeError, match=r"takes a MemDim, got Dim\(1\)"):
        NHWC.to_dim(Dim(1))
    with pytest.raises(TypeError, match="takes Shape or Strides"):
        NHWC.to_memory_order(MemShape((1, 2, 3, 4)))
    with pytest.raises(TypeError, match="takes MemShape or MemStrides"):
        NHWC.to_logical_order(Strides((1, 2, 3, 4)))
    with pytest.raises(ValueError, match="orders 4 dimensions"):
        NHWC.to_memory_order(Shape((1, 2)))
    with pytest.raises(ValueError, match=r"has no Dim\(4\)"):
        NHWC.dim_pos(Dim(4))
    with pytest.raises(ValueError, match=r"has no MemDim\(4\)"):
        NHWC.dim_at(4)
    with pytest.raises(ValueError, match="no DimsOrder code"):
        DimsOrder.from_layout("nChw16c")


def test_a_descriptor_is_a_layout():
    strides = MemStrides(8 * s for s in (100, 20, 5, 1))
    layout = layout_of(NHWC, strides, 8)
    assert layout == Layout("nhwc:(100,20,5,1)")
    assert layout.strides((1, 3, 4, 3)) == tuple(s // 8 for s in NHWC.to_logical_order(strides))
    with pytest.raises(ValueError, match="not all are multiples of an element of 16 bits"):
        layout_of(NHWC, strides, 16)
