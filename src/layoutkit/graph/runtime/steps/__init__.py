"""Steps of operators that compiled kernels run; `operators/kernels/` says of which nodes, in which layouts.

A file for each family, with its rows in `BUILDS`: by operator, the function that appends the step of a node.
"""

from . import (
    casts,
    convolution,
    elementwise,
    indexed,
    joins,
    moves,
    normalise,
    pooling,
    products,
    recurrent,
    response,
    rotary,
    running,
)  # fmt: skip
from .building import LETTERS, Binding, Build, Call, Make, Part, Place, Slots, Step, copying

__all__ = ["BUILDS", "LETTERS", "Binding", "Build", "Call", "Make", "Part", "Place", "Slots", "Step", "copying"]

FAMILIES = (
    convolution, products, pooling, elementwise, casts, indexed, moves, joins, response, normalise, recurrent, rotary,
    running,
)  # fmt: skip
BUILDS: dict[str, Build] = {op: build for family in FAMILIES for op, build in family.BUILDS.items()}
