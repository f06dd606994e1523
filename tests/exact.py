"""Activations in decimal arithmetic, to many more digits than float64 has."""

from decimal import Decimal, localcontext

DIGITS = 70
BESIDE_1 = {"elu", "tanh", "softplus", "mish", "erf", "selu", "celu"}  # they add 1 to small numbers and take it away
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
        if total + term == total:
            break
        total += term
    return 1 - 2 / PI.sqrt() * (-z * z).exp() * total


def softplus(x):
    """ln(1 + e^x)."""
    return x + (1 + (-x).exp()).ln() if x > 0 else (1 + x.exp()).ln()


def power(x, alpha, beta):
    """alpha x^beta for a whole beta, or a positive x."""
    sign = -1 if x.is_signed() and beta % 2 else 1
    if not x:
        return alpha * sign * Decimal("Infinity" if beta < 0 else 0)
    return alpha * sign * (beta * abs(x).ln()).exp()


def tanh(x):
    """The hyperbolic tangent."""
    return 1 - 2 / (1 + (2 * x).exp())


def erf(x):
    """The error function."""
    return 1 - erfc(x) if x >= 0 else erfc(-x) - 1


FUNCTIONS = {
    "silu": lambda x: x / (1 + (-x).exp()),
    "gelu": lambda x: x * erfc(-x / Decimal(2).sqrt()) / 2,
    "gelu_tanh": lambda x: x / (1 + (-2 * (2 / PI).sqrt() * (x + Decimal("0.044715") * x**3)).exp()),
    "hardswish": lambda x: x * min(max(x + 3, Decimal(0)), Decimal(6)) / 6,
    "elu": lambda x, alpha: alpha * (x.exp() - 1) if x < 0 else x,
    "tanh": tanh,
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    "softplus": softplus,
    "exp": lambda x: x.exp(),
    "log": lambda x: x.ln() if x >= 0 else Decimal("NaN"),
    "pow": power,
    "mish": lambda x: x * tanh(softplus(x)),
    "swish": lambda x, alpha: x / (1 + (-alpha * x).exp()),
    "hardsigmoid": lambda x, alpha, beta: min(max(alpha * x + beta, Decimal(0)), Decimal(1)),
    "hardswish_of": lambda x, alpha, beta: x * min(max(alpha * x + beta, Decimal(0)), Decimal(1)),
    "linear": lambda x, alpha, beta: alpha * x + beta,
    "erf": erf,
    "selu": lambda x, scaled, gamma: scaled * (x.exp() - 1) if x < 0 else gamma * x,
    "celu": lambda x, alpha: alpha * ((x / alpha).exp() - 1) if x < 0 else x,
    "softsign": lambda x: x / (1 + abs(x)),
    "reciprocal": lambda x: 1 / x,
}


def digits(name, x):
    """How many are needed for a result of `DIGITS`."""
    if name not in BESIDE_1:
        return DIGITS
    below_1 = -x.adjusted() if x else 0
    return DIGITS + max(below_1, int(-x / 2), 0)  # e^x has half as many zeros as -x, or fewer


def activated(name, x, *numbers):
    """The activation of each float of `x`, with its numbers, as Decimals."""
    numbers, results = [Decimal(float(v)) for v in numbers], []
    for v in x:
        v = Decimal(float(v))
        with localcontext(prec=digits(name, v)):
            results.append(FUNCTIONS[name](v, *numbers))
    return results
