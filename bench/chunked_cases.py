"""Cases of chunked.py, drawn at random: of what distribution is said there in each function."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from layoutkit import Layout

LAYOUTS = {2: ("NCHW", "NHWC", "nChw16c"), 3: ("NCDHW", "NDHWC", "nCdhw16c")}
KINDS = ("conv", "conv", "max_pool", "avg_pool", "reorder")  # convolutions twice as often as each other
BLOCK = 16


def draw(rng: random.Random, megabytes: float, chunk_mb: float, gflop: float) -> dict:
    """An operation on an array of about `megabytes` in chunks of about `chunk_mb`, both of them random.

    Two or three spatial dimensions, one of five kinds, 1 to 4 images, 1 to 64 channels in and out (logarithmically
    even; of blocked inputs multiples of 16), kernels of 1 to 7 in each dimension, one of three layouts, each alike
    likely. Drawn again if the result has more than twice the bytes of the input or takes more than `gflop`.
    """
    while True:
        rank, kind = rng.choice((2, 3)), rng.choice(KINDS)
        layout, other = rng.sample(LAYOUTS[rank], 2)
        blocked = layout == LAYOUTS[rank][2]
        channels, out = (_channels(rng, blocked) for _ in range(2))
        kernel = [rng.randint(1, 7) for _ in range(rank)]
        if math.prod(kernel) == 1 and kind != "conv":
            continue
        if kind != "conv":
            out = channels
        batch = rng.choice((1, 2, 4))
        spatial = sides(rng, rank, megabytes * 1e6 / 4 / batch / channels)
        if min(spatial) < 16:
            continue
        flops = 2 * batch * channels * out * math.prod(kernel) * math.prod(spatial)
        if out > 2 * channels or (kind == "conv" and flops > gflop * 1e9):
            continue
        shape = [batch, channels, *spatial]
        target = other if kind == "reorder" else layout
        return {
            "kind": kind, "rank": rank, "shape": shape, "out": out, "kernel": kernel, "layout": layout,
            "target": target, "padding": [k // 2 for k in kernel], "pieces": pieces(rng, shape, chunk_mb),
            "flops": flops,
        }  # fmt: skip


def draw_plain(rng: random.Random, megabytes: float, chunk_mb: float, gflop: float) -> dict:
    """A convolution that others can do as well: one image or volume with all axes plain, zeros around it.

    Half of them have a single channel, which scipy can do, the others 2 to 64; kernels are 3, 5 or 7 in all dimensions.
    """
    while True:
        rank, single = rng.choice((2, 3)), rng.random() < 0.5
        channels, out = (1, 1) if single else (max(2, _channels(rng, False)), max(2, _channels(rng, False)))
        kernel = [rng.choice((3, 5, 7))] * rank
        shape = [1, channels, *sides(rng, rank, megabytes * 1e6 / 4 / channels)]
        flops = 2 * out * math.prod(kernel) * math.prod(shape)
        if min(shape[2:]) < 32 or out > 2 * channels or flops > gflop * 1e9:
            continue
        layout = LAYOUTS[rank][0]
        return {
            "kind": "conv", "rank": rank, "shape": shape, "out": out, "kernel": kernel, "layout": layout,
            "target": layout, "padding": [k // 2 for k in kernel], "pieces": pieces(rng, shape, chunk_mb),
            "flops": flops, "flipped": rng.random() < 0.5,
        }  # fmt: skip


def draw_lazy(rng: random.Random, megabytes: float, gflop: float) -> dict:
    """A convolution of a volume that is in a file or made chunk by chunk, of `megabytes` / 2 to 2 `megabytes`.

    Chunks have 2 to 32 MB (logarithmically even); half are Zarr to Zarr, compressed or not, half are generated and
    summed. 1 to 32 channels, kernels of 1, 3 or 5.
    """
    case = None
    while case is None or case["kind"] != "conv" or case["rank"] != 3 or max(case["shape"][1], case["out"]) > 32:
        nbytes, chunk = megabytes * 2 ** rng.uniform(-1, 1), 2 ** rng.uniform(1, 5)
        case = draw(rng, nbytes, chunk, gflop)
    case["kernel"] = [min(5, k) // 2 * 2 + 1 for k in case["kernel"]]  # odd: tiles lie on chunks, and so do files'
    case["padding"] = [k // 2 for k in case["kernel"]]
    return case | {"way": rng.choice(("zarr", "generated")), "compressed": rng.random() < 0.5}


def _channels(rng: random.Random, blocked: bool) -> int:
    channels = round(2 ** rng.uniform(0, 6))
    return -(-channels // BLOCK) * BLOCK if blocked else channels


def sides(rng: random.Random, rank: int, elements: float) -> list[int]:
    """Spatial sizes with about so many elements; sides differ by a factor of 2 or so."""
    mean = elements ** (1 / rank)
    sizes = [mean * 2 ** rng.uniform(-0.5, 0.5) for _ in range(rank - 1)]
    return [max(1, round(n)) for n in [*sizes, elements / math.prod(sizes)]]


def pieces(rng: random.Random, shape: Sequence[int], chunk_mb: float) -> list[int]:
    """Into how many chunks each dimension is cut: random ones but the channels are halved until chunks are so small."""
    counts = [1] * len(shape)
    while math.prod(-(-n // k) for n, k in zip(shape, counts)) * 4e-6 > 1.4 * chunk_mb:
        free = [dim for dim, (n, k) in enumerate(zip(shape, counts)) if dim != 1 and n >= (2 if dim == 0 else 16) * k]
        if not free:
            break
        counts[rng.choice(free)] *= 2
    return counts


def physical_chunks(case: dict) -> tuple[tuple[int, ...], ...]:
    """Chunks of the physical array of the input."""
    layout, shape = Layout(case["layout"]), case["shape"]
    chunks: list[tuple[int, ...]] = [(n,) for n in layout.physical_shape(shape)]
    for dim, count in enumerate(case["pieces"]):
        if count > 1:
            size = shape[dim]
            chunks[layout.digits(dim)[0]] = tuple(size * (k + 1) // count - size * k // count for k in range(count))
    return tuple(chunks)


def title(case: dict) -> str:
    """A case in a line."""
    size, kernel = "x".join(map(str, case["shape"])), "x".join(map(str, case["kernel"]))
    what = f"{case['kind']}{case['rank']}d" if case["kind"] != "reorder" else "reorder"
    more = f"->{case['target']}" if case["kind"] == "reorder" else f" {kernel}"
    if case["kind"] == "conv":
        more += f" to {case['out']}"
    way = f", {case['way']}" if "way" in case else ""
    return f"{what} {case['layout']}{more} of {size}{way}, {math.prod(case['pieces'])} chunks"
