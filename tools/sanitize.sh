#!/usr/bin/env bash
# The tests on an extension built with AddressSanitizer and UndefinedBehaviorSanitizer:
#   tools/sanitize.sh [python] [pytest arguments]
# and then, unless there are arguments of pytest's, a share of stress/campaign.py.
# `python` has numpy, the build requirements (meson-python, ninja, cython) and the test requirements; nothing is
# installed into it. torch and OpenCL are left out: their libraries do not run under the sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
shift || true
build=${SANITIZE_DIR:-build/sanitize}
mkdir -p "$build"
export PATH="$(dirname "$(command -v "$python")"):$PATH"

# AVX2 has the same sources as AVX-512, and its own lengths of vectors are tested between pages that cannot be touched.
grep -q avx512bw /proc/cpuinfo && leave_out=avx2,avx2_vnni || leave_out=
# Lines of code are enough of debugging information. Accesses to NULL end the process anyway; sizes of objects, and where
# pointers lead, are what AddressSanitizer knows better. Each access is checked by a call, in all but small functions.
# Together they divide the time to compile by three.
"$python" -m pip install -q --no-build-isolation --no-deps --upgrade --target "$build/site" . \
    -Cbuild-dir="$build/meson" -Csetup-args=-Dbuildtype=debug -Csetup-args=-Doptimization=1 \
    -Csetup-args=-Dstrip=false -Csetup-args=-Db_sanitize=address,undefined -Csetup-args=-Db_lundef=false -Csetup-args=-Dleave_out=$leave_out \
    '-Csetup-args=-Dc_args=-g1 -fno-sanitize=null,object-size,pointer-overflow --param=asan-instrumentation-with-call-threshold=50'

# PYTHONMALLOC: every object is an allocation that the sanitizer sees. Python itself leaks at exit, by intention.
export PYTHONPATH="$PWD/$build/site" PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1
export LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
export ASAN_OPTIONS=detect_leaks=0,allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1,halt_on_error=1
cases=
if [ $# = 0 ]; then
    cases="--reorders 4000 --convolutions 1000 --integers 400 --transposed 50 --limits 100 --reproducible 40 --filters 1000 --chunked 0"
    unset CI # the random cases draw more than the long profile
    set -- -n auto --dist worksteal tests/core/test_*kernels.py tests/core/test_{tiles,elementwise,matmul,attention}.py \
        tests/reorders/test_{windows,reorder,panels,slabs}.py tests/graph/{runtime/test_{kernels,taking,joins,casts,normalise},passes/test_{narrow,quantised}}.py \
        tests/convolutions/test_{conv,chains,rows}.py tests/grad/test_{any,pool,weight}.py
fi
"$python" -c 'from layoutkit._core.runtime import registry as r; print(r.__file__)' | grep "^$PYTHONPATH/" ||
    { echo "another layoutkit is in the way" >&2; exit 1; }
# capture=sys: what a sanitizer writes before it ends the process is seen
"$python" -m pytest -p no:cacheprovider --capture=sys "$@"
# shellcheck disable=SC2086
[ -z "$cases" ] || "$python" stress/campaign.py $cases
