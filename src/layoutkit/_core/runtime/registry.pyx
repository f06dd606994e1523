"""The registry of kernels: every compiled row, and which of them this process uses.

The instruction set is the best one that the CPU runs, or ``LAYOUTKIT_ISA``. If it has no row of a family, the next
lower one is used for that family.
"""

from libc.string cimport strcmp

import os
from typing import NamedTuple

from ..kernels cimport (
    LK_FAMILY_COUNT, LK_ISA_COUNT, lk_all_kernels, lk_all_types, lk_element_bytes, lk_element_name, lk_family_name,
    lk_has_tiles, lk_isa_emulated, lk_isa_name, lk_isa_supported,
)
from ..kernels.elementwise cimport LK_STEP_COUNT, lk_step_name, lk_step_ulps

FAMILIES = tuple(lk_family_name(i).decode() for i in range(LK_FAMILY_COUNT))
STEPS = {lk_step_name(i).decode(): lk_step_ulps(i) for i in range(LK_STEP_COUNT)}  # of epilogues -> error, in ulp
TYPES = {}  # of rows that convolve: name -> names of the elements of source, filter, sums and destination


class TileCycles(NamedTuple):
    """What a tile takes: the cycles of `lk_tile` in kernels.h."""

    tile: float
    row: float
    load: float
    pointer: float
    step: float
    rows_at_once: int


class Tile(NamedTuple):
    """What a row that multiplies says beside its register tile: `lk_tile` in kernels.h."""

    peak: str
    lane_flops: float
    k_tile: int
    fills_k: bool
    strided_a: bool
    alignment: int
    cycles: TileCycles
    components: int = 0


class Kernel(NamedTuple):
    """One row of the registry, as in kernels.h; `tile` is None where it does not multiply."""

    name: str
    family: str
    isa: str
    types: str
    lanes: int
    mr: int
    nr: int
    kr: int
    tile: Tile | None = None

    @property
    def k_step(self):
        """The values of K that runs of A and packed filters are whole multiples of."""
        return self.tile.k_tile if self.tile and self.tile.fills_k else self.kr


cdef int _active = 0
cdef str _active_name = ""
_by_name = {}  # name -> address of its lk_kernel
cdef dict _rows = {}  # family, or None for all -> its rows, best first, and the numbers of their instruction sets
cdef list _isas = []  # numbers of the instruction sets that have rows, lowest first


def isas(emulated=False):
    """Names of the instruction sets that were compiled in and that this CPU runs, lowest first; or of those that it only
    emulates, which tests may use."""
    return [lk_isa_name(i).decode() for i in _isas if lk_isa_supported(i) and bool(lk_isa_emulated(i)) == emulated]


def emulated():
    """Names of the instruction sets that were compiled in only for tests, whether or not this CPU can emulate them."""
    return {lk_isa_name(i).decode() for i in _isas if lk_isa_emulated(i)}


def tiles():
    """What becomes of the processor's tile unit: "none", if it has none, "used" or "refused", by the operating system."""
    if not lk_has_tiles():
        return "none"
    return "used" if any([k.types == "bf16_tiles" for k in kernels("peak", all_isas=True) if k.isa in isas()]) else "refused"


def isa():
    """Name of the instruction set in use."""
    return _active_name


cdef int isa_in_use() noexcept:
    """Its number, for what compares."""
    return _active


def use_isa(str name):
    """Use instruction set `name` for plans made from now on; returns the one used before."""
    global _active, _active_name
    before = _active_name
    if name not in isas() + isas(emulated=True):
        raise ValueError(f"instruction set {name!r} is not one of this machine's: {', '.join(isas())}")
    for i in range(LK_ISA_COUNT):
        if lk_isa_name(i).decode() == name:
            _active, _active_name = i, name
    return before


cdef object tile_of(const lk_tile *t):
    if t == NULL:
        return None
    cycles = TileCycles(t.tile_cycles, t.row_cycles, t.load_cycles, t.pointer_cycles, t.step_cycles, t.rows_at_once)
    return Tile(t.peak.decode(), t.lane_flops, t.k_tile, bool(t.fills_k), bool(t.strided_a), t.alignment, cycles,
                t.components)


cdef object kernel_of(const lk_kernel *row):
    return Kernel(row.name.decode(), FAMILIES[row.family], lk_isa_name(row.isa).decode(), row.types.decode(), row.lanes,
                  row.mr, row.nr, row.kr, tile_of(row.tile))


cdef list family_rows(family):
    """A list of `_rows`; they and `_isas` are made by the first call, at import."""
    global _isas
    cdef const lk_kernel *const *arrays = lk_all_kernels()
    cdef const lk_kernel *row
    if not _rows:
        rows = []
        while arrays[0] != NULL:
            row = arrays[0]
            while row.name != NULL:
                k = kernel_of(row)
                _by_name[k.name] = <size_t>row
                rows.append((k, row.isa))
                row += 1
            arrays += 1
        for name in FAMILIES:
            _rows[name] = [(k, isa) for k, isa in rows if k.family == name]
        _rows[None] = rows
        _isas = sorted({isa for _, isa in rows})
    return _rows.get(family, [])


def kernels(family=None, types=None, *, all_isas=False):
    """Rows of the registry, best first: of the instruction set in use and those below it, or of all."""
    cdef int isa
    out = []
    for k, isa in family_rows(family):
        if (all_isas or (isa <= _active and lk_isa_supported(isa))) and types in (None, k.types):
            out.append(k)
    return out


def best(family, types):
    """The rows of `family` and `types` of the best instruction set in use that has any."""
    rows = kernels(family, types)
    if not rows:
        raise missing(family, types)
    return [k for k in rows if k.isa == rows[0].isa]


cdef object missing(family, types, where=""):
    """The error for a row that does not exist: it names those that do."""
    existing = {f"{k.types} in {k.isa}" if where else k.types for k in kernels(family, all_isas=True)}
    return ValueError(f"no {family} kernel for {types}{where}; there are {', '.join(sorted(existing)) or 'none'}")


cdef const lk_kernel *row_named(str name) except NULL:
    if name not in _by_name:
        raise ValueError(f"no kernel is named {name!r}")
    cdef const lk_kernel *row = <const lk_kernel *><size_t>_by_name[name]
    if not lk_isa_supported(row.isa):
        raise ValueError(f"kernel {name!r} needs instruction set {lk_isa_name(row.isa).decode()}, "
                         f"this CPU has {', '.join(isas())}")
    return row


def address(str name):
    """Where the function of a row is. Tests call it by the contract in its family's header."""
    return <size_t>row_named(name).fn


cdef const lk_kernel *first_row(int family, bytes types, int lowest, int highest) noexcept:
    """The first row of an instruction set from `lowest` to `highest`, best first; NULL if there is none."""
    cdef const lk_kernel *const *arrays = lk_all_kernels()
    cdef const lk_kernel *row
    cdef const char *wanted = types
    while arrays[0] != NULL:
        row = arrays[0]
        while row.name != NULL:
            if (row.family == family and lowest <= row.isa <= highest and strcmp(row.types, wanted) == 0
                    and lk_isa_supported(row.isa)):
                return row
            row += 1
        arrays += 1
    return NULL


cdef const lk_kernel *best_row(int family, str types) except NULL:
    """The best row of `family` and `types` of the instruction set in use or a lower one."""
    cdef const lk_kernel *row = first_row(family, types.encode(), 0, _active)
    if row == NULL:
        raise missing(FAMILIES[family], types)
    return row


cdef const lk_kernel *row_of(int family, str types, int isa) except NULL:
    """The best row of `family` and `types` of an instruction set or a lower one."""
    cdef const lk_kernel *row = first_row(family, types.encode(), 0, isa)
    if row == NULL:
        raise missing(FAMILIES[family], types, f" in {lk_isa_name(isa).decode()}")
    return row


cdef int k_step_of(const lk_kernel *row) noexcept:
    """`Kernel.k_step` of a row."""
    return row.tile.k_tile if row.tile != NULL and row.tile.fills_k else row.kr


cdef const lk_types *types_named(str name) except NULL:
    """The elements of a convolution of these types."""
    cdef const lk_types *types = lk_all_types()
    cdef bytes wanted = name.encode()
    while types.name != NULL:
        if strcmp(types.name, wanted) == 0:
            return types
        types += 1
    raise ValueError(f"no convolution has the types {name}; there are {', '.join(TYPES)}")


cdef int element_bytes(int element) noexcept:
    return lk_element_bytes(element)


cdef str element_name(int element):
    return lk_element_name(element).decode()


cdef _set_types():
    cdef const lk_types *types = lk_all_types()
    while types.name != NULL:
        elements = types.src, types.filter, types.sum, types.dst
        TYPES[types.name.decode()] = tuple([lk_element_name(e).decode() for e in elements])
        types += 1


def _use_wanted_isa():
    wanted = os.environ.get("LAYOUTKIT_ISA")
    kernels()
    if wanted and wanted not in isas() + isas(emulated=True):
        raise ImportError(f"LAYOUTKIT_ISA={wanted!r}: this machine runs {', '.join(isas())}")
    use_isa(wanted or isas()[-1])


_set_types()
_use_wanted_isa()
