"""Problems of the user: those listed in a text file, or the convolutions of an ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._core.runtime import registry
from ..choosing import machine_profile, model, packaged
from ..choosing.costfile import Cost
from ..choosing.machine import assumed_caches
from ..choosing.machine_profile import UNIT_SCALE, MachineProfile
from ..choosing.threads import check_threads
from ..convolutions.problem import ConvProblem, pad_pairs
from ..convolutions.task import PackTask
from ..convolutions.types import TYPES
from ..reorders.problem import ReorderProblem
from .layers import Layer
from .suites import Case, ConvCase, in_types, of_layers, reorders

# Keys of the cost table.
_EXAMPLES = {"conv": "conv n1 c64 56x56 o128 k3x3 s2x2 p1+1,1+1 d1x1 g1 NHWC>NHWC f32",
             "reorder": "reorder 1x64x56x56 NCHW>NHWC x32"}  # fmt: skip


def cases(path: str | Path, layouts: Sequence[str], threads: Sequence[int]) -> list[Case]:
    """The problems in a file; ValueError or OSError says what is wrong with it."""
    path = Path(path)
    if path.suffix == ".onnx":
        layers: dict[str, list[Layer]] = {}
        for layer, types in onnx_layers(path):
            layers.setdefault(types, []).append(layer)
        return [case for types, of_types in layers.items()
                for case in in_types(of_layers(of_types, layouts, threads), [TYPES[types]])]  # fmt: skip
    return text_cases(path.read_text(encoding="utf-8").splitlines(), str(path), layouts, threads)


def text_cases(lines: Iterable[str], where: str, layouts: Sequence[str], threads: Sequence[int]) -> list[Case]:
    """One problem a line, as reports and ``explain(verbose=True)`` write them; empty lines and ``# ...`` aside.

    3x3 64->128 @56 s2                           a layer, in each of the layouts; " *4": four times
    conv n1 c64 56x56 o64 k3x3 .. NHWC>NHWC f32  a convolution as a key of the cost table
    reorder 1x64x56x56 NCHW>NHWC x32             a reorder, the same
    """
    layers: list[Layer] = []
    cases: list[Case] = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        try:
            if text.startswith(("conv ", "reorder ")):
                cases += exact_cases(text, threads)
            elif text:
                layer, star, count = text.partition("*")
                if star and not (count.strip().isdecimal() and 1 <= int(count) <= 10**6):
                    raise ValueError(f"a layer is met 1 to 1000000 times, such as '{layer.strip()} *4'; got {text!r}")
                layers += [Layer.parse(layer.strip())] * (int(count) if star else 1)
        except ValueError as error:
            known = _EXAMPLES.get(text.split()[0], "")
            form = "" if known in str(error) else f"; expected one such as '{known}'"
            raise ValueError(f"{where}, line {number}: {error}{form}") from None
    return list(dict.fromkeys([*cases, *of_layers(layers, layouts, threads)]))


def exact_cases(text: str, threads: Sequence[int]) -> Iterator[Case]:
    """The convolution or reorder of a key, on the threads that it names, else on these; ValueError if it is none."""
    head, _, last = text.rpartition(" t")
    if head and last.isdigit() and int(last):
        text, threads = head, [check_threads(int(last))]
    if text.startswith("conv"):
        p = ConvProblem.parse(text)
        title = text.removeprefix("conv ").partition(f" {p.src}>")[0]
        yield from (ConvCase(p, title, f"{p.src}>{p.dst}", 1, t) for t in threads)
    else:
        r = ReorderProblem.parse(text)
        yield from reorders([(r.src, r.dst, r.shape, r.width, 1)], threads)


def candidates(key: str) -> set[str]:
    """Names of the candidates of a problem, given as a key of the cost table; of a filter those of any stride.

    Raises
    ------
    ValueError
        The key is invalid.
    """
    if not key.startswith("filter "):
        return {c.name for case in exact_cases(key, ()) for c in case.task.candidates()}
    f = PackTask.parse(key)
    size = tuple(k + 13 for k in f.kernel)
    strided = [Layer(f.ic, f.oc, size, f.kernel, stride, groups=f.groups) for stride in (1, 2)]
    return {c.name for layer in strided for c in PackTask.of(layer.problem("NHWC")).candidates()}


def runnable(isa: str) -> str:
    """The instruction set that stands for `isa` here: itself, or its emulation; ValueError if there is neither."""
    for name in (isa, f"{isa}_emulated"):
        if name in registry.isas() + registry.isas(emulated=True):
            return name
    raise ValueError(f"this machine neither has instruction set {isa} nor emulates it")


def with_isa(name: str, isa: str, other: str) -> str:
    """A candidate's name, instruction set `isa` of its kernel replaced by `other`."""
    words = name.split(" ")
    return " ".join(w.removesuffix(isa) + other if w.endswith(f"_{isa}") else w for w in words)


@contextmanager
def as_on(identity: Mapping[str, Any]) -> Iterator[str]:
    """Plans and estimates made inside are for the machine of that identity. Gives its instruction set here."""
    isa = runnable(identity["isa"])
    profile = MachineProfile.of(identity.get("profile"))
    scale = packaged.relative(isa, profile) if profile else UNIT_SCALE
    before = registry.use_isa(isa)
    try:
        with assumed_caches(dict(enumerate(identity["caches"], 1))), machine_profile.scaled(scale):
            yield isa
    finally:
        registry.use_isa(before)


def candidates_of(identity: Mapping[str, Any], key: str) -> set[str]:
    """Names of the candidates of a problem on the machine of that identity."""
    with as_on(identity) as isa:
        return {with_isa(name, isa, identity["isa"]) for name in candidates(key)}


def shipped_log_errors(
    costs: Mapping[str, Mapping[str, Cost]], identity: Mapping[str, Any], key: str
) -> dict[str, float]:
    """log(measured / estimate) of a problem's candidates, estimated for the machine with that identity, where `costs`
    were measured."""
    with as_on(identity) as isa:
        of_problem = {with_isa(name, identity["isa"], isa): cost for name, cost in costs[key].items()}
        errors = model.log_errors(key, of_problem, isa)
    return {with_isa(name, isa, identity["isa"]): error for name, error in errors.items()}


def shipped_features(key: str) -> Sequence[float]:
    """The features of a problem; none where it has none."""
    found = model.problem_of(key, registry.isa())
    return found[1] if found else ()


def onnx_layers(path: Path) -> Iterator[tuple[Layer, str]]:
    """The Conv, ConvInteger and QLinearConv nodes of an ONNX model and their types, by the shapes and types that its
    inference finds; a batch left open is 1."""
    try:
        import onnx
    except ImportError:
        raise ValueError(f"{path}: reading ONNX models needs the extra: pip install 'layoutkit[onnx]'") from None
    try:
        model = onnx.shape_inference.infer_shapes(onnx.load(str(path), load_external_data=False))
    except OSError:
        raise
    except Exception as error:  # such as protobuf's DecodeError and those of onnx
        raise ValueError(f"{path}: not an ONNX model: {error}") from None
    graph = model.graph
    shapes = {i.name: tuple(i.dims) for i in graph.initializer}
    kinds = {i.name: i.data_type for i in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        shapes[value.name] = tuple(d.dim_value or (1 if k == 0 else 0) for k, d in enumerate(dims))
        kinds[value.name] = value.type.tensor_type.elem_type
    for node in graph.node:
        if node.op_type in _INPUTS:
            try:
                attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
                tensors = [node.input[i] for i in _INPUTS[node.op_type]]
                codes = [kinds.get(name, 0) for name in (*tensors, node.output[0])]
                types = _types_of(*(_ELEMENTS.get(onnx.TensorProto.DataType.Name(code)) for code in codes))
                yield _onnx_layer(tensors, shapes, attributes), types
            except (AttributeError, LookupError, TypeError, ValueError) as error:  # such as attributes of a wrong type
                raise ValueError(f"{path}: node {node.name or node.output[0]!r}: {error}") from None


# Which inputs of the operators are the tensor and the filter.
_INPUTS = {"Conv": (0, 1), "ConvInteger": (0, 1), "QLinearConv": (0, 3)}
_ELEMENTS = {"FLOAT": "f32", "DOUBLE": "f64", "FLOAT16": "f16", "BFLOAT16": "bf16", "UINT8": "u8", "INT8": "s8",
             "INT32": "s32"}  # fmt: skip


def _types_of(x: str | None, w: str | None, y: str | None) -> str:
    """The name of the types of a convolution; ValueError if they are not supported."""
    for types in TYPES.values():
        src, filter, _, dst = types.elements
        if (src, filter) == (x, w) and dst == (y or dst):
            return types.name
    raise ValueError(f"a convolution of {x} by {w} to {y}, expected one of {', '.join(TYPES)}")


def _onnx_layer(tensors: Sequence[str], shapes: dict, attributes: dict) -> Layer:
    x, w = (shapes.get(name, ()) for name in tensors)
    if len(x) != len(w) or not 3 <= len(x) <= 5 or not all(x) or not all(w):
        raise ValueError(f"input of shape {x} and filter of shape {w}: fixed shapes of 3 to 5 axes are needed")
    rank, ones = len(x) - 2, (1,) * (len(x) - 2)
    stride, dilation = tuple(attributes.get("strides", ones)), tuple(attributes.get("dilations", ones))
    auto = attributes.get("auto_pad", b"NOTSET").decode()
    if auto == "NOTSET":
        flat = tuple(attributes.get("pads", (0,) * 2 * rank))
        pads = tuple(zip(flat[:rank], flat[rank:]))
    else:
        pads = pad_pairs("valid" if auto == "VALID" else "same", x[2:], w[2:], stride, dilation)
        if auto == "SAME_LOWER":
            pads = tuple((b, a) for a, b in pads)
    layer = Layer(x[1], w[0], x[2:], w[2:], stride, pads, attributes.get("group", 1), dilation, x[0])
    layer.check(f"Conv {x} by {w}")
    return layer
