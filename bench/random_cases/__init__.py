"""Random problems, each a function of (seed, index) alone, run and held against the reference.

Everything that a signature accepts is drawn. A case is a function that returns None or says what is wrong.
"""

from . import chunked, convolutions, integers, limits, reorders, reproducible, transposed

CASES = {
    "chunked": chunked.case,
    "reorders": reorders.case,
    "convolutions": convolutions.case,
    "integers": integers.case,
    "transposed": transposed.case,
    "limits": limits.case,
    "reproducible": reproducible.case,
}
