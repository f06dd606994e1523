"""Planning takes work in proportion to a network: what is counted at one size about doubles at twice that size."""

import os
import sys
import tracemalloc

import numpy as np
import pytest

import layoutkit.graph
from layoutkit.choosing.best import choices
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.layout import assign, costs, problem
from layoutkit.graph.layout.costs import Costs
from layoutkit.graph.layout.plan import choose_layouts
from layoutkit.graph.model import Model
from layoutkit.graph.passes.fold import folded
from layoutkit.graph.passes.narrow import keep_narrow
from layoutkit.graph.shapes import infer

F32 = np.dtype(np.float32)
SHAPE = 1, 8, 4, 4
HERE = os.path.dirname(layoutkit.graph.__file__) + os.sep
MOST = 2.1  # times the work at half the size


def graph(nodes, outputs=None, constants=None):
    last = nodes[-1].outputs if outputs is None else outputs
    return Graph(nodes, {"x": TensorType(F32, SHAPE)}, tuple(last), constants or {})


def filters(count, taps=1, channels=8):
    rng = np.random.default_rng(0)
    return {f"w{i}": rng.uniform(-1, 1, (channels, 8, taps, taps)).astype(np.float32) for i in range(count)}


def chain(n):
    """Operators with kernels and without, so that results are views of results for all that is known."""
    ops = "Neg", "Relu", "Sigmoid", "Identity"
    return graph([Node(ops[i % 4], (f"t{i - 1}" if i else "x",), (f"t{i}",)) for i in range(n)])


def affine(n):
    """Products and sums with a number a channel."""
    constants = {f"c{i}": np.full((1, 8, 1, 1), 1 + i / n, np.float32) for i in range(n)}
    nodes = []
    for i in range(n):
        before, op = f"t{i - 1}" if i else "x", ("Mul", "Add", "Tanh")[i % 3]
        nodes.append(Node(op, (before, f"c{i}")[: 1 if op == "Tanh" else 2], (f"t{i}",)))
    return graph(nodes, constants=constants)


def outputs(n):
    """One input, added to itself, is every output."""
    nodes = [Node("Add", ("x", "x"), (f"t{i}",)) for i in range(n)]
    return graph(nodes, [f"t{i}" for i in range(n)])


def fan(n):
    """One tensor that many read, whose results one reads."""
    names = [f"t{i}" for i in range(n)]
    nodes = [Node("Neg", ("x",), ("y",)), *(Node("Sigmoid", ("y",), (name,)) for name in names)]
    return graph([*nodes, Node("Sum", tuple(names), ("out",))])


def comb(n):
    """One tensor that every node of a chain reads."""
    nodes = [Node("Neg", ("x",), ("y",))]
    return graph([*nodes, *(Node("Mul", ("y", f"t{i - 1}" if i else "x"), (f"t{i}",)) for i in range(n))])


def sums(n):
    """Sums of a chain's tensors with buffers of their own: each may be a view of all before."""
    nodes = []
    for i in range(n // 2):
        nodes += [Node("Relu", ("x",), (f"r{i}",)), Node("Mul", (f"m{i - 1}" if i else "x", f"r{i}"), (f"m{i}",))]
    return graph(nodes)


def nested(n):
    """Tensors that are needed again in the opposite order."""
    half = n // 2
    nodes = [Node("Relu" if i % 2 else "Neg", (f"t{i - 1}" if i else "x",), (f"t{i}",)) for i in range(half)]
    return graph([*nodes, *(Node("Add", (f"t{i}", f"u{i + 1}" if i < half - 1 else "x"), (f"u{i}",))
                            for i in reversed(range(half)))])  # fmt: skip


def residual(n):
    """Blocks of two convolutions, a sum and its limits."""
    nodes, before = [], "x"
    for i in range(n // 5):
        nodes += [
            Node("Conv", (before, "w0"), (f"a{i}",), {"pads": [1] * 4}),
            Node("Relu", (f"a{i}",), (f"b{i}",)),
            Node("Conv", (f"b{i}", "w0"), (f"c{i}",), {"pads": [1] * 4}),
            Node("Add", (f"c{i}", before), (f"d{i}",)),
            Node("Relu", (f"d{i}",), (f"e{i}",)),
        ]
        before = f"e{i}"
    return graph(nodes, constants=filters(1, taps=3))


def branches(n):
    """Blocks of convolutions of one tensor, whose results are joined."""
    nodes, before = [], "x"
    for i in range(n // 4):
        names = f"a{i}", f"b{i}"
        nodes += [Node("Conv", (before, "w0"), (name,), {"pads": [1] * 4}) for name in names]
        nodes += [Node("Concat", names, (f"c{i}",), {"axis": 1}), Node("Conv", (f"c{i}", "v"), (f"d{i}",))]
        before = f"d{i}"
    joined = {"v": np.ones((8, 8, 1, 1), np.float32)}
    return graph(nodes, constants=filters(1, taps=3, channels=4) | joined)


def pools(n):
    """Operators that give what they get in its type, narrow or not."""
    one = {"kernel_shape": [1, 1]}
    return graph([Node("MaxPool", (f"t{i - 1}" if i else "x",), (f"t{i}",), one) for i in range(n)])


def siblings(n):
    """Convolutions of one tap, of one tensor."""
    names = [f"t{i}" for i in range(n)]
    nodes = [Node("Conv", ("x", f"w{i}"), (name,)) for i, name in enumerate(names)]
    return graph([*nodes, Node("Sum", tuple(names), ("out",))], constants=filters(n))


def parts(n):
    """A tensor that is divided, and joined again."""
    cut, made = [f"p{i}" for i in range(n // 2)], [f"t{i}" for i in range(n // 2)]
    nodes = [Node("Conv", ("x", "w"), ("y",)), Node("Split", ("y",), tuple(cut), {"axis": 1})]
    nodes += [Node("Relu", (a,), (b,)) for a, b in zip(cut, made)]
    return graph([*nodes, Node("Concat", tuple(made), ("out",), {"axis": 1})],
                 constants={"w": np.ones((n // 2, 8, 1, 1), np.float32)})  # fmt: skip


FAMILIES = chain, affine, outputs, fan, comb, sums, nested, residual, branches, pools, siblings, parts


def planned(g):
    with np.errstate(all="ignore"):
        Model(g, threads=1).run(np.ones(SHAPE, np.float32))


def lines_of(run):
    """The lines of this room's code that run: a loop counts as often as it goes around."""
    found = 0

    def inside(frame, event, argument):
        nonlocal found
        found += event == "line"
        return inside

    def trace(frame, event, argument):
        return inside if frame.f_code.co_filename.startswith(HERE) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return found


def peak_of(run):
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("family", FAMILIES)
def test_twice_the_network_takes_twice_the_work(family, monkeypatch):
    monkeypatch.setattr(problem, "MAX_ROUNDS", 0)  # how many there are depends on costs
    small, large = family(100), family(200)
    planned(small), planned(large)  # what processes learn once
    assert lines_of(lambda: planned(large)) <= MOST * lines_of(lambda: planned(small))


@pytest.mark.parametrize("family", FAMILIES)
def test_twice_the_network_takes_twice_the_work_to_be_narrow(family):
    def work(n):
        g = family(n)
        known = infer(g, {"x": SHAPE})
        g = folded(g, known)
        return lines_of(lambda: keep_narrow(g, known, "bfloat16"))

    assert work(200) <= MOST * work(100)


@pytest.mark.parametrize("family", [outputs, sums])
def test_memory_grows_as_the_network_does(family):
    small, large = family(80), family(320)
    planned(small), planned(large)
    assert peak_of(lambda: planned(large)) <= 4 * 1.3 * peak_of(lambda: planned(small))


@pytest.mark.parametrize("family", FAMILIES)
def test_folding_copies_no_table_of_all_tensors_for_a_node(family):
    class Counted(dict):
        looked = 0

        def __iter__(self):
            Counted.looked += len(self)
            return super().__iter__()

        def keys(self):
            Counted.looked += len(self)
            return super().keys()

    g = family(100)
    known = Counted(infer(g, {"x": SHAPE}))
    folded(g, known)
    assert Counted.looked <= 20 * len(known)
    assert {**known} and Counted.looked  # it does count


def entries_of(g, monkeypatch):
    """What all tables of an assignment hold together, and the assignment."""
    made, total = [], assign._total

    def counted(*given):
        made.append(total(*given))
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(assign, "_total", counted)
        found = choose_layouts(g, {"x": SHAPE}, Costs(1, "standard"))
    return sum(f.seconds.size for f in made), found.assigned


@pytest.mark.parametrize("family", [chain, fan, comb, residual, branches])
def test_tables_grow_as_the_network_does_and_the_least_is_found(family, monkeypatch):
    small, _ = entries_of(family(100), monkeypatch)
    large, found = entries_of(family(200), monkeypatch)
    assert large <= MOST * small and found.bound == found.seconds


@pytest.mark.parametrize("ends", [lambda i: (i, i + 1), lambda i: (0, i + 1)], ids=["chain", "star"])
def test_twice_the_variables_take_twice_the_work(ends):
    def work(n):
        factors = [assign.Factor(ends(i), np.arange(9.0).reshape(3, 3) * i) for i in range(n)]
        return lines_of(lambda: assign.solve([3] * (n + 1), factors))

    assert work(400) <= MOST * work(200)


def test_convolutions_that_are_alike_are_asked_about_once(monkeypatch):
    asked = []
    monkeypatch.setattr(costs, "choices", lambda task: asked.append(task) or choices(task))
    planned(residual(50))
    once = len(asked)
    planned(residual(100))
    assert len(asked) == 2 * once
    other = residual(50)
    other.constants["v"] = np.full((8, 8, 3, 3), np.inf, np.float32)  # its padding is summed: that takes longer
    other.nodes[0] = other.nodes[0].with_(inputs=("x", "v"))
    planned(other)
    assert len(asked) == 4 * once


def dense(n):
    """Each sum reads all tensors before it."""
    names, nodes = ["x"], []
    for i in range(n):
        nodes.append(Node("Sum", tuple(names), (f"t{i}",)))
        names.append(f"t{i}")
    return graph(nodes)


def mesh(n):
    """Each node reads the one above and the one to the left."""
    side = int(n**0.5)
    return graph([Node("Mul", (f"t{i - 1},{j}" if i else "x", f"t{i},{j - 1}" if j else "x"), (f"t{i},{j}",))
                  for i in range(side) for j in range(side)])  # fmt: skip


@pytest.mark.parametrize("family, n", [(dense, 64), (mesh, 400)])
def test_hostile_networks_have_small_tables_and_the_least_is_shown_all_the_same(family, n, monkeypatch):
    g = family(n)
    entries, found = entries_of(g, monkeypatch)
    assert entries <= 4 * assign.SMALL_TABLES
    assert found.bound == found.seconds  # nothing is gained by another layout than the model's
    plain = choose_layouts(g, {"x": SHAPE}, Costs(1, "standard"), "plain").assigned
    assert found.seconds == pytest.approx(plain.seconds)


def test_a_dense_network_takes_work_in_proportion_to_what_it_reads():
    small, large = dense(40), dense(56)  # twice the inputs of sums
    planned(small), planned(large)
    assert lines_of(lambda: planned(large)) <= MOST * lines_of(lambda: planned(small))
