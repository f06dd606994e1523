"""Random problems, each a function of (seed, index) alone, run and held against the reference.

Everything that a signature accepts is drawn. A case is a function that returns None or says what is wrong.
"""

from . import convolutions, filters, integers, limits, reorders, reproducible, transposed


def _chunked(seed: int, index: int) -> str | None:
    """A case of `chunked`, which needs dask."""
    from . import chunked

    return chunked.case(seed, index)


CASES = {
    "reorders": reorders.case,
    "convolutions": convolutions.case,
    "integers": integers.case,
    "transposed": transposed.case,
    "limits": limits.case,
    "reproducible": reproducible.case,
    "filters": filters.case,
    "chunked": _chunked,
}
