"""Activations in decimal arithmetic, to many more digits than float64 has."""

from decimal import Decimal, localcontext

DIGITS = 70
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
FAR = 6  # from where the continued fraction of erfc converges fast; below, 1 - erf keeps enough digits


def erfc(z):
    """The complementary error function."""
    if z < 0:
        return 2 - erfc(-z)
    if z >= FAR:
        below = z
        for k in range(80, 0, -1):
            below = z + Decimal(k) / 2 / below
        return (-z * z).exp() / (PI.sqrt() * below)
    term = total = z
    for n in range(1, 250):
        term *= 2 * z * z / (2 * n + 1)
        total += term
    return 1 - 2 / PI.sqrt() * (-z * z).exp() * total


FUNCTIONS = {
    "silu": lambda x: x / (1 + (-x).exp()),
    "gelu": lambda x: x * erfc(-x / Decimal(2).sqrt()) / 2,
    "gelu_tanh": lambda x: x / (1 + (-2 * (2 / PI).sqrt() * (x + Decimal("0.044715") * x**3)).exp()),
    "hardswish": lambda x: x * min(max(x + 3, Decimal(0)), Decimal(6)) / 6,
}


def activated(name, x):
    """The activation of each float of `x`, as Decimals."""
    with localcontext() as context:
        context.prec = DIGITS
        return [FUNCTIONS[name](Decimal(float(v))) for v in x]
