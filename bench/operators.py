"""Operators that move or summarise elements, each as a network of its own: against a copy of the same bytes, and
onnxruntime.

Sizes are drawn; the seed is told. ``last``: the operator stands between two Transposes, so that its input and result
have channels last in memory (onnxruntime gets it without them). Processes are woken in turns; medians are told.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from compare import Contender, number
from onnx import TensorProto, helper, numpy_helper

from layoutkit.bench.report import geomean

OPSET = 21
REST_SECONDS = 0.05  # between turns: runtimes spin for a while after a call
NORMAL = {"epsilon": 1e-5}
# name: operator, attributes, constants by channel or by position: (what, ..), outputs
OPERATORS = {
    "InstanceNorm": ("InstanceNormalization", NORMAL, ["channel", "channel"]),
    "GroupNorm": ("GroupNormalization", NORMAL | {"num_groups": 8}, ["channel", "channel"]),
    "LayerNorm": ("LayerNormalization", NORMAL, ["column", "column"]),
    "Softmax": ("Softmax", {"axis": -1}, []),
    "MaxPool 2x2 s2": ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, []),
    "MaxPool 3x3 s2": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, []),
    "AveragePool 2x2 s2": ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}, []),
    "AveragePool 3x3": ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, []),
    "GlobalAveragePool": ("GlobalAveragePool", {}, []),
    "Resize nearest": ("Resize", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                                  "nearest_mode": "floor"}, ["", "scales"]),
    "Resize linear": ("Resize", {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}, ["", "scales"]),
    "Pad reflect": ("Pad", {"mode": "reflect"}, ["pads"]),
    "Pad constant": ("Pad", {}, ["pads"]),
    "DepthToSpace DCR": ("DepthToSpace", {"blocksize": 2}, []),
    "DepthToSpace CRD": ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}, []),
    "SpaceToDepth": ("SpaceToDepth", {"blocksize": 2}, []),
    "Concat": ("Concat", {"axis": 1}, []),
    "Split": ("Split", {"axis": 1, "num_outputs": 2}, []),
}  # fmt: skip
ROWS = "LayerNormalization", "Softmax"  # of the last axis: not with channels last
LAST, FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


def model(name: str, shape: tuple[int, ...], last: bool) -> onnx.ModelProto:
    """The operator on an image, or between two Transposes."""
    op, attributes, parameters = OPERATORS[name]
    values = {
        "channel": np.linspace(0.5, 1.5, shape[1]).astype(np.float32),
        "column": np.linspace(0.5, 1.5, shape[-1]).astype(np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "pads": np.array([0, 0, 1, 2, 0, 0, 2, 1], np.int64),
    }
    given, results = ["x", "z"] if op == "Concat" else ["x"], ["y", "v"] if op == "Split" else ["y"]
    inner = {each: f"{each}_inner" if last else each for each in given + results}
    nodes = [helper.make_node("Transpose", [each], [inner[each]], perm=FIRST) for each in given if last]
    nodes.append(helper.make_node(op, [inner[each] for each in given] + [p and f"{p}{i}" for i, p in
                 enumerate(parameters)], [inner[each] for each in results], **attributes))  # fmt: skip
    nodes += [helper.make_node("Transpose", [inner[each]], [each], perm=LAST) for each in results if last]
    outer = [shape[i] for i in LAST] if last else shape
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(each, TensorProto.FLOAT, outer) for each in given],
        [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in results],
        [numpy_helper.from_array(values[p], f"{p}{i}") for i, p in enumerate(parameters) if p],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def drawn(rng: random.Random, most: int, odd: bool) -> tuple[int, ...]:
    """The shape of an image: channels a multiple of 8, odd sizes too if they may be, up to `most` elements."""
    elements = 2 ** rng.uniform(16, np.log2(most))
    channels = 8 * rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 20, 32, 40])
    side = max(4.0, (elements / channels) ** 0.5)
    height, width = (2 * max(2, round(side * rng.uniform(0.7, 1.4) / 2)) for _ in range(2))
    height, width = (n + (odd and rng.choice([0, 0, 1])) for n in (height, width))
    return 1, channels, height, width


def play(name: str, shape: tuple[int, ...], last: bool, contenders: dict[str, Contender], args) -> tuple[float, ...]:
    """Milliseconds, share of a copy of the same bytes, times as fast as onnxruntime."""
    ours, theirs = model(name, shape, last), model(name, shape, False)
    known = onnx.shape_inference.infer_shapes(theirs).graph
    moved = 4 * sum(np.prod([d.dim_value for d in v.type.tensor_type.shape.dim]) for v in [*known.input, *known.output])
    case = {"kind": "network", "title": name, "random": True, "accuracy": "standard", "dtype": "float32",
            "work": int(moved)}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for who, proto in (("layoutkit", ours), ("onnxruntime", theirs), ("machine", theirs)):
            path = Path(folder) / f"{who}.onnx"
            onnx.save(proto, path)
            inputs = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in proto.graph.input}
            answer = contenders[who].ask(do="prepare", case=case | {"path": str(path), "inputs": inputs})
            if "refused" in answer:
                raise SystemExit(f"operators.py: {who} refuses {name}: {answer['refused']}")
    times: dict[str, list[float]] = {"layoutkit": [], "onnxruntime": []}
    rates = []
    for _ in range(args.rounds):
        time.sleep(REST_SECONDS)
        rates.append(contenders["machine"].ask(do="run", way="limit", seconds=args.seconds)["rate"])
        for who, of in times.items():
            time.sleep(REST_SECONDS)
            of.append(contenders[who].ask(do="run", way=who, seconds=args.seconds)["seconds"])
    mine = times["layoutkit"]
    shares = [moved / s / rate for s, rate in zip(mine, rates)]
    return 1e3 * median(mine), median(shares), median(b / a for a, b in zip(mine, times["onnxruntime"]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns its exit code."""
    p = argparse.ArgumentParser(prog="operators.py", description=__doc__.splitlines()[0])
    p.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the sizes; default: a fresh one")
    p.add_argument("--draws", type=number, default=2, help="of each operator and layout, default %(default)s")
    p.add_argument("--elements", type=int, default=2**21, help="of an input, at most, default %(default)s")
    p.add_argument("--threads", type=number, nargs="+", default=[1, 2], help="default: one, and two")
    p.add_argument("--rounds", type=number, default=5, help="default %(default)s")
    p.add_argument("--seconds", type=float, default=0.02, help="of a turn, default %(default)s")
    p.add_argument("--only", default="", help="operators with one of these words in their names: Pool,Pad")
    args = p.parse_args(argv)
    print(f"seed {args.seed}; for {args.threads} thread(s): ms, share of a copy of the same bytes, times as fast as "
          "onnxruntime")  # fmt: skip
    contenders = {n: {who: Contender(who, n, "estimate") for who in ("layoutkit", "onnxruntime", "machine")}
                  for n in args.threads}  # fmt: skip
    rng = random.Random(args.seed)
    rows = []
    for name, (op, *_) in OPERATORS.items():
        shapes = [drawn(rng, args.elements, op != "SpaceToDepth") for _ in range(args.draws)]
        if args.only and not any(word in name for word in args.only.split(",")):
            continue
        for shape in shapes:
            for last in (False, True)[: 1 if op in ROWS else 2]:
                row = [play(name, shape, last, contenders[n], args) for n in args.threads]
                rows.append(row)
                print(f"{name:<19}{'x'.join(map(str, shape)):<16}{'last' if last else 'plain':<6}"
                      + "".join(f"{ms:9.3f} {share:5.2f} {ratio:6.2f}" for ms, share, ratio in row),
                      flush=True)  # fmt: skip
    for n, of in zip(args.threads, zip(*rows)):
        print(f"{n} thread(s), geometric means: {geomean(share for _, share, _ in of):.2f} of a copy, "
              f"{geomean(ratio for _, _, ratio in of):.2f} times as fast")  # fmt: skip
    for of in contenders.values():
        for c in of.values():
            c.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
