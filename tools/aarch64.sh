#!/usr/bin/env bash
# The portable kernels for aarch64: compiled by Debian's cross compiler, every row run under qemu against plain loops.
#   tools/aarch64.sh [python]   (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user; a Python with layoutkit, meson
#                                and ninja)
# NATIVE=1 tools/aarch64.sh runs the rows of all instruction sets of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -n "${NATIVE:-}" ]; then
    out=$PWD/build/native cross=()
else
    out=$PWD/build/aarch64 cross=(--cross-file tools/aarch64.ini)
    for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
        if ! command -v $tool >/dev/null; then echo "no $tool here: aarch64 is left out" && exit 0; fi
    done
fi
python=$(command -v "${1:-python3}")
export PATH="$(dirname "$python"):$PATH"
mkdir -p "$out"
"$python" tools/tables.py >"$out/tables.h"
"$python" -m mesonbuild.mesonmain setup --reconfigure "$out" "${cross[@]}" -Dkernels_only=true "-Dc_args=-I$out"
"$python" -m mesonbuild.mesonmain test -C "$out" --print-errorlogs --verbose
