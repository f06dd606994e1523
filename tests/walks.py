"""What loop nests do, executed step by step in numpy: which byte goes where."""

from __future__ import annotations

import numpy as np
from oracle import reference

from layoutkit.reorders.box import Box

PAD = -(1 << 60)  # the source of what is written as a pad


def offsets_of(loops, fields=(1, 2)):
    """One row for each step of the loops, outermost first: its offset on each side."""
    found = np.zeros((1, len(fields)), np.int64)
    for loop in loops:
        step = np.arange(loop.n)[:, None] * np.array([[loop[f] for f in fields]])
        found = (found[:, None] + step).reshape(-1, len(fields))
    return found


def tile_offsets(nest):
    """The same for the elements of a tile, whose loops may have two digits, with PAD for what the source lacks."""
    (a, b), (in0, out_d0, in1, out_s1), width = nest.tile, nest.outer, nest.bits // 8
    if nest.fused:
        return fused_offsets(nest)

    def digits(index, stride, inner, outer):
        return index // inner * outer + index % inner * stride if inner else index * stride

    i, j, byte = np.ogrid[: a.n, : b.n, :width]
    src = i * a.src + digits(j, b.src, in1, out_s1) + byte
    dst = digits(i, a.dst, in0, out_d0) + j * b.dst + byte
    if nest.family == "fill":
        src = np.full(dst.shape, PAD)
    elif nest.valid:
        exists = byte < nest.valid if width >= 16 else j < nest.valid
        src = np.where(exists, src, PAD)
    return np.stack(np.broadcast_arrays(src, dst), -1).reshape(-1, 2)


def fused_offsets(nest):
    """The same for a tile whose loops have any number of digits."""
    (columns, rows), width, f = nest.tile, nest.bits // 8, nest.fused

    def places(loop):
        found, index = np.zeros(loop.indices, np.int64), np.arange(loop.indices)
        for k, (n, stride) in enumerate(loop.digits):
            table = np.array([PAD if x is None else x for x in loop.table]) if loop.table and k == 0 else None
            found += index % n * stride if table is None else table[index % n]
            index //= n
        return found

    row = places(f.rows)
    if f.strings:
        check_strings(f)
        assert columns.n * rows.n == f.strings.run * row.size
        byte = np.arange(f.strings.run)
        return np.stack([(x[:, None] + byte).ravel() for x in (row, places(f.columns))], -1)
    if f.sizes:
        assert rows.n * columns.n == loops_bytes(f)
        src = [
            np.arange(n) + at if at > PAD // 2 else np.full(n, PAD) for at, n in zip(row, np.resize(f.sizes, row.size))
        ]
        src = np.concatenate(src)
        return np.stack([src, np.arange(src.size)], -1)
    assert rows.n == f.rows.indices
    i = np.arange(columns.n)
    to = places(f.columns)[i]
    i, to = i[to > PAD // 2, None, None], to[to > PAD // 2, None, None]
    j, byte = np.arange(rows.n)[:, None], np.arange(width)
    row = row[:, None]
    src = np.where(row > PAD // 2, i * columns.src + row + byte, PAD)
    return np.stack(np.broadcast_arrays(src, to + j * rows.dst + byte), -1).reshape(-1, 2)


def check_strings(f):
    """What the kernel of scattered runs relies on: each string is one run, whose parts come in order."""
    strings, done, ends = f.strings, {}, {}
    for index in range(f.rows.indices):
        string = part = at = 0
        for (n, step), steps in zip(f.columns.digits, strings.steps):
            digit, index = index % n, index // n
            at, string, part = at + digit * step, string + digit * steps[0], part + digit * steps[1]
        assert part == done.get(string, 0) and ends.get(string, at) == at
        done[string], ends[string] = part + 1, at + strings.run
    assert sorted(done) == list(range(len(strings.follows))) and len(set(done.values())) == 1
    size = strings.run * done[0]
    begins = {end - size: string for string, end in ends.items()}
    assert strings.follows == tuple(begins.get(ends[string]) for string in sorted(ends))


def loops_bytes(f):
    """The bytes of all runs of given sizes."""
    return sum(f.sizes) * f.rows.indices // len(f.sizes)


def bytes_moved(nests):
    """(source byte, destination byte) of every byte that the nests write, sorted by destination."""
    found = [np.zeros((0, 2), np.int64)]
    for nest in nests:
        begin = offsets_of(nest.loops) + (nest.src, nest.dst)
        found.append((begin[:, None] + tile_offsets(nest)).reshape(-1, 2))
    every = np.concatenate(found)
    every[every[:, 0] < PAD // 2, 0] = PAD
    return every[np.lexsort(every.T)]


def sides(src, dst, shape, strides):
    """The sides of a reorder of a whole tensor, as `copy_nests` takes them."""
    return Box.all_of(shape).sides(src, strides[0], dst, strides[1])


def places(layout, shape, strides):
    """Byte offsets of the elements of an array of any strides: of all of it, pads too, and by logical index."""
    physical = layout.physical_shape(shape)
    axes = [(np.arange(n) * s).reshape([-1 if i == k else 1 for i in range(len(physical))])
            for k, (n, s) in enumerate(zip(physical, strides))]  # fmt: skip
    every = np.broadcast_to(sum(axes, np.zeros((), np.int64)), physical).reshape(-1)
    return every, every[reference.offsets(layout, shape)]


def bytes_expected(src, dst, shape, width, src_strides, dst_strides, whole=True):
    """What `bytes_moved` should be of a reorder; `whole`: pads are written too."""
    _, read = places(src, shape, src_strides)
    every, written = places(dst, shape, dst_strides)
    read, written = read.reshape(-1), written.reshape(-1)
    if whole:
        pads = np.setdiff1d(every, written)
        read, written = np.concatenate([read, np.full(pads.size, PAD)]), np.concatenate([written, pads])
    byte = np.arange(width)
    pairs = np.stack([np.where(read[:, None] == PAD, PAD, read[:, None] + byte), written[:, None] + byte], -1)
    pairs = pairs.reshape(-1, 2)
    return pairs[np.lexsort(pairs.T)]
