"""Where a training step's time goes, by operator: torch alone beside the model that `convert` makes of it.

    python bench/training_profile.py --network resnet50 --layout NHWC --threads 2

Own milliseconds of a step by kind of work, as torch.profiler counts them. Convolutions that `convert` leaves to torch
are those of torch in both columns.
"""

from __future__ import annotations

import argparse
import functools
from collections import defaultdict
from typing import Any

import torch
from residual import NETWORKS, OF_ZOO, trained
from torch.profiler import ProfilerActivity, profile, record_function

from layoutkit.torch import convert, kernels, norms
from layoutkit.torch.trials import ROUNDS

WARM = 2 * ROUNDS + 1  # steps in which layers are tried
KINDS = {  # a kind of work: beginnings of the names of torch's operators, and ours
    "conv forward": ("aten::mkldnn_convolution", "aten::_slow_conv", "aten::_conv_depthwise", "lk conv forward"),
    "conv backward": ("aten::convolution_backward", "aten::_slow_conv2d_backward", "aten::_slow_conv3d_backward"),
    "conv data gradient": ("lk conv data gradient",),
    "conv weight gradient": ("lk conv weight gradient",),
    "batch norm forward": ("aten::native_batch_norm", "aten::_native_batch_norm", "lk batch norm forward"),
    "batch norm backward": ("aten::native_batch_norm_backward", "lk batch norm backward"),
    "ReLU forward": ("aten::relu", "aten::clamp_min", "aten::hardtanh"),
    "ReLU backward": ("aten::threshold_backward", "aten::hardtanh_backward"),
    "sums": ("aten::add",),
    "optimizer": ("aten::_foreach", "Optimizer"),
    "pooling": ("aten::max_pool", "aten::avg_pool", "aten::mean", "lk pool"),
}
NAMED = (
    (kernels, "conv", "conv forward"), (kernels, "conv_transpose", "conv data gradient"),
    (kernels, "conv_weight", "conv weight gradient"), (norms, "_batch_norm", "batch norm forward"),
    (norms, "_backward", "batch norm backward"),
)  # fmt: skip


def kind_of(name: str) -> str:
    """The kind of work, by the longest beginning that fits."""
    fits = [(len(start), kind) for kind, starts in KINDS.items() for start in starts if name.startswith(start)]
    return max(fits)[1] if fits else "rest"


def name_ours() -> None:
    """Has the profiler see our kernels."""
    for module, attribute, name in NAMED:
        setattr(module, attribute, named(getattr(module, attribute), f"lk {name}"))


def named(function: Any, name: str) -> Any:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        with record_function(name):
            return function(*args)

    return call


def own_times(args: argparse.Namespace, ours: bool) -> dict[str, float]:
    """Milliseconds of a step by kind of work."""
    torch.manual_seed(0)
    model, channels, axes = trained(args.network)
    last = torch.channels_last if axes == 2 else torch.channels_last_3d
    form = last if args.layout == "NHWC" else torch.contiguous_format
    model = (convert(model) if ours else model).to(memory_format=form)
    x = torch.randn(args.batch, channels, *[args.size] * axes).to(memory_format=form)
    with torch.no_grad():
        classes, *size = model(x).shape[1:]
    target = torch.randint(classes, (args.batch, *size))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()

    for _ in range(WARM if ours else 2):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(args.steps):
            step()
    times: dict[str, float] = defaultdict(float)
    for event in found.key_averages():
        times[kind_of(event.key)] += event.self_cpu_time_total / 1e3 / args.steps
        if args.rest and kind_of(event.key) == "rest" and event.self_cpu_time_total > 1e3 * args.steps:
            print(f"  rest: {event.key} {event.self_cpu_time_total / 1e3 / args.steps:.1f} ms")
    return times


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--network", choices=(*NETWORKS, *OF_ZOO), default="resnet50", help="default %(default)s")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--size", type=int, default=224, help="of an image or volume by axis")
    p.add_argument("--layout", choices=("NHWC", "NCHW"), default="NHWC")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--rest", action="store_true", help="name what counts as rest")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    theirs = own_times(args, False)
    name_ours()
    ours = own_times(args, True)
    print(f"{args.network}, batch {args.batch}, {args.layout}, {args.threads} thread(s): ms of a step, torch and ours")
    for kind in (*KINDS, "rest"):
        print(f"{kind:22} {theirs.get(kind, 0):9.1f} {ours.get(kind, 0):9.1f}")
    print(f"{'all':22} {sum(theirs.values()):9.1f} {sum(ours.values()):9.1f}")


if __name__ == "__main__":
    main()
