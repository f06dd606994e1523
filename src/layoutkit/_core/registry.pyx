"""The registry of kernels: every compiled row, and which of them this process uses.

The instruction set is the best one that the CPU runs, or ``LAYOUTKIT_ISA``. A family that the
instruction set has no row for falls through to the next lower one.
"""

import os
from typing import NamedTuple

FAMILIES = (
    "gemm", "depthwise", "strips", "finish", "copy", "transpose", "gather", "fill", "panel", "convert",
    "peak",
    "winograd_in", "winograd_out", "winograd_filter", "extent",
)


class Kernel(NamedTuple):
    """One row of the registry."""

    name: str
    family: str
    isa: str
    bits: int
    mr: int
    nr: int


cdef int _active = 0
_by_name = {}  # name -> address of its lk_kernel


def isas():
    """Names of the instruction sets that were compiled in and that this CPU runs, lowest first."""
    have = {k.isa for k in kernels(all_isas=True)}
    return [n for i in range(LK_ISA_COUNT) if lk_isa_supported(i) and (n := lk_isa_name(i).decode()) in have]


def isa():
    """Name of the instruction set in use."""
    return lk_isa_name(_active).decode()


def use_isa(str name):
    """Use instruction set `name` for plans made from now on; returns the one used before."""
    global _active
    before = isa()
    if name not in isas():
        raise ValueError(f"instruction set {name!r} is not one of this machine's: {', '.join(isas())}")
    for i in range(LK_ISA_COUNT):
        if lk_isa_name(i).decode() == name:
            _active = i
    return before


def kernels(family=None, bits=None, *, all_isas=False):
    """Rows of the registry, best first: of the instruction set in use and those below it, or of all."""
    cdef const lk_kernel *const *arrays = lk_all_kernels()
    cdef const lk_kernel *row
    out = []
    while arrays[0] != NULL:
        row = arrays[0]
        while row.name != NULL:
            k = Kernel(row.name.decode(), FAMILIES[row.family], lk_isa_name(row.isa).decode(),
                       row.bits, row.mr, row.nr)
            _by_name[k.name] = <size_t>row
            if ((all_isas or row.isa <= _active) and family in (None, k.family) and bits in (None, k.bits)):
                out.append(k)
            row += 1
        arrays += 1
    return out


def best(family, bits):
    """The rows of `family` and `bits` of the best instruction set in use that has any."""
    rows = kernels(family, bits)
    return [k for k in rows if k.isa == rows[0].isa]


cdef const lk_kernel *row_named(str name) except NULL:
    if name not in _by_name:
        raise ValueError(f"no kernel is named {name!r}")
    cdef const lk_kernel *row = <const lk_kernel *><size_t>_by_name[name]
    if not lk_isa_supported(row.isa):
        raise ValueError(f"kernel {name!r} needs instruction set {lk_isa_name(row.isa).decode()}, "
                         f"this CPU has {', '.join(isas())}")
    return row


cdef const lk_kernel *best_row(int family, int bits) except NULL:
    cdef const lk_kernel *const *arrays = lk_all_kernels()
    cdef const lk_kernel *row
    while arrays[0] != NULL:
        row = arrays[0]
        while row.name != NULL:
            if row.family == family and row.bits == bits and row.isa <= _active:
                return row
            row += 1
        arrays += 1
    raise ValueError(f"no {FAMILIES[family]} kernel for elements of {bits} bits")


def _choose():
    wanted = os.environ.get("LAYOUTKIT_ISA")
    kernels()
    if wanted and wanted not in isas():
        raise ImportError(f"LAYOUTKIT_ISA={wanted!r}: this machine runs {', '.join(isas())}")
    use_isa(wanted or isas()[-1])


_choose()
