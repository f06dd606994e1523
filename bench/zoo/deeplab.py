"""DeepLabV3: ResNet-50 with dilated last stages, spatial pyramid pooling with dilations, resized to the image."""

import torch
from torch import nn

from .blocks import conv
from .registry import Network, network
from .resnext import stages


class Means(nn.Module):
    """The means of all channels, spread over the image."""

    def __init__(self, ic, oc):
        super().__init__()
        self.layers = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(ic, oc, 1), nn.ReLU())

    def forward(self, x):
        return nn.functional.interpolate(self.layers(x), x.shape[-2:], mode="bilinear", align_corners=False)


class Deeplab(nn.Module):
    def __init__(self, classes, c=256):
        super().__init__()
        self.body = stages(64, 1, ((3, 1, 1), (4, 2, 1), (6, 1, 2), (3, 1, 4)))
        pyramid = [conv(2048, c), *(conv(2048, c, 3, dilation=d) for d in (12, 24, 36)), Means(2048, c)]
        self.pyramid = nn.ModuleList(pyramid)
        self.head = nn.Sequential(conv(5 * c, c), nn.Dropout(0.5), conv(c, c, 3), nn.Conv2d(c, classes, 1))

    def forward(self, image):
        x = self.body(image)
        y = self.head(torch.cat([each(x) for each in self.pyramid], 1))
        return nn.functional.interpolate(y, image.shape[-2:], mode="bilinear", align_corners=False)


@network("deeplabv3")
def deeplab():
    return Network(Deeplab(21), {"image": torch.zeros(1, 3, 256, 256)})
