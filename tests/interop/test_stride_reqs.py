"""Stride requirements, against trying all strides."""

import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.interop.descriptor import BYTE, DimsOrder, MemDim, MemShape, MemStrides, Shape, Strides
from layoutkit.interop.stride_reqs import ANY, Aligned, Compact, Fixed, StrideReqs

kinds = st.sampled_from([ANY, ANY, Compact, Aligned(2), Aligned(4), Aligned(8), Fixed(6), Fixed(8)])


@st.composite
def problems(draw, max_rank=2):
    """(requirements, other requirements, shape) of one rank."""
    count = draw(st.integers(0, max_rank))
    a, b = (StrideReqs({MemDim(i): draw(kinds) for i in range(count)}) for _ in range(2))
    return a, b, MemShape(draw(st.tuples(*[st.integers(1, 4)] * count)))


def all_strides(count):
    return (MemStrides(s) for s in itertools.product(range(1, 41), repeat=count))


def overlaps(strides, elem_size, shape):
    """Whether two elements share a bit, or a dimension lies inside one that it should hold."""
    spots = [sum(k * s for k, s in zip(i, strides)) for i in itertools.product(*map(range, shape))]
    bits = [b for x in spots for b in range(x, x + elem_size)]
    return len(set(bits)) < len(bits)


@given(problems(), st.integers(1, 5))
def test_calculated_strides_are_the_smallest_that_pass_or_none_do(problem, elem_size):
    reqs, _, shape = problem
    passing = [s for s in all_strides(len(shape)) if reqs.check_strides(s, elem_size, shape)]
    try:
        found = reqs.calc_strides(elem_size, shape)
    except ValueError:
        assert not passing
        return
    assert reqs.check_strides(found, elem_size, shape)
    if passing:
        assert found == min(passing, key=lambda s: tuple(reversed(tuple(s))))
    for s in passing:
        assert not overlaps(s, elem_size, shape)
        assert all(a <= b for a, b in zip(found, s))


@given(problems())
def test_join_admits_exactly_what_both_admit(problem):
    a, b, shape = problem
    every = list(all_strides(len(shape)))
    both = [s for s in every if a.check_strides(s, 2, shape) and b.check_strides(s, 2, shape)]
    try:
        joined = a.join(b)
    except ValueError as e:
        assert not both and ("fixed to" in str(e))
        return
    assert [s for s in every if joined.check_strides(s, 2, shape)] == both
    assert joined == b.join(a)
    try:
        a.join(b, 2, shape)
    except ValueError:
        assert not both


def test_vectors():
    shape = MemShape((2, 3, 4, 5))
    compact = StrideReqs.compact(4)
    assert compact.calc_strides(4 * BYTE, shape) == MemStrides(8 * s for s in (240, 80, 20, 4))
    assert not compact.check_strides(MemStrides(8 * s for s in (4, 8, 24, 96)), 4 * BYTE, shape)
    f16 = StrideReqs.simple(4).calc_strides(16, MemShape((1, 16, 32, 32)))
    assert f16 == MemStrides((262144, 16384, 512, 16))
    assert StrideReqs.simple(2).calc_strides(4, MemShape((3, 5))) == MemStrides((20, 4))  # int4: half bytes
    logical = compact.calc_strides(8, Shape((1, 3, 4, 5)), DimsOrder(0x1342))
    assert logical == MemStrides(8 * s for s in (60, 15, 3, 1))


def test_the_defects_of_the_original():
    aligned = StrideReqs({MemDim(0): Aligned(16 * BYTE)}).join(StrideReqs({MemDim(0): Aligned(64 * BYTE)}))
    assert aligned[MemDim(0)] == Aligned(64 * BYTE)
    fixed = StrideReqs({MemDim(0): Fixed(96)})
    assert fixed.join(StrideReqs({MemDim(0): Aligned(32)}))[MemDim(0)].fixed == 96
    with pytest.raises(ValueError, match=r"MemDim\(0\): fixed to 96 bits, not aligned to 64"):
        fixed.join(StrideReqs({MemDim(0): Aligned(64)}))
    with pytest.raises(ValueError, match=r"MemDim\(0\): fixed to 96 and to 64 bits"):
        fixed.join(StrideReqs({MemDim(0): Fixed(64)}))
    assert not StrideReqs().check_strides(MemStrides((2, 1)), 1, MemShape((2, 3)))
    order = DimsOrder(0x21)
    assert StrideReqs.fixed(Strides((1, 8)), order)[MemDim(0)] == Fixed(8)
    with pytest.raises(TypeError, match="takes MemStrides, or Strides and their order"):
        StrideReqs.fixed(Strides((1, 8)))


def test_compact_outside_makes_room_inside():
    """Rows compact and aligned to 64 bits: three pixels of 8 bits each are spread, not refused."""
    reqs = StrideReqs({MemDim(0): Compact}).join(StrideReqs({MemDim(0): Aligned(64)}))
    assert reqs.calc_strides(8, MemShape((2, 3))) == MemStrides((192, 64))
    with pytest.raises(ValueError, match=r"MemDim\(1\) is compact and aligned to 64, but an element takes 8"):
        reqs.add(MemDim(1), Compact).calc_strides(8, MemShape((2, 3)))
    with pytest.raises(ValueError, match="but what lies inside takes 24 bits"):
        StrideReqs({MemDim(0): Fixed(16)}).calc_strides(8, MemShape((2, 3)))
    both = StrideReqs({MemDim(0): Compact}).join(StrideReqs({MemDim(0): Fixed(64)}))
    with pytest.raises(ValueError, match="which 3 elements inside do not divide"):
        both.calc_strides(8, MemShape((2, 3)))


def test_join_on_a_shape_refuses_what_only_the_shape_makes_impossible():
    inner = StrideReqs({MemDim(1): Fixed(16)})
    outer = StrideReqs({MemDim(0): Fixed(32)})
    assert len(inner.join(outer)) == 2
    assert inner.join(outer, 8, MemShape((2, 2))) == inner.join(outer) == inner.join(outer, 8)
    with pytest.raises(ValueError, match="but what lies inside takes 48 bits"):
        inner.join(outer, 8, MemShape((2, 3)))


def test_build_add_remove():
    reqs = StrideReqs().add(MemDim(1), Compact).add(MemDim(0), Aligned(64))
    assert reqs == StrideReqs({MemDim(0): Aligned(64), MemDim(1): Compact}) and len(reqs) == 2
    assert reqs.remove(MemDim(0)) == StrideReqs({MemDim(1): Compact}) == StrideReqs.simple(2)
    assert reqs.remove(MemDim(7)) == reqs and reqs[MemDim(2)] == ANY
    assert repr(reqs) == "StrideReqs{MemDim(0): aligned to 64, MemDim(1): compact}"
    again = StrideReqs({dim: reqs[dim] for dim in reversed(list(reqs))})
    assert pickle.loads(pickle.dumps(reqs)) == reqs == again and hash(again) == hash(reqs)
    with pytest.raises(ValueError, match="is aligned to 64 already; join combines"):
        reqs.add(MemDim(0), Compact)


def test_why_strides_do_not_pass():
    shape = MemShape((2, 3))
    why = {
        "overlaps what lies inside, 24 bits": (StrideReqs(), (16, 8)),
        "a stride of 32 is not compact, 24 is": (StrideReqs.compact(2), (32, 8)),
        "a stride of 40 is not aligned to 16": (StrideReqs({MemDim(0): Aligned(16)}), (40, 8)),
        "a stride of 40 is not the fixed 48": (StrideReqs({MemDim(0): Fixed(48)}), (40, 8)),
    }
    for message, (reqs, strides) in why.items():
        assert message in reqs.why_not(MemStrides(strides), 8, shape)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, r"Aligned\(12\): expected a power of two", lambda: Aligned(12)),
        (ValueError, r"Fixed\(0\): expected a positive", lambda: Fixed(0)),
        (TypeError, r"indexed by MemDim, not by 0", lambda: StrideReqs({0: Compact})),
        (TypeError, "expected Compact, Aligned", lambda: StrideReqs({MemDim(0): 4})),
        (ValueError, "0 bits: expected a positive", lambda: StrideReqs().calc_strides(0, MemShape((1,)))),
        (TypeError, "expected MemShape, or Shape and", lambda: StrideReqs().calc_strides(8, Shape((1,)))),
        (ValueError, "has no such dimension", lambda: StrideReqs.compact(2).calc_strides(8, MemShape((1,)))),
        (TypeError, "expected MemStrides", lambda: StrideReqs().why_not((1,), 8, MemShape((1,)))),
        (ValueError, "2 strides for", lambda: StrideReqs().why_not(MemStrides((1, 1)), 8, MemShape((1,)))),
    ],
)
def test_malformed(error, message, call):
    with pytest.raises(error, match=message):
        call()
