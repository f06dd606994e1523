"""A network of the zoo as an ONNX file, with samples of its results in float64: its weights are drawn so that
activations neither vanish nor explode."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from math import prod
from pathlib import Path

import torch
from contenders import digest, network_data
from torch import nn

from . import ZOO, Network

OPSETS = {"script": 17, "dynamo": 18}
NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d


def made(name: str) -> Network:
    """A network with weights: the same numbers in every process."""
    torch.manual_seed(0)
    found = ZOO[name]()
    inputs = {key: torch.randn_like(x) for key, x in found.inputs.items()}
    module = found.module
    for part in module.modules():
        weight = getattr(part, "weight", None)
        if isinstance(part, (nn.modules.conv._ConvNd, nn.Linear)):
            read = weight[0].numel()  # numbers that a result is the sum of
            if getattr(part, "transposed", False):
                read = part.in_channels * prod(part.kernel_size) / prod(part.stride)
            nn.init.normal_(weight, std=(1 if isinstance(part, nn.Linear) else found.gain) / read**0.5)
            if part.bias is not None:
                nn.init.normal_(part.bias, std=0.05)
        elif isinstance(part, (*NORMS, nn.LayerNorm, nn.GroupNorm)) and weight is not None:
            nn.init.uniform_(weight, 0.5, 1.2)
            nn.init.normal_(part.bias, std=0.1)
        if isinstance(part, NORMS):
            part.momentum = None  # the mean over all that it has seen
    with torch.no_grad():  # batch normalisations take the statistics of a run
        module.train()(*(torch.cat([x, torch.randn_like(x)]) for x in inputs.values()))
    return Network(module.eval(), inputs, found.gain)


def exported(name: str, folder: Path, exporter: str = "script") -> Path:
    """Write a network into a folder, and what it gives for the inputs of contenders.py; the file."""
    module, inputs, _ = made(name)
    path = folder / f"{name}.onnx"
    noise = io.StringIO()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, tuple(inputs.values()), str(path), input_names=list(inputs), dynamo=exporter == "dynamo",
            opset_version=OPSETS[exporter], external_data=False,
        )  # fmt: skip
    given = network_data({"inputs": {key: list(x.shape) for key, x in inputs.items()}, "random": True})
    with torch.no_grad():
        results = module.double()(*(torch.from_numpy(x).double() for x in given.values()))
    results = [results] if isinstance(results, torch.Tensor) else results
    path.with_suffix(".json").write_text(json.dumps(digest({"kind": "network"}, [y.numpy() for y in results])))
    return path
