#!/usr/bin/env bash
# The tests of threads on an extension that clang built with ThreadSanitizer:
#   tools/tsan.sh [python] [pytest arguments]
# `python` as for sanitize.sh; clang, its libclang_rt and libomp (Debian: clang libomp-dev).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
shift || true
build=${TSAN_DIR:-build/tsan}
clang=$(compgen -c clang- | grep -xE 'clang-[0-9]+' | sort -V | tail -1)  # runtimes of old ones fail on new kernels
clang=${clang:-clang}
if ! command -v "$clang" >/dev/null; then echo "no clang here: ThreadSanitizer is left out" && exit 0; fi
runtime=$("$clang" -print-file-name=libclang_rt.tsan-x86_64.so)
if [ ! -e "$runtime" ]; then echo "clang without $runtime: ThreadSanitizer is left out" && exit 0; fi
if ! setarch -R env LD_PRELOAD="$runtime" "$python" -c pass 2>/dev/null; then
    echo "Python does not run under this clang's runtime on this kernel: ThreadSanitizer is left out" && exit 0
fi
mkdir -p "$build"
# how threads share work does not depend on the instruction set
grep -q avx512bw /proc/cpuinfo && leave_out=avx2,avx2_vnni,avx512_amx_emulated || leave_out=
export PATH="$(dirname "$(command -v "$python")"):$PATH"

CC=$clang CFLAGS="-g1 -Wno-unknown-pragmas -shared-libsan" \
    LDFLAGS="-shared-libsan -Wl,-rpath,$(dirname "$runtime")" \
    "$python" -m pip install -q --no-build-isolation --no-deps --upgrade --target "$build/site" . \
    -Cbuild-dir="$build/meson" -Csetup-args=-Dbuildtype=debug -Csetup-args=-Doptimization=1 \
    -Csetup-args=-Dstrip=false -Csetup-args=-Db_sanitize=thread -Csetup-args=-Db_lundef=false \
    -Csetup-args=-Dleave_out=$leave_out

export PYTHONPATH="$PWD/$build/site" PYTHONDONTWRITEBYTECODE=1
# Python and numpy are not instrumented: only what our modules do is looked at.
export TSAN_OPTIONS=ignore_noninstrumented_modules=1,halt_on_error=1,exitcode=66
# not test_team.py: it limits the address space, of which ThreadSanitizer needs a lot
[ $# -gt 0 ] || set -- tests --ignore tests/test_team.py --ignore tests/dask \
    -k "many_threads or others_work or test_panels or test_workspace or test_conv.py"
# setarch: older runtimes do not know where newer kernels put things
exec setarch -R env LD_PRELOAD="$runtime" "$python" -m pytest -p no:cacheprovider --capture=sys "$@"
