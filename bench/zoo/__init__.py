"""Networks of today, written in torch with random weights, and exported to ONNX: a file for each family.

``python -m zoo FOLDER [NAME ..]`` (from bench/) writes them as files; ``--exporter dynamo`` by torch's newer exporter.
"""

from . import (  # noqa: F401 these register
    convnext,
    crnn,
    deeplab,
    diffusion,
    efficientnet,
    encodec,
    hifigan,
    hrnet,
    mobilenet,
    regnet,
    resnext,
    sequences,
    superresolution,
    unet,
    vit,
    wav2vec,
    windows,
    yolo,
)  # fmt: skip
from .registry import ZOO, Network

__all__ = ["ZOO", "Network"]
