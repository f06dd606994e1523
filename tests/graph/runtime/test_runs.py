"""Runs of programs: many at once, steps of Python among operations, signals, and where outputs lie."""

import os
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pytest
from oracle.network import evaluate

import layoutkit as lk
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators.base import OPERATORS, Follows, Operator, same_shape
from layoutkit.graph.runtime.runs import CORES

F32 = np.dtype(np.float32)
W = np.random.default_rng(0).normal(size=(16, 16, 3, 3)).astype(np.float32) / 12
POOL = {"kernel_shape": [2, 2], "strides": [1, 1]}


@pytest.fixture
def of_python():
    """Gives an operator a name for the time of the test: it has no kernel."""

    def named(name, function):
        OPERATORS[name] = Operator(name, Follows.SOURCE, function, same_shape)

    before = dict(OPERATORS)
    yield named
    OPERATORS.clear()
    OPERATORS.update(before)


def conv(x, y):
    return Node("Conv", (x, "w"), (y,), {"pads": [1, 1, 1, 1]})


def graph_of(nodes, outputs, image=("n", 16, "h", "h"), **constants):
    return Graph(nodes, {"x": TensorType(F32, image)}, outputs, {"w": W, **constants})


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def check(graph, x, **options):
    model = Model(graph, **options)
    want = evaluate(graph, {"x": x})
    for _ in range(2):
        got = model.run(x)
        assert list(got) == list(graph.outputs)
        for name in graph.outputs:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5)
            assert got[name].shape == want[name].shape and got[name].dtype == want[name].dtype
    return got


def misaligned(x):
    room = np.empty(x.nbytes + 1, np.uint8)
    array = room[1:].view(x.dtype).reshape(x.shape)
    array[...] = x
    return array


class OtherArray(np.ndarray):
    pass


@pytest.mark.parametrize("outputs", [("y",), ("y", "b"), ("c",), ("x", "y"), ("y", "r")])
def test_run_after_run(outputs):
    """The short way, where all steps are compiled, takes only what needs no conversion; all else goes the long one."""
    nodes = [
        conv("x", "a"), Node("Concat", ("x", "a"), ("b",), {"axis": 1}), Node("MaxPool", ("a",), ("y",), POOL),
        Node("Reshape", ("y", "shape"), ("r",)), Node("Identity", ("k",), ("c",)),
    ]  # fmt: skip
    graph = graph_of(nodes, outputs, (1, 16, "h", "h"), shape=np.array([1, 16, -1]), k=np.ones(3, np.float32))
    model = Model(graph, threads=2)
    for seed, size in enumerate((8, 8, 5)):
        x = numbers(1, 16, size, size, seed=seed)
        as_it_is = {"x": x}, x, {"x": x[:, :, ::-1][:, :, ::-1]}
        others = (
            {"x": np.asfortranarray(x)},
            {"x": misaligned(x)},
            {"x": x.view(OtherArray)},
            MappingProxyType({"x": x}),
        )
        want = evaluate(graph, {"x": x})
        model.run(x)
        for inputs in (*as_it_is, *others):
            short = model._recent.run_again(inputs)
            assert (short is not None) == (outputs in {("y",), ("y", "b")} and any(inputs is each for each in as_it_is))
            for got in (short, model.run(inputs)) if short is not None else (model.run(inputs),):
                assert list(got) == list(outputs)
                for name in outputs:
                    np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5)
                    assert not np.shares_memory(got[name], x)
    for wrong, kind in (({"x": x.astype(np.float64)}, TypeError), ({"x": x[0]}, ValueError), ({}, ValueError),
                        ({"x": x, "z": x}, ValueError), ({"z": x}, ValueError), (None, TypeError)):  # fmt: skip
        with pytest.raises(kind):
            model.run(wrong)


def test_many_threads(of_python):
    """Each run has arrays of its own, also those that steps of Python leave, and views of them."""
    of_python("OfPython", lambda inputs, attributes: [inputs[0][::-1].copy()[::-1]])
    nodes = [
        conv("x", "a"), Node("OfPython", ("a",), ("b",)), Node("Reshape", ("b", "shape"), ("r",)),
        Node("OfPython", ("b",), ("c",)), conv("c", "d"), Node("MaxPool", ("d",), ("y",), POOL),
    ]  # fmt: skip
    graph = graph_of(nodes, ("y", "r"), (1, 16, "h", "h"), shape=np.array([1, 16, -1]))
    model = Model(graph, threads=2)
    inputs = [numbers(1, 16, size, size, seed=size) for size in (3, 5, 8)]
    wants = [evaluate(graph, {"x": x}) for x in inputs]
    failed = []

    def caller(which):
        for i in range(30):
            at = (which + i) % 3
            got = model.run(inputs[at])
            for name, want in wants[at].items():
                if not np.allclose(got[name], want, rtol=1e-4, atol=1e-5):
                    failed.append((which, i, name))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(caller, range(6)))
    assert not failed


def test_more_runs_than_processors_and_few_idle_arenas(of_python):
    met = threading.Barrier(CORES + 1, timeout=60)  # broken, if so many never run at the same time
    of_python("Meet", lambda inputs, attributes: (met.wait(), [inputs[0]])[1])
    graph = graph_of([conv("x", "a"), Node("Meet", ("a",), ("b",)), conv("b", "y")], ("y",))
    model, x = Model(graph, threads=1), numbers(1, 16, 8, 8)
    with ThreadPoolExecutor(CORES + 1) as pool:
        results = list(pool.map(lambda _: model.run(x)["y"], range(CORES + 1)))
    assert all(np.array_equal(y, results[0]) for y in results)
    (program,) = model._programs.values()
    assert 1 <= len(program._runs._idle) <= CORES


def test_errors_of_python_steps(of_python):
    """The run that fails leaves memory that the next one uses."""
    fails = [False]

    def function(inputs, attributes):
        if fails[0]:
            raise ZeroDivisionError("no")
        return [inputs[0] + 1]

    of_python("OfPython", function)
    graph = graph_of([conv("x", "a"), Node("OfPython", ("a",), ("b",)), conv("b", "y")], ("y",))
    model, x = Model(graph), numbers(1, 16, 6, 6)
    want = model.run(x)["y"]
    fails[0] = True
    with pytest.raises(ValueError, match=r"OfPython.*no"):
        model.run(x)
    fails[0] = False
    np.testing.assert_array_equal(model.run(x)["y"], want)


@pytest.mark.parametrize(("result", "text"), [
    (lambda x: x[:, :1], r"OfPython b: 'b' is float32 \(1, 1, 6, 6\), expected float32 \(1, 16, 6, 6\)"),
    (lambda x: x.astype(np.float64), "is float64"),
])  # fmt: skip
def test_results_of_python_that_operations_cannot_read(of_python, result, text):
    of_python("OfPython", lambda inputs, attributes: [result(inputs[0])])
    graph = graph_of([Node("OfPython", ("x",), ("b",)), conv("b", "y")], ("y",))
    with pytest.raises(ValueError, match=text):
        Model(graph).run(numbers(1, 16, 6, 6))


@pytest.mark.parametrize("view", [
    lambda x: x.swapaxes(2, 3), lambda x: x[..., ::-1], lambda x: np.broadcast_to(x[:, :1], x.shape), lambda x: x,
    lambda x: np.frombuffer(b"0" + x.tobytes(), x.dtype, x.size, 1).reshape(x.shape),
])  # fmt: skip
def test_views_that_python_leaves(of_python, view):
    """They are views of buffers, which live as long, or of the input; operations read them in one piece."""
    of_python("OfPython", lambda inputs, attributes: [view(inputs[0])])
    nodes = [
        Node("OfPython", ("x",), ("a",)), conv("a", "b"), Node("OfPython", ("b",), ("c",)), conv("b", "d"),
        conv("c", "e"), conv("e", "f"), Node("Add", ("f", "c"), ("g",)), conv("g", "h"),
    ]  # fmt: skip
    check(graph_of(nodes, ("h", "c", "d")), numbers(2, 16, 5, 5))


def test_what_operations_read_of_python_is_kept(of_python):
    """Nothing else than the run refers to it."""
    of_python("OfPython", lambda inputs, attributes: [np.asfortranarray(inputs[0] * 2)])
    nodes = [
        Node("OfPython", ("x",), ("a",)),
        Node("OfPython", ("a",), ("b",)),
        conv("a", "c"),
        Node("Add", ("c", "b"), ("y",)),
    ]
    check(graph_of(nodes, ("y",)), numbers(4, 16, 20, 20))


def test_where_outputs_lie():
    """New arrays, which share memory with nothing, though they are inputs, constants, parts or views of one another."""
    axes = np.array([0, -1])
    nodes = [
        conv("x", "a"), Node("Reshape", ("a", "axes"), ("b",)), Node("Reshape", ("x", "axes"), ("c",)),
        Node("Identity", ("b",), ("d",)), Node("Split", ("a",), ("e", "f"), {"axis": 1, "count": 2}), conv("a", "g"),
        Node("Concat", ("g", "a"), ("h",), {"axis": 1}), Node("Flatten", ("g",), ("i",)),
    ]  # fmt: skip
    outputs = ("x", "w", "a", "b", "c", "d", "e", "f", "g", "h", "i")
    for layouts in (None, "plain", "channels last"):
        x = numbers(2, 16, 4, 4)
        got = check(graph_of(nodes, outputs, axes=axes), x, layouts=layouts)
        arrays = [x, W, *got.values()]
        for i, array in enumerate(arrays):
            assert i < 2 or (array.flags.c_contiguous and array.flags.writeable)
            assert not any(np.shares_memory(array, other) for other in arrays[:i])


def test_views_cost_no_step_of_python():
    nodes = [
        conv("x", "a"), Node("Reshape", ("a", "shape"), ("b",)), Node("Squeeze", ("b", "first"), ("c",)),
        Node("Unsqueeze", ("c", "first"), ("d",)), Node("Transpose", ("d",), ("e",), {"perm": [1, 0, 2, 3]}),
        Node("Reshape", ("e", "back"), ("f",)), conv("f", "y"),
    ]  # fmt: skip
    constants = dict(shape=np.array([1, 16, 6, 6]), first=np.array([0]), back=np.array([1, 16, 6, 6]))
    graph, x = graph_of(nodes, ("y",), (1, 16, 6, 6), **constants), numbers(1, 16, 6, 6)
    check(graph, x)
    program = Model(graph).planned(x)[0]
    assert not any(step.call for step in program.steps)


def test_profile_sees_every_step(of_python):
    of_python("OfPython", lambda inputs, attributes: [inputs[0] + 1])
    nodes = [conv("x", "a"), Node("OfPython", ("a",), ("b",)), Node("Flatten", ("b",), ("y",))]
    model, x = Model(graph_of(nodes, ("y",))), numbers(1, 16, 6, 6)
    ops = [step.op for step in model.planned(x)[0].steps]
    rows = model.profile(x, rounds=2)
    assert [op for op, _, _ in rows] == ops and all(0 <= seconds < 60 for *_, seconds in rows)
    with lk.profile() as p:
        model.run(x)
    assert [e.operation for e in p.events] == [f"network {op}" for op in ops]
    ends = [e.start + e.seconds for e in p.events]
    assert all(end <= e.start for end, e in zip(ends, p.events[1:]))


def test_profiles_of_conversions(of_python):
    """Tensors that steps bring to another type have no name of their own in the graph."""
    of_python("OfPython", lambda inputs, attributes: [inputs[0] + 1])
    nodes = [conv("x", "a"), Node("OfPython", ("a",), ("b",)), conv("b", "y")]
    model, x = Model(graph_of(nodes, ("y",)), dtype="bfloat16"), numbers(1, 16, 6, 6)
    profile = model.profile(x)
    assert any("as bfloat16" in name for _, name, _ in profile) and str(profile)


@pytest.mark.parametrize("layouts", [None, "channels last", "blocked"])
def test_empty_tensors(layouts):
    nodes = [
        conv("x", "a"), Node("MaxPool", ("a",), ("b",), {"kernel_shape": [1, 1]}),
        Node("Concat", ("a", "b"), ("c",), {"axis": 1}),
        Node("Split", ("c",), ("d", "e"), {"axis": 1, "count": 2}), Node("Relu", ("e",), ("f",)),
        Node("Flatten", ("f",), ("y",)),
    ]  # fmt: skip
    check(graph_of(nodes, ("y", "d")), numbers(0, 16, 4, 4), layouts=layouts)


def test_inputs_that_are_not_aligned():
    x = numbers(1, 16, 6, 6)
    shifted = np.frombuffer(b"0" + x.tobytes(), x.dtype, x.size, 1).reshape(x.shape)
    assert not shifted.flags.aligned
    model = Model(graph_of([conv("x", "y")], ("y",)))
    np.testing.assert_array_equal(model.run(shifted)["y"], model.run(x)["y"])


class Signal(Exception):
    """Raised by the handler."""


def long():
    """A network of some tenths of a second, after which Python notes that it has ended."""
    names = ["x", *(f"t{i}" for i in range(80))]
    nodes = [conv(a, b) for a, b in pairwise(names)]
    return graph_of([*nodes, Node("OfPython", (names[-1],), ("y",))], ("y",), (8, 16, 128, 128))


@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
def test_signals(of_python, threads):
    """A handler runs between steps of a network, in the main thread; runs of other threads go on."""
    ended = []
    of_python("OfPython", lambda inputs, attributes: ended.append(threading.get_ident()) or [inputs[0]])
    model, x = Model(long(), threads=threads), numbers(8, 16, 128, 128)
    model.planned(x)

    def handler(*_):
        raise Signal

    before = signal.signal(signal.SIGALRM, handler)
    other = threading.Thread(target=model.run, args=(x,))
    try:
        other.start()
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        with pytest.raises(Signal):
            model.run(x)
        assert threading.get_ident() not in ended
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        other.join()
    assert ended == [other.ident]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_in_the_child_of_a_fork():
    model, x = Model(graph_of([conv("x", "a"), conv("a", "y")], ("y",)), threads=2), numbers(1, 16, 40, 40)
    want = model.run(x)["y"]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = int(not np.array_equal(model.run(x)["y"], want))
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_results_of_python_are_freed_once_they_have_been_used(of_python):
    """Those that operations read, and those that only Python reads; views of them keep them."""
    made, most = [], []

    def twice(inputs, attributes):
        made.append(2 * inputs[0])
        made[-1] = weakref.ref(made[-1]), made[-1]
        reference, result = made.pop()
        made.append(reference)
        most.append(sum(each() is not None for each in made))
        return [result]

    of_python("Twice", twice)
    nodes = [Node("Twice", ("x",), ("a",)), Node("Relu", ("a",), ("b",)), Node("Twice", ("b",), ("c",)),
             Node("Twice", ("c",), ("d",)), Node("Flatten", ("d",), ("e",)), Node("Twice", ("e",), ("f",)),
             Node("Relu", ("f",), ("g",)), Node("Twice", ("g",), ("h",)), Node("Relu", ("h",), ("y",))]  # fmt: skip
    x = np.ones((1, 8, 6, 6), np.float32)
    model = Model(Graph(nodes, {"x": TensorType(F32, x.shape)}, ("y",), {}), threads=1)
    for _ in range(2):
        made.clear()
        np.testing.assert_array_equal(model.run(x)["y"], np.full((1, 288), 32, np.float32))
    assert max(most) == 2
