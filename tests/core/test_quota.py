"""Quotas of control groups, as files of both versions say them."""

import pytest

from layoutkit._core.runtime.quota import NONE, quota


def of(folder, own, **files):
    """The quota, where the process is in the groups `own` and these files (dots for slashes) are there."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_max", ".max").replace("cfs", "cpu.cfs")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "own").write_text(own)
    return quota(folder, folder / "own")


@pytest.mark.parametrize("text, processors", [
    ("max 100000\n", NONE), ("100000 100000\n", 1), ("150000 100000\n", 2), ("1000 100000\n", 1),
    ("800000 100000\n", 8), ("", NONE), ("nonsense", NONE), ("1 0", NONE), ("many 100000", NONE),
])  # fmt: skip
def test_version_2(tmp_path, text, processors):
    assert of(tmp_path, "0::/a/b\n", a__b__cpu_max=text) == processors


def test_the_strictest_group_above_counts(tmp_path):
    files = {"cpu_max": "400000 100000", "a__cpu_max": "300000 100000", "a__b__cpu_max": "max 100000"}
    assert of(tmp_path, "0::/a/b\n", **files) == 3


@pytest.mark.parametrize("own", ["2:cpu,cpuacct:/g\n0::/\n", "7:memory:/x\n2:cpu:/g\n"])
@pytest.mark.parametrize("text, processors", [("250000\n", 3), ("-1\n", NONE), ("?", NONE)])
def test_version_1(tmp_path, own, text, processors):
    assert of(tmp_path, own, cpu__g__cfs_quota_us=text, cpu__g__cfs_period_us="100000\n") == processors


@pytest.mark.parametrize("own", ["", "\n", "x", "0::", "0::/../..\n", "1:cpu:/nowhere\n"])
def test_odd_groups(tmp_path, own):
    assert of(tmp_path, own) == NONE


def test_without_groups(tmp_path):
    assert quota(tmp_path, tmp_path / "none") == NONE
