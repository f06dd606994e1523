"""Writes the constants of Winograd's transforms as a C header, for harness.c."""

from layoutkit.convolutions.winograd_matrices import TILES, algorithm, kernel_table

for m in TILES:
    for kind, name, values in (
        ("double", "G", [x for row in algorithm(m).G for x in row]), ("float", "K", kernel_table(m) or (0,)),
    ):  # fmt: skip
        print(f"static const {kind} {name}_{m}[] = {{{', '.join(repr(float(x)) for x in values)}}};")
