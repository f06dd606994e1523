"""``python -m layoutkit run``."""

import re

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.__main__ import main
from layoutkit.graph import command
from layoutkit.graph.page import by_operator, page, table
from layoutkit.graph.report import Profile

onnx = pytest.importorskip("onnx", reason="the extra onnx")


@pytest.fixture
def path(tmp_path):
    h, f32 = onnx.helper, onnx.TensorProto.FLOAT
    w = onnx.numpy_helper.from_array(np.ones((8, 3, 3, 3), np.float32), "w")
    nodes = [h.make_node("Conv", ["file", "w"], ["a"], name="<first>"), h.make_node("Relu", ["a"], ["y"])]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("file", f32, ["N", 3, 8, 8])],
                         [h.make_tensor_value_info("y", f32, None)], [w])  # fmt: skip
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10), str(tmp_path / "m.onnx"))
    return tmp_path / "m.onnx"


def test_run_tells_time_and_layouts(path, capsys):
    assert main(["run", str(path), "--threads", "1", "--rounds", "2", "--shape", "file=2x3x8x8"]) == 0
    told = capsys.readouterr().out
    assert "ms a run, median of 2" in told and "all channels last" in told and "Conv" in told


def test_run_takes_files_and_writes_a_page(path, tmp_path, capsys, cache_dir):
    np.save(tmp_path / "x.npy", np.ones((1, 3, 8, 8), np.float32))
    wanted = tmp_path / "page.html"
    arguments = ["--input", f"file={tmp_path / 'x.npy'}", "--html", str(wanted), "--explain", "--rounds", "1"]
    assert main(["run", str(path), *arguments]) == 0
    told = capsys.readouterr().out
    assert "&lt;first&gt;" in wanted.read_text() and "<first>" in told
    text = wanted.read_text()
    assert re.search(r"<span>Conv &lt;first&gt;</span>.*?<span class=quiet>1x3x8x8 &gt; 1x8x6x6, \w+", text), (
        "shapes, how"
    )
    assert "Choices rest on estimates: run it once with --tune" in text and "what to do: " in told
    assert not any(word in text for word in ("<link", "<script", "src=", "@import")), "nothing is fetched or run"
    assert "costs measured at other times" in told
    assert "convolutions" in told and "slowest:" in told and "1 Conv of Conv Relu" in told


def test_run_tunes(path, capsys):
    before = lk.tuning()
    try:
        assert main(["run", str(path), "--tune", "--threads", "1", "--rounds", "1", "--shape", "file=1x3x8x8"]) == 0
        assert lk.tuning() == "measure"
    finally:
        lk.tuning(before)


def test_run_compares(path, capsys):
    pytest.importorskip("onnxruntime", reason="the extra compare")
    assert main(["run", str(path), "--compare", "onnxruntime", "--threads", "1", "--rounds", "2"]) == 0
    told = capsys.readouterr().out
    assert "times as long; results differ by" in told and "ms before that and" in told


def test_comparisons_of_minutes_that_are_not_equally_quiet_say_so():
    assert command._steady(1e-3, 1.05e-3) == "layoutkit took 1.000 ms before that and 1.050 ms after"
    for pair in ((1e-3, 2e-3), (2e-3, 1e-3)):
        assert command._steady(*pair).endswith("the minutes were not equally quiet, compare again")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "z=1x3"], "'z' is no input; the inputs are file"),
        (["--shape", "file"], "expected NAME=VALUE"),
        (["--shape", "file=1xax3"], "invalid literal"),
        (["--shape", "file=1x3"], "expected 4 axes"),
        (["--input", "file=/nowhere.npy"], "No such file"),
        (["--threads", "0"], "expected a positive number"),
    ],
)
def test_wrong_arguments(path, capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), *arguments])
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_what_is_no_model(tmp_path, capsys):
    (tmp_path / "m.onnx").write_text("nothing")
    with pytest.raises(SystemExit):
        main(["run", str(tmp_path / "m.onnx")])
    assert "this is no ONNX model" in capsys.readouterr().err


def test_profiles_add_up():
    profile = [("Conv", "a", 0.5), ("Relu", "b", 0.25), ("Conv", "c", 0.25)]
    assert by_operator(profile) == [("Conv", 2, 0.75), ("Relu", 1, 0.25)]
    assert "75.0%" in next(table(profile))
    assert page("t", [], "m", "s", Profile([], {}, 1)).startswith("<!doctype html>")


def test_run_takes_the_fastest_type(path, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((3, 3, 8, 8), np.float32))
    arguments = ["--dtype", "auto", "--samples", str(tmp_path / "x.npy"), "--tolerance", "0.5", "--rounds", "1"]
    assert main(["run", str(path), *arguments]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^type: (\w+), by measurement: float32 .* ms, error 0.0e\+00; bfloat16 .* ms, error", told)


@pytest.mark.parametrize(
    "arguments, wrong",
    [
        (["--dtype", "auto"], "give it inputs like yours, --samples FILE.npz"),
        (["--dtype", "bfloat16", "--tolerance", "0.1"], "are for --dtype auto, got --dtype bfloat16"),
        (["--samples", "x.npz"], "are for --dtype auto, got --dtype float32"),
        (["--dtype", "auto", "--samples", "none.npz"], "none.npz"),
    ],
)
def test_run_says_what_a_type_needs(path, capsys, arguments, wrong):
    with pytest.raises(SystemExit):
        main(["run", str(path), *arguments])
    assert wrong in capsys.readouterr().err
