"""Cost tables that nobody measured: whole, with a checksum that fits, and written to do harm.

`table` draws one: keys near the problems that are asked for and at the limits of the grammar, costs that are none,
names that no candidate has. `crowd` makes the largest that is read, of keys that each take as long as a key can. `use`
runs what looks at a table and counts the work, in calls, so that a bound on it holds on any machine.
"""

from __future__ import annotations

import cProfile
import json
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import layoutkit as lk
from layoutkit.choosing import costfile, machine

MAX_CALLS = 6_000_000  # Python and C calls that reading any table and the first calls after it take
CACHE = "LAYOUTKIT_CACHE_DIR"
X, W = np.ones((1, 8, 10, 10), np.float32), np.ones((8, 8, 3, 3), np.float32)
CONV = "conv n{n} c{c} {a}x{b} o{o} k{k}x{k} s{s}x{s} p{p}+{p},{q}+{p} d{d}x{d} g{g} {x}>{y} f32 {accuracy} t{t}"
REORDER = "reorder {n}x{c}x{a}x{b} {x}>{y} x{bits} t{t}"
FILTER = "filter o{o} c{c} k{k}x{k} g{g} f32"
OURS = {  # the problems of `use`
    CONV: dict(n=1, c=8, a=10, b=10, o=8, k=3, s=1, p=0, q=0, d=1, g=1, x="NCHW", y="NCHW", accuracy="standard", t=1),
    REORDER: dict(n=1, c=8, a=10, b=10, x="NCHW", y="NHWC", bits=32, t=1),
    FILTER: dict(o=8, c=8, k=3, g=1),
}
NUMBERS = (
    0, 1, 2, 3, 7, 8, 16, 17, 64, 100, 1009, 2**20, 2**31 - 1, 2**31, 2**32, 10**9, 2**62, 2**63, 10**17, 10**18 - 1,
    10**18, 10**30, -1, -8, "", "x", "1e3", "01", "٣", "9" * 5000,
)  # fmt: skip
LAYOUTS = (
    "NCHW", "NHWC", "nChw16c", "nChw999999999c", "nChw" + "1c" * 16, "nChw" + "2c" * 16, "nChw" + "2c" * 20_000,
    "nChw997c1009c", "nChw1009c997c", "nChw720720c", "nChw7c11c13c17c", "ABCD999983a999979b999961c999959d",
    "n c/16 h w 16c", "n c 16c h w", "nc", "abcdefghijklmno", "NCHW:(*,1,1,1)", "0x1234", "mace:in_out_channel", "",
    "n" * 900, "ñchw",
)  # fmt: skip
COSTS = (
    0, -1, 1e-320, 5e-324, 1e-9, 1e-6, 1, 3.5, 1e6, 1e12, 1e300, 1.7e308, 10**400, float("nan"), float("inf"), -0.0,
    "1", None, True, [1], {"a": 1},
)  # fmt: skip
NAMES = ("direct", "blas", "", "no candidate", "\x00\n", "\ud800", "名前", "a" * 5000, "store allx64", '"}}')


def _key(rng: random.Random) -> str:
    """One of our problems with a few of its parts changed."""
    form = rng.choice([*OURS])
    parts: dict[str, object] = dict(OURS[form])
    for part in rng.sample(sorted(parts), min(rng.choice((0, 1, 1, 2, 6)), len(parts))):
        if part in "xy":
            parts[part] = rng.choice(LAYOUTS)
        elif part == "accuracy":
            parts[part] = rng.choice(("strict", "fast", "any"))
        else:
            parts[part] = rng.choice(NUMBERS) if rng.random() < 0.6 else rng.randrange(1, 3000)
    return form.format(**parts) if rng.random() < 0.95 else "".join(map(chr, rng.choices(range(1, 900), k=40)))


def _cost(rng: random.Random, valid: bool) -> object:
    if valid:
        least = 10 ** rng.uniform(-5.9, 11)
        return [least, least * rng.choice((1, 1.5, 9)), rng.choice((0, least)), rng.choice((1, 3, 2**53))]
    fields: list[object] = [rng.choice(COSTS) for _ in range(rng.choice((3, 4, 4, 4, 5)))]
    return fields if rng.random() < 0.9 else rng.choice(COSTS)


def table(rng: random.Random, problems: int = 40) -> str:
    """A table of about so many problems."""
    names = [*NAMES, *(c.candidate.name for c in lk.plan(lk.conv2d, X, W, threads=1).choices)]
    texts, all_valid = {}, rng.random() < 0.5
    for _ in range(problems):
        valid = all_valid or rng.random() < 0.5
        some = rng.sample(names, rng.randrange(min(9, len(names)))) if valid else rng.choices(names, k=9)
        found = [(name, _cost(rng, valid)) for name in some]
        lines = ",\n".join(f"   {json.dumps(name)}: {json.dumps(cost)}" for name, cost in found)
        texts[json.dumps(_key(rng))] = f"{{\n{lines}}}"
    return sealed(",\n".join(f"  {key}: {text}" for key, text in texts.items()))


def _blocks(rng: random.Random, letters: str, count: int, most: int) -> str:
    return "".join(f"{rng.randrange(2, most)}{rng.choice(letters)}" for _ in range(count))


def _nested(rng: random.Random, i: int) -> str:
    return f"reorder {10**6 + i} A{_blocks(rng, 'a', 3, 12)}>A{_blocks(rng, 'a', 3, 12)} x8 t1"


def _ragged(rng: random.Random, i: int) -> str:
    sizes = "x".join(str(rng.randrange(20, 2000)) for _ in range(4))
    a, b = (f"ABCD{_blocks(rng, 'a', 1, 40)}{_blocks(rng, 'b', 1, 40)}3c5d" for _ in range(2))
    return f"reorder {sizes} {a}>{b} x8 t1"


def _depthwise(rng: random.Random, i: int) -> str:
    n, size = 131_072 - i % 1000, 50 + i // 1000
    return f"conv n1 c{n} 50x{size} o{n} k3x3 s1x1 p0+0,0+0 d1x1 g{n} NHWC>NHWC f32 t1"


# Makers of keys for `crowd`: the random numbers, the number of the key.
CROWDS: dict[str, Callable[[random.Random, int], str]] = {
    "the shortest keys": lambda rng, i: f"reorder {i + 1} a>a x8 t1",
    "no two layouts alike": lambda rng, i: f"conv n1 c9 5 o4 k3 s1 p0+0 d1 g1 NCw{i + 1}c>NCw{i + 2}c f32 t1",
    "blocks in blocks": _nested,
    "blocks that do not line up": _ragged,
    "a million channels": _depthwise,
    "nobody's": lambda rng, i: f"x{i}",
}


def crowd(make: Callable[[random.Random, int], str], name: str = "direct") -> str:
    """As many problems as are read, nearly, each with a candidate of this name."""
    rng, found, size, i = random.Random(0), {}, 0, 0
    while size < costfile.MAX_BYTES - 10_000:
        key = make(rng, i)
        i += 1
        if key not in found:
            found[key] = f'  "{key}": {{\n   "{name}": [1, 1, 0, 3]}}'
            size += len(found[key].encode()) + 2
    return sealed(",\n".join(found.values()))


def sealed(problems: str) -> str:
    """What stands between the braces of the costs as a table of this machine, head and checksum included."""
    body = f' "machine": {json.dumps(machine.identity())},\n{costfile._FIELDS}\n "costs": {{\n{problems}}}}}\n'
    return f"{costfile._head(body)}\n{body}"


def counted(work: Callable[[], object]) -> int:
    """How many functions `work` calls, Python's and C's."""
    profile = cProfile.Profile()  # counts in C
    profile.runcall(work)
    return sum(function.callcount for function in profile.getstats())


def use(text: str, folder: str | Path) -> int:
    """Do what looks at a table while `text` is the user's, in the cache directory `folder`; the calls that took."""
    before = os.environ.get(CACHE)
    os.environ[CACHE] = str(folder)
    try:
        lk.cost_table.path.write_bytes(text.encode(errors="surrogatepass"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return counted(_work)
    finally:
        os.environ.pop(CACHE)
        if before is not None:
            os.environ[CACHE] = before
        lk.cost_table.generation += 1  # what was decided by this table holds no more


def _work() -> None:
    lk.cost_table.load()
    y = lk.conv2d(X, W, threads=1)
    assert y.shape == (1, 8, 8, 8) and (y == 72).all()
    assert (lk.reorder(X, "NCHW", "NHWC", threads=1) == 1).all()
    for plan in (lk.plan(lk.conv2d, X, W, threads=1), lk.plan(lk.reorder, X, "NCHW", "NHWC", threads=1)):
        assert all(np.isfinite(c.seconds) and c.seconds > 0 for c in plan.choices)
        plan.explain()
