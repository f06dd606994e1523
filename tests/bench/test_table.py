"""``python -m layoutkit table``: tables that are brought along, and what is said of them."""

import json

import pytest
from tables import IDENTITY, TABLE

from layoutkit.__main__ import main
from layoutkit.bench import table_files, table_summary
from layoutkit.choosing import machine, machine_profile
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.machine_profile import FIGURES, MachineProfile
from layoutkit.choosing.table import cost_table, path_of, read, write

CONV = "conv n1 c64 56x56 o64 k3x3 s1x1 p1+1,1+1 d1x1 g1 NHWC>NHWC f32 standard t1"
HERE = {CONV: {"direct a": Cost(2e-3, 2e-3, 1e-5, 9), "winograd b": Cost(1e-3, 1e-3, 1e-5, 9)}}
PROFILE = MachineProfile._make((*[2.0] * len(FIGURES), ()))


@pytest.fixture
def files(cache_dir, tmp_path):
    """A table of this machine and one of another, the first with a profile beside it."""
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    write(here, HERE, machine.identity())
    write(there, TABLE, IDENTITY)
    machine_profile.save(table_files.profile_beside(here), PROFILE)
    return here, there


def said(capsys, *argv):
    assert main(["table", *map(str, argv)]) == 0
    return capsys.readouterr().out


def refused(capsys, *argv):
    with pytest.raises(SystemExit) as ended:
        main(["table", *map(str, argv)])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_import_puts_each_table_where_its_machine_looks(files, capsys):
    here = files[0]
    text = " ".join(said(capsys, "import", *files).split())
    assert "1 problems of" in text and "2 problems of a, 2 cores, avx2" in text
    assert "they apply on this machine" in text and "they do not apply on this machine: measured on another" in text
    cost_table.load()
    assert cost_table.costs(CONV) == HERE[CONV]
    assert read(path_of(IDENTITY)).all_costs() == TABLE
    assert machine_profile.read(machine_profile.path(cost_table.path)) == PROFILE
    assert not machine_profile.path(path_of(IDENTITY)).exists()
    said(capsys, "import", here)  # changes nothing
    cost_table.load()
    assert cost_table.costs(CONV) == HERE[CONV]


def test_import_adds_to_what_is_there_and_keeps_its_profile(files, capsys):
    here, _ = files
    cost_table.record("reorder 2x3 ab>ba x32 t1", "store", Cost(1e-7, 2e-7, 3e-8, 100))
    cost_table._write(1.0)
    machine_profile.save(machine_profile.path(cost_table.path), PROFILE._replace(run=5.0))
    said(capsys, "import", here)
    cost_table.load()
    assert cost_table.problems() == [CONV, "reorder 2x3 ab>ba x32 t1"]
    assert machine_profile.read(machine_profile.path(cost_table.path)).run == 5.0


def test_export_brings_the_profile_along(files, tmp_path, capsys):
    assert "nothing was measured" in refused(capsys, "export", tmp_path / "out.json")
    said(capsys, "import", files[0])
    cost_table.load()
    out = tmp_path / "out.json"
    assert "1 problems" in said(capsys, "export", out)
    assert read(out).all_costs() == HERE and table_files.profile_of(out) == PROFILE


def test_merge(files, tmp_path, capsys):
    more, out = tmp_path / "more.json", tmp_path / "out.json"
    write(more, {CONV: {"planes c": Cost(3e-3, 3e-3, 1e-5, 9)}, **TABLE}, machine.identity())
    assert "3 problems of 2 tables" in said(capsys, "merge", out, files[0], more)
    assert set(read(out)[CONV]) == {"direct a", "winograd b", "planes c"} and table_files.profile_of(out) == PROFILE
    assert "cannot be one table" in refused(capsys, "merge", out, *files)


def test_show(files, capsys):
    text = said(capsys, "show", files[0])
    work = 2 * 56 * 56 * 64 * 64 * 9 / 1e-3 / 1e9
    assert f"{work:.1f} GFLOP/s" in text and "winograd 100%" in text and "18\n" in text and "applies on this" in text
    assert "copy in memory          64 GB/s" in text and "conv, 1 thread" in text
    assert "does not apply" in said(capsys, "show", files[1])
    facts = json.loads(said(capsys, "show", "--json", files[1]))[0]
    assert facts["machine"] == IDENTITY and ["problems", "2"] in facts["facts"] and facts["profile"] is None


def test_two_side_by_side(files, tmp_path, capsys):
    slower = tmp_path / "slower.json"
    write(slower, {CONV: {"direct a": Cost(2e-3, 2e-3, 1e-5, 9)}}, IDENTITY)
    text = " ".join(said(capsys, "show", files[0], slower).split())
    assert "B takes 2.00 times as long as A; the same candidate is fastest in 0 of 1" in text
    assert "no problem is in both" in said(capsys, "show", *files)


@pytest.mark.parametrize("identity", [{}, {"caches": "abc"}, {"caches": [None], "isa": 3, "cpu": ["x"]}])
def test_identities_of_any_kind_are_shown(identity, tmp_path):
    write(tmp_path / "t.json", {"any thing": {"x": Cost(1e-6, 1e-6, 0.0, 1)}}, identity)
    table = table_summary.Table.read(tmp_path / "t.json")
    assert "does not apply" in list(table_summary.one(table))[-1]


def test_what_is_no_table(cache_dir, tmp_path, capsys):
    assert "nothing was measured" in refused(capsys, "show")
    assert "No such file" in refused(capsys, "show", tmp_path / "no.json")
    (tmp_path / "t.json").write_text("[]")
    assert "t.json: not a layoutkit cost table" in refused(capsys, "import", tmp_path / "t.json")
    assert "one or two tables" in refused(capsys, "show", *["a"] * 3)
