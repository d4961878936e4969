"""Words with several sizes, and the names of a file's inputs."""

import random

import onnx
import pytest
from onnx import TensorProto, helper

from xbench.converters.frontends.graph_inputs import input_names
from xbench.converters.sweep import MOST, Weighted, read_shapes, swept, without_shapes
from xbench.errors import XBenchError


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("lenet", ["lenet"]),
        ("m.onnx@seq=16", ["m.onnx@seq=16"]),
        ("m.onnx@seq=16,64", ["m.onnx@seq=16", "m.onnx@seq=64"]),
        ("m.onnx@seq=16;seq=64;seq=16", ["m.onnx@seq=16", "m.onnx@seq=64"]),
        ("m.onnx@h=1,2;auto;w=3;w=4", [f"m.onnx@h={h};auto;w={w}" for h in (1, 2) for w in (3, 4)]),
        ("m.onnx@x=batch,3,8;x=batch,3,9", ["m.onnx@x=batch,3,8", "m.onnx@x=batch,3,9"]),
        ("n:f@x:float32:batch,t;x=2,8", ["n:f@x:float32:batch,t;x=2,8"]),
        ("n:f@x:float32:batch,t;t=2,8", ["n:f@x:float32:batch,t;t=2", "n:f@x:float32:batch,t;t=8"]),
        ("n:f@ids=0:9;seq=1,2;optimizer=adam,lr=0.1", [f"n:f@ids=0:9;seq={n};optimizer=adam,lr=0.1" for n in (1, 2)]),
    ],
)
def test_several_sizes_are_a_word_each(word, words):
    assert swept(word) == words


def test_a_shape_is_taken_off_a_word():
    assert without_shapes("a@b.onnx") == ("a@b.onnx", {})
    assert without_shapes("lenet@optimizer=adam,lr=0.1") == ("lenet@optimizer=adam,lr=0.1", {})
    assert without_shapes("m.onnx@seq=16;ids=0:9;x=batch,3") == ("m.onnx@ids=0:9", {"seq": "16", "x": "batch,3"})


def test_too_many_shapes_are_refused():
    sizes = ",".join(map(str, range(1, 41)))
    with pytest.raises(XBenchError, match=f"1600 shapes are too many: {MOST} at most"):
        swept(f"m.onnx@a={sizes};b={sizes}")


@pytest.fixture
def file(tmp_path):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "größe", "y")]
    constant = helper.make_tensor("c", TensorProto.FLOAT, [4], [1.0] * 4)
    nodes = [helper.make_node("Add", ["x", "c"], ["s"]), helper.make_node("Sum", ["s", "größe"], ["y"])]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", values[:2], values[2:], [constant])), path)
    return path


def test_the_inputs_of_a_file_are_read_from_its_bytes(file):
    assert input_names(file) == {"x", "größe"}
    assert swept(f"{file}@x=2,4") == [f"{file}@x=2,4"]
    assert swept(f"{file}@n=2,4") == [f"{file}@n=2", f"{file}@n=4"]


def test_damaged_bytes_have_no_names_or_other_names_and_never_an_error(file, tmp_path):
    content, random_ = file.read_bytes(), random.Random(0)
    assert input_names(tmp_path / "nothing.onnx") == input_names(tmp_path) == set()
    bad = tmp_path / "bad.onnx"
    for cut in range(len(content)):
        bad.write_bytes(content[:cut])
        assert input_names(bad) <= {"x", "größe"}
    for _ in range(500):
        changed = bytearray(content)
        changed[random_.randrange(len(changed))] = random_.randrange(256)
        bad.write_bytes(bytes(changed))
        assert isinstance(input_names(bad), set)


def test_a_name_behind_the_end_of_its_graph_is_none(tmp_path):
    path = tmp_path / "m.onnx"
    for length, names in ((b"\x05", {"x"}), (b"\x02", set())):  # of the graph; the input has three bytes: a name
        path.write_bytes(b"\x3a" + length + b"\x5a\x03\x0a\x01x")
        assert input_names(path) == names


def test_lines_of_a_file_are_counted(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("seq\n16\n64\n16\n\n16\n")
    assert read_shapes(path) == [Weighted({"seq": 16}, 0.75), Weighted({"seq": 64}, 0.25)]
    path.write_text("h, w, weight\n8, 16, 1\n16, 16, 3\n")
    assert read_shapes(path) == [Weighted({"h": 8, "w": 16}, 0.25), Weighted({"h": 16, "w": 16}, 0.75)]
    assert read_shapes(path)[0].options == ["h=8", "w=16"]
