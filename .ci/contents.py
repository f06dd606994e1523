"""What an sdist or a wheel holds is all that it needs, and nothing else: .ci/contents.py FILE.tar.gz|FILE.whl ..."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
JUNK = re.compile(r"(^|/)(__pycache__|\.git|\.venv|build|dist|\.[a-z]+_cache)/|\.(pyc|o|orig|rej|swp)$|~$")
IN_EVERY_SDIST = {
    "CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "meson.build", "pyproject.toml", "src/layoutkit/api.pyx",
    "src/layoutkit/_core/kernels/kernels.h", "src/layoutkit/include/layoutkit.h", "tests/conftest.py", "docs/start.md",
    "examples/c/embed.c", "stress/campaign.py", ".ci/run", "packaging/build_backend.py",
}  # fmt: skip
IN_EVERY_WHEEL = {
    "layoutkit/__init__.py", "layoutkit/py.typed", "layoutkit/api.pxd", "layoutkit/include/layoutkit.h",
    "layoutkit/pkgconfig/layoutkit.pc", "layoutkit/data/costs-portable-amd-25-17.txt",
    "layoutkit/data/constants-portable.txt", "layoutkit/_core/runtime/registry.pyi",
}  # fmt: skip


def of_sdist(path: Path) -> list[str]:
    """What is wrong with an sdist: it holds the tracked files and its metadata."""
    with tarfile.open(path) as archive:
        names = {m.name.partition("/")[2] for m in archive.getmembers() if not m.isdir()}
    wrong = [f"lacks {name}" for name in sorted(IN_EVERY_SDIST - names)]
    wrong += [f"has {name}" for name in sorted(names) if JUNK.search(name) or name.endswith(".so")]
    tracked = subprocess.run(["git", "ls-tree", "-r", "--name-only", "-z", "HEAD"], cwd=ROOT, capture_output=True)
    if tracked.returncode == 0:  # an unpacked sdist is no repository
        known = set(tracked.stdout.decode().split("\0")) - {""}
        wrong += [f"lacks {name}, which is tracked" for name in sorted(known - names)]
        wrong += [f"has {name}, which is not tracked" for name in sorted(names - known - {"PKG-INFO"})]
    return wrong


def of_wheel(path: Path) -> list[str]:
    """What is wrong with a wheel: it holds the package with its compiled modules, and no sources of these."""
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    wrong = [f"lacks {name}" for name in sorted(IN_EVERY_WHEEL - names)]
    compiled = {name.split(".")[0] for name in names if name.endswith((".so", ".pyd"))}
    stubs = {name.split(".")[0] for name in names if name.startswith("layoutkit/_core/") and name.endswith(".pyi")}
    wrong += [f"lacks the compiled module {name}" for name in sorted(stubs - compiled)]
    mine = re.compile(r"layoutkit/|layoutkit-[^/]*\.dist-info/|layoutkit\.libs/|\.layoutkit\.mesonpy\.libs/")
    source = re.compile(r"\.(c|inc|pyx)$|layoutkit/_core/.*\.(h|pxd)$|(^|/)meson\.build$")
    wrong += [
        f"has {name}" for name in sorted(names) if JUNK.search(name) or source.search(name) or not mine.match(name)
    ]
    return wrong


def main(paths: list[str]) -> int:
    """Print what is wrong; returns the exit code."""
    bad = 0
    for path in map(Path, paths):
        wrong = (of_wheel if path.suffix == ".whl" else of_sdist)(path)
        bad += bool(wrong)
        print(f"{path.name}: " + ("\n    ".join(["", *wrong]) if wrong else "complete, and nothing else"))
    return bool(bad or not paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
