#!/usr/bin/env bash
# The portable kernels for aarch64: compiled by Debian's cross compiler, every row run under qemu against plain loops.
#   tools/aarch64.sh [python]   (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user; a Python that has layoutkit)
# CC=gcc RUN= tools/aarch64.sh runs the same on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
CC=${CC-aarch64-linux-gnu-gcc}
RUN=${RUN-qemu-aarch64 -L /usr/aarch64-linux-gnu}
for tool in "$CC" ${RUN%% *}; do
    if ! command -v "$tool" >/dev/null; then echo "no $tool here: aarch64 is left out" && exit 0; fi
done
out=build/aarch64 core=src/layoutkit/_core
mkdir -p $out
"${1:-python3}" tools/tables.py >$out/tables.h
listed() { sed -n "s/^$1[ =:]* \[\(.*\)\].*/\1/p" meson.build | tr -d "',"; }
rows=
compile() { # source, name of its rows, flags
    $CC -std=gnu11 -O3 -Wall -Wextra -Wno-maybe-uninitialized -I$core -DLK_ISA=portable -DLK_ISA_ID=LK_PORTABLE $3 -c $core/$1.c -o $out/$2.o &
    rows="$rows $2"
}
for family in $(listed families); do compile $family $family ""; done
for bits in 32 64; do
    for family in $(listed "  '$bits'"); do compile $family ${family}_f$bits -DLK_BITS=$bits; done
done
for narrow in bf16 f16; do
    for family in $(listed families_of_narrow); do compile $family ${family}_$narrow -DLK_NARROW=$narrow; done
done
for bytes in u8 s8; do
    for family in $(listed families_of_bytes); do compile $family ${family}_$bytes -DLK_NARROW=$bytes; done
done
for family in $(listed "  'u8s8'"); do compile $family ${family}_u8s8 "-DLK_NARROW=u8s8 -DLK_UNIT=4 -DLK_INTEGERS=1"; done
wait
# shellcheck disable=SC2086
{ printf '#define LK_ROW_ARRAYS(X)' && printf ' X(%s, portable)' $rows; } >$out/row_arrays.h
$CC -std=gnu11 -O2 -Wall -Wextra -I$core -I$out -o $out/harness tools/harness.c $core/isa.c $(printf "$out/%s.o " $rows) -lm
$RUN $out/harness
