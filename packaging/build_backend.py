"""meson-python as the build backend, which tells the metadata before it compiles.

meson-python has no hook for metadata. pip then builds the whole wheel only to read them: "Preparing metadata" stands
still for minutes, and dependencies are resolved after that. All that they say stands in pyproject.toml.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from mesonpy import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)
from pyproject_metadata import StandardMetadata

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Write the metadata of a wheel; returns the name of their directory."""
    found = StandardMetadata.from_pyproject(tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8")))
    written = Path(metadata_directory) / f"{found.canonical_name.replace('-', '_')}-{found.version}.dist-info"
    written.mkdir()
    (written / "METADATA").write_bytes(bytes(found.as_rfc822()))
    groups = {"console_scripts": found.scripts, **found.entrypoints}
    lines = [line for name, of in groups.items() for line in (f"[{name}]", *(f"{k} = {v}" for k, v in of.items()), "")]
    (written / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return written.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
