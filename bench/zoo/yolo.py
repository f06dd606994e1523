"""Detectors like YOLOv5n, v8n and v10n, on images of 640x640; what chooses boxes afterwards is not part of them."""

import torch
from torch import nn

from .blocks import conv as _conv
from .registry import Network, network

STRIDES = 8, 16, 32


def conv(ic, oc, k=1, stride=1, groups=1, act=nn.SiLU):
    return _conv(ic, oc, k, stride, groups, act)


class Bottleneck(nn.Module):
    def __init__(self, c, kernels, residual):
        super().__init__()
        self.layers, self.residual = nn.Sequential(*(conv(c, c, k) for k in kernels)), residual

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


class Mixed(nn.Module):
    """Depthwise and pointwise convolutions in turns."""

    def __init__(self, c, residual):
        super().__init__()
        layers = [conv(c, c, 3, groups=c), conv(c, 2 * c), conv(2 * c, 2 * c, 3, groups=2 * c), conv(2 * c, c)]
        self.layers, self.residual = nn.Sequential(*layers, conv(c, c, 3, groups=c)), residual

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


class C3(nn.Module):
    """Two ways through half the channels, one of them through bottlenecks, joined (v5)."""

    def __init__(self, ic, oc, count=1, residual=True):
        super().__init__()
        c = oc // 2
        self.a, self.b, self.join = conv(ic, c), conv(ic, c), conv(2 * c, oc)
        self.blocks = nn.Sequential(*(Bottleneck(c, (1, 3), residual) for _ in range(count)))

    def forward(self, x):
        return self.join(torch.cat([self.blocks(self.a(x)), self.b(x)], 1))


class C2f(nn.Module):
    """Half the channels through bottlenecks, all that is in between joined (v8, v10)."""

    def __init__(self, ic, oc, count=1, residual=True, mixed=False):
        super().__init__()
        c = oc // 2
        self.first, self.join = conv(ic, oc), conv((2 + count) * c, oc)
        self.blocks = nn.ModuleList(
            Mixed(c, residual) if mixed else Bottleneck(c, (3, 3), residual) for _ in range(count)
        )

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.join(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Poolings of one another, joined."""

    def __init__(self, c):
        super().__init__()
        self.first, self.last, self.pool = conv(c, c // 2), conv(2 * c, c), nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Places(nn.Module):
    """Attention of half the channels (v10), as convolutions and products of matrices."""

    def __init__(self, c):
        super().__init__()
        self.c = c // 2
        self.heads, self.key = max(1, self.c // 64), 32
        self.first, self.last = conv(c, c), conv(c, c)
        self.qkv = conv(self.c, self.c + 2 * self.heads * self.key, act=None)
        self.out, self.place = conv(self.c, self.c, act=None), conv(self.c, self.c, 3, groups=self.c, act=None)
        self.feed = nn.Sequential(conv(self.c, 2 * self.c), conv(2 * self.c, self.c, act=None))

    def forward(self, x):
        a, b = self.first(x).split((self.c, self.c), 1)
        n, c, h, w = b.shape
        q, k, v = self.qkv(b).view(n, self.heads, -1, h * w).split((self.key, self.key, c // self.heads), 2)
        scores = ((q.transpose(-2, -1) @ k) * self.key**-0.5).softmax(-1)
        y = (v @ scores.transpose(-2, -1)).view(n, c, h, w) + self.place(v.reshape(n, c, h, w))
        b = b + self.out(y)
        return self.last(torch.cat([a, b + self.feed(b)], 1))


def down(ic, oc, apart):
    """To half the size; `apart`: channels first, then space (v10)."""
    return nn.Sequential(conv(ic, oc), conv(oc, oc, 3, 2, oc, None)) if apart else conv(ic, oc, 3, 2)


class Anchors(nn.Module):
    """Boxes as v5 decodes them: a grid of cells, three anchors each."""

    def __init__(self, widths, classes=80):
        super().__init__()
        self.each = nn.ModuleList(nn.Conv2d(c, 3 * (classes + 5), 1) for c in widths)
        self.classes = classes

    def forward(self, features):
        found = []
        for x, layer, stride in zip(features, self.each, STRIDES):
            n, _, h, w = x.shape
            y = layer(x).view(n, 3, self.classes + 5, h, w).permute(0, 1, 3, 4, 2).sigmoid()
            rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack((columns, rows), 2).expand(1, 3, h, w, 2).to(x.dtype)
            size = torch.tensor([[1.0, 1.5], [2.0, 2.0], [3.0, 2.5]]).view(1, 3, 1, 1, 2) * stride
            place, extent, rest = y.split((2, 2, self.classes + 1), 4)
            place, extent = (place * 2 + (grid - 0.5)) * stride, (extent * 2) ** 2 * size
            found.append(torch.cat((place, extent, rest), 4).view(n, -1, self.classes + 5))
        return torch.cat(found, 1)


class Distances(nn.Module):
    """Boxes as v8 and v10 decode them: distances from a cell to the sides as means of 16 bins."""

    def __init__(self, widths, classes=80, bins=16, light=False):
        super().__init__()
        self.bins, self.classes = bins, classes
        box, kind = max(16, widths[0] // 4, 4 * bins), max(widths[0], min(classes, 100))
        self.boxes = nn.ModuleList(
            nn.Sequential(conv(c, box, 3), conv(box, box, 3), nn.Conv2d(box, 4 * bins, 1)) for c in widths
        )
        self.kinds = nn.ModuleList(
            nn.Sequential(
                *((conv(c, c, 3, groups=c), conv(c, kind), conv(kind, kind, 3, groups=kind), conv(kind, kind)) if light
                  else (conv(c, kind, 3), conv(kind, kind, 3))),
                nn.Conv2d(kind, classes, 1),
            )
            for c in widths
        )  # fmt: skip
        self.mean = nn.Conv2d(bins, 1, 1, bias=False)

    def forward(self, features):
        flat = [torch.cat((b(x), k(x)), 1).flatten(2) for x, b, k in zip(features, self.boxes, self.kinds)]
        places, steps = [], []
        for x, stride in zip(features, STRIDES):
            h, w = x.shape[-2:]
            rows, columns = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            places.append(torch.stack((columns, rows)).view(2, -1))
            steps.append(torch.full((1, h * w), float(stride)))
        box, kinds = torch.cat(flat, 2).split((4 * self.bins, self.classes), 1)
        n, _, cells = box.shape
        sides = self.mean(box.view(n, 4, self.bins, cells).transpose(2, 1).softmax(1)).view(n, 4, cells)
        before, after = sides.chunk(2, 1)
        place = torch.cat(places, 1)[None]
        a, b = place - before, place + after
        boxes = torch.cat(((a + b) / 2, b - a), 1) * torch.cat(steps, 1)
        return torch.cat((boxes, kinds.sigmoid()), 1)


class Yolo(nn.Module):
    """Down to 1/32, up again, down again, and a head at three sizes."""

    def __init__(self, version, widths=(16, 32, 64, 128, 256), counts=(1, 2, 2, 1)):
        super().__init__()
        block = C3 if version == 5 else C2f
        new = version == 10
        a, b, c, d, e = widths
        self.stem = nn.Sequential(
            conv(3, a, 6, 2) if version == 5 else conv(3, a, 3, 2), conv(a, b, 3, 2), block(b, b, counts[0])
        )
        self.three = nn.Sequential(conv(b, c, 3, 2), block(c, c, counts[1]))
        self.four = nn.Sequential(down(c, d, new), block(d, d, counts[2]))
        self.five = nn.Sequential(down(d, e, new), block(e, e, counts[3]), Pyramid(e), *([Places(e)] if new else []))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.up_four, self.up_three = block(e + d, d, 1, False), block(d + c, c, 1, False)
        self.down_four, self.down_five = conv(c, c, 3, 2), down(d, d, new)
        self.out_four = block(c + d, d, 1, False)
        self.out_five = C2f(d + e, e, 1, True, mixed=True) if new else block(d + e, e, 1, False)
        self.head = Anchors((c, d, e)) if version == 5 else Distances((c, d, e), light=new)

    def forward(self, image):
        three = self.three(self.stem(image))
        four = self.four(three)
        five = self.five(four)
        middle = self.up_four(torch.cat((self.up(five), four), 1))
        small = self.up_three(torch.cat((self.up(middle), three), 1))
        middle = self.out_four(torch.cat((self.down_four(small), middle), 1))
        large = self.out_five(torch.cat((self.down_five(middle), five), 1))
        return self.head((small, middle, large))


@network("yolov5")
def v5():
    return Network(Yolo(5), {"image": torch.zeros(1, 3, 640, 640)})


@network("yolov8")
def v8():
    return Network(Yolo(8), {"image": torch.zeros(1, 3, 640, 640)})


@network("yolov10")
def v10():
    return Network(Yolo(10), {"image": torch.zeros(1, 3, 640, 640)})
