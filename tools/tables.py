"""Writes the constants of Winograd's transforms as a C header, for harness.c."""

from layoutkit.convolutions.winograd_matrices import kernel_table, paired

for m in (2, 4, 6):
    for kind, name, values in (
        ("double", "G", [x for row in paired(m).G for x in row]), ("float", "K", kernel_table(m)),
    ):  # fmt: skip
        print(f"static const {kind} {name}_{m}[] = {{{', '.join(repr(float(x)) for x in values)}}};")
