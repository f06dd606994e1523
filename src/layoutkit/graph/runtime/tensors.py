"""The memory of a program's tensors: buffers of their own, or parts or views of those of others."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from ...memory.arrays import reshaped
from ..layout.factors import array_type
from ..layout.plan import LayoutPlan
from ..operators.layouts import PLAIN, physical_shape
from .concat import whole_of
from .steps import Part, Place


class Tensors:
    """The tensors of a program.

    Attributes
    ----------
    buffers : dict
        By tensor that operations write: shape and dtype. The others are arrays that steps of Python return.
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
        self._placeholders: dict[Place, np.ndarray] = {}

    def within(self, place: Place) -> Place | None:
        """The tensor that another one is a part or view of, None if it has a buffer of its own."""
        if place in self.parts:
            return self.parts[place].whole
        return self.views[place][0] if place in self.views else None

    def owners(self) -> dict[Place, Place]:
        """By tensor that is a part or view of another one, the tensor that has the array."""
        within = {place: part.whole for place, part in self.parts.items()}
        within |= {place: of for place, (of, _) in self.views.items()}
        return {place: whole_of(place, within) for place in tuple(within)}

    def contiguous(self, place: Place) -> bool:
        """Whether the elements of a tensor are contiguous in memory."""
        inside: Place | None = place
        while inside is not None:
            part = self.parts.get(inside)
            if part is not None and prod(self.expected(part.whole)[0][: part.axis]) != 1:
                return False
            inside = self.within(inside)
        return True

    def array_in(self, place: Place, arrays: Mapping[Place, np.ndarray]) -> np.ndarray:
        """The array of a tensor, of that of its owner or of another one that it is a part of."""
        inner = []
        while place not in arrays:  # a part of another, which may be a part itself
            inner.append(place)
            within = self.within(place)
            assert within is not None
            place = within
        array = arrays[place]
        for each in reversed(inner):
            if each in self.parts:
                array = self.parts[each].of(array)
            else:
                array = reshaped(array, self.views[each][1])
        return array

    def placeholder(self, place: Place) -> np.ndarray:
        """An array with the shape and type of the one that a tensor will have, to plan for."""
        if place not in self._placeholders:
            self._placeholders[place] = np.empty(*self.expected(place))
        return self._placeholders[place]

    def forget_placeholders(self) -> None:
        """Free the placeholders."""
        self._placeholders.clear()

    def expected(self, place: Place) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of the array of a tensor."""
        if place in self.buffers:
            return self.buffers[place]
        name, kind = place
        of = self.known[name]
        dtype = array_type(of.stored.dtype) if of.stored else of.dtype
        return physical_shape(of, kind), dtype
