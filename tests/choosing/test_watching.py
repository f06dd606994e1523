"""What executed calls tell to those that watch, and that they tell nobody otherwise."""

import itertools
import json
import subprocess
import sys
import threading

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.choosing import verbose, watching
from layoutkit.choosing.watching import CallInfo, Event, watched

X = np.ones((1, 16, 8, 8), np.float32)
W = np.ones((16, 16, 3, 3), np.float32)
DY = np.ones((1, 16, 6, 6), np.float32)
SQUARE = np.ones((8, 8), np.float32)

CALLS = {
    "reorder": lambda: lk.reorder(X, "NCHW", "NHWC"),
    "reorder by a tensor": lambda: lk.Tensor(X, "NCHW").to("NHWC"),
    "reorder that converts": lambda: lk.reorder(X, "NCHW", "NHWC", dtype="int8", scale=0.5),
    "reorder in place": lambda: lk.reorder(SQUARE, "ab", "ba", out=SQUARE.view()),
    "reorder of a box": lambda: lk.reorder(X, "NCHW", "NHWC", region=(None, (1, 9), None, None)),
    "conv2d": lambda: lk.conv2d(X, W),
    "conv1d": lambda: lk.conv1d(X[..., 0], W[..., 0]),
    "conv3d": lambda: lk.conv3d(X[..., None], W[..., None]),
    "conv_transpose2d": lambda: lk.conv_transpose2d(X, W, stride=2),
    "max_pool2d": lambda: lk.max_pool2d(X, 2),
    "avg_pool2d": lambda: lk.avg_pool2d(X, 2),
    "batch_norm": lambda: lk.batch_norm(X),
    "grad.conv2d_weight": lambda: lk.grad.conv2d_weight(X, W.shape, DY),
    "grad.conv2d_input": lambda: lk.grad.conv2d_input(X.shape, W, DY),
    "grad.conv_transpose2d_input": lambda: lk.grad.conv_transpose2d_input(DY.shape, W, X),
    "grad.conv2d_bias": lambda: lk.grad.conv2d_bias(DY),
    "grad.max_pool2d_input": lambda: lk.grad.max_pool2d_input(X, X[..., :4, :4], 2),
    "grad.avg_pool2d_input": lambda: lk.grad.avg_pool2d_input(X.shape, X[..., :4, :4], 2),
    "grad.batch_norm": lambda: lk.grad.batch_norm(X, X),
    "grad.activation_input": lambda: lk.grad.activation_input(X, X, "relu"),
}


def test_nobody_watches():
    assert watching.watchers == []


@pytest.mark.parametrize("name", CALLS)
def test_each_operation_tells_of_one_call(cache_dir, name):
    operation = name.partition(" ")[0]
    with lk.profile() as p:
        CALLS[name]()
    ran = [e for e in p.events if e.operation not in ("pack", "reorder")] or p.events
    assert [e.operation for e in ran] == [operation]
    (event,) = ran
    assert event.problem and event.candidate and event.threads >= 1 and event.seconds > 0
    assert event.thread == threading.get_ident()
    CALLS[name]()
    assert len(p.events) == len({id(e) for e in p.events}) and p.events[-1] is event, "seen after it ended"


def test_what_is_told_is_what_was_planned(cache_dir):
    plan, op = lk.plan(lk.reorder, X, "NCHW", "NHWC", threads=1), lk.Conv2d(W, threads=1)
    with lk.profile() as p:
        lk.reorder(X, "NCHW", "NHWC", threads=1)
        op(X)
        op(X)
    moved, packed, first, second = p.events
    assert moved[:4] == ("reorder", plan.title, plan.choices[0].candidate.name, 1)
    best = op.plan(X.shape)
    assert first[:4] == second[:4] == ("conv2d", best.title, best.choices[0].candidate.name, 1)
    assert packed[:2] == ("pack", "filter o16 c16 k3x3 g1 f32")
    assert moved.start <= packed.start <= first.start and first.start + first.seconds <= second.start


def test_results_are_the_same_while_watched():
    want = lk.conv2d(X, W, padding=1), lk.reorder(X, "NCHW", "nChw8c")
    with lk.profile():
        got = lk.conv2d(X, W, padding=1), lk.reorder(X, "NCHW", "nChw8c")
    for a, b in zip(want, got):
        np.testing.assert_array_equal(a, b)


def test_calls_that_fail_are_not_told_and_break_nothing():
    def fail():
        raise MemoryError

    with lk.profile() as p:
        with pytest.raises(MemoryError):
            watched(lambda: CallInfo("a", "b", "c", 1), fail)
        with pytest.raises(ValueError):
            lk.reorder(X, "NCHW", "OIHW")
        assert watched(lambda: CallInfo("a", "b", "c", 1), int, "3") == 3
    assert [e.operation for e in p.events] == ["a"]


def test_contexts_nest_and_see_all_threads():
    with lk.profile() as outer:
        lk.reorder(X, "NCHW", "NHWC")
        with lk.profile() as inner:
            workers = [threading.Thread(target=lk.reorder, args=(X, "NCHW", "nChw8c")) for _ in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        lk.reorder(X, "NCHW", "NHWC")
    assert len(inner.events) == 4 and len(outer.events) == 6
    assert all(e in outer.events for e in inner.events)
    assert threading.get_ident() not in {e.thread for e in inner.events}
    with inner:
        lk.reorder(X, "NCHW", "NHWC")
        with pytest.raises(RuntimeError, match="profile: this one is entered already"):
            inner.__enter__()
    assert len(inner.events) == 5 and watching.watchers == []


def recorded(*events):
    p = lk.profile()
    p.events += [Event(*e, 7) for e in events]
    return p


def test_the_table_is_by_operation_and_problem():
    p = recorded(("conv2d", "one", "a", 1, 10.0, 0.002), ("reorder", "two", "b", 2, 11.0, 0.006),
                 ("conv2d", "one", "a", 1, 12.0, 0.002))  # fmt: skip
    assert str(p).splitlines() == [
        "operation   calls   total ms   mean ms  share  problem",
        "reorder         1      6.000    6.0000  60.0%  two",
        "conv2d          2      4.000    2.0000  40.0%  one",
        "all             3     10.000    3.3333 100.0%",
    ]
    assert repr(p) == "Profile(3 calls, 10.000 ms)"
    assert str(recorded()) == "no calls"
    assert len(str(recorded(("reorder", "x" * 999, "a", 1, 0.0, 0.0))).splitlines()[1]) < 200


def test_the_trace_is_chromes(tmp_path):
    p = recorded(("conv2d", "one", "a", 1, 10.0, 0.002), ("reorder", "two", "b", 2, 11.0, 0.006))
    trace = json.loads(p.save(tmp_path / "trace.json").read_text())["traceEvents"]
    assert [(e["ph"], e["name"], e["tid"]) for e in trace] == [("X", "conv2d", 7), ("X", "reorder", 7)]
    assert [e["ts"] for e in trace] == [0, 1e6] and [round(e["dur"]) for e in trace] == [2000, 6000]
    assert trace[1]["args"] == {"problem": "two", "candidate": "b", "threads": 2}
    assert json.loads(recorded().save(tmp_path / "none.json").read_text())["traceEvents"] == []
    with pytest.raises(FileNotFoundError, match=r"profile.save: No such file or directory: '.*/nowhere/t.json'"):
        p.save(tmp_path / "nowhere" / "t.json")


# ---- LAYOUTKIT_VERBOSE


def run(program, **environment):
    import os

    return subprocess.run([sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True)


PROGRAM = """
import numpy as np, layoutkit as lk
x, w = np.ones((1, 16, 8, 8), np.float32), np.ones((16, 16, 3, 3), np.float32)
op = lk.Conv2d(w, padding=1, threads=1)
for _ in range(2):
    lk.reorder(x, "NCHW", "NHWC", threads=1)
    op(x)
"""


def test_verbose_is_a_line_a_call(cache_dir):
    told = run(PROGRAM, LAYOUTKIT_VERBOSE="1")
    assert told.returncode == 0 and not told.stdout
    info, fields, *lines = [line.split(",") for line in told.stderr.splitlines()]
    assert info[:3] == ["layoutkit", "info", lk.__version__] and len(info) == 5
    assert fields == ["layoutkit", "info", "exec", "operation", "problem", "candidate", "threads", "microseconds"]
    assert [line[:3] for line in lines] == [
        ["layoutkit", "exec", what] for what in ("reorder", "pack", "conv2d", "reorder", "conv2d")
    ]
    assert lines[0][3] == "reorder 1x16x8x8 NCHW>NHWC x32 t1" and lines[0][5] == "1"
    assert "p1+1;1+1" in lines[2][3]
    assert all(len(line) == 7 and float(line[6]) >= 0 for line in lines)


@pytest.mark.parametrize("value", ["", "0"])
def test_verbose_is_off_by_default(cache_dir, value):
    told = run(PROGRAM, LAYOUTKIT_VERBOSE=value)
    assert told.returncode == 0 and not told.stderr


def test_verbose_refuses_other_values():
    assert "LAYOUTKIT_VERBOSE='yes': expected 0 or 1" in run("import layoutkit", LAYOUTKIT_VERBOSE="yes").stderr


def test_a_line_has_the_fields_that_it_says(capsys):
    tell = verbose.Verbose()
    for i in range(2):
        tell(Event("conv2d", "p1+1,1+1", "winograd F(4,3)", 2, float(i), 12.34e-6, 7))
    _, fields, *lines = capsys.readouterr().err.splitlines()
    assert lines == ["layoutkit,exec,conv2d,p1+1;1+1,winograd F(4;3),2,12.3"] * 2
    assert len(fields.split(",")) == len(lines[0].split(",")) + 1


def test_verbose_says_nothing_where_there_is_no_stderr(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    verbose.Verbose()(Event("a", "b", "c", 1, 0.0, 0.0, 1))


def test_a_network_tells_of_its_steps():
    onnx = pytest.importorskip("onnx", reason="the extra onnx")
    h, f32 = onnx.helper, onnx.TensorProto.FLOAT
    w = onnx.numpy_helper.from_array(np.ones((8, 3, 3, 3), np.float32), "w")
    nodes = [
        h.make_node("Conv", ["x", "w"], ["a"]),
        h.make_node("MaxPool", ["a"], ["y"], kernel_shape=[2, 2]),
    ]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", f32, [1, 3, 8, 8])],
                         [h.make_tensor_value_info("y", f32, None)], [w])  # fmt: skip
    model = lk.onnx.load(h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10))
    x = np.ones((1, 3, 8, 8), np.float32)
    model.run(x)
    with lk.profile() as p:
        model.run(x)
    assert len(p.events) == len(model.profile(x))
    assert {"network Conv", "network MaxPool"} <= {e.operation for e in p.events}
    assert all(a.start + a.seconds <= b.start for a, b in itertools.pairwise(p.events))
