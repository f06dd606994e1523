"""Where the tensors of a program lie: in buffers of their own, or in those of others."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from ...memory.arrays import reshaped
from ..layout.costs import array_type
from ..layout.plan import LayoutPlan
from ..operators.layouts import PLAIN, layouts_of
from .concat import Part, whole_of
from .steps import Place


class Tensors:
    """The tensors of a program.

    Attributes
    ----------
    buffers : dict
        By tensor that a step has room to write to: shape and dtype. Others are what a step of Python leaves.
    parts : dict
        By tensor, the part of another one that it is.
    views : dict
        By tensor, which other one has the same elements in the same order, and the shape in which this one has them.
    """

    def __init__(self, plan: LayoutPlan, parts: dict[Place, Part]) -> None:
        self.known, self.parts = plan.known, parts
        self.inputs: list[Place] = [(name, PLAIN) for name in plan.graph.inputs]
        self.outputs: list[Place] = [(name, PLAIN) for name in plan.graph.outputs]
        values = plan.graph.constants
        self.constants = {place: values[place[0]] for place in self.outputs if place[0] in values}
        self.buffers: dict[Place, tuple[tuple[int, ...], np.dtype]] = {}
        self.views: dict[Place, tuple[Place, tuple[int, ...]]] = {}
        self._stand_ins: dict[Place, np.ndarray] = {}

    def within(self, place: Place) -> Place | None:
        """The tensor in whose array another one lies."""
        if place in self.parts:
            return self.parts[place].whole
        return self.views[place][0] if place in self.views else None

    def owners(self) -> dict[Place, Place]:
        """By tensor that lies in the array of another one, the tensor that has the array."""
        within = {place: part.whole for place, part in self.parts.items()}
        within |= {place: of for place, (of, _) in self.views.items()}
        return {place: whole_of(place, within) for place in tuple(within)}

    def contiguous(self, place: Place) -> bool:
        """Whether the elements of a tensor lie in one piece."""
        inside: Place | None = place
        while inside is not None:
            part = self.parts.get(inside)
            if part is not None and prod(self.expected(part.whole)[0][: part.axis]) != 1:
                return False
            inside = self.within(inside)
        return True

    def array_in(self, place: Place, arrays: Mapping[Place, np.ndarray]) -> np.ndarray:
        """The array of a tensor, in that of its owner or of another one that it lies in."""
        inner = []
        while place not in arrays:  # a part of another, which may be a part itself
            inner.append(place)
            within = self.within(place)
            assert within is not None
            place = within
        array = arrays[place]
        for each in reversed(inner):
            if each in self.parts:
                array = part_in(array, self.parts[each])
            else:
                array = reshaped(array, self.views[each][1])
        return array

    def stand_in(self, place: Place, array: np.ndarray) -> None:
        """Let steps be planned for an array like this one, where a step of Python will leave it."""
        self._stand_ins[place] = np.empty(array.shape, array.dtype)

    def forget_imagined(self) -> None:
        """Drop what stood for arrays while steps were planned."""
        self._stand_ins.clear()

    def imagined(self, place: Place) -> np.ndarray:
        """An array like the one that a tensor will have."""
        if place not in self._stand_ins:
            self._stand_ins[place] = np.empty(*self.expected(place))
        return self._stand_ins[place]

    def expected(self, place: Place) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of the array of a tensor."""
        if place in self.buffers:
            return self.buffers[place]
        name, kind = place
        of = self.known[name]
        layouts = layouts_of(len(of.shape))
        dtype = array_type(of.stored.dtype) if of.stored else of.dtype
        return layouts[kind].physical_shape(of.shape) if layouts else of.shape, dtype


def part_in(array: np.ndarray, part: Part) -> np.ndarray:
    """A part of the array that it is a part of."""
    return array[(slice(None),) * part.axis + (slice(part.begin, part.end),)]
