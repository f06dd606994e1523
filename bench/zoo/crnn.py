"""CRNN for lines of text: convolutions, and two LSTMs that go both ways."""

import torch
from torch import nn

from .blocks import conv
from .registry import Network, network


class Crnn(nn.Module):
    def __init__(self, classes=37, c=256):
        super().__init__()
        self.body = nn.Sequential(
            conv(1, 64, 3), nn.MaxPool2d(2), conv(64, 128, 3), nn.MaxPool2d(2), conv(128, 256, 3), conv(256, 256, 3),
            nn.MaxPool2d((2, 1)), conv(256, 512, 3), conv(512, 512, 3), nn.MaxPool2d((2, 1)),
            nn.Conv2d(512, 512, (2, 1)), nn.ReLU(),
        )  # fmt: skip
        self.first, self.second = nn.LSTM(512, c, bidirectional=True), nn.LSTM(2 * c, c, bidirectional=True)
        self.head = nn.Linear(2 * c, classes)

    def forward(self, line):
        x = self.body(line).squeeze(2).permute(2, 0, 1)
        return self.head(self.second(self.first(x)[0])[0]).log_softmax(2)


@network("crnn")
def crnn():
    return Network(Crnn(), {"line": torch.zeros(1, 1, 32, 160)})
