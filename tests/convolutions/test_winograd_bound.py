"""Winograd's error stays within `winograd.error_bound`: searched for by a hill climb, nearly met by a construction."""

import itertools

import numpy as np
import pytest
from conftest import LONG, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference

import layoutkit as lk
from layoutkit import winograd
from layoutkit._core.runtime import registry
from layoutkit.convolutions import winograd_matrices
from layoutkit.convolutions.filter_values import traits
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import ConvTask

TILES = sorted(winograd_matrices.TILES)
STRIDED = winograd_matrices.STRIDED
LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
EPS = winograd.EPS
REACHED = 1 / 6  # of the bound, by `hostile`: it is not six times too large


def off(x, w, m, isa, padding=None, **attributes):
    """|F(m, 3) - exact| over the bound, output by output; Inf where the result is none."""
    rank = x.ndim - 2
    stride = (1,) * (rank - 2) + (winograd_matrices.stride_of(m),) * min(rank, 2)
    given = dict(stride=stride, dilation=(1,) * rank, groups=1) | attributes
    padding = padding or ((0, 0),) * rank
    layout = lk.Layout(LAST[rank])
    p = ConvProblem(x.shape[0], x.shape[1], w.shape[0], x.shape[2:], w.shape[2:], given["stride"], padding,
                    given["dilation"], given["groups"], layout, layout, "fast")  # fmt: skip
    with using_isa(isa):
        route = next(c for c in ConvTask(p, 1, "winograd").candidates() if f"F({m},3)" in c.name).build()
        y = np.empty(layout.physical_shape(p.dst_shape), np.float32)
        route.run(reference.to_physical(x, layout), *route.pack(w, None), y)
    want = reference.conv(x, w, None, given["stride"], padding, given["dilation"], given["groups"])
    bound = winograd.error_bound(x, w, m, padding=padding, **given)
    with np.errstate(invalid="ignore"):
        found = abs(reference.to_logical(y, layout, want.shape) - want) / bound
    return np.where(np.isfinite(found), found, np.inf)


# ---- the search


def scaled(rng, x, low, high):
    """The first axis by powers of two of a common range, or by 1."""
    power = rng.integers(low, high, len(x)) * (rng.random(len(x)) < 0.4)
    return x * np.exp2(power.astype(float)).reshape(-1, *[1] * (x.ndim - 1))


def mixed(rng, x):
    """The channels by powers of two of their own, half of the time."""
    power = rng.integers(-40, 1, x.shape[:2]) * (rng.random((len(x), 1)) < 0.5)
    return x * np.exp2(power.astype(float)).reshape(*x.shape[:2], *[1] * (x.ndim - 2))


def signs(rng, shape, bits):
    """+-1, a little less in the last so many bits."""
    return rng.choice([-1.0, 1.0], shape) * (1 - rng.random(shape) * 2.0 ** -rng.integers(1, bits, shape[:1]).reshape(
        -1, *[1] * (len(shape) - 1)))  # fmt: skip


def aligned(rng, rows, shape):
    """Along the last two axes the signs of rows of a matrix; of one where the axis is as long."""
    out = np.ones(shape)
    for axis in {len(shape) - 1, max(2, len(shape) - 2)}:
        if shape[axis] == rows.shape[1]:
            pattern = np.where(rows < 0, -1.0, 1.0)[rng.integers(len(rows), size=shape[:2])]
            out *= pattern.reshape(*shape[:2], *[rows.shape[1] if a == axis else 1 for a in range(2, len(shape))])
    return out


def hot(rng, shape, count):
    """All tiny or zero but for `count` numbers of each image or filter."""
    x = rng.standard_normal(shape) * rng.choice([0.0, 2.0**-20, 1e-3])
    flat = x.reshape(len(x), -1)
    for row in flat:
        row[rng.integers(flat.shape[1], size=count)] = rng.standard_normal(count)
    return x


def drawn(rng, shape, rows):
    """Numbers of one of the kinds that are known to be bad."""
    kind = rng.integers(6)
    if kind == 0:
        return rng.standard_normal(shape)
    if kind == 1:
        return signs(rng, shape, 24)
    if kind == 2:
        return aligned(rng, rows, shape) * abs(signs(rng, shape, 24))
    if kind == 3:
        return hot(rng, shape, 1)
    if kind == 4:
        return hot(rng, shape, 5)
    return aligned(rng, rows, shape) * np.exp2(rng.integers(-12, 1, shape).astype(float))


def mutated(rng, x):
    """Copies with some numbers turned, scaled, jittered, or taken from another."""
    x = x.copy()
    some = rng.random(x.shape) < rng.choice([0.02, 0.1, 0.5], len(x)).reshape(-1, *[1] * (x.ndim - 1))
    how = rng.integers(4)
    if how == 0:
        x[some] *= -1
    elif how == 1:
        x[some] *= 1 + rng.standard_normal(some.sum()) * 2.0 ** -rng.integers(2, 24)
    elif how == 2:
        x[some] *= np.exp2(rng.integers(-3, 4, some.sum()).astype(float))
    else:
        x = np.where(some, x[rng.permutation(len(x))], x)
    return x


def in_range(x, w):
    """Argument within the range that the bound is stated for, as float32."""
    x = np.clip(x, -winograd.LARGEST_INPUT, winograd.LARGEST_INPUT).astype(np.float32)
    sums = abs(w).max(tuple(range(1, w.ndim)), keepdims=True) * w[0].size
    w = (w / np.maximum(1, 1.001 * sums / winograd.LARGEST_SUM)).astype(np.float32)
    w[abs(w).reshape(len(w), -1).max(1) < winograd.SMALLEST_WEIGHT] = 0
    assert traits(w).why_strict is None
    return x, w


def population(rng, count, shape, rows):
    """As many of several kinds."""
    parts = np.array_split(np.arange(count), 4)
    return mixed(rng, np.concatenate([drawn(rng, (len(part), *shape), rows) for part in parts]))


def climb(rng, m, channels, kernel, isa, rounds, start=None, many=48, kept=8):
    """The most of the bound that was reached: images of a tile each, the best mutated again and again."""
    deep = len(kernel) - 2
    size = tuple(k if i < deep or k == 1 else winograd_matrices.inputs_of(m) + k - 3 for i, k in enumerate(kernel))
    t = winograd_matrices.algorithm(m)
    bt, g = winograd.as_array(t.BT), winograd.as_array(t.G)
    best, (x, w) = 0.0, start or (None, None)
    for turn in range(rounds):
        new_x = scaled(rng, population(rng, many, (channels, *size), bt), -149, 64)
        new_w = scaled(rng, population(rng, many, (channels, *kernel), g), -99, 40)
        if x is not None:  # more and more of the best ones' offspring
            share = many * (turn + 1) // (rounds + 1)
            for old, new in ((x, new_x), (w, new_w)):
                new[:share] = mutated(rng, np.repeat(old, -(-share // len(old)), 0)[:share])
                new[-len(old) :] = old
        x, w = in_range(new_x, new_w)
        by_pair = off(x, w, m, isa).reshape(many, many, -1).max(-1)
        best = max(best, by_pair.max())
        image, filter = (np.argsort(by_pair.max(axis))[-kept:] for axis in (1, 0))
        x, w = x[image].astype(float), w[filter].astype(float)
    return best


@pytest.mark.parametrize(("m", "kernel"), [
    (m, kernel) for m in TILES for kernel in ((3, 3), (1, 3), (3,), (2, 3, 3), (6, 5), (7,), (5, 1))
    if m != STRIDED or min(kernel[-2:]) > 1 < len(kernel)
], ids=str)  # fmt: skip
def test_no_search_exceeds_the_bound(m, kernel, seed):
    rng = np.random.default_rng((seed, m))
    for channels in (1, 2, int(rng.integers(3, 40)), int(rng.integers(40, 300))):
        isa = str(rng.choice(registry.isas()))
        reached = climb(rng, m, channels, kernel, isa, rounds=max(3, (30 if LONG else 12) // channels))
        print(f"F({m},3), {kernel}, {channels} channels, {isa}: {reached:.3f} of the bound")
        assert 0.001 / channels < reached <= 1


# ---- the construction


def rounded(x):
    return x.astype(np.float32).astype(np.float64)


def hostile(m, channels, tries=4000):
    """An image and a filter of as many channels, of which the first is all that counts.

    The first makes the products as large as can be for one output. Of the others, each is chosen among many so small
    that rounding it away or up, in all the products it is added to, moves that output farthest in one direction.
    """
    rng = np.random.default_rng(m)
    at, g, bt = (winograd.as_array(k) for k in winograd_matrices.algorithm(m)[2:])
    vertices = np.array(list(itertools.product((-1.0, 1.0), repeat=len(bt))))
    reach = {(i, k): (abs(vertices @ bt.T) * abs(at[i] * g[:, k])).sum(1) for i in range(m) for k in range(3)}
    i, k = max(reach, key=lambda at: reach[at].max())
    line = vertices[reach[i, k].argmax()]
    weight = np.outer(at[i], at[i])
    x, w = [np.outer(line, line)], [np.zeros((3, 3))]
    w[0][k, k] = 1
    sums = rounded(g @ w[0] @ g.T) * rounded(bt @ x[0] @ bt.T)
    sums = rounded(sums)
    for _ in range(1, channels):
        lines = vertices[rng.integers(len(vertices), size=(2, tries))]
        images = lines[0][:, :, None] * lines[1][:, None, :]
        images *= np.where(rng.random(images.shape) < rng.choice([0, 0.02, 0.1], (tries, 1, 1)), -1, 1)
        filters = np.zeros((tries, 3, 3))
        filters[range(tries), rng.integers(3, size=tries), rng.integers(3, size=tries)] = 1
        filters = rounded(filters * 2.0 ** rng.uniform(-25, -21, (tries, 1, 1)))
        exact = sums + rounded(g @ filters @ g.T) * rounded(bt @ images @ bt.T)
        moved = ((rounded(exact) - exact) * weight).sum((1, 2))
        best = moved.argmax()
        sums = rounded(exact[best])
        x.append(images[best])
        w.append(filters[best])
    return np.array(x, np.float32)[None], np.array(w, np.float32)[None]


@pytest.mark.parametrize("m", TILES)
def test_the_bound_is_not_six_times_too_large(m, seed):
    x, w = hostile(m, winograd.RUN)
    for isa in registry.isas():
        reached = off(x, w, m, isa).max()
        print(f"F({m},3), {isa}: {reached:.3f} of the bound")
        assert REACHED < reached <= 1
    from_there = climb(np.random.default_rng(seed), m, winograd.RUN, (3, 3), isa, 8, start=(x, w))
    print(f"F({m},3), {isa}, from there: {from_there:.3f} of the bound")
    assert reached <= from_there <= 1


# ---- the bound itself


def tile_of(output, outputs, m):
    """The first output and the last of its tile, one after another: all of m, or so few of m - 1 as make them fit."""
    tiles = -(-outputs // m)
    first = 0
    for tile in range(tiles):
        size = m if first + m + (tiles - tile - 1) * (m - 1) <= outputs else m - 1
        if first <= output < first + size:
            return first, first + size - 1
        first += size
    raise AssertionError("in no tile")


@pytest.mark.parametrize(("kernel", "stride", "dilation"), [
    ((3, 3), (1, 1), (1, 1)), ((1, 3), (1, 1), (1, 1)), ((3,), (1,), (1,)), ((2, 3, 3), (2, 1, 1), (3, 1, 1)),
    ((3, 3), (1, 1), (2, 3)), ((3,), (1,), (5,)), ((1, 3), (1, 1), (4, 2)), ((3, 3), (2, 2), (1, 1)),
    ((2, 3, 3), (1, 2, 2), (2, 1, 1)), ((5, 4), (1, 1), (1, 1)), ((4, 1), (1, 1), (2, 1)), ((4,), (1,), (2,)),
    ((4, 5), (2, 2), (1, 1)), ((5, 4), (2, 1), (1, 3)), ((3, 1), (1, 2), (1, 1)), ((7,), (3,), (1,)),
])  # fmt: skip
def test_the_bound_is_that_of_each_tile(kernel, stride, dilation):
    """By the obvious loop; what a hot pixel may spoil are the outputs of its tiles."""
    rng = np.random.default_rng(0)
    rank, groups = len(kernel), 2
    x = rng.standard_normal((2, 4, *(7, 9, 10)[3 - rank :])) * 10.0 ** rng.integers(-3, 4, (7, 9, 10)[3 - rank :])
    w, bias = rng.standard_normal((6, 2, *kernel)), rng.standard_normal(6)
    padding = ((1, 2), (0, 1), (2, 1))[3 - rank :]
    steps = dilation[:-2] + tuple(d if k > 1 else 1 for d, k in zip(dilation[-2:], kernel[-2:]))
    axes = sum(k > 1 for k in kernel[-2:])
    for m in (m for m in TILES if m != STRIDED or stride[-2:] == (2, 2)):
        # how many pixels the pieces of an output read along each axis, those of the zeros that fill them up as well
        read, pieces = [], kernel[0] if rank == 3 else 1
        for k, s in zip(kernel[-2:], stride[-2:]):
            apart = 1 if m == STRIDED else s
            firsts = [at for r in range(min(apart, k)) for at in range(r, k, 3 * apart)]
            read.append(1 if k == 1 else max(firsts) + 2 * apart + 1)
            pieces *= len(firsts)
        read = [0] * (rank - 2) + read
        given = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
        got = winograd.error_bound(x, w, m, bias=bias, **given)
        padded = np.pad(x, [(0, 0), (0, 0), *padding])
        assert got.shape == reference.conv(x, w, None, **given).shape
        c = winograd.error_factor(m, 2, pieces, axes)
        for at in np.ndindex(got.shape):
            n, o, *p = at
            seen = []
            for axis, (i, k) in enumerate(zip(p, kernel)):
                if rank == 3 and axis == 0:
                    seen.append(slice(i * stride[0], i * stride[0] + dilation[0] * (k - 1) + 1, dilation[0]))
                else:
                    step = steps[axis]
                    first, last = tile_of(i // step, -(-got.shape[axis + 2] // step), m) if k > 1 else (i, i)
                    first, end = stride[axis] * first, stride[axis] * last + read[axis]
                    seen.append(slice(i % step + first * step, i % step + (end - 1) * step + 1, step))
            most = abs(padded[(n, slice(o // 3 * 2, o // 3 * 2 + 2), *seen)]).max()
            size = abs(w[o]).sum() * most
            want = c * size + winograd.SMALLEST_NORMAL + EPS * (size + abs(bias[o]))
            np.testing.assert_allclose(got[at], want, rtol=1e-12)


def test_tiles_that_there_are_not():
    x, w = np.ones((1, 2, 9, 9)), np.ones((3, 2, 3, 3))
    with pytest.raises(ValueError, match="tiles of 5 outputs, expected 2, 4 or 6, or with stride 2 also 3"):
        winograd.error_bound(x, w, 5)
    with pytest.raises(ValueError, match=r"those of stride 2 along the last two axes, got \(1, 1\)"):
        winograd.error_bound(x, w, 3, stride=(1, 1))
    assert winograd.error_bound(x, w, 3, stride=(2, 2)).shape == (1, 3, 4, 4)


def test_growth_by_the_matrices():
    """As found by trying every tap and every sign of the input, along one axis: at most that, and near it."""
    for m in TILES:
        at, g, bt = (winograd.as_array(k) for k in winograd_matrices.algorithm(m)[2:])
        v = abs(np.array(list(itertools.product((-1, 1), repeat=len(bt)))) @ bt.T)
        most = max((v * abs(at[i] * g[:, k])).sum(1).max() for i in range(m) for k in range(3))
        assert 0.7 * winograd.growth(m, 1) < most <= winograd.growth(m, 1)
        assert winograd.growth(m) == pytest.approx(winograd.growth(m, 1) ** 2)
        # what is below the smallest normal number, rounded in the sums and in the output's transform
        steps = winograd.roundings(m, 4096)
        assert steps * abs(at).sum(1).max() ** 2 * 2.0**-150 < winograd.SMALLEST_NORMAL
        # nothing overflows in the stated range
        assert winograd.growth(m) * winograd.LARGEST_INPUT * winograd.LARGEST_SUM < 2.0**127


def test_as_many_roundings_as_runs_make():
    assert [winograd.roundings(2, c) for c in (0, 1, 128)] == [9, 9, 136]
    assert winograd.roundings(2, 129) == 68 + 1 + 8  # two runs
    assert winograd.roundings(2, 300, taps=3) == 100 + 8 + 8  # nine
    assert winograd.roundings(6, 128, axes=1) == 128 + 2 + 8


# ---- filters


def filters():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, 64, 3, 3), np.float32)
    tap = np.zeros_like(w)
    tap[:, :, 1, 2] = w[:, :, 0, 0]
    dead, spoilt = w.copy(), w.copy()
    dead[5] = 0
    spoilt[5] *= np.float32(1e-36)
    few = w.copy()
    few[5, 1:] *= np.float32(1e-42)
    near = w * np.float32(2.0**-97)
    huge = w.copy()
    huge[3, 2, 1, 1] = 1e20
    return {
        "normal": (w, None), "one tap": (tap, None), "a dead channel": (dead, None), "zeros": (0 * w, None),
        "a few weights of weight": (few, None), "small": (near, None),
        "tiny": (w * np.float32(1e-33), "at most, below 7.9e-31"),
        "denormal": (w * np.float32(1e-42), "at most, below 7.9e-31"),
        "a tiny channel": (spoilt, "at most, below 7.9e-31"),
        "huge": (huge, "it holds 1e+20, sums of 576 such are beyond 1.1e+15"),
    }  # fmt: skip


@pytest.mark.parametrize("accuracy", ["standard", "fast"])
@pytest.mark.parametrize("kind", filters())
def test_filters_out_of_range_leave_winograd(kind, accuracy):
    w, why = filters()[kind]
    op = lk.Conv2d(w, padding=1, layout="NHWC", accuracy=accuracy)
    text, found = op.explain((1, 64, 20, 20)), op.plan((1, 64, 20, 20))
    assert any("winograd" in c.candidate.name for c in found.choices) == (why is None)
    if why is None:
        assert "filter:" not in text and f" {accuracy} " in found.title
        return
    assert why in text and "filter: " in text and "accuracy strict" in text.splitlines()[0]
    with pytest.raises(ValueError, match="algorithm 'winograd' is not for this filter: "):
        lk.conv2d(np.ones((1, 20, 20, 64), np.float32), w, padding=1, layout="NHWC", algorithm="winograd")
    assert lk.Conv2d(w, padding=1, layout="NHWC", algorithm="direct").plan((1, 64, 20, 20)).choices


@pytest.mark.parametrize("kernel", [(2, 2), (1, 2), (2, 1), (2,), (5, 1), (4, 4), (7, 7)], ids=str)
@pytest.mark.parametrize("scale", [1e-42, 1e30])
def test_filters_of_any_taps_are_looked_at(kernel, scale):
    w = np.random.default_rng(0).standard_normal((64, 64, *kernel)).astype(np.float32)
    make, size = (lk.Conv1d, (400,)) if len(kernel) == 1 else (lk.Conv2d, (20, 20))
    for filter, taken in ((w, True), (w * np.float32(scale), False)):
        names = [c.candidate.name for c in make(filter, layout=LAST[len(kernel)]).plan((1, 64, *size)).choices]
        assert any("winograd" in name for name in names) == taken


@given(st.data())
def test_whatever_the_filter_every_candidate_is_within_its_bound(data):
    """Powers of two of all of float32, for each output channel and for all of the input up to 2^64."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    ic, oc = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 20))
    low = data.draw(st.integers(-149, 60))
    power = rng.integers(low, data.draw(st.integers(low, 60)) + 1, (oc, 1, 1, 1))
    w = (rng.standard_normal((oc, ic, 3, 3)) * np.exp2(power.astype(float))).astype(np.float32)
    scale = data.draw(st.integers(-149, 61))
    x = (rng.standard_normal((1, ic, 9, 10)) * 2.0**scale).astype(np.float32)
    padding = ((1, 1), (1, 1))
    want = reference.conv(x, w, None, (1, 1), padding, (1, 1), 1)
    sums = reference.conv(abs(x), abs(w), None, (1, 1), padding, (1, 1), 1)
    p = lk.Conv2d(w, padding=1, accuracy="fast")._filter.problem(x.shape)
    for found in ConvTask(p, 1).candidates():
        route = found.build()
        got = np.empty(want.shape, np.float32)
        route.run(x, *route.pack(w, None), got)
        bound = EPS * (9 * ic + 3) * sums + 9 * ic * 2.0**-149
        for m in TILES:
            if f"F({m},3)" in found.name:
                bound = winograd.error_bound(x, w, m, padding=padding)
        assert (abs(got - want) <= bound).all(), found.name


def test_each_phase_of_a_transposed_convolution_by_its_own_part():
    """6x6 with stride 2 is four times 3x3: the phase whose weights are tiny is summed directly."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((32, 32, 6, 6)).astype(np.float32)
    w[:, :, ::2, 1::2] *= np.float32(1e-40)
    x = rng.standard_normal((1, 32, 24, 24)).astype(np.float32)
    attributes = dict(stride=(2, 2), padding=((2, 2), (2, 2)))
    want, sums = (reference.conv_transpose(a, b, None, output_padding=(0, 0), dilation=(1, 1), groups=1, **attributes)
                  for a, b in ((x, w), (abs(x), abs(w))))  # fmt: skip
    op = lk.ConvTranspose2d(w, stride=2, padding=2)
    got = op(x)
    bound = EPS * (9 * 32 + 3) * sums + 2.0**-140
    assert (abs(got - want)[:, :, ::2, 1::2] <= bound[:, :, ::2, 1::2]).all()
    with pytest.raises(ValueError, match="conv_transpose2d: algorithm 'winograd' is not for this filter"):
        lk.conv_transpose2d(x, w, stride=2, padding=2, algorithm="winograd")
