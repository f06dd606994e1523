"""One contender in its own process: ``python contenders.py NAME THREADS``, driven by JSON lines over a pipe.

Started by compare.py. While it waits for its turn it is blocked on the pipe, its OpenMP workers asleep.
A way is one manner of calling the library, as its users do; buffers are touched before anything is timed.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from pipes import answering
from statistics import median
from typing import Any

import numpy as np

Call = Callable[[], object]
Ways = dict[str, Call]


LEAST_TIMED = 3  # calls of a turn; one more goes before
QUANTIZED = 0.02, 100, 0.005, 0.3, 110  # of int8: scale and zero point of x, scale of w, scale and zero point of y


def conv_data(case: dict) -> tuple[np.ndarray, np.ndarray]:
    """Input (NCHW) and filter (OIHW): the same in every process. Of int8 uint8 and int8, else float32."""
    rng = np.random.default_rng(0)
    x_shape = (case["batch"], case["ic"], *case["size"])
    w_shape = (case["oc"], case["ic"] // case["groups"], *case["kernel"])
    if case["dtype"] == "int8":  # so small that torch's kernels, which may saturate sums of pairs at int16, do not
        return rng.integers(0, 128, x_shape, np.uint8), rng.integers(-64, 64, w_shape, np.int8)
    return rng.standard_normal(x_shape, np.float32), rng.standard_normal(w_shape, np.float32)


def gradient_data(case: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Input, filter and gradient of the result, plain."""
    x, w = conv_data(case)
    out = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(
        case["size"], case["padding"], case["dilation"], case["kernel"], case["stride"]))  # fmt: skip
    return x, w, np.random.default_rng(1).standard_normal((case["batch"], case["oc"], *out), np.float32)


def reorder_data(case: dict) -> np.ndarray:
    """The array to reorder, in its physical shape."""
    dtype = {1: np.int8, 2: np.int16, 4: np.float32, 8: np.float64}[case["width"]]
    return np.arange(np.prod(case["src_shape"])).astype(dtype).reshape(case["src_shape"])


def network_data(case: dict) -> dict[str, np.ndarray]:
    """Numbers for the inputs of a network, by name: from a file, random, or as the onnx package has them."""
    if "data" in case:
        with np.load(case["data"]) as found:
            return {name: found[name] for name in found.files}
    rng, arrays = np.random.default_rng(0), {}
    for name, shape in case["inputs"].items():
        size = np.float32(np.prod(shape))
        ramp = (np.arange(int(size), dtype=np.float32) / size).reshape(shape)
        arrays[name] = rng.standard_normal(shape, np.float32) if case["random"] else ramp
    return arrays


class Numpy:
    """numpy: windows and tensordot, transposes."""

    def __init__(self, threads: int) -> None:
        self.version = f"numpy {np.__version__}"

    def conv(self, case: dict) -> Ways:
        x, w = conv_data(case)
        if case["groups"] > 1 or len(case["size"]) != 2 or case["dtype"] != "float32":
            return {}
        (sh, sw), (ph, pw), (dh, dw) = case["stride"], case["padding"], case["dilation"]
        reach = [d * (k - 1) + 1 for d, k in zip(case["dilation"], case["kernel"])]

        def tensordot():
            padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))[:, :, ::sh, ::sw]
            return np.tensordot(windows[..., ::dh, ::dw], w, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)

        return {"numpy": tensordot}

    def backward(self, case: dict) -> Ways:
        return {}

    def reorder(self, case: dict) -> Ways:
        x = reorder_data(case)
        view = x.reshape(case["view"]).transpose(case["order"])
        out = np.ones(view.shape, x.dtype)

        def copyto():
            np.copyto(out, view)
            return out

        return {"numpy new": lambda: np.ascontiguousarray(view), "numpy out": copyto}

    def to_numpy(self, way: str, result) -> np.ndarray:
        return result


class Torch:
    """torch: eager calls, and oneDNN with filters packed beforehand."""

    def __init__(self, threads: int) -> None:
        self.torch = torch = importlib.import_module("torch")
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.version = f"torch {torch.__version__}"

    def conv(self, case: dict) -> Ways:
        torch = self.torch
        x, w = map(torch.from_numpy, conv_data(case))
        if case["dtype"] == "int8":
            return self.quantized(case, x, w)
        x, w = (a.to(getattr(torch, case["dtype"])) for a in (x, w))
        s, p, d = case["stride"], case["padding"], case["dilation"]
        groups, rank = case["groups"], len(case["size"])
        last = torch.channels_last if rank == 2 else torch.channels_last_3d
        x_last, w_last = x.to(memory_format=last), w.to(memory_format=last)
        conv = getattr(torch.nn.functional, f"conv{rank}d")
        ways = {
            "torch NCHW": lambda: conv(x, w, stride=s, padding=p, dilation=d, groups=groups),
            "torch NHWC": lambda: conv(x_last, w_last, stride=s, padding=p, dilation=d, groups=groups),
        }
        if case["dtype"] not in ("float32", "bfloat16"):
            return ways
        try:
            ops = torch.ops.mkldnn
            packed = ops._reorder_convolution_weight(w, p, s, d, groups, list(x.shape))
            ways["packed NHWC"] = lambda: ops._convolution_pointwise(
                x_last, packed, None, p, s, d, groups, "none", [], ""
            )
            from torch.utils import mkldnn

            module = getattr(torch.nn, f"Conv{rank}d")(
                case["ic"], case["oc"], case["kernel"], s, p, d, groups, bias=False
            ).eval()
            module = module.to(w.dtype)
            module.weight.copy_(w)
            module, x_blocked = mkldnn.to_mkldnn(module), x.to_mkldnn()
            ways["packed blocked"] = lambda: module(x_blocked)
        except (AttributeError, RuntimeError, NotImplementedError) as error:  # private operators: they move
            print(f"torch without packed filters: {error}", file=sys.stderr)
        return ways

    def backward(self, case: dict) -> Ways:
        """As autograd calls it, with the filter in the memory format of the rest."""
        torch, ways = self.torch, {}
        rank = len(case["size"])
        wanted = [case["of"] == "input", case["of"] == "weight", False]
        last = torch.channels_last if rank == 2 else torch.channels_last_3d
        for layout, form in (("NCHW", torch.contiguous_format), ("NHWC", last)):
            x, w, dy = (
                torch.from_numpy(a).to(getattr(torch, case["dtype"])).to(memory_format=form)
                for a in gradient_data(case)
            )
            ways[f"torch {layout}"] = lambda x=x, w=w, dy=dy: torch.ops.aten.convolution_backward(
                dy,
                x,
                w,
                None,
                case["stride"],
                case["padding"],
                case["dilation"],
                False,
                [0] * rank,
                case["groups"],
                wanted,
            )[wanted.index(True)]
        return ways

    def training(self, case: dict) -> Ways:
        """A step of training: forwards, backwards, the weights moved."""
        from residual import trained

        torch = self.torch
        torch.set_grad_enabled(True)
        torch.manual_seed(0)
        model, channels, axes = trained(case["network"])
        last = torch.channels_last if axes == 2 else torch.channels_last_3d
        form = last if case["layout"] == "NHWC" else torch.contiguous_format
        model = self.converted(model).to(memory_format=form)
        x = torch.randn(case["batch"], channels, *[case["size"]] * axes).to(memory_format=form)
        with torch.no_grad():
            classes, *size = model(x).shape[1:]
        target = torch.randint(classes, (case["batch"], *size))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def step():
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return {"step": step}

    def converted(self, model):
        """The model as it is."""
        return model

    def quantized(self, case: dict, x, w) -> Ways:
        """torch's own quantized convolution, its filter packed beforehand."""
        torch, (x_scale, x_zero, w_scale, y_scale, y_zero) = self.torch, QUANTIZED
        q = torch._make_per_tensor_quantized_tensor
        last = torch.channels_last if len(case["size"]) == 2 else torch.channels_last_3d
        inputs = q(x, x_scale, x_zero), q(x.to(memory_format=last), x_scale, x_zero)
        rank = len(case["size"])
        ops = torch.ops.quantized
        prepack, conv = getattr(ops, f"conv{rank}d_prepack"), getattr(ops, f"conv{rank}d")
        packed = prepack(q(w, w_scale, 0), None, case["stride"], case["padding"], case["dilation"], case["groups"])
        return {
            f"torch {layout}": lambda x=x: conv(x, packed, y_scale, y_zero)
            for layout, x in zip(("NCHW", "NHWC"), inputs)
        }

    def reorder(self, case: dict) -> Ways:
        x = self.torch.from_numpy(reorder_data(case))
        view = x.reshape(case["view"]).permute(case["order"])
        out = self.torch.ones(view.shape, dtype=x.dtype)
        return {"torch new": view.contiguous, "torch out": lambda: out.copy_(view)}

    def to_numpy(self, way: str, result) -> np.ndarray:
        if result.is_quantized:
            return result.int_repr().contiguous().numpy()
        result = result.to_dense() if result.layout != self.torch.strided else result
        return (result.float() if result.dtype == self.torch.bfloat16 else result).contiguous().numpy()


class Converted(Torch):
    """torch with the convolutions of layoutkit."""

    def converted(self, model):
        lkt = importlib.import_module("layoutkit.torch")
        importlib.import_module("layoutkit").tuning(os.environ.get("COMPARE_TUNING", "estimate"))
        return lkt.convert(model)


class Layoutkit:
    """layoutkit: an operation object called on arrays, and reorder."""

    def __init__(self, threads: int) -> None:
        self.lk = importlib.import_module("layoutkit")
        self.threads = threads
        self.lk.tuning(os.environ.get("COMPARE_TUNING", "estimate"))
        self.version = f"layoutkit {self.lk.__version__}"
        self.decided: dict[str, str] = {}

    def conv(self, case: dict) -> Ways:
        from layoutkit.bench.layers import with_axes

        x, w = conv_data(case)
        ways, self.rank = {}, len(case["size"])
        for layout in ("NCHW", "NHWC", "nChw16c"):
            format = with_axes(layout, self.rank)
            numbers: dict = {}
            physical = self.lk.reorder(x, with_axes("NCHW", self.rank), format)
            if case["dtype"] == "int8":
                x_scale, x_zero, w_scale, y_scale, y_zero = QUANTIZED
                numbers = dict(dtype=("uint8", "uint8"), zero_point=x_zero, out_zero_point=y_zero,
                               scale=np.float32(x_scale * w_scale / y_scale))  # fmt: skip
            elif case["dtype"] != "float32":
                plain = "abcde"[: w.ndim]
                physical = self.lk.reorder(physical, format, format, shape=x.shape, dtype=case["dtype"])
                w = self.lk.reorder(w, plain, plain, dtype=case["dtype"]) if w.dtype == np.float32 else w
                numbers = dict(dtype=(case["dtype"], case["dtype"]))
            op = getattr(self.lk, f"Conv{self.rank}d")(
                w, stride=case["stride"], padding=case["padding"], dilation=case["dilation"], groups=case["groups"],
                layout=format, threads=self.threads, **numbers,
            )  # fmt: skip
            ways[f"lk {layout}"] = lambda op=op, physical=physical: op(physical)
            self.decided[f"lk {layout}"] = op.plan(x.shape).choices[0].source
        self.oc = case["oc"]
        return ways

    def reorder(self, case: dict) -> Ways:
        x = reorder_data(case)
        src, dst, reorder = case["src"], case["dst"], self.lk.reorder
        out = np.ones(self.lk.Layout(dst).physical_shape(case["shape"]), x.dtype)
        args = {"threads": self.threads}
        source = self.lk.plan(reorder, x, src, dst, **args).choices[0].source
        self.decided = {"lk new": source, "lk out": source}
        return {
            "lk new": lambda: reorder(x, src, dst, **args),
            "lk out": lambda: reorder(x, src, dst, out=out, **args),
        }

    def to_numpy(self, way: str, result) -> np.ndarray:
        layout = way.removeprefix("lk ")
        if layout in ("new", "out", "layoutkit"):
            return result
        from layoutkit.bench.layers import with_axes

        format = with_axes(layout, self.rank)
        shape = format.padded_shape(result.shape)
        if result.dtype.itemsize == 2:
            named = "bfloat16" if result.dtype.name in ("bfloat16", "uint16") else "float16"
            result = self.lk.reorder(
                result, format, format, shape=(shape[0], self.oc, *shape[2:]), dtype=(named, "float32")
            )
        return self.lk.reorder(result, format, with_axes("NCHW", self.rank), shape=(shape[0], self.oc, *shape[2:]))

    def backward(self, case: dict) -> Ways:
        """Gradients as a training step asks for them: filters are packed in every call."""
        from layoutkit.bench.layers import with_axes

        x, w, dy = gradient_data(case)
        ways, rank = {}, len(case["size"])
        self.rank, self.oc = rank, case["ic"] if case["of"] == "input" else w.shape[1]
        attributes = {name: case[name] for name in ("stride", "padding", "dilation", "groups")}
        for layout in ("NCHW", "NHWC"):
            format = with_axes(layout, rank)
            a, b = (self.lk.reorder(t, with_axes("NCHW", rank), format) for t in (x, dy))
            if case["dtype"] != "float32":
                a, b = (self.lk.reorder(t, format, format, dtype=case["dtype"]) for t in (a, b))
                plain = "abcde"[: w.ndim]
                w = self.lk.reorder(w, plain, plain, dtype=case["dtype"]) if w.dtype == np.float32 else w
            ask = attributes | dict(layout=format, threads=self.threads, dtype=(case["dtype"], case["dtype"]))
            if case["of"] == "input":
                call = getattr(self.lk.grad, f"conv{rank}d_input")
                ways[f"lk {layout}"] = lambda call=call, b=b, w=w, ask=ask: call(x.shape, w, b, **ask)
                self.decided[f"lk {layout}"] = self.lk.plan(call, x.shape, w, b, **ask).choices[0].source
            else:
                call = getattr(self.lk.grad, f"conv{rank}d_weight")
                names = str(format).replace("N", "O").replace("C", "I")
                ask |= dict(filter_layout=names)
                ways[f"lk {layout}"] = lambda call=call, a=a, b=b, size=w.shape, ask=ask: call(a, size, b, **ask)
                self.decided[f"lk {layout}"] = self.lk.plan(call, a, w.shape, b, **ask).choices[0].source
        return ways

    def network(self, case: dict) -> Ways:
        """A model; the first call plans."""
        arrays = network_data(case)
        model = self.lk.onnx.load(case["path"], threads=self.threads, accuracy=case["accuracy"], dtype=case["dtype"])
        return {"layoutkit": lambda: list(model.run(arrays).values())}


class Onnxruntime:
    """onnxruntime, all optimisations on."""

    def __init__(self, threads: int) -> None:
        self.ort = ort = importlib.import_module("onnxruntime")
        self.options = ort.SessionOptions()
        self.options.intra_op_num_threads, self.options.inter_op_num_threads = threads, 1
        self.options.log_severity_level = 3
        self.version = f"onnxruntime {ort.__version__}"

    def network(self, case: dict) -> Ways:
        arrays = network_data(case)
        session = self.ort.InferenceSession(case["path"], self.options, providers=["CPUExecutionProvider"])
        return {"onnxruntime": lambda: session.run(None, arrays)}

    def to_numpy(self, way: str, result) -> np.ndarray:
        return result


class Openvino:
    """OpenVINO, for the least latency."""

    def __init__(self, threads: int) -> None:
        self.ov, self.threads = importlib.import_module("openvino"), threads
        self.version = f"openvino {self.ov.__version__.split('-')[0]}"

    def network(self, case: dict) -> Ways:
        arrays = network_data(case)
        settings = {"INFERENCE_NUM_THREADS": self.threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
                    "INFERENCE_PRECISION_HINT": case["openvino"]}  # fmt: skip
        model = self.ov.compile_model(case["path"], "CPU", settings)
        own = threading.local()  # a request runs once at a time

        def infer():
            if not hasattr(own, "request"):
                own.request = model.create_infer_request()
            return list(own.request.infer(arrays, share_inputs=True).values())

        return {"openvino": infer}

    def to_numpy(self, way: str, result) -> np.ndarray:
        return result


class Machine:
    """The limits: FMA peak, and a copy of as many bytes."""

    def __init__(self, threads: int) -> None:
        from layoutkit.bench.suites import DTYPES
        from layoutkit.choosing.limits import Limits

        self.types, self.limits, self.threads, self.version = DTYPES, Limits(), threads, "limits"

    def rate(self, case: dict) -> float:
        """Flops, or bytes, a second."""
        if case["kind"] in ("conv", "backward"):
            return self.limits.fma(self.threads, self.types[case["dtype"]].peak)
        return self.limits.copy(case["work"], self.threads)


CONTENDERS = {
    "layoutkit": Layoutkit, "torch": Torch, "numpy": Numpy, "onnxruntime": Onnxruntime, "openvino": Openvino,
    "machine": Machine, "layoutkit.torch": Converted,
}  # fmt: skip


def digest(case: dict, result: Any) -> list:
    """What tells whether two contenders computed the same: exact of reorders, a sample of convolutions and of every
    result of a network."""
    if case["kind"] == "network":
        return [digest({"kind": "result"}, each) for each in result]
    if case["kind"] == "reorder":
        return [zlib.crc32(np.ascontiguousarray(result).data)]
    flat = np.ascontiguousarray(result).reshape(-1)
    count = 1000 if case["kind"] == "result" else 100
    return flat[:: max(1, flat.size // count)].astype(float).tolist()


def most_bytes() -> int:
    """The most memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss begins with that of the process that has started this one
        return 1024 * next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def turn(call: Call, seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of a call: the median of those that fit into a turn; others go before, untimed, for as long."""
    start = now = clock()
    while now == start or now - start < seconds:
        call()
        now = clock()
    times: list[float] = []
    start = now
    while len(times) < LEAST_TIMED or now - start < seconds:
        call()
        before, now = now, clock()
        times.append(now - before)
    return median(times)


def load(call: Call, seconds: float, callers: int) -> dict[str, float]:
    """Calls for some seconds by so many threads at once: median and 99th percentile of a call, calls a second."""
    times: list[list[float]] = [[] for _ in range(callers)]
    ready = threading.Barrier(callers)

    def caller(mine: list[float]) -> None:
        call()
        ready.wait()
        start = before = time.perf_counter()
        while len(mine) < 3 or before - start < seconds:
            call()
            now = time.perf_counter()
            mine.append(now - before)
            before = now

    threads = [threading.Thread(target=caller, args=(mine,)) for mine in times]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    every = sorted(t for mine in times for t in mine)
    rate = sum(len(mine) / sum(mine) for mine in times)
    return {"median": median(every), "p99": every[int(0.99 * (len(every) - 1) + 0.5)], "rate": rate}


def serve(name: str, threads: int) -> None:
    """Answer requests until the pipe closes."""
    answer = answering()
    try:
        contender = CONTENDERS[name](threads)
    except ImportError as error:
        answer(missing=str(error))
        return
    answer(version=contender.version)
    ways: Ways = {}
    case: dict = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "prepare":
            ways.clear()
            case = request["case"]
            if name == "machine":
                answer(ways=["limit"], digests={}, decided={})
                continue
            start = time.perf_counter()
            try:
                ways = getattr(contender, case["kind"])(case)
                digests = {way: digest(case, contender.to_numpy(way, call())) for way, call in ways.items()}
            except (ValueError, RuntimeError) as error:
                if case["kind"] != "network":
                    raise
                answer(refused=str(error))
                continue
            prepared = time.perf_counter() - start  # the first calls included
            answer(ways=list(ways), digests=digests, decided=getattr(contender, "decided", {}), seconds=prepared)
        elif request["do"] == "memory":
            answer(bytes=most_bytes())
        elif request["do"] == "load":
            answer(**load(ways[request["way"]], request["seconds"], request["callers"]))
        elif name == "machine":
            answer(rate=contender.rate(case))
        else:
            clock = time.process_time if request.get("clock") == "processor" else time.perf_counter
            answer(seconds=turn(ways[request["way"]], request["seconds"], clock))


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
