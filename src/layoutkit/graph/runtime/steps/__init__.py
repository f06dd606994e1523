"""Steps of operators that compiled kernels run; `operators/kernels/` says of which nodes, in which layouts.

A file for each family, with its rows in `BUILDS`: by operator, what appends the step of a node that has a kernel.
"""

from . import convolution, moves, normalise, pooling, products, response, sums
from .building import SCRATCH, Build, Call, Make, Place, Slots, Step

__all__ = ["BUILDS", "SCRATCH", "Build", "Call", "Make", "Place", "Slots", "Step"]

FAMILIES = convolution, products, pooling, sums, moves, response, normalise
BUILDS: dict[str, Build] = {op: build for family in FAMILIES for op, build in family.BUILDS.items()}
