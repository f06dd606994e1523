"""The tables of kernels/elementwise/segments.h, printed: ``python tools/segments.py`` (needs scipy).

A function is a polynomial in z - i WIDTH on each segment |z - i WIDTH| <= WIDTH / 2, z >= 0: least squares of relative
errors at Chebyshev's nodes. A coefficient is rounded to float32 before those below it are fitted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, ndtr

SEGMENTS, DEGREE, NODES = 16, 7, 400
FUNCTIONS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "gelu": (0.34375, lambda z: ndtr(-z)),
    "gelu_tanh": (0.3125, lambda z: expit(-2 * np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
}


def segment(function: Callable[[np.ndarray], np.ndarray], i: int, width: float) -> list[np.float32]:
    """The coefficients of segment i, of the highest power first."""
    low, high = (-width / 2 if i else 0.0), width / 2
    d = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    values = function(i * width + d)
    rest, found = values.copy(), []
    for degree in range(DEGREE, -1, -1):
        powers = np.stack([(d / high) ** k for k in range(degree + 1)], 1) / values[:, None]
        top = np.linalg.lstsq(powers, rest / values, rcond=None)[0][degree] / high**degree
        found.append(np.float32(top))
        rest -= float(found[-1]) * d**degree
    return found


def error(table: np.ndarray, function: Callable[[np.ndarray], np.ndarray], width: float) -> float:
    """The largest relative error in float32, in ulp of a number that is just above a power of 2."""
    z = np.linspace(0, (SEGMENTS - 0.5) * width, 1_000_001).astype(np.float32)[:-1]
    i = np.rint(z / np.float32(width)).astype(int)
    d = (z.astype(np.float64) - i * width).astype(np.float32)
    p = table[0, i]
    for row in table[1:]:
        p = (p.astype(np.float64) * d + row[i]).astype(np.float32)
    return float(np.abs(p / function(z.astype(np.float64)) - 1).max() * 2**23)


def main() -> None:
    """Print them."""
    for name, (width, function) in FUNCTIONS.items():
        table = np.array([segment(function, i, width) for i in range(SEGMENTS)]).T
        print(f"/* {error(table, function, width):.2g} ulp */\nstatic const segments {name}_segments = {{{width}f, {{")
        for row in table:
            print("    {" + ", ".join(f"{c:#.9g}f" for c in row) + "},")
        print("}};")


if __name__ == "__main__":
    main()
