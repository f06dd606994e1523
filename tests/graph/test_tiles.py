"""Models on windows of their input: cropped, the tiles of what they give for the whole."""

import itertools
import pickle

import numpy as np
import pytest
from conftest import fewer
from graphs import Builder
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators import Unsupported
from layoutkit.graph.tiles import tiling

F32 = np.dtype(np.float32)


@pytest.fixture(autouse=True, scope="module")
def one_order():
    """Transposed convolutions do not know what accuracy the model has."""
    before = lk.reproducible(True)
    yield
    lk.reproducible(before)


def numbers(shape, dtype=F32):
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(dtype)


def by_tiles(model, tiles, x, parts):
    """What a model gives, computed tile by tile: `parts`, by axis, the ranges of the output."""
    (name,) = model.outputs
    found = None
    for ranges in itertools.product(*parts):
        windows = tiles.window(ranges)
        part = model.run(x[(..., *(slice(start, stop) for start, stop, _ in windows))])[name]
        if found is None:
            found = np.zeros((*part.shape[:2], *tiles.out_shape[2:]), part.dtype)
        crop = (slice(crop, crop + end - begin) for (_, _, crop), (begin, end) in zip(windows, ranges))
        found[(..., *(slice(*r) for r in ranges))] = part[(..., *crop)]
    return found


def pairs(numbers):
    return list(itertools.pairwise(numbers))


@st.composite
def partitions(draw, tiles):
    """By spatial axis, the output in up to three ranges."""
    return [pairs(sorted({0, n, *draw(st.lists(st.integers(0, n), max_size=2))})) for n in tiles.out_shape[2:]]


EXACT = ("conv", "conv", "transposed", "MaxPool", "LpPool", "resize", "pad", "sum", "concat", "activation", "norm",
         "blocks", "split", "LRN")  # fmt: skip
NEAR = (*EXACT, "AveragePool", "AveragePool", "Softmax", "LpNormalization", "ReduceMean")  # these sum by layout


@st.composite
def graphs(draw, kinds):
    """Chains and branches of operators that can be tiled."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    size = [draw(st.integers(1, (40, 16, 8)[rank - 1])) for _ in range(rank)]
    channels = draw(st.sampled_from([1, 3, 8, 16]))
    b = Builder((draw(st.integers(1, 2)), channels, *size), draw(st.integers(0, 1 << 20)), "float32")
    for _ in range(draw(st.integers(1, 6))):
        grow(draw, b, draw(st.sampled_from(list(b.shapes)[-2:])), draw(st.sampled_from(kinds)))
    whole = b.graph()
    return whole.needed([draw(st.sampled_from(whole.outputs))])


def grow(draw, b, x, kind):
    shape = b.shapes[x]
    channels, rank = shape[1], len(shape) - 2

    def several(low, high):
        return [draw(st.integers(low, high)) for _ in range(rank)]

    def padding(kernel):
        auto = draw(st.sampled_from(["SAME_UPPER", "SAME_LOWER", None, None]))
        return {"auto_pad": auto} if auto else {"pads": [draw(st.integers(0, min(2, k - 1))) for k in [*kernel] * 2]}

    if kind in ("conv", "transposed"):
        kernel, count = several(1, 4), draw(st.sampled_from([1, 3, 8]))
        given = {"strides": several(1, 3), "dilations": several(1, 2), **padding(kernel)}
        if kind == "conv":
            b.add("Conv", x, b.constant((count, channels, *kernel)), b.constant((count,)), **given)
        else:
            given["output_padding"] = [draw(st.integers(0, s - 1)) for s in given["strides"]]
            b.add("ConvTranspose", x, b.constant((channels, count, *kernel)), b.constant((count,)), **given)
    elif kind.endswith("Pool"):
        kernel = several(1, 4)
        b.add(kind, x, kernel_shape=kernel, strides=several(1, 3), ceil_mode=draw(st.integers(0, 1)),
              count_include_pad=draw(st.integers(0, 1)), **padding(kernel))  # fmt: skip
    elif kind == "resize":
        mode = draw(st.sampled_from(["nearest", "linear", "cubic"]))
        sizes = [0.5, 1, 2, 3] if mode == "nearest" else [0.5, 1, 2, 4]
        scales = b.integers([1])
        b.constants[scales] = np.array([1, 1, *(draw(st.sampled_from(sizes)) for _ in range(rank))], np.float32)
        place = draw(st.sampled_from(["half_pixel", "asymmetric"]))
        nearest = draw(st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
        b.add("Resize", x, "", scales, mode=mode, coordinate_transformation_mode=place, nearest_mode=nearest)
    elif kind == "pad":
        low, high = draw(st.sampled_from([(0, 2), (0, 2), (-1, 0)]))
        pads = b.integers([0, 0, *several(low, high), 0, 0, *several(low, high)])
        b.add("Pad", x, pads, mode=draw(st.sampled_from(["constant", "edge", "reflect"])))
    elif kind == "sum":
        same = [name for name, s in b.shapes.items() if s == shape]
        b.add(draw(st.sampled_from(["Add", "Mul", "Max"])), x, draw(st.sampled_from(same)))
    elif kind == "concat":
        b.add("Concat", x, draw(st.sampled_from([n for n, s in b.shapes.items() if s[2:] == shape[2:]])), axis=1)
    elif kind == "activation":
        b.add(draw(st.sampled_from(["Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish"])), x)
    elif kind == "norm":
        b.add("BatchNormalization", x, *(b.constant((channels,), 0.5, 1.5) for _ in range(4)))
    elif kind == "blocks":
        b.add(draw(st.sampled_from(["DepthToSpace", "SpaceToDepth"])), x, blocksize=2)
    elif kind == "split":
        b.add("Split", x, b.integers([channels - channels // 2, channels // 2]), outputs=2, axis=1)
    elif kind == "ReduceMean":
        b.add(kind, x, axes=[1], keepdims=1)
    else:
        b.add(kind, x, axis=1, **({"size": 3} if kind == "LRN" else {}))


def tiled(graph, data, **options):
    """The whole, and the same by tiles drawn at random."""
    shape = graph.inputs["x"].shape
    try:
        tiles = tiling(graph, shape)
    except Unsupported as error:  # tensors that have the same size by chance
        assert "different pixels" in str(error)
        return np.zeros(1), np.zeros(1)
    model, x = Model(graph, accuracy="reproducible", **options), numbers(shape)
    with np.errstate(all="ignore"):
        return model.run(x)[graph.outputs[0]], by_tiles(model, tiles, x, data.draw(partitions(tiles)))


@given(graphs(EXACT), st.data())
def test_tiles_are_those_of_the_whole(graph, data):
    np.testing.assert_array_equal(*tiled(graph, data)[::-1])


@given(graphs(NEAR), st.data())
@fewer(2)
def test_tiles_of_sums_in_other_orders_are_near(graph, data):
    want, found = tiled(graph, data)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


@given(graphs(("conv", "AveragePool", "AveragePool")), st.data())
@fewer(3)
def test_means_are_exact_in_one_layout(graph, data):
    np.testing.assert_array_equal(*tiled(graph, data, layouts="channels last")[::-1])


def scales(*ratios):
    return {"s": np.array([1, 1, *ratios], np.float32)}


def encoder_decoder(up):
    """Two levels; the skipped tensors are concatenated with those made larger again."""
    b = Builder((1, 3, 24, 36), 0, "float32")
    b.constants |= scales(2, 2)
    skipped, x = [], "x"

    def conv(x, count):
        b.add("Conv", x, b.constant((count, b.shapes[x][1], 3, 3)), b.constant((count,)), auto_pad="SAME_UPPER")
        b.add("Relu", list(b.shapes)[-1])
        return list(b.shapes)[-1]

    for count in (4, 8):
        skipped.append(conv(x, count))
        b.add("MaxPool", skipped[-1], kernel_shape=[2, 2], strides=[2, 2])
        x = list(b.shapes)[-1]
    x = conv(x, 8)
    for count in (8, 4):
        if up == "ConvTranspose":
            b.add("ConvTranspose", x, b.constant((b.shapes[x][1], count, 2, 2)), strides=[2, 2])
        else:
            b.add("Resize", x, "", "s", mode=up)
        b.add("Concat", list(b.shapes)[-1], skipped.pop(), axis=1)
        x = conv(list(b.shapes)[-1], count)
    return b.graph()


@pytest.mark.parametrize("up", ["ConvTranspose", "nearest", "linear"])
def test_encoder_and_decoder(up):
    graph = encoder_decoder(up)
    tiles, x = tiling(graph, (1, 3, 24, 36)), numbers((1, 3, 24, 36))
    assert tiles.step == (4, 4) and tiles.out_step == (4, 4) and tiles.out_shape == (1, 4, 24, 36)
    model = Model(graph, accuracy="reproducible")
    found = by_tiles(model, tiles, x, [pairs([0, 5, 16, 24]), pairs([0, 18, 36])])
    np.testing.assert_array_equal(found, model.run(x)[graph.outputs[0]])


def test_sizes_computed_from_those_of_another_tensor():
    nodes = [
        Node("MaxPool", ("x",), ("small",), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        Node("Shape", ("x",), ("sizes",)), Node("Resize", ("small", "", "", "sizes"), ("large",), {"mode": "linear"}),
        Node("Add", ("x", "large"), ("y",)),
    ]  # fmt: skip
    graph = Graph(nodes, {"x": TensorType(F32, (1, 2, "H", "W"))}, ("y",), {})
    model, x = Model(graph), numbers((1, 2, 20, 12))
    found = by_tiles(model, tiling(graph, x.shape), x, [pairs([0, 9, 20]), pairs([0, 1, 12])])
    np.testing.assert_array_equal(found, model.run(x)["y"])
    with pytest.raises(Unsupported, match=r"Resize large: its scale is 2\.33333: neither"):
        tiling(graph, (1, 2, 7, 12))


def test_integers():
    b = Builder((1, 3, 17, 14), 0, "float32")
    q = np.random.default_rng(0).integers(-99, 99, (4, 4, 3, 3)).astype(np.int8)
    b.constants |= {"s": np.float32(1 / 64), "z": np.uint8(128), "w": numbers((4, 3, 3, 3)), "q": q, "q0": np.int8(0)}
    nodes = [
        Node("Conv", ("x", "w"), ("a",), {"pads": [1] * 4, "strides": [2, 1]}),
        Node("QuantizeLinear", ("a", "s", "z"), ("b",)),
        Node("QLinearConv", ("b", "s", "z", "q", "s", "q0", "s", "z"), ("c",), {"pads": [1] * 4}),
        Node("DequantizeLinear", ("c", "s", "z"), ("y",)),
    ]
    graph = Graph(nodes, b.inputs, ("y",), b.constants)
    model, x = Model(graph, accuracy="reproducible"), numbers((1, 3, 17, 14))
    found = by_tiles(model, tiling(graph, x.shape), x, [pairs([0, 4, 9]), pairs([0, 3, 14])])
    np.testing.assert_array_equal(found, model.run(x)["y"])


def one(op, *inputs, constants=(), outputs=1, shape=(1, 4, 12, 12), before=(), **attributes):
    """A graph of some nodes, and one more."""
    names = ("y", "y1")[:outputs]
    nodes = [*before, Node(op, ("x", *inputs), names, attributes, "last")]
    return Graph(nodes, {"x": TensorType(F32, shape)}, names[:1], dict(constants))


POOL = {"kernel_shape": [3, 3], "pads": [1] * 4}


LINE = (1, 2, 11)
TAPS = {"w": numbers((2, 2, 4))}
LARGE = {"s": np.array([1, 1, 4], np.float32)}


@pytest.mark.parametrize(
    "graph",
    [
        *(one("Pad", shape=LINE, mode=mode, pads=[0, 0, 3, 0, 0, 2]) for mode in ("constant", "edge", "reflect")),
        *(one("Conv", "w", shape=LINE, constants=TAPS, strides=[s], auto_pad=auto)
          for s in (1, 2, 3) for auto in ("SAME_UPPER", "SAME_LOWER")),
        *(one("ConvTranspose", "w", shape=LINE, constants=TAPS, strides=[s], pads=[1, 2]) for s in (1, 2, 5)),
        *(one("MaxPool", shape=LINE, kernel_shape=[3], strides=[2], pads=[1, 0], ceil_mode=up) for up in (0, 1)),
        *(one("Resize", "", "s", shape=LINE, constants=LARGE, mode=m, coordinate_transformation_mode=places)
          for m in ("nearest", "linear", "cubic") for places in ("half_pixel", "asymmetric")),
    ],
    ids=lambda graph: f"{graph.nodes[0].op} {dict(graph.nodes[0].attributes)}",
)  # fmt: skip
def test_tiles_of_one_pixel(graph):
    model, x, tiles = Model(graph, accuracy="reproducible"), numbers(LINE), tiling(graph, LINE)
    found = by_tiles(model, tiles, x, [pairs(range(tiles.out_shape[2] + 1))])
    np.testing.assert_array_equal(found, model.run(x)["y"])


@pytest.mark.parametrize(
    ("graph", "ranges", "windows"),
    [
        (one("Relu"), [(3, 5), (0, 12)], [(3, 5, 0), (0, 12, 0)]),
        (one("MaxPool", **POOL), [(4, 8), (0, 2)], [(3, 9, 1), (0, 3, 0)]),
        (one("MaxPool", **POOL), [(0, 12), (11, 12)], [(0, 12, 0), (10, 12, 1)]),
        (one("MaxPool", kernel_shape=[3, 3]), [(4, 8), (9, 10)], [(4, 10, 0), (9, 12, 0)]),
        (one("MaxPool", strides=[2, 3], **POOL), [(2, 3), (1, 3)], [(2, 6, 1), (0, 9, 1)]),
        (one("Resize", "", "s", constants=scales(2, 2)), [(6, 7), (20, 24)], [(3, 4, 0), (10, 12, 0)]),
        (one("Resize", "", "s", constants=scales(2, 2), mode="linear"), [(6, 7), (22, 24)], [(2, 4, 2), (10, 12, 2)]),
        (one("DepthToSpace", blocksize=2), [(6, 9), (7, 8)], [(3, 5, 0), (3, 4, 1)]),
        (one("Pad", pads=[0, 0, 2, 3, 0, 0, 2, 3]), [(1, 3), (9, 18)], [(0, 1, 1), (6, 12, 3)]),
        (one("Pad", pads=[0, 0, 2, 0, 0, 0, 2, 3], mode="reflect"), [(0, 1), (14, 15)], [(0, 3, 0), (8, 12, 6)]),
    ],
)
def test_windows_are_no_larger_than_they_must_be(graph, ranges, windows):
    assert tiling(graph, (1, 4, 12, 12)).window(ranges) == windows


def test_inputs_larger_than_memory():
    tiles = tiling(encoder_decoder("linear"), (1, 3, 1 << 20, 1 << 21))
    (start, stop, crop), last = tiles.window([(400_000, 400_400), ((1 << 21) - 8, 1 << 21)])
    (before, after), _ = tiles.halo
    assert start % 4 == 0 and start + crop == 400_000 and before <= crop < before + 4
    assert 400 + before + after <= stop - start < 400 + before + after + 8
    assert last[1] == 1 << 21


def test_halo_of_a_chain():
    graph = one("MaxPool", kernel_shape=[5, 1], strides=[2, 1], pads=[1, 0, 3, 0],
                before=[Node("MaxPool", ("x",), ("a",), POOL)])  # fmt: skip
    graph = Graph([graph.nodes[0], graph.nodes[1].with_(inputs=("a",))], graph.inputs, graph.outputs, {})
    tiles = tiling(graph, (1, 4, 40, 40))
    assert tiles.step == (2, 1) and tiles.halo == ((2, 3), (1, 1))
    assert pickle.loads(pickle.dumps(tiles)) == tiles


def test_one_of_several_outputs():
    nodes = [Node("Relu", ("x",), ("y",)), Node("GlobalMaxPool", ("y",), ("z",))]
    graph = Graph(nodes, {"x": TensorType(F32, (1, 4, 12, 12))}, ("y", "z"), {})
    assert tiling(graph, (1, 4, 12, 12), "y").window([(1, 2), (3, 4)]) == [(1, 2, 0), (3, 4, 0)]
    assert [node.op for node in graph.needed(["y"]).nodes] == ["Relu"]
    for output, message in ((None, "which output"), ("w", "output 'w' is made by no operator")):
        with pytest.raises(ValueError, match=message):
            tiling(graph, (1, 4, 12, 12), output)


@pytest.mark.parametrize("ranges", [[(0, 13), (0, 1)], [(-1, 3), (0, 1)], [(2, 2), (0, 1)], [(0, 1)]])
def test_ranges_that_do_not_fit(ranges):
    with pytest.raises(ValueError, match="window: "):
        tiling(one("Relu"), (1, 4, 12, 12)).window(ranges)


SMALL = Node("MaxPool", ("x",), ("a",), {"kernel_shape": [2, 2], "strides": [2, 2]})


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (one("GlobalAveragePool"), "not known to be"),
        (one("Flatten"), "not known to be"),
        (one("InstanceNormalization", "c", "c", constants={"c": np.ones(4, np.float32)}), "not known to be"),
        (one("Softmax"), "along a spatial axis"),
        (one("Concat", "x", axis=2), "along a spatial axis"),
        (one("ReduceMean", axes=[1, -1]), "along a spatial axis"),
        (one("ReduceMean", axes=[1], keepdims=0), "other axes than its input"),
        (one("Slice", starts=[1], ends=[3], axes=[2]), "cuts a spatial axis"),
        (one("Transpose", perm=[0, 1, 3, 2]), "moves spatial axes"),
        (one("Add", "c", constants={"c": np.ones((12, 1), np.float32)}), "differs from pixel to pixel"),
        (one("Concat", "c", axis=1, constants={"c": np.ones((1, 1, 12, 12), np.float32)}), "joins a constant"),
        (one("Conv", "x", shape=(4, 4, 12, 12)), "an operand other than the first is not constant"),
        (one("MaxPool", outputs=2, indices=True, **POOL), "indices"),
        (one("Pad", pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="wrap"), "mode is wrap"),
        (one("Pad", pads=[0, 0, -1, 1, 0, 0, 2, 1]), "pads one end"),
        (one("Resize", "", "s", constants=scales(1.5, 1)), "its scale is 1.5"),
        (one("Resize", "", "s", constants=scales(3, 1), mode="linear"), "powers of two only"),
        (one("Resize", "", "s", constants=scales(2, 2), coordinate_transformation_mode="align_corners"), "depend on"),
        (one("Resize", "", "", "n", constants={"n": np.array([1, 4, 24, 24])}), "not in proportion"),
        (one("Mul", "a", before=[Node("Shape", ("x",), ("n",), {"start": 2, "end": 3}),
                                 Node("Cast", ("n",), ("a",), {"to": F32})]), "'a' depends on the size of the input"),
        (one("Add", "b", constants=scales(2, 2), before=[
            SMALL, Node("Resize", ("a", "", "s"), ("c",)), Node("Resize", ("c", "", "s"), ("d",)),
            Node("Pad", ("d",), ("b",), {"pads": [0, 0, -6, -6, 0, 0, -6, -6]})]), "operands have different pixels"),
        (one("ConvTranspose", "w", constants={"w": np.ones((4, 1, 2, 2), np.float32)}, output_shape=[13, 13]),
         "output_shape is constant"),
    ],
)  # fmt: skip
def test_operators_that_are_refused(graph, message):
    shape = graph.inputs["x"].shape
    Model(graph).run(numbers(shape))
    with pytest.raises(Unsupported, match=message) as error:
        tiling(graph, shape)
    assert f"tiling: {graph.nodes[-1]}: " in str(error.value)
    assert str(error.value).endswith("; the model can still run over a batch")


def test_models_that_are_refused():
    two = Graph([Node("Add", ("x", "z"), ("y",))], dict.fromkeys("xz", TensorType(F32, (1, 4, 12, 12))), ("y",), {})
    with pytest.raises(Unsupported, match="expected one"):
        tiling(two, (1, 4, 12, 12))
    with pytest.raises(Unsupported, match="expected N, C"):
        tiling(one("Relu", shape=(1, 4)), (1, 4))
    with pytest.raises(Unsupported, match="does not depend on the pixels"):
        tiling(one("Shape"), (1, 4, 12, 12))
    sizes = Node("Resize", ("x", "", "", "n"), ("a",))
    fixed = one("Add", "a", before=[sizes], constants={"n": np.array([1, 4, 12, 12])})
    with pytest.raises(Unsupported, match=r"does not run on an input of shape \(1, 4, 13, 13\): Add last"):
        tiling(fixed, (1, 4, 12, 12))
