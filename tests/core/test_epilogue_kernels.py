"""Epilogues against the obvious loop, on every instruction set of the machine; see test_kernels.py."""

import numpy as np
import pytest
from conftest import using_isa
from kernel_rows import ROWS, reals
from oracle import reference
from oracle.guard import guarded
from random_cases.numbers import exact, of_result

from layoutkit._core.nests.convolutions.route import TENSOR, Epilogue, epilogue_pixels
from layoutkit.convolutions.types import TYPES

EPILOGUES = [k for k in ROWS if k.family == "epilogue" and not k.types.startswith("s32_")]  # those: test_integers.py


# Chains of steps: names, their numbers, what their operand is.
CHAINS = [
    [(name, numbers, None)] for name, numbers in (
        ("clip", (-1, 2)), ("silu", ()), ("gelu", ()), ("gelu_tanh", ()), ("hardswish", ()), ("elu", (0.5,)),
        ("tanh", ()), ("sigmoid", ()), ("softplus", ()), ("abs", ()), ("square", ()), ("exp", ()), ("round", ()),
        ("mish", ()), ("swish", (1.25,)), ("hardsigmoid", (0.25, 0.5)), ("hardswish_of", (0.25, 0.5)),
        ("linear", (0.25, -0.5)), ("pow", (0.5, 2, 1, 1)), ("erf", ()), ("celu", (0.5,)), ("softsign", ()), ("neg", ()),
        ("sign", ()), ("floor", ()), ("ceil", ()), ("thresholded_relu", (0.5,)), ("shrink", (0.25, 0.5)),
        ("sin", ()), ("cos", ()),
    )
] + [
    [(name, numbers, kind)] for name, numbers in (
        ("prelu", ()), ("add", ()), ("mul", ()), ("max", ()), ("min", ()), ("sum", (0.5,)), ("sub", ()), ("rsub", ()),
    ) for kind in ("number", "channel", TENSOR)
] + [
    [("abs", (), None), ("sqrt", (), None), ("linear", (1, 0.5), None), ("log", (), None)],
    [("add", (), TENSOR), ("clip", (-2, 3), None), ("mul", (), "channel"),
     ("sum", (2,), TENSOR), ("max", (), "number")],
]  # fmt: skip


def stepped(step, operand, x):
    """A step of an epilogue on x (.., channels), in float64."""
    name, numbers, _ = step
    binary = {"prelu": lambda: np.where(x < 0, x * operand, x), "add": lambda: x + operand, "mul": lambda: x * operand,
              "sub": lambda: x - operand, "rsub": lambda: operand - x,
              "max": lambda: np.maximum(x, operand), "min": lambda: np.minimum(x, operand),
              "sum": lambda: x + numbers[0] * operand}  # fmt: skip
    if name in binary:
        return binary[name]()
    if name == "pow":
        numbers = numbers[:2]
    activation = (name.removesuffix("_of"), *numbers)
    return reference.activate(x.reshape(1, 1, -1), activation).reshape(x.shape)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("kernel", EPILOGUES, ids=lambda k: k.name)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: "-".join(f"{name}{of or ''}" for name, _, of in c))
def test_epilogue(chain, kernel, end):
    rng, real, types = np.random.default_rng(2), reals(kernel), TYPES[kernel.types]
    allowed = 32 * np.finfo(real).eps
    for i, count in enumerate((1, 3, 4, 15, 16, 17, 40, 1100)):
        residual = (i % 2 == 0) == (end == "low")  # of each length, at one end
        x = rng.normal(0, 3, (2, count)).clip(-5, 5).astype(real)  # e^10 is in range of f16
        add = rng.normal(0, 3, (2, count)).clip(-5, 5).astype(types.dst)
        inputs = [guarded(a.ravel().view(np.uint8), end) for a in (x, add)]
        sums, onto = (b.array.view(a.dtype).reshape(2, count) for b, a in zip(inputs, (x, add)))
        y = guarded(np.zeros(2 * count, types.dst).view(np.uint8), end).array.view(types.dst).reshape(2, count)
        narrow = types.dst != real
        steps, tensors = [], []
        want = x.astype(np.float64) + (exact(add) if residual else 0)
        for step in chain:
            name, numbers, kind = step
            shape, of = {"number": (1, real), "channel": (count, real), TENSOR: ((2, count), types.dst)}.get(
                kind, (0, real))  # fmt: skip
            values = rng.normal(0, 1, shape).astype(of)
            operand = guarded(values.ravel().view(np.uint8), end).array.view(of).reshape(shape)
            if kind == TENSOR:
                tensors.append(operand)
            steps.append((name, np.array(numbers, real), TENSOR if kind == TENSOR else operand if kind else None))
            want = stepped(step, exact(operand), want)
        with using_isa(kernel.isa):
            args = (y, onto if residual else None, sums) if narrow else (sums, onto if residual else None)
            epilogue_pixels(kernel.types, Epilogue(steps, tensors), *args)
        got = exact(y) if narrow else sums
        assert (abs(got - want) <= allowed * (1 + abs(want)) + of_result(types, want)).all()
        np.testing.assert_array_equal(onto, add)


@pytest.mark.parametrize("kernel", [k for k in EPILOGUES if k.types in ("f16", "bf16")], ids=lambda k: k.name)
def test_every_narrow_number_and_those_between_are_rounded_to_nearest_even(kernel):
    types = TYPES[kernel.types]
    narrow = np.arange(1 << 16, dtype=np.uint16).view(types.dst)
    with np.errstate(all="ignore"):
        wide = exact(narrow)
        steps = wide.view(np.uint32)[:, None] + np.uint32([0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001])
        sums = steps.astype(np.uint32).view(np.float32)
        y = np.zeros(sums.shape, types.dst)
        with using_isa(kernel.isa):
            epilogue_pixels(kernel.types, Epilogue(), y, None, sums)
        np.testing.assert_array_equal(exact(y), exact(sums.astype(types.dst)))
        onto = np.zeros((1, narrow.size), types.dst)
        with using_isa(kernel.isa):  # the residual is widened
            epilogue_pixels(kernel.types, Epilogue(), onto, narrow[None], np.zeros(onto.shape, np.float32))
        np.testing.assert_array_equal(exact(onto)[0], wide)


@pytest.mark.parametrize("step", ["sigmoid", "silu", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("kernel", [k for k in EPILOGUES if k.types == "bf16"], ids=lambda k: k.name)
def test_activations_of_every_bfloat16_are_rounded_from_twelve_bits(kernel, step):
    types = TYPES["bf16"]
    x = np.arange(1 << 16, dtype=np.uint16).view(types.dst)
    sums, got = exact(x)[None].copy(), np.zeros((1, x.size), types.dst)
    with using_isa(kernel.isa), np.errstate(all="ignore"):
        epilogue_pixels("bf16", Epilogue([(step, np.zeros(0, np.float32), None)], []), got, None, sums)
        want = stepped((step, (), None), None, exact(x)[None].astype(np.float64))[0]
    got = exact(got)[0].astype(np.float64)
    number = np.isfinite(want)
    half = 2.0 ** (np.floor(np.log2(np.maximum(abs(want[number]), 2.0**-126))) - 8)  # of the last bit
    assert (abs(got[number] - want[number]) <= 2.0**-12 * abs(want[number]) + half + 2.0**-134).all()
    np.testing.assert_array_equal(got[~number], want[~number])
