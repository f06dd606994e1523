"""The algorithms of convolution: this is the only list of them."""

from __future__ import annotations

from .base import Algorithm
from .bf16x import Bf16Components
from .blas import Blas
from .depthwise import Depthwise
from .depthwise_dot import DepthwiseDot
from .direct import DirectByFilters, DirectByPixels
from .folded import Folded, FoldedIm2col
from .grouped import Grouped
from .grouped_dot import GroupedDot
from .im2col import Im2colByFilters, Im2colByPixels
from .plane_strips import PlaneStrips
from .planes import Planes
from .staged import FoldedStaged, Staged
from .strips import Strips
from .winograd import WINOGRAD

ALGORITHMS: tuple[Algorithm, ...] = (
    DirectByPixels(), DirectByFilters(), Im2colByPixels(), Im2colByFilters(), Bf16Components(3, "standard"),
    Bf16Components(2, "fast"), *WINOGRAD, Folded(), FoldedIm2col(), Staged(), FoldedStaged(),
    Planes(), Strips(), PlaneStrips(), Depthwise(), DepthwiseDot(), Grouped(), GroupedDot(),
    Blas(),
)  # fmt: skip
AUTO = "auto"
NAMES = (AUTO, *dict.fromkeys(a.name for a in ALGORITHMS))  # what `algorithm=` may be
