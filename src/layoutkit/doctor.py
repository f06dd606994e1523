"""``python -m layoutkit doctor``: what this machine and this installation are, whether results and speeds are right."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ._core.runtime import registry
from ._core.runtime.quota import NONE, quota
from .bench import health, table_files
from .bench.folding import print_folded
from .choosing import blas_threads, machine, machine_profile, packaged, progress
from .choosing.costfile import shortened
from .choosing.table import cost_table, folder, read
from .config import config

LABEL = 16  # characters
SHOWN = 80  # characters of a reason
# What /proc/cpuinfo calls what each instruction set has beyond the one that it extends.
FLAGS = {
    "avx2": ("avx2", "fma"),
    "avx2_vnni": ("avx_vnni",),
    "avx512": ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
    "avx512_vnni": ("avx512_vnni",),
    "avx512_bf16": ("avx512_bf16",),
    "avx512_amx": ("amx_tile", "amx_bf16", "amx_int8"),
}
VARIABLES = "LAYOUTKIT_", "OMP_", "OPENBLAS_", "MKL_", "GOMP_"


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 if a result is wrong."""
    p = argparse.ArgumentParser(
        prog="python -m layoutkit doctor",
        description="Check this machine and this installation, in some five seconds. Paste the text into issues.",
    )
    p.add_argument("--json", action="store_true", help="as JSON")
    p.add_argument("--no-checks", action="store_true", help="only tell, compute nothing")
    args = p.parse_args(argv)
    found = examine(not args.no_checks)
    if args.json:
        json.dump(found, sys.stdout, indent=1)
        print()
    else:
        print_folded(lines(found), sys.stdout, LABEL)
        print_folded(attention(found), sys.stdout)
    return int(not all(result["right"] for result in found["results"]))


def examine(checks: bool = True) -> dict[str, Any]:
    """All that is found, as plain data."""
    c = config()
    found: dict[str, Any] = {
        **c,
        "instruction_sets": instruction_sets(),
        "quota": None if (processors := quota()) == NONE else processors,
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(VARIABLES)},
        "libraries": [
            {key: p[key] for key in ("user_api", "prefix", "version", "num_threads", "filepath")}
            for p in blas_threads.libraries().info()
        ],
        "cache": cache(),
        "results": [],
        "speeds": [],
        "findings": [],
    }
    start, waited = time.perf_counter(), machine.waited()
    if checks:
        with progress.shown("checking"):
            results, speeds = list(health.results(c["threads"])), list(health.speeds(c["threads"]))
        share = (machine.waited() - waited) / (c["threads"] * (time.perf_counter() - start))
        found["results"] = [r._asdict() for r in results]
        found["speeds"] = [s._asdict() | {"share": s.share} for s in speeds]
        found["seconds"], found["waited"] = time.perf_counter() - start, share
        found["findings"] = list(health.findings(results, speeds, share))
    found["findings"] += _more_findings(found)
    return found


def instruction_sets() -> dict[str, str]:
    """What becomes of each instruction set that was compiled in, and why."""
    here, active = registry.isas(), registry.isa()
    emulated = registry.emulated()
    known = list(dict.fromkeys([*here, *(k.isa for k in registry.kernels(all_isas=True) if k.isa not in emulated)]))
    flags, forced = _processor_flags(), os.environ.get("LAYOUTKIT_ISA")
    return {isa: _fate(isa, here, active, flags, forced) for isa in known}


def _fate(isa: str, here: Sequence[str], active: str, flags: frozenset[str] | None, forced: str | None) -> str:
    if isa == active:
        return "used" + " (LAYOUTKIT_ISA)" * bool(forced)
    if isa in here:
        above = here.index(isa) > here.index(active)
        if above:
            return f"not used: LAYOUTKIT_ISA={forced}"
        used = isa in {k.isa for k in registry.kernels()}
        return f"used, beside {active}" if used else f"not used: {active} is more"
    missing = [flag for flag in FLAGS.get(isa, ()) if flags is not None and flag not in flags]
    if missing:
        return f"not used: this processor has no {', '.join(missing)}"
    if isa.endswith("amx"):
        return f"not used: the operating system does not grant tiles ({registry.tiles()})"
    return "not used: this processor or its system does not run it"


def _processor_flags() -> frozenset[str] | None:
    """What the processor has, as Linux says; None where it does not."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            return next((frozenset(line.split(":", 1)[1].split()) for line in f if line.startswith("flags")), None)
    except OSError:
        return None


def cache() -> dict[str, Any]:
    """The cache folder, and which tables and profile apply here."""
    place, active = Path(folder()), registry.isa()
    tables = [{"file": f.name, **_table(f)} for f in sorted(place.glob("costs-*.json"))]
    profile = machine_profile.path(cost_table.path)
    shipped = packaged.file(active)
    return {
        "folder": str(place),
        "writable": os.access(place, os.W_OK) if place.exists() else os.access(_existing(place), os.W_OK),
        "read_only": cost_table.read_only,
        "tables": tables,
        "profile": str(profile) if machine_profile.read(profile) else None,
        "shipped": f"{shipped.name}, measured on {packaged.read(shipped).machine.get('cpu')}" if shipped else None,
    }


def _existing(path: Path) -> Path:
    return next(p for p in (path, *path.absolute().parents) if p.exists())


def _table(file: Path) -> dict[str, Any]:
    try:
        table = read(file)
    except (OSError, ValueError) as error:
        return {"problems": 0, "applies": False, "why": shortened(str(error), SHOWN)}
    why = table_files.why_not_here(table)
    return {"problems": len(table), "applies": not why, "why": why}


def _more_findings(found: dict[str, Any]) -> Iterator[str]:
    yield from blas_threads.notes()
    if found["tiles"] == "refused":
        yield "this processor has tiles that the operating system refuses: products in bfloat16 and int8 are slower"
    if found["threads_refused"]:
        yield f"the system refused to start {found['threads_refused']} threads"
    if not found["cache"]["writable"]:
        yield f"the cache folder {found['cache']['folder']} cannot be written: nothing that is measured is kept"
    if not any(table["applies"] for table in found["cache"]["tables"]):
        yield "no cost table of this machine: choices are estimates; python -m layoutkit bench --quick measures"


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The text."""

    def line(label: str, text: object) -> str:
        return f"{label:<{LABEL}}{text}"

    yield line("layoutkit", f"{found['layoutkit']}, build {found['build']}")
    yield line("python", f"{found['python']}, numpy {found['numpy']}, {found['platform']}")
    caches = ", ".join(f"{level} {size >> 10} KB" for level, size in found["caches"].items())
    yield line("processor", f"{found['cpu']}, {found['cores']} cores; {caches}")
    for i, (isa, fate) in enumerate(found["instruction_sets"].items()):
        yield line("" if i else "instructions", f"{isa}: {fate}")
    yield line("tiles", found["tiles"])
    quota = f", a quota of {found['quota']} processors" if found["quota"] else ""
    yield line("threads", f"{found['threads']} at most{quota}")
    for name, value in found["environment"].items():
        yield line("", f"{name}={value}")
    for p in found["libraries"]:
        version = f" {p['version']}" if p["version"] else ""
        yield line(p["user_api"], f"{p['prefix']}{version}, {p['num_threads']} threads, {p['filepath']}")
    c = found["cache"]
    state = "" if c["writable"] else ", which cannot be written"
    yield line("cache", f"{c['folder']}{state}{', read-only' * c['read_only']}")
    for table in c["tables"]:
        applies = "applies" if table["applies"] else f"does not apply: {table['why']}"
        yield line("", f"{table['file']}, {table['problems']} problems: {applies}")
    yield line("profile", c["profile"] or "none: this machine counts as that of the shipped costs")
    yield line("shipped costs", c["shipped"] or "none")
    if found["results"]:
        wrong = [r["what"] for r in found["results"] if not r["right"]]
        told = (
            f"WRONG: {', '.join(wrong)}" if wrong else f"right, by {len(found['results'])} comparisons with plain sums"
        )
        yield line("results", told)
        for i, s in enumerate(found["speeds"]):
            share = f", {s['share']:.0%} of what is expected by {s['by']}" if s["share"] else ""
            yield line("" if i else "speeds", f"{s['what']}: {s['measured']:.1f} {s['unit']}{share}")
        yield line("", f"in {found['seconds']:.1f} s, {found['waited']:.0%} of it waiting for a core")


def attention(found: dict[str, Any]) -> Iterator[str]:
    """What needs attention, a line each."""
    yield ""
    yield from (f"! {text}" for text in found["findings"])
    if not found["findings"]:
        yield "nothing needs attention"
