"""Runs single rows of the registry on raw addresses, by the contracts that the headers of kernels/ state.

The caller is responsible for every address, size and stride. Keywords are fields of a contract's structure, as
its header has them; what is not given is 0. Sizes and strides are taken several fields at once.
"""

import ctypes
import re
from functools import cache
from pathlib import Path

import numpy as np

from layoutkit._core.runtime import registry

KERNELS = Path(__file__).parent.parent / "src" / "layoutkit" / "_core" / "kernels"
CASES = (Path(__file__).parent / "core" / "kernel_cases.h").read_text()
PLAIN = {
    "char": ctypes.c_char, "float": ctypes.c_float, "double": ctypes.c_double, "int": ctypes.c_int,
    **{f"{u}int{bits}_t": getattr(ctypes, f"c_{u}int{bits}") for u in ("", "u") for bits in (8, 32, 64)},
}  # fmt: skip
NEVER = 1 << 62

HEADERS = re.sub(r"/\*.*?\*/", "", "\n".join(p.read_text() for p in sorted(KERNELS.glob("**/*.h"))), flags=re.S)
SIZES = {name: int(value) for name, value in re.findall(r"\b(LK_\w+) = (\d+)\b", HEADERS)}
BODIES = {name: body for body, name in re.findall(r"typedef struct \{([^}]*)\}[^;]*?(\w+);", HEADERS)}


def cases(name, **values):
    """The cases of tests/core/kernel_cases.h of this name, with values of its parameters beside X."""
    listed = re.search(rf"#define {name}\(.*\n((?:.*\\\n)*.*)", CASES)[1].replace("\\\n", " ")
    return [eval(f"({case},)", dict(values)) for case in re.findall(r"X\(([^)]*)\)", listed)]


def declared(lines):
    """Of each field that lines of a structure declare: name, type without const, whether it is a pointer, how many."""
    for line in lines:
        line = re.sub(r"\(\*(\w+)\)\(.*", r"*\1", line)  # of a function only that it is a pointer
        kind, _, names = " ".join(line.split()).removeprefix("const ").partition(" ")
        for one in names.split(", ") if names else ():
            name, size = re.search(r"(\w+)\W*(?:\[(\w+)\])?$", one).groups()
            yield name, kind, "*" in one, size and int(SIZES.get(size, size))


@cache
def contract(name):
    """The ctypes class of a structure in the headers; `points_to` tells the types behind its pointers."""
    fields, points_to = [], {}
    for field, kind, pointer, size in declared(BODIES[name].split(";")):
        if pointer:
            points_to[field] = kind.removesuffix("_t")
        one = ctypes.c_void_p if pointer or kind.endswith("_fn") else PLAIN[kind] if kind in PLAIN else contract(kind)
        fields.append((field, one * size if size else one))
    return type(name, (ctypes.Structure,), {"_fields_": fields, "points_to": points_to})


def structure_of(name, fields):
    """A structure of this name, at a multiple of 64 bytes; arrays are passed by address."""
    memory = np.zeros(ctypes.sizeof(contract(name)) + 64, np.uint8)
    s = contract(name).from_buffer(memory, -memory.ctypes.data % 64)
    for key, value in fields.items():
        if isinstance(value, np.ndarray):
            kind = s.points_to[key]
            assert value.flags.c_contiguous and (kind in ("void", "char") or value.dtype == kind), (name, key, value)
            value = value.ctypes.data
        elif not hasattr(s, key):
            raise TypeError(f"{name} has no field {key}")
        if isinstance(value, list):
            getattr(s, key)[: len(value)] = value
        elif value is not None:
            setattr(s, key, int(value) if isinstance(value, np.integer | np.bool_) else value)
    return s


def run(name, structure, **fields):
    """Call a row with a structure of these fields."""
    s = structure_of(structure, fields)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(registry.address(name))(ctypes.addressof(s))


def pairs(names, values):
    """Fields of these names, in order."""
    return dict(zip(names.split(), values, strict=True))


def move(name, src, dst, n, s, d, *, outer=(0, 0, 0, 0), **fields):
    """A copy, transpose, gather or fill row; n, s, d are pairs (i0, i1), strides in bytes; `outer` is (in0, out_d0,
    in1, out_s1), `pad` 64 bytes."""
    values = pairs("n0 n1 s0 s1 d0 d1 in0 out_d0 in1 out_s1", (*n, *s, *d, *outer))
    run(name, "lk_move", src=src, dst=dst, **values, **fields)


def convert(name, src_type, dst_type, src, dst, n, s, d, *, p=(0, 0), alpha=1, beta=None, **fields):
    """A convert row on elements of types of convert.TYPES."""
    values = pairs("n0 n1 s0 s1 d0 d1 p0 p1", (*n, *s, *d, *p))
    values |= dict(src_type=src_type, dst_type=dst_type, alpha=alpha, sum=beta is not None, beta=beta or 0)
    run(name, "lk_convert", src=src, dst=dst, **values, **fields)


def packed(name, src, dst, n, *, at=0, s=(0, 1), d=0, signed=False):
    """A pack or unpack row; n and s are pairs (i0, i1), strides and `at` in elements."""
    run(name, "lk_packed", src=src, dst=dst, at=at, d0=d, is_signed=signed, **pairs("n0 n1 s0 s1", (*n, *s)))


def rounding_of(rounding):
    """How sums become bytes: by these mul, off, least, most, zero, sign, shifts, and maybe apart; None: not."""
    if rounding is None:
        return None
    mul, off, least, most, zero, sign, shifts, *apart = rounding
    off, adds = ([0] * len(mul), False) if off is None else (off, True)
    lists = {k: [float(x) if k in ("mul", "off") else int(x) for x in v]
             for k, v in dict(mul=mul, off=off, least=least, most=most).items()}  # fmt: skip
    return structure_of("lk_rounding", dict(**lists, zero=zero, sign=sign, adds=adds, shifts=shifts, apart=any(apart)))


def gemm_groups(name, *, row, tap, rounding=None, **fields):
    """A gemm_groups row; `rounding` as `rounding_of` takes it."""
    out = rounding_of(rounding)
    run(
        name, "lk_gemm", row=row, rows=len(row), tap=tap, taps=len(tap), blocks=1,
        out=None if out is None else ctypes.addressof(out), **fields,
    )  # fmt: skip


def gemm(name, *, row, tap, chunks=(NEVER, NEVER), blocks=1, prefetch_c=False, **fields):
    """A gemm row; `prefetch_c`: prefetch C for writing."""
    run(
        name, "lk_gemm", row=row, rows=len(row), tap=tap, taps=len(tap), blocks=blocks,
        chunk=chunks[0], period=chunks[1],
        next_c=fields["c"], next_c_row=fields["c_row"] if prefetch_c else None, **fields,
    )  # fmt: skip


def gemm_s16(name, **fields):
    """A gemm_s16 row."""
    run(name, "lk_gemm_s16", **fields)


def strips(name, *, x_strides, y_strides, wide=True, **fields):
    """A strips row; strides (row, col)."""
    values = pairs("x_row x_col y_row y_col", (*x_strides, *y_strides))
    run(name, "lk_strips", wide=wide, **values, **fields)


def plane_strips(name, *, x_strides, y_strides, x_lanes, **fields):
    """A plane_strips row; strides (plane, row)."""
    values = pairs("x_plane x_row y_plane y_row", (*x_strides, *y_strides))
    run(name, "lk_plane_strips", x_lanes=x_lanes, vectors=len(x_lanes), **values, **fields)


def depthwise_dot(
    name, *, row, at, sizes, s_strides, span, taps, pieces=4, rounding=None, segments=1, s_whole=True, **fields
):
    """A depthwise_dot; row: addresses, 0: padding; at, sizes: of a vector; s_strides (row, col); span (columns, first,
    end, begin); taps (step, apart); rounding as `rounding_of` takes it."""
    values = pairs("s_row s_col columns first end begin step apart", (*s_strides, *span, *taps))
    out = rounding_of(rounding)
    run(
        name, "lk_depthwise_dot", row=row.view(np.int64), quads=len(row) // 4, at=at, bytes=sizes, pieces=pieces,
        segments=segments, s_whole=s_whole, out=None if out is None else ctypes.addressof(out), **values, **fields,
    )  # fmt: skip


def winograd_in(name, *, strides, inside, table, **fields):
    """A winograd_in row; strides (row, col), inside (row0, row1, col0, col1)."""
    run(name, "lk_winograd_in", k=table, **pairs("row col row0 row1 col0 col1", (*strides, *inside)), **fields)


def winograd_out(name, *, strides, table, **fields):
    """A winograd_out row; strides (row, col)."""
    run(name, "lk_winograd_out", k=table, **pairs("row col", strides), **fields)


def winograd_expand(name, *, table, **fields):
    """A winograd_expand row."""
    run(name, "lk_winograd_expand", k=table, **fields)


def winograd_filter(name, *, gh, gw, **fields):
    """A winograd_filter row."""
    sizes = pairs("nh rh nw rw", (*gh.shape, *gw.shape))
    run(name, "lk_winograd_filter", gh=gh, gw=gw, **sizes, **fields)
