"""For code that builds on layoutkit: where its headers are, ``layoutkit-config``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .version import __version__

_HERE = Path(__file__).parent


def get_include() -> str:
    """The directory that ``layoutkit.h`` is in.

    Returns
    -------
    str
        A path.

    Examples
    --------
    >>> import os, layoutkit as lk
    >>> os.path.exists(os.path.join(lk.get_include(), "layoutkit.h"))
    True
    """
    return str(_HERE / "include")


def main(argv: Sequence[str] | None = None) -> int:
    """``layoutkit-config``: what a compiler needs to be told; returns the exit code."""
    import argparse

    p = argparse.ArgumentParser(prog="layoutkit-config", description="What building on layoutkit needs.")
    p.add_argument("--cflags", action="store_true", help="flags of a C compiler: where layoutkit.h is")
    p.add_argument("--libs", action="store_true", help="flags of a linker: none, the functions come in a capsule")
    p.add_argument("--includedir", action="store_true", help="the directory of layoutkit.h")
    p.add_argument("--pkgconfigdir", action="store_true", help="the directory of layoutkit.pc")
    p.add_argument("--version", action="version", version=__version__)
    args = p.parse_args(argv)
    said = []
    if args.cflags:
        said.append(f"-I{get_include()}")
    if args.libs:
        said.append("")
    if args.includedir:
        said.append(get_include())
    if args.pkgconfigdir:
        said.append(str(_HERE / "pkgconfig"))
    if not said:
        p.print_usage()
        return 2
    print(" ".join(said).strip())
    return 0
