"""How many processors' worth of time the process may use: the quotas of its control groups (Linux)."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
NONE = 1 << 30


def quota(root: Path = ROOT, own: Path = OWN) -> int:
    """Processors, rounded up, that the strictest group above the process grants; a large number where none does."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return NONE
    least = NONE
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            least = min(least, _least(root, path, _version2))
        elif "cpu" in controllers.split(","):
            least = min(least, _least(root / "cpu", path, _version1))
    return least


def _least(root: Path, path: str, read) -> int:
    """Of a group and of those above it; in a container these are what it sees of them."""
    parts = [part for part in path.split("/") if part and part != ".."]
    return min(read(root.joinpath(*parts[:n])) for n in range(len(parts) + 1))


def _version2(group: Path) -> int:
    try:
        most, period = (group / "cpu.max").read_text().split()
        return NONE if most == "max" else max(1, -(-int(most) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        return NONE


def _version1(group: Path) -> int:
    try:
        most, period = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return NONE if most < 0 else max(1, -(-most // period))
    except (OSError, ValueError, ZeroDivisionError):
        return NONE
