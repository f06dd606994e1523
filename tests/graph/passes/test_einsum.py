"""Einsums that are products are multiplied, and are what numpy computes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

F32 = np.dtype(np.float32)


@st.composite
def equations(draw):
    """Of two operands, without letters that only one of them has and the result has not."""
    letters = draw(st.permutations("abcdef"))[: draw(st.integers(1, 6))]
    kinds = {letter: draw(st.sampled_from(["batch", "left", "right", "summed"])) for letter in letters}
    a, b = ("".join(x for x in draw(st.permutations(letters)) if kinds[x] != other) for other in ("right", "left"))
    result = "".join(x for x in draw(st.permutations(letters)) if kinds[x] != "summed")
    return a, b, result, {x: draw(st.integers(1, 4)) for x in letters}


@given(equations(), st.booleans(), st.booleans())
@settings(deadline=None)
def test_any_product(equation, constant, implicit):
    a, b, result, sizes = equation
    text = f"{a},{b}->{result}" if not implicit or list(result) != sorted(result) else f"{a}, {b}"
    rng = np.random.default_rng(0)
    values = {
        name: rng.uniform(-1, 1, [sizes[x] for x in axes]).astype(np.float32) for name, axes in (("p", a), ("q", b))
    }
    inputs = {name: TensorType(F32, v.shape) for name, v in values.items() if name == "p" or not constant}
    graph = Graph([Node("Einsum", ("p", "q"), ("y",), {"equation": text})], inputs, ("y",),
                  {} if "q" in inputs else {"q": values["q"]})  # fmt: skip
    model = Model(graph, threads=1)
    given_ = {name: values[name] for name in inputs}
    got, want = model.run(given_)["y"], np.einsum(text, values["p"], values["q"])
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)
    ran = {op for op, _, _ in model.profile(given_, 1)}
    summed = set(a) & set(b) - set(np.unique(list(result or "")))
    assert ("Einsum" in ran) == (not (summed if text.find("->") >= 0 else set(a) & set(b)))
