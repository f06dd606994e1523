"""Damaged input for everything that reads text, shapes or tables: ``python stress/fuzz.py --seconds 60``.

Each target takes bytes. It may refuse them with ValueError or TypeError; whatever else it raises is a failure, and
so is a layout that does not come back from its own text. Inputs are cut, spliced and changed pieces of good ones;
with ``--atheris`` that library chooses them by what code they reach.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path

import hostile
import numpy as np

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.bench.listed import onnx_layers, text_cases
from layoutkit.choosing import costfile, model
from layoutkit.formats import notation
from layoutkit.formats.affine import affine_map, parse_affine

REFUSALS = (ValueError, TypeError, MemoryError)
MACHINE = {"cpu": "any"}
MOST = 1 << 16  # elements that a reorder may write
_room = tempfile.TemporaryDirectory(prefix="layoutkit-fuzz-")
_CONV = "conv n1 c64 56x56 o64 k3x3 s1x1 p1+1,1+1 d1x1 g1 NHWC>nChw16c f32 standard"
_TABLE = costfile.dump({"reorder 1x2 ab>ba x32 t1": {"store": costfile.Cost(1e-6, 2e-6, 0.0, 3)}}, MACHINE)


def layout(data: bytes) -> None:
    """Any text as a layout."""
    text = data.decode(errors="replace")
    found = lk.Layout(text)
    assert lk.Layout(str(found)) == found, "does not come back from its name"
    if found.is_dense:
        assert lk.Layout(affine_map(found)) == found, "does not come back from its map"
    shape = tuple(1 + b % 5 for b in data[: found.rank].ljust(found.rank))
    found.offset(tuple(n - 1 for n in shape), shape)


def affine(data: bytes) -> None:
    """Any text as an affine map."""
    found = lk.Layout.from_factors(*parse_affine(data.decode(errors="replace")))
    assert lk.Layout(affine_map(found)) == found, "does not come back from its map"


def spaced(data: bytes) -> None:
    """Any text as words with spaces."""
    lk.Layout.from_factors(*notation.parse_spaced(data.decode(errors="replace"))[0])


def table(data: bytes) -> None:
    """Any text as a cost table, its checksum made to fit so that the rest is read, too."""
    text = data.decode(errors="surrogateescape")
    _, _, body = text.partition("\n")
    for candidate in (text, f"{costfile._head(body)}\n{body}"):
        try:
            costs = costfile.parse(candidate, MACHINE)
        except REFUSALS:
            continue
        assert costfile.parse(costfile.dump(costs, MACHINE), MACHINE) == costs, "does not come back from its text"


def known(data: bytes) -> None:
    """Any text as what a cost table knows a problem by: the model looks at what problems it has."""
    key = data.decode(errors="replace")
    found = model.problem_of(key, registry.isa())
    if found is None:
        raise ValueError("no problem of ours")
    problem, features = found
    assert all(np.isfinite(features)), "lies nowhere"
    assert all(np.isfinite(model.corrections(problem)[name]) for name in ("direct", "a 0")), "no factor"
    estimate = problem.estimates()("direct")
    assert estimate is None or estimate >= 0, "no time"


def harmful(data: bytes) -> None:
    """A whole table that is drawn by these bytes, in place of the user's: calls go on, and soon."""
    calls = hostile.use(hostile.table(random.Random(data)), _room.name)
    assert calls < hostile.MAX_CALLS, f"{calls} calls"


def listed(data: bytes) -> None:
    """Any text as a list of problems to measure."""
    text_cases(data.decode(errors="replace").splitlines(), "fuzzed", ["NHWC"], [1])


def onnx_model(data: bytes) -> None:
    """Any bytes as an ONNX model whose convolutions are to be measured."""
    path = Path(_room.name) / "fuzzed.onnx"
    path.write_bytes(data)
    for layer, _ in onnx_layers(path):
        layer.problem("NHWC")


def numbers(data: bytes) -> None:
    """Shapes and strides from numbers of any size."""
    values = [int.from_bytes(data[i : i + 1 + data[i] % 9], "little", signed=True) for i in range(0, len(data), 9)]
    half = len(values) // 2
    with warnings.catch_warnings(action="ignore"):  # some look like bytes
        lk.read_strides(values[:half], values[half : 2 * half])
    lk.Layout("abcdefgh"[:half]).physical_shape(values[:half])


def move(data: bytes) -> None:
    """A reorder between two formats given by text, of explicit strides too, there and back."""
    first, _, second = data.decode(errors="replace").partition(">")
    src, dst = lk.Layout(first), lk.Layout(second)
    shape = (2,) * src.rank
    if src.rank > 6 or dst.rank != src.rank or max(prod(x.physical_shape(shape)) for x in (src, dst)) > MOST:
        return  # a block of 10^9 is a format like any other, and its pads are memory like any other
    if max(x.required_span_size(shape) for x in (src, dst)) > MOST:
        return
    values = np.arange(2**src.rank, dtype=np.int16).reshape(shape)
    there = lk.reorder(values, lk.Layout("abcdef"[: src.rank]), src)  # refused where elements share a place
    back = lk.reorder(lk.reorder(there, src, dst, shape=shape), dst, src, shape=shape)
    np.testing.assert_array_equal(back, there)
    np.testing.assert_array_equal(lk.Tensor(back, src, shape).numpy(), values)


def converted(data: bytes) -> None:
    """A conversion with parameters, axes and blocks of any kind and size: what is taken has the result's type."""
    rng = random.Random(data)
    kinds = ["f4", "i1", "u2", "i8", "?", "nonsense", None, ("f4", "i4"), ("f4",), 3, "V3", "c8", ">f4"]
    anything = [None, 0, 1, -1, 7, 2**31, 2**63, 2**70, 0.5, np.inf, np.nan, "x", True, [], [1, 2], [[1.0] * 3] * 2,
                [2.0] * 3, [1] * 6, (), (0, 1), (1, 0), (1, 1), (0, 9), (3, 2), np.ones((2, 3), np.uint8),
                1j, b"1"]  # fmt: skip
    names = ("scale", "zero_point", "offset", "out_scale", "out_zero_point", "axis", "block_size", "alpha", "beta")
    how = {name: rng.choice(anything) for name in names if rng.randrange(3) == 0}
    x = np.arange(6).astype(rng.choice(["f4", "f8", "i1", "u2", "i8", "?"])).reshape(2, 3)
    dtype = rng.choice(kinds)
    found = lk.reorder(x, "ab", rng.choice(["ba", "ab", "aB2b"]), dtype=dtype, **how)
    wanted = dtype[-1] if isinstance(dtype, tuple) else dtype
    assert found.dtype == (x.dtype if wanted is None else np.dtype(wanted)), "of another type"


def paired(data: bytes) -> None:
    """Any bytes as packed pairs of any shape, there and back: what is taken comes back."""
    rng = random.Random(data)
    names = ["int4x2", "uint4x2", "int4x3", "f4", "i1", "u1", None]
    dtype = (rng.choice(names), rng.choice(names)) if rng.randrange(4) else rng.choice(names)
    shape = tuple(rng.choice([0, 1, 2, 3, 5, 8, -1, 2**40]) for _ in range(rng.choice([2, 2, 2, 1, 3])))
    count = prod(shape) if 0 <= prod(shape) <= MOST else 7
    array = np.frombuffer(data.ljust(count)[: -(-count // 2)], np.uint8)
    src, dst = rng.choice(["ab", "ba", "aB4b", "ab:(9,1)"]), rng.choice(["ab", "ba", "aB4b"])
    found = lk.reorder(array, src, dst, shape=shape, dtype=dtype, pad_value=rng.choice([0, 0, 7, -8, 99, "x", None]))
    if isinstance(dtype, tuple) and dtype[0] == dtype[1]:
        back = lk.reorder(found, dst, src, shape=shape, dtype=dtype)
        assert lk.reorder(back, src, dst, shape=shape, dtype=dtype).size == found.size, "of another size"


def _models() -> tuple[bytes, ...]:
    """Models of one convolution; none where onnx is not installed."""
    try:
        from onnx import TensorProto, helper
    except ImportError:
        return ()
    found = []
    for attributes in ({"pads": [1, 1, 1, 1], "strides": [2, 2]}, {"auto_pad": "SAME_LOWER", "group": 2}):
        shapes = {"x": ["batch", 4, 9, 9], "w": [6, 4 // attributes.get("group", 1), 3, 3], "y": None}
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
        graph = helper.make_graph([node], "one", values[:2], values[2:])
        found.append(helper.make_model(graph).SerializeToString())
    return tuple(found)


TARGETS: dict[str, tuple[Callable[[bytes], None], tuple[str | bytes, ...]]] = {
    "layout": (layout, (
        "NCHW", "nChw16c", "aBcd12b", "OIhw16i16o2i", "ABcd16a4b", "gOIhw4o", "acdb:(1,*,3,40)", "mace:in_out_channel",
        "NC(H W)", "n (c/16) h w c16", "(d0, d1) -> (d1, d0 floordiv 4, d0 mod 4)", "DimsOrder(0x1342)", "zyxw",
    )),
    "affine": (affine, (
        "affine_map<(d0, d1, d2) -> (d1, d0 floordiv 16, d2, d0 mod 16)>", "(d0) -> (d0)", "() -> ()",
        "(d0, d1) -> ((d0 floordiv 4) mod 8, d1, d0 mod 4)",
    )),
    "spaced": (spaced, ("n c h w", "b (c 16) h w", "b h w c -> b c h w", "n (c1 c2) h w")),
    "table": (table, (_TABLE,)),
    "known": (known, (f"{_CONV} t1", "reorder 1x64x56x56 NCHW>aBcd16b x32 t2", "filter o64 c16 k3x3 g4 f32")),
    "harmful": (harmful, tuple("0123456789")),
    "listed": (listed, ("3x3 64->128 @56 s2 *4", "3 8->9 @7x8 p1x0+2 d2 g4 # text", _CONV, "reorder 2x3x4 abc>cab x8")),
    "onnx": (onnx_model, _models()),
    "numbers": (numbers, ("\x03\x01\x00\x00", "\x08" * 40, "\x7f\xff" * 30)),
    "converted": (converted, tuple("0123456789")),
    "paired": (paired, tuple("0123456789")),
    "move": (move, (
        "NCHW>NHWC", "aBc4b>cab", "ab>ba", "nChw16c>NHWC", "abcd>dcba", "ab:(9,2)>ba:(3,*)", "aBc4b:(*,*,40,1)>cab",
    )),
}  # fmt: skip


def mutate(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """A piece of one, a piece of another, and a few bytes changed."""
    a, b = bytearray(rng.choice(corpus)), rng.choice(corpus)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(a) + 1)
        match rng.randrange(5):
            case 0:
                a[at:] = b[rng.randrange(len(b) + 1) :]
            case 1:
                a[at:at] = bytes(
                    [rng.choice(b"0123456789abcdefghNCHW(),:->/ *") if rng.randrange(4) else rng.randrange(256)]
                )
            case 2:
                del a[at : at + rng.randrange(1, 4)]
            case 3:
                a[at:at] = a[at : at + rng.randrange(1, 9)] * rng.randrange(1, 5)
            case _:
                a[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(a)


def attempt(target: Callable[[bytes], None], data: bytes) -> bool:
    """Run one case; whether the input was taken."""
    try:
        target(data)
    except REFUSALS:
        return False
    return True


def campaign(name: str, seconds: float, seed: int, least: int = 0) -> tuple[int, int, list[str]]:
    """Cases run, cases taken, failures: for so many seconds, and until at least so many cases ran."""
    target, seeds = TARGETS[name]
    corpus = [s.encode() if isinstance(s, str) else s for s in seeds]
    rng, ran, taken, failures = random.Random(seed), 0, 0, []
    end = time.perf_counter() + seconds
    while corpus and (ran < least or time.perf_counter() < end):
        data = mutate(rng, corpus)
        ran += 1
        try:
            if attempt(target, data):
                taken += 1
                if len(corpus) < 2000 and len(data) < 200:
                    corpus.append(data)
        except Exception as error:
            failures.append(f"{name} {data!r}: {type(error).__name__}: {error}")
    return ran, taken, failures


def with_atheris(name: str, seconds: float) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    target, _ = TARGETS[name]
    later = (sys.modules[f"layoutkit.{name}"] for name in ("formats.affine", "formats.layout", "formats.reading"))
    for module in (notation, costfile, *later):
        for key, value in list(vars(module).items()):
            if callable(value) and getattr(value, "__module__", "") == module.__name__ and hasattr(value, "__code__"):
                setattr(module, key, atheris.instrument_func(value))
    most = 2000 + (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)  # that of who started us counts as ours
    limits = [f"-max_total_time={int(seconds)}", "-timeout=10", f"-rss_limit_mb={most}", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={tempfile.gettempdir()}/"], lambda d: attempt(target, d))
    atheris.Fuzz()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 1 if anything failed."""
    p = argparse.ArgumentParser(prog="python stress/fuzz.py", description=__doc__.split("\n")[0])
    p.add_argument("--seconds", type=float, default=60, help="for all targets together")
    p.add_argument("--target", choices=list(TARGETS), action="append")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--atheris", action="store_true", help="one --target, guided by coverage")
    args = p.parse_args(argv)
    names = args.target or list(TARGETS)
    if args.atheris:
        if len(names) != 1:
            p.error("--atheris takes one --target")
        with_atheris(names[0], args.seconds)
    failed = False
    for name in names:
        start = time.perf_counter()
        ran, taken, failures = campaign(name, args.seconds / len(names), args.seed)
        for text in failures[:10]:
            print(text, file=sys.stderr)
        failed |= bool(failures)
        spent = time.perf_counter() - start
        print(f"{name:<8} {ran:>9} cases, {taken} taken, {len(failures)} failures, {spent:.1f} s")
    return failed


if __name__ == "__main__":
    os.environ.setdefault("LAYOUTKIT_CACHE_DIR", os.devnull)
    sys.exit(main())
