"""Translates Cython modules to C in one process: python cythonize.py depfile folder a.pyx b.pyx ..

meson would start Cython for each of them, which takes three times as long. Called by meson: writes folder/a.pyx.c, ..,
of modules of which something has changed, and into `depfile` what they are made of. Several builds of one tree may
share what is translated: LAYOUTKIT_TRANSLATED is the folder.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from Cython.Build.Dependencies import create_dependency_tree
from Cython.Compiler.Main import compile as translate

SOURCES = Path(__file__).resolve().parents[1] / "src"
DIRECTIVES = {
    "auto_pickle": False,
    "cdivision": True,
    "emit_code_comments": False,
    "freethreading_compatible": True,
    "language_level": 3,
}


# Cython 3.3 releases an element that a list comprehension could not append, for lack of memory, and so does its caller.
RELEASED_TWICE = "int result = PyList_Append(list, x);\n    Py_DECREF(x);\n"
RELEASED_ONCE = "int result = PyList_Append(list, x);\n    if (result >= 0) Py_DECREF(x);\n"


def mended(c: str) -> str:
    """C of Cython's without its defects."""
    return c.replace(RELEASED_TWICE, RELEASED_ONCE)


def main(depfile: str, folder: str, *modules: str) -> None:
    out, to = Path(folder).resolve(), Path(depfile).resolve()
    names = [os.path.relpath(name, SOURCES) for name in modules]
    translated = Path(os.environ.get("LAYOUTKIT_TRANSLATED", out / "translated")).resolve()
    os.chdir(SOURCES)  # tracebacks name files relative to it
    gc.disable()  # a fifth of the time
    tree, read = create_dependency_tree(), {__file__}
    for name in names:
        made_of = tree.all_dependencies(name)
        read |= made_of
        changed = max(os.path.getmtime(file) for file in (*made_of, __file__))
        made, target = (translated / name).with_suffix(".c"), out / f"{Path(name).name}.c"
        if not made.exists() or made.stat().st_mtime <= changed:
            made.parent.mkdir(parents=True, exist_ok=True)
            module = name.removesuffix(".pyx").replace(os.sep, ".")
            result = translate(name, full_module_name=module, output_file=str(made), compiler_directives=DIRECTIVES)
            if result.num_errors:
                made.unlink(missing_ok=True)
                sys.exit(1)
        c = mended(made.read_text())
        if not target.exists() or target.read_text() != c:  # what is the same is not compiled again
            target.write_text(c)
    listed = " ".join(os.path.abspath(name).replace(" ", r"\ ") for name in sorted(read))
    to.write_text(f"{folder}/{Path(names[0]).name}.c: {listed}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
