"""Translates Cython modules to C in one process: python cythonize.py depfile folder a.pyx b.pyx ..

meson would start Cython for each of them, which takes three times as long. Called by meson: writes folder/a.pyx.c, ..,
of modules that have changed, and into `depfile` what they are made of.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from Cython.Build.Dependencies import create_dependency_tree

SOURCES = Path(__file__).resolve().parents[1] / "src"
DIRECTIVES = {"auto_pickle": False, "cdivision": True, "freethreading_compatible": True, "language_level": 3}


def main(depfile: str, folder: str, *modules: str) -> None:
    out, to = Path(folder).resolve(), Path(depfile).resolve()
    names = [os.path.relpath(name, SOURCES) for name in modules]
    os.chdir(SOURCES)  # tracebacks name files relative to it
    gc.disable()  # a fifth of the time
    cythonize(names, build_dir=str(out / "translated"), compiler_directives=DIRECTIVES, quiet=True)
    read: set[str] = set()
    for name in names:
        read |= create_dependency_tree().all_dependencies(name)
        made = (out / "translated" / name).with_suffix(".c").read_bytes()
        target = out / f"{Path(name).name}.c"
        if not target.exists() or target.read_bytes() != made:  # what is the same is not compiled again
            target.write_bytes(made)
    listed = " ".join(os.path.abspath(name).replace(" ", r"\ ") for name in sorted(read))
    to.write_text(f"{folder}/{Path(names[0]).name}.c: {listed}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
