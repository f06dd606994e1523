"""Small groups: a vector of output channels reads the few input channels of its groups by a permutation of lanes."""

from __future__ import annotations

from ..order import SMALL_GROUP_CHANNELS
from ..problem import ConvProblem
from .depthwise import ChannelVectors


class Grouped(ChannelVectors):
    """Several groups of a few channels, as in `depthwise`."""

    name, share, detour, tile_seconds = "grouped", 0.7, "blocks", 15e-9

    def supports(self, p: ConvProblem) -> str | None:
        depth = p.ic // p.groups
        if not 1 < depth <= SMALL_GROUP_CHANNELS or p.groups == 1:
            return f"{p.groups} groups of {depth} input channels are not several of 2 to {SMALL_GROUP_CHANNELS}"
        return super().supports(p)
