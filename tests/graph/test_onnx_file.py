"""Models whose large tensors stay in their file: the same numbers, whatever the message looks like."""

import copy
import os
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit.graph.onnx_file import LARGE_BYTES, Source, without_large

onnx = pytest.importorskip("onnx", reason="the extra onnx")
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper

TYPES = np.float32, np.float64, np.float16, np.int8, np.int64, np.bool_
FEW = LARGE_BYTES // 8


def filters(*tensors):
    """A model that adds constants to its input, these and others."""
    nodes = [helper.make_node("Add", [f"t{i}", f"c{i}"], [f"t{i + 1}"], f"add {i}") for i in range(len(tensors))]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", None]) for name in ("t0", f"t{len(tensors)}")]
    graph = helper.make_graph(nodes, "graph", value[:1], value[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def numbers(shape=(LARGE_BYTES, 1), dtype=np.float32, seed=0):
    return (100 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def tensor(i, values, text=""):
    proto = numpy_helper.from_array(values, f"c{i}")
    proto.doc_string = text
    return proto


arrays = st.builds(
    numbers, st.tuples(st.sampled_from([0, 1, 3, FEW - 1, FEW, 2 * FEW]), st.integers(1, 3)), st.sampled_from(TYPES),
    st.integers(0, 9),
)  # fmt: skip


@given(st.lists(arrays, max_size=4), st.sampled_from(["", "text", "x" * 2 * LARGE_BYTES]), st.booleans())
def test_constants_are_those_of_onnx(tmp_path_factory, values, text, in_file):
    model = filters(*(tensor(i, each, text) for i, each in enumerate(values)))
    data = model.SerializeToString()
    if in_file:
        data = tmp_path_factory.mktemp("models") / "model.onnx"
        onnx.save(model, data)
    constants = lk.onnx.load(data).graph.constants
    for _ in range(2):  # from memory, and from the file
        for i, each in enumerate(values):
            got = constants[f"c{i}"]
            assert got.dtype == each.dtype and got.shape == each.shape and got.tobytes() == each.tobytes()
            assert got.flags.aligned and not got.flags.writeable


def unusual(data: bytes) -> list[bytes]:
    """Messages that mean other things than they seem to, or nothing."""
    proto = onnx.ModelProto()
    proto.ParseFromString(data)
    (large,) = (t for t in proto.graph.initializer if len(t.raw_data) >= LARGE_BYTES)
    rest = onnx.ModelProto()
    rest.graph.initializer.add().CopyFrom(large)
    twice = onnx.ModelProto()
    twice.CopyFrom(proto)
    other = twice.graph.initializer.add()
    other.CopyFrom(large)
    other.float_data.append(1.0)
    unknown = b"\xf8\x3f\x07" + b"\xfd\x3f1234" + b"\xf9\x3f12345678" + b"\xfa\x3f\x02ab"  # a field of each wire type
    return [data + rest.SerializeToString(), twice.SerializeToString(), unknown + data + unknown, data + b"\x0b\x0c",
            b"", b"\x3a\x00", b"\xff" * 30, data + b"\x3a", data + b"\x3a\xff\xff\xff\xff\x7f",
            b"\x38\x05" + data]  # fmt: skip


def parsed(data):
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:
        return type(error)
    return proto


def put_back(data):
    """What is left of a message, with the numbers put back where they were."""
    rest, stored = without_large(Source(data))
    proto = parsed(rest)
    for i, where in stored.items() if isinstance(proto, onnx.ModelProto) else ():
        assert not proto.graph.initializer[i].raw_data
        proto.graph.initializer[i].raw_data = where.source.part(where.begin, where.end)
    return proto, stored


def test_no_message_changes_its_meaning():
    data = filters(tensor(0, numbers(3)), tensor(1, numbers()), tensor(2, numbers(5))).SerializeToString()
    assert put_back(data)[0] == parsed(data) and list(put_back(data)[1]) == [1]
    for message in unusual(data):
        assert put_back(message)[0] == parsed(message)


@pytest.mark.parametrize(
    "more", [{"float_data": [1.0]}, {"data_location": TensorProto.EXTERNAL}, {"segment": TensorProto.Segment(begin=1)}]
)
def test_unusual_tensors_are_left_to_onnx(more):
    proto = tensor(0, numbers())
    proto.MergeFrom(TensorProto(**more))
    assert not without_large(Source(filters(proto).SerializeToString()))[1]


@pytest.mark.parametrize("lost", [1, 100, 4 * LARGE_BYTES, 4 * LARGE_BYTES + 20])
def test_files_that_end_early_are_refused(tmp_path, lost):
    path = tmp_path / "model.onnx"
    path.write_bytes(filters(tensor(0, numbers())).SerializeToString()[:-lost])
    with pytest.raises(ValueError, match="no ONNX model"):
        lk.onnx.load(path)


@given(st.data())
def test_damaged_messages_are_left_to_protobuf(data):
    whole = bytearray(filters(tensor(0, numbers(3)), tensor(1, numbers())).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, 200)) - 100] = data.draw(st.integers(0, 255))
    message = bytes(whole[: data.draw(st.sampled_from([len(whole), len(whole) - 1, 500, 60]))])
    if isinstance(parsed(message), onnx.ModelProto):  # what it holds may be NaN
        assert put_back(message)[0].SerializeToString() == parsed(message).SerializeToString()
    else:
        assert not isinstance(put_back(message)[0], onnx.ModelProto)


def test_numbers_that_are_too_few(tmp_path):
    proto = tensor(0, numbers())
    proto.dims[0] += 1
    path = tmp_path / "model.onnx"
    path.write_bytes(filters(proto).SerializeToString())
    with pytest.raises(ValueError, match=f"'c0' of shape .* has {4 * LARGE_BYTES} bytes, not {4 * LARGE_BYTES + 4}"):
        lk.onnx.load(path)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(filters(tensor(0, numbers())), path)
    return path, lk.onnx.load(path, threads=1)


def run(model, columns):
    (result,) = model.run(np.ones((1, columns), np.float32)).values()
    np.testing.assert_array_equal(result, 1 + np.broadcast_to(numbers(), result.shape))


def test_a_file_may_be_removed_or_replaced(saved):
    path, model = saved
    path.unlink()
    path.write_bytes(b"another file")
    for columns in (1, 2, 3):
        run(model, columns)


def test_a_file_that_changes_is_told(saved):
    path, model = saved
    path.write_bytes(b"\0" * path.stat().st_size)  # the same file, as `onnx.save` writes it
    run(model, 1)  # what was read when it was loaded
    with pytest.raises(OSError, match=r"model.onnx has changed since it was loaded"):
        run(model, 2)
    run(model, 1)


@pytest.mark.parametrize("copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy])
def test_copies_have_the_numbers(saved, copied):
    path, model = saved
    run(model, 1)
    other = copied(model)
    if other.graph is not model.graph:
        path.write_bytes(b"")
    run(other, 2)


def test_a_pipe_is_read(tmp_path):
    path, data = tmp_path / "pipe", filters(tensor(0, numbers())).SerializeToString()
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    run(lk.onnx.load(path, threads=1), 1)
    writer.join()
