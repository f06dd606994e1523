"""Convolutions from staged rows, on emulated tile units: random cases, and a candidate that stages rows is chosen."""

import numpy as np
import pytest
from conftest import EMULATED, fewer, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from random_cases import convolutions, deciding, integers, transposed
from random_cases.deciding import let_one_decide

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing import packaged
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.ranking import rank
from layoutkit.convolutions.algorithms.staged import Staged
from layoutkit.convolutions.task import ConvTask
from layoutkit.convolutions.types import TYPES

ISA = next((isa for isa in EMULATED if "amx" in isa), None)
pytestmark = pytest.mark.skipif(ISA is None, reason="the rows around emulated tiles are compiled for AVX-512")
BF16 = [types for types in TYPES.values() if types.elements[0] == "bf16"]
CASES = 12  # of a seed
BEST = Cost(1e-12, 1e-12, 0.0, 1)


def stages(name):
    return " staged " in name


class Choices(list):
    """The choices of a plan of which only some are considered."""

    def __init__(self, plan):
        self.title, self.choices = plan.title, [c for c in plan.choices if stages(c.candidate.name)] or plan.choices


@pytest.fixture
def built(monkeypatch):
    """How many nests that stage rows are built. They are chosen where there are any."""
    count, costs, build = [], deciding.MadeUp.__getitem__, Staged.build
    monkeypatch.setattr(deciding.MadeUp, "__getitem__", lambda s, name: BEST if stages(name) else costs(s, name))
    monkeypatch.setattr(Staged, "build", lambda *a: count.append(1) or build(*a))
    for cases in (convolutions, integers, transposed):
        monkeypatch.setattr(cases, "any_instruction_set", lambda _: ISA)
        monkeypatch.setattr(cases, "any_types", lambda rng: BF16[rng.integers(len(BF16))], raising=False)
    monkeypatch.setattr(convolutions, "let_one_decide", lambda rng, plan: let_one_decide(rng, Choices(plan)))
    return count


@pytest.mark.parametrize("cases", [convolutions, integers, transposed])
@pytest.mark.filterwarnings("ignore:.*only slow ways")  # which some that are drawn have
def test_any_convolution(built, cases):
    """Any windows, channels, groups, layouts, strides, epilogues, Inf and NaN, next to pages that cannot be touched."""

    @fewer(8)
    @given(st.integers(0, 2**31))
    def check(seed):
        assert [wrong for i in range(CASES) if (wrong := cases.case(seed, i))] == []

    check()
    assert len(built) > 4


@pytest.mark.parametrize("isa", [isa for isa in registry.isas() if isa not in EMULATED])
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_groups_whose_channels_do_not_fill_units(built, isa, seed):
    """By kernels without tile units, which compute positions that are no output."""
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        groups, images, threads = (int(v) for v in rng.integers(2, 5, 3))
        depth, each = 4 * int(rng.integers(4)) + int(rng.integers(1, 4)), int(rng.integers(1, 40))
        kernel, stride = rng.choice(((3, 3), (1, 3), (5, 2), (2, 1))), tuple(int(v) for v in rng.integers(1, 4, 2))
        most = rng.choice((1, 2)) * kernel + 1  # of the padding, which may be wider than the kernel, and than the image
        pads = tuple(tuple(int(v) for v in rng.integers(0, most[i], 2)) for i in range(2))
        size = tuple(int(rng.integers(max(1, k - sum(pad)), k + rng.choice((2, 20)))) for k, pad in zip(kernel, pads))
        of_x = np.dtype(rng.choice(("uint8", "int8")))
        layouts, limits = [lk.Layout(rng.choice(("NHWC", "nChw16c"))) for _ in range(2)], np.iinfo(of_x)
        x = rng.integers(limits.min, limits.max, (images, groups * depth, *size), of_x, endpoint=True)
        w = rng.integers(-128, 127, (groups * each, depth, *kernel), np.int8, endpoint=True)
        zero = int(rng.integers(limits.min, limits.max))
        how = dict(scale=np.float32(rng.choice((1e-4, 0.01))), activation=(None, "relu", "abs")[rng.integers(3)])
        sums = reference.conv(x.astype(np.int64) - zero, w, None, stride, pads, (1, 1), groups)
        expected = reference.to_physical(reference.requantized(sums, None, of_x, **how), layouts[1])
        stored = reference.to_physical(x, layouts[0], pad_value=77)
        held = guarded(stored.reshape(-1).view(np.uint8), "high").array.view(of_x).reshape(stored.shape)
        out = guarded(np.full(expected.size, 0xA5, np.uint8), "high").array.view(of_x).reshape(expected.shape)
        with using_isa(isa):
            op = lk.Conv2d(w, stride=stride, padding=pads, groups=groups, layout=layouts[0], out_layout=layouts[1],
                           dtype=(of_x, of_x), zero_point=zero, threads=threads, **how)  # fmt: skip
            found = Choices(op.plan(x.shape))
            assert stages(let_one_decide(rng, found))
            np.testing.assert_array_equal(op(held, out, shape=x.shape), expected, err_msg=op.plan(x.shape).title)
    assert len(built) >= CASES


@pytest.mark.parametrize("isa", dict.fromkeys([*registry.isas(), ISA]))
@pytest.mark.parametrize("kernel", [(3, 3), (1, 2)])
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_padding_wider_than_a_row(built, isa, kernel):
    """No output along the width reads the input, or only one does."""
    rng = np.random.default_rng(kernel[1])
    for width, before, after in ((1, 4, 0), (1, 3, 0), (2, 5, 0), (1, 7, 3), (1, 2, 9)):
        x = rng.integers(0, 255, (1, 6, 20, width), np.uint8, endpoint=True)
        w = rng.integers(-128, 127, (4, 3, *kernel), np.int8, endpoint=True)
        pads, how = ((1, 1), (before, after)), dict(scale=np.float32(1e-3))
        sums = reference.conv(x.astype(np.int64) - 7, w, None, (1, 3), pads, (1, 1), 2)
        with using_isa(isa):
            op = lk.Conv2d(w, stride=(1, 3), padding=pads, groups=2, layout="NHWC", dtype=("uint8", "uint8"),
                           zero_point=7, **how)  # fmt: skip
            assert stages(let_one_decide(rng, Choices(op.plan(x.shape))))
            got = op(np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
        np.testing.assert_array_equal(got, reference.requantized(sums, None, np.uint8, **how).transpose(0, 2, 3, 1))
    assert built


@pytest.mark.parametrize("types", ["bf16", "u8s8_s32"])
@pytest.mark.parametrize("channels", [4, 40])
def test_whole_tiles_are_read_and_the_buffer_has_room_for_them(types, channels):
    """Tiles of any number of rows, in a workspace between pages that cannot be touched."""
    types, rng = TYPES[types], np.random.default_rng(channels)
    w = rng.integers(-4, 5, (8, channels, 3)).astype(types.filter)
    sizes = [(1, n) for n in (3, 4, 17, 18, 19, 20, 34, 35, 36, 50, 66, 67)]
    for images, size in [*sizes, (2, 2), (3, 2), (18, 2), (19, 2), (3, 3)]:  # of 2 is a single output
        x = rng.integers(0, 5, (images, channels, size)).astype(types.src)
        with using_isa(ISA):
            op = lk.Conv1d(w, padding=((1, 0),), layout="NWC", dtype=(types.src, types.dst), threads=1)
            found = Choices(op.plan(x.shape))
            assert stages(found.choices[0].candidate.name)
            let_one_decide(rng, found)
            workspace = guarded(np.full(op.workspace(x.shape), 0xA5, np.uint8), "high")
            got = op(np.ascontiguousarray(np.moveaxis(x, 1, 2)), workspace=workspace.array, shape=x.shape)
        want = reference.conv(
            x.astype(np.int64), w.astype(np.int64), None, stride=(1,), padding=((1, 0),), dilation=(1,), groups=1
        )
        np.testing.assert_array_equal(
            np.moveaxis(got, 2, 1).astype(np.float32), want.astype(types.dst).astype(np.float32)
        )


@given(st.integers(0, 2**31))
@fewer(8)
def test_the_same_bits_for_any_number_of_threads_and_in_any_block(seed):
    rng = np.random.default_rng(seed)
    channels, size = int(rng.integers(1, 70)), rng.integers(5, 30, 2)
    x = rng.standard_normal((2, *size, channels), np.float32).astype(TYPES["bf16"].src)
    w = rng.standard_normal((40, channels, 3, 3), np.float32).astype(x.dtype)
    results = []
    with using_isa(ISA):
        for images, threads in ((2, 1), (2, 3), (1, 2)):
            op = lk.Conv2d(w, layout="NHWC", padding=1, stride=int(seed % 2) + 1, dtype=np.float32, threads=threads)
            found = Choices(op.plan((images, channels, *size)))
            found.choices = [c for c in found.choices if c.candidate.name.startswith("direct")]
            let_one_decide(rng, found)
            results.append(op(x[:images]))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0][:1], results[2])


def test_what_cannot_win_on_tile_units_is_no_candidate():
    with using_isa(ISA):
        problem = "conv n1 c64 56x56 o64 k3x3 s1x1 p1+1,1+1 d1x1 g1 NHWC>NHWC bf16 standard t1"
        names = [c.name for c in ConvTask.parse(problem).candidates()]
        assert any(stages(n) for n in names)
        assert not any("bf16x" in n for n in names), "its numbers are components"
        assert not any("winograd" in n and "_amx" in n for n in names), "transforms take longer than direct sums"
        assert any("bf16x3" in c.name for c in ConvTask.parse(problem.replace("bf16", "f16")).candidates())
        assert not any(stages(c.name) for c in ConvTask.parse(problem.replace("3x3", "1x1")).candidates())
    assert not any(stages(c.name) for c in ConvTask.parse(problem).candidates() if "amx" not in c.name)


@pytest.mark.parametrize("types", ["bf16", "u8s8_u8"])
def test_first_layers_are_staged(types, monkeypatch):
    """On a processor whose other bfloat16 multiplies at a quarter of float32's rate, as one with tiles does."""
    intel = packaged.path_of("avx512_amx", "intel-6-207")
    monkeypatch.setattr(packaged, "_nearest", lambda isa, here: intel)
    with using_isa(ISA):
        task = ConvTask.parse(f"conv n1 c3 224x224 o64 k7x7 s2x2 p3+3,3+3 d1x1 g1 NHWC>NHWC {types} standard t1")
        assert rank(task)[0].candidate.name.startswith("folded staged ")
