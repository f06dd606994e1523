"""Cost tables as files: of this machine, or of another that they are brought to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..choosing import files, machine, machine_profile
from ..choosing.costfile import CostFile, Costs, adopt
from ..choosing.machine_profile import MachineProfile
from ..choosing.table import content_of, cost_table, path_of, read, write

WAIT_SECONDS = 10.0  # for processes that write the same table


def profile_beside(path: Path) -> Path:
    """Where the profile of the machine of a table is: beside it."""
    inside = machine_profile.path(path)
    return inside if inside != path else path.with_name(f"{path.stem}.profile.json")


def checked(path: Path) -> CostFile:
    """The table in a file, whatever machine it is of; OSError or ValueError where there is none."""
    try:
        return read(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def export(path: Path) -> Path:
    """Write this machine's table, and its profile beside it if there is one; the path of the table."""
    cost_table.export(path)
    found = machine_profile.path(cost_table.path)
    if found.is_file():
        files.replace(profile_beside(path), found.read_bytes())
    return path


def install(path: Path) -> Path:
    """Add a table to the one that the cache folder has of the same machine, which need not be this one; its path.

    A profile beside the file comes along where the folder has none.
    """
    file = checked(path)
    target = path_of(file.machine)
    target.parent.mkdir(parents=True, exist_ok=True)

    def content() -> bytes:
        costs = _there(target, file.machine)
        adopt(costs, file.all_costs())
        return content_of(target, costs, file.machine)

    files.rewrite(target, content, WAIT_SECONDS)
    profile, own = profile_beside(path), machine_profile.path(target)
    if machine_profile.read(profile) and not own.exists():
        files.replace(own, profile.read_bytes())
    return target


def _there(path: Path, identity: Mapping[str, object]) -> Costs:
    try:
        file = read(path)
        file.check(identity)
    except (OSError, ValueError):
        return {}
    return file.all_costs()


def merge(out: Path, paths: Sequence[Path]) -> int:
    """Write one table of several of the same machine; of how many problems. ValueError if those differ."""
    tables = [checked(path) for path in paths]
    costs: Costs = {}
    for path, file in zip(paths, tables):
        try:
            file.check(tables[0].machine)
        except ValueError as error:
            raise ValueError(f"{path} and {paths[0]} cannot be one table: {error}") from None
        adopt(costs, file.all_costs())
    write(out, costs, tables[0].machine)
    profile = next(filter(machine_profile.read, map(profile_beside, paths)), None)
    if profile is not None:
        files.replace(profile_beside(out), profile.read_bytes())
    return len(costs)


def profile_of(path: Path) -> MachineProfile | None:
    """The profile beside a table, if there is one."""
    return machine_profile.read(profile_beside(path))


def why_not_here(file: CostFile) -> str:
    """Why a table does not apply on this machine; empty if it does."""
    try:
        file.check(machine.identity())
    except ValueError as error:
        return str(error)
    return ""
