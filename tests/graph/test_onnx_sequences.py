"""Sequences of tensors: as numpy splits and joins arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import layoutkit as lk
from layoutkit.graph.operators import Unsupported

SEEDS = st.integers(0, 2**32 - 1)


def ran(nodes, outputs, inputs, **constants):
    """The outputs of nodes, given as (operator, inputs, outputs, attributes)."""
    made = [helper.make_node(op, reads, writes, **a) for op, reads, writes, a in nodes]
    of = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
          for name, x in inputs.items()]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, 1, None) for name in outputs]
    stored = [numpy_helper.from_array(np.asarray(x, np.int64), name) for name, x in constants.items()]
    graph = helper.make_graph(made, "g", of, ends, stored)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return list(lk.onnx.load(proto).run(inputs).values())


@given(SEEDS, st.integers(1, 4), st.booleans(), st.booleans())
def test_pieces_of_one(seed, rank, keeps, varies):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rng.integers(1, 6, rank)).astype(np.float32)
    axis = int(rng.integers(-rank, rank))
    other = axis + int(rng.choice([0, -rank if axis >= 0 else rank]))  # the same one
    i = int(rng.integers(-x.shape[axis], x.shape[axis]))
    nodes = [
        ("SplitToSequence", ["x"], ["s"], {"axis": axis, "keepdims": int(keeps)}),
        ("SequenceAt", ["s", "i"], ["y"], {}),
        ("SequenceLength", ["s"], ["n"], {}),
        ("ConcatFromSequence", ["s"], ["whole"], {"axis": other, "new_axis": int(not keeps)}),
    ]
    inputs = {"x": x, "i": np.array(i)} if varies else {"x": x}
    y, n, whole = ran(nodes, ["y", "n", "whole"], inputs, **({} if varies else {"i": i}))
    want = np.take(x, [i] if keeps else i, axis)
    np.testing.assert_array_equal(y, want, strict=True)
    assert n == x.shape[axis]
    np.testing.assert_array_equal(whole, x)


@given(SEEDS, st.integers(1, 4), st.integers(1, 4))
def test_pieces_of_a_length(seed, rank, length):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rng.integers(1, 9, rank)).astype(np.float32)
    axis = int(rng.integers(rank))
    parts = np.split(x, range(length, x.shape[axis], length), axis)
    i = int(rng.integers(len(parts)))
    nodes = [
        ("SplitToSequence", ["x", "l"], ["s"], {"axis": axis}),
        ("SequenceAt", ["s", "i"], ["y"], {}),
        ("SequenceLength", ["s"], ["n"], {}),
    ]
    y, n = ran(nodes, ["y", "n"], {"x": x}, l=length, i=i)
    np.testing.assert_array_equal(y, parts[i], strict=True)
    assert n == len(parts)


@given(SEEDS, st.integers(1, 3))
def test_pieces_of_lengths(seed, rank):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, rng.integers(1, 5))
    axis = int(rng.integers(rank))
    shape = rng.integers(1, 6, rank)
    shape[axis] = lengths.sum()
    x = rng.standard_normal(shape).astype(np.float32)
    i = int(rng.integers(-len(lengths), len(lengths)))
    nodes = [
        ("SplitToSequence", ["x", "l"], ["s"], {"axis": axis}),
        ("SequenceAt", ["s", "i"], ["y"], {}),
        ("ConcatFromSequence", ["s"], ["whole"], {"axis": axis}),
    ]
    y, whole = ran(nodes, ["y", "whole"], {"x": x}, l=lengths, i=i)
    np.testing.assert_array_equal(y, np.split(x, lengths.cumsum()[:-1], axis)[i], strict=True)
    np.testing.assert_array_equal(whole, x)


@given(SEEDS, st.booleans())
def test_lists_that_tensors_are_put_into(seed, stacks):
    rng = np.random.default_rng(seed)
    tensors, nodes = [], [("SequenceEmpty", [], ["s0"], {})]
    if rng.random() < 0.5:
        tensors, nodes = ["a", "b"], [("SequenceConstruct", ["a", "b"], ["s0"], {})]
    inputs = {name: rng.standard_normal((2, 3)).astype(np.float32) for name in "abc"}
    constants = {}
    for step in range(int(rng.integers(1, 6))):
        before, after = f"s{step}", f"s{step + 1}"
        if tensors and len(tensors) > 1 and rng.random() < 0.3:
            at = int(rng.integers(-len(tensors), len(tensors)))
            constants[f"p{step}"] = at
            tensors.pop(at)
            nodes.append(("SequenceErase", [before, f"p{step}"], [after], {}))
            continue
        name = str(rng.choice(list("abc")))
        if rng.random() < 0.5:
            at = int(rng.integers(0, len(tensors) + 1))
            constants[f"p{step}"] = at
            tensors.insert(at, name)
            nodes.append(("SequenceInsert", [before, name, f"p{step}"], [after], {}))
        else:
            tensors.append(name)
            nodes.append(("SequenceInsert", [before, name], [after], {}))
    last = nodes[-1][2][0]
    axis = int(rng.integers(0, 3 if stacks else 2))
    nodes += [("ConcatFromSequence", [last], ["y"], {"axis": axis, "new_axis": int(stacks)}),
              ("SequenceLength", [last], ["n"], {})]  # fmt: skip
    y, n = ran(nodes, ["y", "n"], inputs, **constants)
    arrays = [inputs[name] for name in tensors]
    np.testing.assert_array_equal(y, np.stack(arrays, axis) if stacks else np.concatenate(arrays, axis), strict=True)
    assert n == len(tensors)


def test_what_is_not_supported_says_so():
    x = {"x": np.ones((4, 3), np.float32)}
    with pytest.raises(Unsupported, match="not constant"):
        ran([("SequenceConstruct", ["x", "x"], ["s"], {}), ("SequenceAt", ["s", "i"], ["y"], {})], ["y"],
            {**x, "i": np.array(0)})  # fmt: skip
    with pytest.raises(Unsupported, match="unknown number"):
        ran([("SplitToSequence", ["x", "l"], ["s"], {}), ("SequenceAt", ["s", "i"], ["y"], {})], ["y"], x, l=2, i=-1)
    with pytest.raises(Unsupported, match="along axis 1"):
        ran([("SplitToSequence", ["x"], ["s"], {}), ("ConcatFromSequence", ["s"], ["y"], {"axis": 1})], ["y"], x)
    with pytest.raises(ValueError, match="index 2 of 2 tensors"):
        ran([("SequenceConstruct", ["x", "x"], ["s"], {}), ("SequenceAt", ["s", "i"], ["y"], {})], ["y"], x, i=2)
    with pytest.raises(ValueError, match="index 2 of pieces of an axis of 4"):
        ran([("SplitToSequence", ["x", "l"], ["s"], {}), ("SequenceAt", ["s", "i"], ["y"], {})], ["y"], x, l=2, i=2)
    with pytest.raises(ValueError, match="no tensors"):
        ran([("SequenceEmpty", [], ["s"], {}), ("ConcatFromSequence", ["s"], ["y"], {"axis": 1})], ["y"], x)
