"""Steps of operators that compiled kernels run; `operators/kernels/` says of which nodes, in which layouts.

A file for each family, with its rows in `BUILDS`: by operator, the function that appends the step of a node.
"""

from . import convolution, elementwise, moves, normalise, pooling, products, recurrent, response
from .building import Binding, Build, Call, Make, Place, Slots, Step

__all__ = ["BUILDS", "Binding", "Build", "Call", "Make", "Place", "Slots", "Step"]

FAMILIES = convolution, products, pooling, elementwise, moves, response, normalise, recurrent
BUILDS: dict[str, Build] = {op: build for family in FAMILIES for op, build in family.BUILDS.items()}
