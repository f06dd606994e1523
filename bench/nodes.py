"""Operators beside those of `operators.py`, each as a network of its own, beside onnxruntime: which are slow here?

Processes are woken in turns; the lower quartile of each is told, and how many times as fast ours is. `--seed` draws the
numbers; the sizes are those that networks of detection, language and sound have.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from compare import Contender, number
from onnx import helper, numpy_helper

from layoutkit.bench.report import geomean

OPSET = 20
REST_SECONDS = 0.05  # between turns: runtimes spin for a while after a call
RUNTIMES = "layoutkit", "onnxruntime"
Arrays = dict[str, np.ndarray]
Draw = Callable[..., np.ndarray]  # of a shape


def boxes(rng: np.random.Generator, count: int, most: float) -> np.ndarray:
    """Corners of boxes, in an image of so many pixels on a side."""
    corner = rng.uniform(0, most, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(5, most / 8, (count, 2))], 1).astype(np.float32)


class Case(NamedTuple):
    """An operator alone, and its inputs."""

    proto: onnx.ModelProto
    inputs: Arrays


def case(
    op: str, inputs: Arrays, constants: Arrays | None = None, results: int = 1, *, opset: int = OPSET, domain: str = "",
    **attributes: Any,
) -> Case:  # fmt: skip
    """An operator of inputs, with constants behind them."""
    constants = constants or {}
    of = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
          for name, x in inputs.items()]  # fmt: skip
    outputs = [f"y{i}" for i in range(results)]
    node = helper.make_node(op, [*inputs, *constants], outputs, domain=domain, **attributes)
    graph = helper.make_graph([node], "g", of, [onnx.ValueInfoProto(name=name) for name in outputs],
                              [numpy_helper.from_array(x, name) for name, x in constants.items()])  # fmt: skip
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return Case(helper.make_model(graph, opset_imports=opsets, ir_version=9), inputs)


def drawn(rng: np.random.Generator) -> dict[str, Case]:
    """By title."""

    def real(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    def whole(most: int, *shape: int, dtype: str = "int64") -> np.ndarray:
        return rng.integers(0, most, shape).astype(dtype)

    def at(*values: int) -> np.ndarray:
        return np.array(values, np.int64)

    n = 1000
    x, z, scale = real(n, n), real(n, n), {"s": np.array(0.02, np.float32), "z": np.array(128, np.uint8)}
    most = {"most": at(100), "iou": np.array([0.5], np.float32), "least": np.array([0.05], np.float32)}
    rows, places = real(512, 512, 16), whole(512, 5000, 2)
    bits = {name: whole(9, n, n, dtype="uint32") for name in "ab"}
    frames = {"step": np.array(160), "window": np.hanning(400).astype(np.float32)}
    weights = {"w": real(1, 512, 128), "r": real(1, 512, 128)}
    regions = {"x": real(1, 256, 50, 50), "r": boxes(rng, 200, 40), "i": whole(1, 200)}
    counts = {name: 1 + whole(99, n, n) for name in "ab"}
    image, planes = real(1, 32, 128, 128), real(1, 64, 112, 112)
    along = {"s": np.full(64, 0.02, np.float32), "z": np.full(64, 128, np.uint8)}
    five = np.concatenate([np.zeros((200, 1), np.float32), boxes(rng, 200, 40)], 1)
    places_of = 4 * np.arange(64 * 56 * 56).reshape(1, 64, 56, 56)
    taps = {"x": real(1, 64, 56, 56), "w": real(64, 64, 3, 3), "o": real(1, 18, 56, 56)}
    return {
        "NonMaxSuppression": case(
            "NonMaxSuppression", {"b": boxes(rng, 2000, 640)[None], "s": rng.random((1, 20, 2000), np.float32)}, most
        ),
        "RoiAlign": case("RoiAlign", regions, output_height=7, output_width=7, sampling_ratio=2),
        "GridSample": case("GridSample", {"x": real(1, 64, 64, 64), "g": real(1, 64, 64, 2)}),
        "TopK of few": case("TopK", {"x": real(64, n)}, {"k": at(5)}, 2),
        "TopK of one": case("TopK", {"x": real(8400, 80)}, {"k": at(1)}, 2),
        "TopK of a long row": case("TopK", {"x": real(1, 700000)}, {"k": at(100)}, 2),
        "CumSum of rows": case("CumSum", {"x": real(64, 16384)}, {"a": np.array(1)}),
        "CumSum of columns": case("CumSum", {"x": x}, {"a": np.array(0)}),
        "Gather": case("Gather", {"x": real(30000, 512), "i": whole(30000, 4, 256)}, axis=0),
        "GatherND": case("GatherND", {"x": rows, "i": places}),
        "GatherElements": case("GatherElements", {"x": x, "i": whole(n, n, n)}, axis=1),
        "ScatterND": case("ScatterND", {"x": rows, "i": places, "u": real(5000, 16)}),
        "ScatterElements": case("ScatterElements", {"x": x, "i": whole(n, n, 64), "u": real(n, 64)}, axis=1),
        "NonZero": case("NonZero", {"x": x > 1}),
        "OneHot": case("OneHot", {"i": whole(n, 512)}, {"d": at(n), "v": np.array([0, 1], np.float32)}),
        "Where": case("Where", {"c": x > 0, "a": x, "b": z}),
        "ArgMax of channels": case("ArgMax", {"x": real(1, 21, 256, 256)}, axis=1),
        "Unique": case("Unique", {"x": whole(n, 100000)}, results=2),
        "Trilu": case("Trilu", {"x": x}),
        "Einsum": case("Einsum", {"a": real(8, 128, 64), "b": real(8, 64, 128)}, equation="bij,bjk->bik"),
        "Mod": case("Mod", {"a": x, "b": z}, fmod=1),
        "Pow": case("Pow", {"a": np.abs(x), "b": z}),
        "Cast to int64": case("Cast", {"x": x}, to=onnx.TensorProto.INT64),
        "Add of int64": case("Add", {"a": whole(9, n, n), "b": whole(9, n, n)}),
        "BitShift": case("BitShift", bits, direction="LEFT"),
        "MaxPool with places": case(
            "MaxPool", {"x": real(1, 64, 112, 112)}, None, 2, kernel_shape=[2, 2], strides=[2, 2]
        ),
        "LSTM": case("LSTM", {"x": real(50, 1, 128)}, weights, 2, hidden_size=128),
        "STFT": case("STFT", {"x": real(1, 16000, 1)}, frames),
        "ReverseSequence": case("ReverseSequence", {"x": real(100, 32, 64), "n": 1 + whole(100, 32)}),
        "QuantizeLinear": case("QuantizeLinear", {"x": x}, scale),
        "DequantizeLinear": case("DequantizeLinear", {"x": whole(256, n, n, dtype="uint8")}, scale),
        "DynamicQuantizeLinear": case("DynamicQuantizeLinear", {"x": x}, results=3),
        "MatMulInteger": case(
            "MatMulInteger", {"a": whole(256, 256, 512, dtype="uint8")}, {"b": whole(127, 512, 512, dtype="int8")}
        ),
        "QuantizeLinear of channels": case("QuantizeLinear", {"x": planes}, along, axis=1),
        "DeformConv": case("DeformConv", taps, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        "MaxRoiPool": case("MaxRoiPool", {"x": real(1, 256, 50, 50), "r": five}, pooled_shape=[7, 7]),
        "MaxUnpool": case("MaxUnpool", {"x": real(1, 64, 56, 56), "i": places_of}, kernel_shape=[2, 2], strides=[2, 2]),
        "Col2Im": case("Col2Im", {"x": real(1, 32 * 9, 64 * 64)}, {"i": at(66, 66), "k": at(3, 3)}),
        "LpPool": case("LpPool", {"x": planes}, kernel_shape=[2, 2], strides=[2, 2]),
        "DFT": case("DFT", {"x": real(64, 1024, 1)}, onesided=1),
        "Hardmax": case("Hardmax", {"x": x}, axis=-1),
        "Compress": case("Compress", {"x": x, "c": x[0] > 0}, axis=0),
        "Where of int64": case("Where", {"c": x > 0, **counts}),
        "Div of int64": case("Div", counts),
        "Mod of int64": case("Mod", counts),
        "Max of int64": case("Max", counts),
        "Equal of int64": case("Equal", counts),
        "And": case("And", {"a": x > 0, "b": z > 0}),
        "Not": case("Not", {"a": x > 0}),
        "IsNaN": case("IsNaN", {"x": x}),
        "IsInf": case("IsInf", {"x": x}),
        "Atan": case("Atan", {"x": x}),
        "Tan": case("Tan", {"x": x}),
        "Clip of int64": case("Clip", {"x": counts["a"]}, {"l": np.array(9), "h": np.array(50)}),
        "Cast to bool": case("Cast", {"x": x}, to=onnx.TensorProto.BOOL),
        "Cast to uint8": case("Cast", {"x": np.abs(x)}, to=onnx.TensorProto.UINT8),
        "Cast of int64 to int32": case("Cast", {"x": counts["a"]}, to=onnx.TensorProto.INT32),
        "ReduceSum of int64": case("ReduceSum", {"x": counts["a"]}, {"a": at(1)}),
        "ReduceMax of int64": case("ReduceMax", {"x": counts["a"]}, {"a": at(0)}),
        "ReduceLogSumExp": case("ReduceLogSumExp", {"x": x}, {"a": at(1)}),
        "ReduceL2": case("ReduceL2", {"x": x}, {"a": at(-1)}),
        "MeanVarianceNormalization": case("MeanVarianceNormalization", {"x": image}),
        "DepthToSpace": case("DepthToSpace", {"x": image}, blocksize=2, mode="CRD"),
        "Pad by reflection": case("Pad", {"x": image}, {"p": at(0, 0, 3, 3, 0, 0, 3, 3)}, mode="reflect"),
        "Tile": case("Tile", {"x": real(64, 256)}, {"n": at(8, 4)}),
        "Expand of int64": case("Expand", {"x": whole(n, 1, n)}, {"n": at(n, n)}),
        "Range": case("Range", {"a": np.array(0), "b": np.array(100000), "c": np.array(1)}),
        "AffineGrid": case("AffineGrid", {"t": real(1, 2, 3)}, {"n": at(1, 3, 256, 256)}),
        "LRN": case("LRN", {"x": image}, size=5),
        "GRU": case(
            "GRU", {"x": real(50, 1, 128)}, {"w": real(1, 384, 128), "r": real(1, 384, 128)}, 2, hidden_size=128
        ),
        **of_images(image, planes, at),
        **of_language(real, whole, at),
        **of_elements(x, z, whole, at),
    }


def of_images(image: np.ndarray, planes: np.ndarray, at: Draw) -> dict[str, Case]:
    """Of networks that see or draw."""
    wider = {"roi": np.empty(0, np.float32), "s": np.array([1, 1, 1.5, 1.5], np.float32)}
    smaller = {"roi": np.empty(0, np.float32), "s": np.array([1, 1, 0.5, 0.5], np.float32)}
    around = {"p": at(0, 0, 3, 3, 0, 0, 3, 3)}
    groups = {"s": np.ones(32, np.float32), "b": np.zeros(32, np.float32)}
    return {
        "Slice with steps": case(
            "Slice", {"x": image}, {"a": at(0, 0), "b": at(128, 128), "c": at(2, 3), "d": at(2, 2)}
        ),
        "Slice backwards": case("Slice", {"x": image}, {"a": at(-1), "b": at(-1000), "c": at(3), "d": at(-1)}),
        "Pad by edges": case("Pad", {"x": image}, around, mode="edge"),
        "Pad around": case("Pad", {"x": image}, around, mode="wrap"),
        "SpaceToDepth": case("SpaceToDepth", {"x": image}, blocksize=2),
        "Resize by cubics": case("Resize", {"x": image}, wider, mode="cubic"),
        "Resize with antialias": case("Resize", {"x": image}, smaller, mode="linear", antialias=1),
        "Resize with antialias, cubic": case("Resize", {"x": image}, smaller, mode="cubic", antialias=1),
        "CenterCropPad": case("CenterCropPad", {"x": image}, {"n": at(112, 144)}, axes=[2, 3]),
        "GroupNormalization": case("GroupNormalization", {"x": image}, groups, num_groups=8, opset=21),
        "InstanceNormalization": case("InstanceNormalization", {"x": image.reshape(1, 32, -1)}, groups),
        "LpNormalization": case("LpNormalization", {"x": image}, axis=1),
        "GlobalMaxPool": case("GlobalMaxPool", {"x": planes}),
        "Concat": case("Concat", {"a": image, "b": image}, axis=1),
        "Split": case("Split", {"x": image}, results=4, axis=1, num_outputs=4),
        "ArgMin of rows": case("ArgMin", {"x": image}, axis=-1),
        "Transpose of windows": case("Transpose", {"x": image.reshape(1, 32, 16, 8, 16, 8)}, perm=[0, 2, 4, 3, 5, 1]),
        "PRelu": case("PRelu", {"x": image}, {"s": np.full((32, 1, 1), 0.1, np.float32)}),
    }


def of_language(real: Draw, whole: Draw, at: Draw) -> dict[str, Case]:
    """Of networks that read, write or listen."""
    ms, rows = "com.microsoft", {"x": real(1, 128, 768), "y": real(1, 128, 768)}
    heads = {name: real(1, 12, 128, 64) for name in "qkv"}
    x, updates = real(1000, 64), real(5000, 64)
    scale = {"s": np.ones(768, np.float32), "b": np.zeros(768, np.float32)}
    angles = {"c": real(128, 32), "s": real(128, 32), "i": whole(128, 1, 128)}
    return {
        "LogSoftmax": case("LogSoftmax", {"x": real(128, 30000)}, axis=-1),
        "Softmax of columns": case("Softmax", {"x": real(16, 64, 256)}, axis=1),
        "Attention": case("Attention", heads, opset=23),
        "Attention with causes": case("Attention", heads, opset=23, is_causal=1),
        "RotaryEmbedding": case("RotaryEmbedding", {"x": heads["q"]}, angles, opset=23),
        "RMSNormalization": case("RMSNormalization", {"x": rows["x"]}, {"s": scale["s"]}, opset=23),
        "SkipLayerNormalization": case("SkipLayerNormalization", rows, scale, domain=ms),
        "BiasGelu": case("BiasGelu", {"x": real(1, 128, 3072)}, {"b": real(3072)}, domain=ms),
        "QuickGelu": case("QuickGelu", {"x": real(1, 128, 3072)}, domain=ms),
        "FusedMatMul": case("FusedMatMul", {"a": heads["q"], "b": heads["k"]}, transB=1, alpha=0.125, domain=ms),
        "MatMul of heads": case("MatMul", {"a": heads["q"], "b": real(1, 12, 64, 128)}),
        "Einsum of heads": case(
            "Einsum", {"a": real(2, 128, 12, 64), "b": real(2, 128, 12, 64)}, equation="bqhd,bkhd->bhqk"
        ),
        "Einsum of sums": case("Einsum", {"a": real(64, 128, 32), "b": real(128, 32)}, equation="ijk,jk->i"),
        "Gather of rows": case("Gather", {"x": real(12, 128, 64), "i": whole(128, 16)}, axis=1),
        "ScatterElements by sums": case(
            "ScatterElements", {"x": x, "i": whole(1000, 5000, 64), "u": updates}, axis=0, reduction="add"
        ),
        "ScatterND by sums": case(
            "ScatterND", {"x": x, "i": whole(1000, 5000, 1), "u": updates}, reduction="add"
        ),
        "MeanVariance of rows": case("LayerNormalization", {"x": rows["x"]}, scale),
        "Where of a mask": case(
            "Where", {"m": whole(2, 1, 1, 128, 128) > 0, "x": real(1, 12, 128, 128)}, {"y": np.array(-1e4, np.float32)}
        ),
        "Expand": case("Expand", {"x": real(8, 1, 128, 64)}, {"n": at(8, 4, 128, 64)}),
        "ReduceMean of steps": case("ReduceMean", {"x": rows["x"]}, {"a": at(1)}),
        "ReduceMax of all": case("ReduceMax", {"x": rows["x"]}),
        "STFT of frames": case(
            "STFT", {"x": real(1, 48000, 1)}, {"step": np.array(256), "window": np.hanning(1024).astype(np.float32)}
        ),
        "MelWeightMatrix": case(
            "MelWeightMatrix",
            {"n": np.array(80), "d": np.array(512), "r": np.array(16000), "l": np.array(0, np.float32),
             "h": np.array(8000, np.float32)},
        ),
    }  # fmt: skip


def of_elements(x: np.ndarray, z: np.ndarray, whole: Draw, at: Draw) -> dict[str, Case]:
    """Of any network."""
    bits = {name: whole(1000, 1000, 1000, dtype="int32") for name in "ab"}
    return {
        "BitwiseAnd": case("BitwiseAnd", bits),
        "Mul of int32": case("Mul", bits),
        "Less of int64": case("Less", {name: b.astype(np.int64) for name, b in bits.items()}),
        "Sub of a column": case("Sub", {"a": x, "b": z[:, :1].copy()}),
        "Max of three": case("Max", {"a": x, "b": z, "c": x[::-1].copy()}),
        "Sum of three": case("Sum", {"a": x, "b": z, "c": x[::-1].copy()}),
        "Mean of three": case("Mean", {"a": x, "b": z, "c": x[::-1].copy()}),
        "Sign": case("Sign", {"x": x}),
        "Round": case("Round", {"x": x}),
        "Erf": case("Erf", {"x": x}),
        "Acosh": case("Acosh", {"x": np.abs(x) + 1}),
        "EyeLike": case("EyeLike", {"x": x}),
        "Cast to float16": case("Cast", {"x": x}, to=onnx.TensorProto.FLOAT16),
        "Cast of bool": case("Cast", {"x": x > 0}, to=onnx.TensorProto.FLOAT),
        "Cast of int64": case("Cast", {"x": whole(99, 1000, 1000)}, to=onnx.TensorProto.FLOAT),
        "Concat of int64": case("Concat", {"a": whole(99, 1000, 300), "b": whole(99, 1000, 200)}, axis=1),
        "Transpose of int64": case("Transpose", {"x": whole(99, 500, 1000)}, perm=[1, 0]),
        "Slice of int64": case("Slice", {"x": whole(99, 1000, 1000)}, {"a": at(1), "b": at(999), "c": at(1)}),
        "NonZero of few": case("NonZero", {"x": x > 3}),
        "Unique of few": case("Unique", {"x": whole(50, 2000)}, results=4),
    }


def play(contenders: dict[str, Contender], node: Case, args: argparse.Namespace) -> dict[str, float] | str:
    """Seconds of both, or why one of them refuses."""
    with tempfile.TemporaryDirectory() as folder:
        path, data = Path(folder) / "node.onnx", Path(folder) / "data.npz"
        onnx.save(node.proto, path)
        np.savez(data, **node.inputs)
        asked = {"kind": "network", "title": "node", "path": str(path), "data": str(data), "accuracy": "standard",
                 "dtype": "float32"}  # fmt: skip
        for name, of in contenders.items():
            if "refused" in (answer := of.ask(do="prepare", case=asked)):
                return f"{name}: {answer['refused']}"
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(args.rounds):
        for name, of in contenders.items():
            time.sleep(REST_SECONDS)
            times[name].append(of.ask(do="run", way=name, seconds=args.seconds)["seconds"])
    return {name: float(np.percentile(of, 25)) for name, of in times.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns its exit code."""
    p = argparse.ArgumentParser(prog="nodes.py", description=__doc__.splitlines()[0])
    p.add_argument("--seed", type=int, default=random.randrange(10**6), help="default: a fresh one")
    p.add_argument("--threads", type=number, default=1, help="default %(default)s")
    p.add_argument("--rounds", type=number, default=7, help="default %(default)s")
    p.add_argument("--seconds", type=float, default=0.05, help="of a turn, default %(default)s")
    p.add_argument("--only", default="", help="titles with one of these words: TopK,Gather")
    args = p.parse_args(argv)
    contenders = {name: Contender(name, args.threads, "estimate") for name in RUNTIMES}
    print(f"seed {args.seed}, {args.threads} thread(s): ms of {' and '.join(RUNTIMES)}, times as fast")
    ratios = []
    for title, node in drawn(np.random.default_rng(args.seed)).items():
        if not any(word in title for word in args.only.split(",")):
            continue
        found = play(contenders, node, args)
        if isinstance(found, str):
            print(f"{title:<24}refused: {found}", flush=True)
            continue
        ours, theirs = found.values()
        ratios.append(theirs / ours)
        print(f"{title:<24}{1e3 * ours:9.3f}{1e3 * theirs:9.3f}{theirs / ours:8.2f}", flush=True)
    if ratios:
        print(f"geometric mean {geomean(ratios):.2f}, least {min(ratios):.2f}")
    for of in contenders.values():
        of.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
