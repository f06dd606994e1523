"""The example of a volume larger than memory, with a small one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("zarr")
EXAMPLE = Path(__file__).parents[2] / "examples" / "dask" / "volume.py"


def volume(folder, *arguments):
    command = [sys.executable, str(EXAMPLE), "--gigabytes", "0.05", "--folder", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("format", ["zarr", "hdf5"])
def test_a_small_volume_within_memory(tmp_path, format):
    run = volume(tmp_path, "--format", format, "--memory-gigabytes", "0.5")  # several tiles
    assert run.returncode == 0, run.stderr
    assert re.search(r"peak memory \d\.\d\d GB of 0.5 GB; the result is bit-equal where checked", run.stdout)
    assert "100% Completed" in run.stdout and not list(tmp_path.iterdir())


def test_more_memory_than_allowed_is_a_failure(tmp_path):
    run = volume(tmp_path, "--memory-gigabytes", "0.05", "--keep")
    assert run.returncode == 1 and "that is more memory than there should be" in run.stdout
    assert len(list(tmp_path.glob("volume-*/*.zarr"))) == 2


def test_it_says_when_the_disk_is_too_small(tmp_path):
    run = volume(tmp_path, "--gigabytes", "1e9")
    assert run.returncode == 1 and "choose another --folder, or fewer --gigabytes" in run.stderr
