"""bench/chunked.py: what it draws is as it says, its commands run, and it does not compare what differs."""

import json
import math
import random
import sys

import pytest

pytest.importorskip("dask.array", reason="the extra dask")

import chunked
from chunked_cases import draw, draw_lazy, draw_plain, physical_chunks

import layoutkit as lk


@pytest.mark.parametrize("seed", range(30))
def test_cases_are_as_large_as_asked(seed):
    rng = random.Random(seed)
    for case in (draw(rng, 64, 8, 1e3), draw_plain(rng, 64, 8, 1e3), draw_lazy(rng, 64, 1e3)):
        chunks = physical_chunks(case)
        assert tuple(map(sum, chunks)) == lk.Layout(case["layout"]).physical_shape(case["shape"])
        assert case["pieces"][1] == 1 and math.prod(case["pieces"]) == math.prod(map(len, chunks))
        if "way" not in case:
            assert math.prod(case["shape"]) * 4e-6 == pytest.approx(64, rel=0.1)
            assert math.prod(map(max, chunks)) * 4e-6 < 1.6 * 8


def test_a_seed_gives_the_same_cases():
    assert draw(random.Random(5), 64, 8, 1e3) == draw(random.Random(5), 64, 8, 1e3)


@pytest.mark.filterwarnings("ignore::layoutkit.SlowPathWarning")
@pytest.mark.parametrize("command", ["throughput", "others", "memory"])
def test_commands_run(command, tmp_path, capsys, cache_dir):
    if command == "others":
        pytest.importorskip("scipy")
    if command == "memory":
        pytest.importorskip("zarr")
        if sys.platform != "linux":
            pytest.skip("memory is told by Linux")
    file = tmp_path / "out.json"
    count = 1 if command == "memory" else 2  # which has processes for each
    args = [command, "--count", str(count), "--rounds", "1", "--megabytes", "2", "--chunk-mb", "0.3", "--threads", "2"]
    assert chunked.main([*args, "--gflop", "1", "--seed", "1", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rows"]
    told = capsys.readouterr().out
    assert len(rows) == count and all(row["title"] in told and row["ratios"] for row in rows)
    assert "quartiles" in told


def test_what_differs_is_not_compared():
    chunked.check("a", {"one": [1.0, 2.0], "two": [1.0, 2.00001]})
    with pytest.raises(SystemExit, match="do not agree"):
        chunked.check("a", {"one": [1.0, 2.0], "two": [1.0, 2.1]})
