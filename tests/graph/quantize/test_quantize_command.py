"""``python -m layoutkit quantize``, and the page that it writes."""

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.__main__ import main

onnx = pytest.importorskip("onnx", reason="the extra onnx")

from onnx_networks import Network  # noqa: E402


@pytest.fixture
def files(tmp_path):
    n = Network(0, x=("N", 3, 6, 6))
    y = n.add("Conv", n.add("Relu", n.add("Conv", "x", n.filter(8, 3, 3, 3), name="<first>")), n.filter(4, 8, 3, 3))
    onnx.save(n.model(y), tmp_path / "m.onnx")
    x = n.rng.standard_normal((5, 3, 6, 6)).astype(np.float32)
    np.savez(tmp_path / "s.npz", x=x)
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object))
    whole = (tmp_path / "s.npz").read_bytes()
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "damaged.npz").write_bytes(whole[:200] + bytes(50) + whole[250:])
    np.save(tmp_path / "s.npy", x)
    return tmp_path, x


def test_it_writes_a_model_and_a_page(files, capsys):
    folder, x = files
    page = folder / "p.html"
    assert main(["quantize", str(folder / "m.onnx"), "--samples", str(folder / "s.npz"), "--html", str(page),
                 "--threads", "1"]) == 0  # fmt: skip
    told = capsys.readouterr()
    assert "2 of 2 layers multiply int8" in told.out and str(folder / "m.int8.onnx") in told.out and not told.err
    lk.onnx.load(folder / "m.int8.onnx", threads=1).run(x)
    text = page.read_text()
    assert "Conv &lt;first&gt; (int8)" in text and "ms in float32" in text and text.count("<tr>") == 3
    assert not any(word in text for word in ("<link", "<script", "src=", "@import")), "nothing is fetched or run"


def test_its_options(files, capsys):
    folder, _ = files
    given = ["quantize", str(folder / "m.onnx"), "--samples", str(folder / "s.npy"), "--threads", "1"]
    more = ["--output", str(folder / "o.onnx"), "--method", "percentile", "--percentile", "99", "--tolerance", "0"]
    assert main([*given, *more]) == 0
    assert "0 of 2 layers" in capsys.readouterr().out and (folder / "o.onnx").exists()
    assert main([*given, "--by-time", "--method", "entropy", "--tolerance", "1"]) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--samples": "none.npz"}, "No such file"),
        ({"--samples": "empty.npz"}, "expected a file of numpy.savez or numpy.save"),
        ({"--samples": "cut.npz"}, "expected a file of numpy.savez or numpy.save"),
        ({"--samples": "damaged.npz"}, "expected a file of numpy.savez or numpy.save"),
        ({"--samples": "objects.npz"}, "expected a file of numpy.savez or numpy.save"),
        ({"--samples": "m.onnx"}, "expected a file of numpy.savez or numpy.save"),
        ({"--samples": "s.npz", "--tolerance": "-1"}, "tolerance: expected a number from 0 on, got -1"),
        ({"--samples": "s.npz", "--threads": "0"}, "threads"),
    ],
)
def test_wrong_arguments(files, capsys, changes, message):
    folder, _ = files
    changes["--samples"] = str(folder / changes["--samples"])
    with pytest.raises(SystemExit) as ended:
        main(["quantize", str(folder / "m.onnx"), *(text for pair in changes.items() for text in pair)])
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_notebooks_show_a_table(files):
    folder, x = files
    q = lk.quantize(folder / "m.onnx", x, threads=1)
    assert q._repr_html_().count("<tr>") == 3 and "Conv &lt;first&gt;" in q._repr_html_()
    assert all(layer.seconds > 0 and layer.float_seconds > 0 for layer in q.layers) and q.seconds > 0
