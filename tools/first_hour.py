"""The first hour of a newcomer, walked in a clean environment: install, read, run the pages, ask for help, slip.

    python tools/first_hour.py [--wheel FILE] [--doors]

A virtual environment of its own is made, with nothing in it but the package (of this checkout, or a wheel). Then come
the ten lines of the README, the pages of docs/ that need no more than is there (``--with torch scipy`` installs more),
the command line, and mistakes as people make them: each must be told by operation and argument. A line a step; the
exit code is 1 if one fails.

``--doors`` walks the five doors of docs/doors/ instead, each from an environment of its own: what its page tells to
install, its commands and its examples. The seconds of each are from installing to its last result.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOORS = "layout", "network", "filter", "engine", "tune"
PAGES = (*(f"doors/{name}" for name in DOORS), "start", "formats", "reorders", "convolutions", "choosing",
         "coming-from", "tasks/volume", "tasks/serve", "tasks/torch", "tasks/quantise", "tasks/blur")  # fmt: skip
MORE = ("torch", "scipy", "skimage", "onnx", "ml_dtypes")  # what pages may import
STEP_SECONDS = 300

SETUP = """
import numpy as np, layoutkit as lk
x, w = np.ones((1, 8, 9, 9), np.float32), np.ones((4, 8, 3, 3), np.float32)
"""
MODEL = """
import pathlib, shutil, onnx
shutil.copy(pathlib.Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx", "model.onnx")
"""
MISTAKES = {  # what is written, and words that its error must have
    "lk.conv2d(x, w, strides=2)": ("conv2d()", "'strides'"),
    "lk.Conv2d(w, strides=2)": ("Conv2d()", "'strides'"),
    "lk.plan(lk.conv3d, x, w, strides=2)": ("conv3d()", "'strides'"),
    "lk.conv2d(x[:, :5], w, stride=0)": ("conv2d", "5 channels, expected 8", "stride"),
    "lk.conv2d(x.astype(float), w)": ("conv2d: x", "float64", "astype"),
    "lk.conv2d(x.tolist(), w)": ("conv2d: x", "list", "numpy.asarray"),
    "lk.conv2d(x[0, 0], w)": ("conv2d: x", "2 axes", "x[None, None]"),
    "lk.conv2d(x, w, np.ones(3, np.float32))": ("conv2d: bias", "(3,)", "(4,)"),
    "lk.conv2d(x, w, padding_mode='mirror')": ("conv2d: padding_mode", "reflect"),
    "lk.reorder(x, 'NCHV', 'NHWC')": ("'NCHV'", "did you mean 'NCHW'?"),
    "lk.reorder(x, 'NCHW', 'nchw16c')": ("'nchw16c'", "did you mean 'nChw16c'?"),
    "lk.Layout('NHWC') == 'NHVC'": ("'NHVC'", "did you mean"),
    "lk.reorder(x, 4, 'NHWC')": ("layout 4", "'NCHW'"),
    "lk.conv2d(w, x)": ("conv2d", "are x and w swapped?"),
    "lk.conv2d(np.ones((1, 9, 9, 8), np.float32), w)": ("expected 8", 'layout="NHWC"'),
    "lk.conv2d(x, w, None, 2, 1)": ("conv2d()", "stride=2, padding=1?"),
    "lk.conv2d(x, w, activation='Relu')": ("'Relu'", "did you mean 'relu'?"),
    "lk.reorder(x, 'NCHW')": ("reorder: dst",),
    "lk.reorder(x, 'NCHW', 'NHWC', alpha=x)": ("reorder: alpha",),
    "lk.reorder(x, 'NCHW', 'NHWC', region=(None, (3, 99), None, None))": ("region", "dimension 1", "size 8"),
    "lk.reorder(np.ma.array(x), 'NCHW', 'NHWC')": ("reorder: array", "mask"),
    "lk.DimsOrder('NHWC')": ("DimsOrder: code", "from_layout"),
    "lk.rearrange(x, 'b c h w -> b h w')": ("rearrange", "'c'"),
    "lk.read_strides([1, 2])": ("read_strides", "list"),
    "lk.Tensor(x, 'NCHW') + 1": ("NCHW", ".numpy()"),
    "lk.cost_table.export('/no/such/folder/here.json')": ("export", "/no/such/folder"),
    "lk.set_num_threads(0)": ("threads", "0"),
    "lk.tuning('fast')": ("tuning", "'fast'"),
}


class Walk:
    """The steps, one after another; how many did not go well."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python, self.folder, self.failed = python, folder, 0

    def step(self, title: str, run: Callable[[], str | None]) -> None:
        """Run a step, which returns what to tell or raises RuntimeError, and print a line."""
        start = time.perf_counter()
        try:
            told = run() or ""
            mark = "ok"
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            told, mark = str(error), "FAILED"
            self.failed += 1
        print(f"{mark:6} {time.perf_counter() - start:6.1f} s  {title}" + (f": {told}" if told else ""), flush=True)

    def run(self, *command: str, code: int = 0, **env: str) -> str:
        """Output of a command of the environment; RuntimeError if its exit code is another than `code`."""
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        clean |= {"LAYOUTKIT_CACHE_DIR": str(self.folder / "cache"), **env}
        done = subprocess.run(
            [self.python, *command], capture_output=True, text=True, cwd=self.folder, env=clean, timeout=STEP_SECONDS
        )  # fmt: skip
        if done.returncode != code:
            raise RuntimeError(f"exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout + done.stderr

    def has(self, module: str) -> bool:
        """Whether the environment has a module."""
        return "True" in self.run("-c", f"import importlib.util as u; print(u.find_spec({module!r}) is not None)")

    def page(self, name: str) -> str | None:
        """Run the examples of a page."""
        text = (ROOT / "docs" / f"{name}.md").read_text()
        code = "".join(block for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if ">>>" in block)
        lacking = [m for m in MORE if re.search(rf"\b(?:import|from) {m}\b", code) and not self.has(m)]
        if lacking:
            return f"left out, needs {', '.join(lacking)}"
        file = self.folder / f"{name.replace('/', '-')}.txt"
        file.write_text(code)
        self.run("-c", f"import doctest, sys; sys.exit(doctest.testfile({str(file)!r}, False, "
                       "optionflags=doctest.NORMALIZE_WHITESPACE).failed)")  # fmt: skip
        return None

    def door(self, name: str, package: str) -> str:
        """Install what a door tells to, run its commands and examples."""
        text = (ROOT / "docs" / "doors" / f"{name}.md").read_text()
        lines = [line for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
        wanted = [re.sub(r"^layoutkit", package, word) for line in lines if line.startswith("pip install")
                  for word in shlex.split(line)[2:]]  # fmt: skip
        start = time.perf_counter()
        install(self.python, wanted)
        installed = time.perf_counter() - start
        commands = [shlex.split(line) for line in lines if line.startswith("layoutkit ")]
        for _, *arguments in commands:
            if "model.onnx" in arguments:
                self.run("-c", MODEL)
            self.run("-m", "layoutkit", *arguments)
        if ">>>" in text and (left_out := self.page(f"doors/{name}")):
            raise RuntimeError(left_out)
        return f"{installed:.1f} s of it to install, {len(commands)} commands"

    def mistake(self, code: str, words: Sequence[str]) -> str:
        """Make a mistake; the last line of the traceback, or several of one error."""
        told = self.run("-c", f"{SETUP}\n{code}\n", code=1)
        error = told[told.rindex("Error: ") + 7 :].strip()
        if lacking := [word for word in words if word not in error]:
            raise RuntimeError(f"the error does not say {', '.join(lacking)}: {error}")
        return error.splitlines()[0][:110]


def install(python: str, what: Sequence[str]) -> None:
    """Install into an environment; RuntimeError with the end of pip's words if that fails."""
    done = subprocess.run([python, "-m", "pip", "install", "-q", *what], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])


def main() -> int:
    """Walk; returns the exit code."""
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--wheel", help="the package to install; by default it is built from this checkout")
    p.add_argument("--with", dest="more", nargs="*", default=[], metavar="PACKAGE", help="to install beside it")
    p.add_argument("--doors", action="store_true", help="the five doors, each from an empty environment")
    args = p.parse_args()
    if args.doors:
        return walk_doors(args.wheel)
    with tempfile.TemporaryDirectory(prefix="first-hour-") as place:
        folder = Path(place)
        python = str(folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
        walk = Walk(python, folder)
        walk.step(
            "a virtual environment",
            lambda: subprocess.check_call([sys.executable, "-m", "venv", folder / "venv"]) and None,
        )
        walk.step("pip install", lambda: install(python, [args.wheel or str(ROOT), *args.more]))
        if walk.failed:
            return 1
        walk.step("import", lambda: walk.run("-c", "import layoutkit as lk; print(lk.__version__)").strip())
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
        walk.step("the README's lines", lambda: walk.run("-c", "\n".join(blocks)) and None)
        for name in PAGES:
            walk.step(f"docs/{name}.md", lambda name=name: walk.page(name))
        walk.step("help(lk.conv1d) has every parameter", lambda: _helped(walk))
        walk.step("names of dir(lk) are public", lambda: walk.run(
            "-c", "import layoutkit as lk; assert set(dir(lk)) <= {*lk.__all__, '__version__', '__doc__', '__name__'}"
        ) and None)  # fmt: skip
        walk.step("--version", lambda: walk.run("-m", "layoutkit", "--version").strip())
        walk.step("show --json", lambda: walk.run("-m", "layoutkit", "show", "--json") and None)
        walk.step("bench, two seconds", lambda: _narrow(walk.run(
            "-m", "layoutkit", "bench", "--suite", "reorder-4d", "--time-budget", "2", "--threads", "1", "--no-save"
        )))  # fmt: skip
        one_call = f"{SETUP}\nlk.conv2d(x, w)"
        walk.step("LAYOUTKIT_VERBOSE=1", lambda: walk.run("-c", one_call, LAYOUTKIT_VERBOSE="1").splitlines()[-1])
        for code, words in MISTAKES.items():
            walk.step(code, lambda code=code, words=words: walk.mistake(code, words))
    print(f"{walk.failed} steps failed" if walk.failed else "all went well")
    return int(walk.failed > 0)


def walk_doors(wheel: str | None) -> int:
    """Walk the doors; returns the exit code."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="first-hour-") as place:
        if wheel is None:
            subprocess.check_call([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place, str(ROOT)])
            (wheel,) = map(str, Path(place).glob("*.whl"))
        for name in DOORS:
            folder = Path(place) / name
            subprocess.check_call([sys.executable, "-m", "venv", folder / "venv"])
            python = str(folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
            walk = Walk(python, folder)
            walk.step(f"docs/doors/{name}.md", lambda walk=walk, name=name: walk.door(name, str(Path(wheel).resolve())))
            failed += walk.failed
    return int(failed > 0)


def _helped(walk: Walk) -> None:
    text = walk.run("-c", "import layoutkit as lk, pydoc; print(pydoc.plain(pydoc.render_doc(lk.conv1d)))")
    for name in ("stride", "padding_mode", "filter_layout", "out_scale", "threads"):
        if not re.search(rf"^ +\S*\b{name}\b.* : ", text, re.M):
            raise RuntimeError(f"{name} is not described")


def _narrow(text: str) -> str:
    widest = max(map(len, text.splitlines()))
    if widest > 80:
        raise RuntimeError(f"a line of {widest} columns")
    return f"at most {widest} columns"


if __name__ == "__main__":
    sys.exit(main())
