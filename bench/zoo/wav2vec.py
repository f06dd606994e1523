"""The features of wav2vec 2.0: seven strided convolutions over a second of audio, GELU, one group normalisation."""

import torch
from torch import nn

from .registry import Network, network


@network("wav2vec")
def wav2vec():
    layers, ic = [], 1
    for i, (k, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))):
        layers += [nn.Conv1d(ic, 512, k, stride, bias=False), *([] if i else [nn.GroupNorm(512, 512)]), nn.GELU()]
        ic = 512
    return Network(nn.Sequential(*layers), {"audio": torch.zeros(1, 1, 16000)})
