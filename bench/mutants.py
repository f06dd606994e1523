"""Does the short test suite see a defect? ``python bench/mutants.py`` plants twenty-two, one at a time.

Each is a small edit of a kernel, a loop nest or of planning, of the kind that has been made by mistake: a wrong edge, a
lost stride, a swapped pair, a choice of the worst. The checkout is copied, the defect compiled in, and the tests named
beside it are run with the short profile. A mutant that they let pass is printed, and the exit code is 1.

Needs what an editable build needs (meson-python, ninja, cython, numpy) and the extra `test`, in an environment without
an editable installation.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
KERNELS, NESTS = "src/layoutkit/_core/kernels", "src/layoutkit/_core/nests"


class Mutant(NamedTuple):
    """An edit of a file, and the tests that must fail with it."""

    what: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = (
    Mutant("gemm: every row has the bias of the first", f"{KERNELS}/gemm/gemm.c",
           "splat(bias_row[i])", "splat(bias_row[0])", "tests/core"),
    Mutant("gemm: a total keeps only its last chunk", f"{KERNELS}/gemm/gemm.c",
           "total[i] += acc[i];", "total[i] = acc[i];", "tests/core"),
    Mutant("strips: a row of the padding below is read", f"{KERNELS}/depthwise/strips.c",
           "i < s->bottom)\n            add_row(", "i <= s->bottom)\n            add_row(",
           "tests/core tests/convolutions"),
    Mutant("strips: clipped columns lack the last", f"{KERNELS}/depthwise/strips.c",
           "for (int j = 0; j < cols; j++)\n            acc[j] = between_limits(acc[j], s->clip);",
           "for (int j = 0; j < cols - 1; j++)\n            acc[j] = between_limits(acc[j], s->clip);",
           "tests/core tests/convolutions/test_chains.py tests/convolutions/test_epilogue.py"),
    Mutant("elementwise: rows with gaps between them are taken for one", f"{KERNELS}/elementwise/elementwise.inc",
           "if (!joins(&f.x, f.count) || !joins(&f.y, f.count))", "if (!joins(&f.x, f.count))", "tests/core"),
    Mutant("pooling: the last column of a dilated window is left out", f"{KERNELS}/pooling/pooling.c",
           "MIN(p->taps, dilated(left, p->dilation))", "MIN(p->taps, left / p->dilation)",
           "tests/core tests/grad/test_pool.py"),
    Mutant("pooling: NaN is lost", f"{KERNELS}/pooling/pooling.c",
           "(v > maximum) | (v != v)", "(v > maximum) | (maximum != maximum)", "tests/core tests/grad/test_pool.py"),
    Mutant("filter gradients: the sums of a row replace those before", f"{KERNELS}/gradients/tap_sums.c",
           "*(vf *)(g->c + g->sum[first + t]) += acc[t];", "*(vf *)(g->c + g->sum[first + t]) = acc[t];",
           "tests/core tests/grad"),
    Mutant("winograd: the second half of a split vector is lost", f"{KERNELS}/winograd/winograd.c",
           "load(at, hi ? at + gap : NULL, kind, count)", "load(at, NULL, kind, count)", "tests/core"),
    Mutant("pixels: a tap of integers that is left out adds nothing", f"{NESTS}/convolutions/pixel_rows.pyx",
           "s.bias_and_padding[j] += s.of_padding[tap * self.nr + j]", "s.bias_and_padding[j] += 0",
           "tests/convolutions/test_integers.py"),
    Mutant("products of bytes: rows have no sum of their own", f"{NESTS}/products/byte_matmul.pyx",
           "(self.k * self.a_zero - self.sum_of(tile.a + self.a_step[i]))",
           "(self.k * self.a_zero - self.sum_of(tile.a))", "tests/core/test_byte_matmul.py"),
    Mutant("transposes: streamed part rows store a row less", f"{KERNELS}/moves/move_width.inc",
           "if (c < n0)\n                LK_W(put_row)", "if (c + 1 < n0)\n                LK_W(put_row)",
           "tests/core tests/reorders/test_reorder.py"),
    Mutant("planes: groups read the channels of the first", f"{NESTS}/convolutions/planes.pyx",
           "from_ = (x + image * self.x_stride[0] + group * self.ic * self.x_stride[1]",
           "from_ = (x + image * self.x_stride[0] + 0 * self.ic * self.x_stride[1]", "tests/convolutions"),
    Mutant("planes: depth has no stride", f"{NESTS}/convolutions/planes.pyx",
           "+ deep * g.stride[0] * self.x_stride[2])", "+ deep * self.x_stride[2])", "tests/convolutions"),
    Mutant("regions: a portion lacks its first task", "src/layoutkit/_core/runtime/region.h",
           "*first = begin + (end - begin) * taken / p->portions;",
           "*first = begin + (end - begin) * taken / p->portions + (taken > 0);", "tests/test_small_work.py"),
    Mutant("filter gradients: the tree of slabs leaves out pairs", f"{NESTS}/executor.pyx",
           "slab += 2 * apart", "slab += 2 * apart + 1", "tests/grad"),
    Mutant("pieces: blocks begin where the box does", "src/layoutkit/reorders/pieces.py",
           "lo + -(lo + shift) % digits[0].unit", "lo + -lo % digits[0].unit", "tests/reorders"),
    Mutant("padded input: left and right are swapped", "src/layoutkit/convolutions/padded.py",
           "padded = [(a, n, b) for", "padded = [(b, n, a) for", "tests/convolutions"),
    Mutant("geometry: blocks of one channel count as innermost", "src/layoutkit/convolutions/geometry.py",
           "(blocks == [last] and last.size > 1)", "(blocks == [last])", "tests/convolutions"),
    Mutant("transposed: a phase is shifted", "src/layoutkit/convolutions/phases.py",
           "lead = spacing * (len(taps) - 1) - first", "lead = spacing * len(taps) - first",
           "tests/convolutions/test_transposed.py"),
    Mutant("ranking: the slowest goes first", "src/layoutkit/choosing/ranking.py",
           "return sorted(choices, key=lambda c: c.seconds", "return sorted(choices, key=lambda c: -c.seconds",
           "tests/choosing"),
    Mutant("pads: those of the last dimension are forgotten", "src/layoutkit/formats/pads.py",
           "for d, inside in enumerate(self.shape):", "for d, inside in enumerate(self.shape[:-1]):", "tests/formats"),
)  # fmt: skip


def copied(folder: Path) -> Path:
    """A copy of what git knows of the checkout, as it is in the working tree."""
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in files:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def built(source: Path, site: Path) -> bool:
    """Whether it compiles, installed into `site`; objects that did not change are kept."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--upgrade",
               "--target", str(site), str(source), f"-Cbuild-dir={source.parent / 'build'}"]  # fmt: skip
    return subprocess.run(command, capture_output=True).returncode == 0


def environment(site: Path) -> dict[str, str]:
    """Of tests by what is installed into `site`."""
    return {name: value for name, value in os.environ.items() if name != "CI"} | {"PYTHONPATH": str(site)}


def imported(site: Path) -> Path:
    """Where tests take the package from."""
    command = [sys.executable, "-c", "import layoutkit; print(layoutkit.__file__)"]
    run = subprocess.run(command, env=environment(site), capture_output=True, text=True, check=True, cwd=site)
    return Path(run.stdout.strip())


def seen(source: Path, site: Path, tests: str) -> bool:
    """Whether a test fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests.split()]
    status = subprocess.run(command, cwd=source, env=environment(site), capture_output=True).returncode
    if status > 1:
        raise RuntimeError(f"pytest {tests} ended with {status}: no test was run")
    return status != 0  # a signal, too: tests lay pages that must not be touched around arrays


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 1 if a mutant passes."""
    p = argparse.ArgumentParser(prog="python bench/mutants.py", description=(__doc__ or "").split("\n")[0])
    p.add_argument("--only", type=int, nargs="+", metavar="N", help=f"some of them, 1 to {len(MUTANTS)}")
    args = p.parse_args(argv)
    missed = 0
    with tempfile.TemporaryDirectory(prefix="layoutkit-mutants-") as folder:
        source, site = copied(Path(folder) / "source"), Path(folder) / "site"
        if not built(source, site):
            p.error("the checkout does not compile")
        if site not in imported(site).parents:
            p.error(f"{sys.executable} imports {imported(site)}: an editable installation goes before others")
        for number, m in enumerate(MUTANTS, 1):
            if args.only and number not in args.only:
                continue
            text = (source / m.file).read_text()
            if text.count(m.old) < 1:
                p.error(f"mutant {number}: {m.file} no longer has {m.old!r}")
            (source / m.file).write_text(text.replace(m.old, m.new, 1))
            fault = "does not compile" if not built(source, site) else "" if seen(source, site, m.tests) else "passes"
            (source / m.file).write_text(text)
            print(f"{number:>2} {fault or 'seen'}: {m.what}", flush=True)
            missed += bool(fault)
    print(f"{missed} not seen")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
