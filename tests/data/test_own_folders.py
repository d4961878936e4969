"""A user's samples in folders of ONNX's tensors and of arrays, and in tables."""

import os

import numpy as np
import onnx
import pyarrow
import pytest
from onnx import numpy_helper
from own_kit import labels_of, network, png, read, refused, save
from pyarrow import parquet

from xbench.data import own

RANDOM = np.random.default_rng(2)
X = RANDOM.standard_normal((10, 3, 4)).astype(np.float32)
Y = RANDOM.integers(0, 10, 10)
COLOUR = network((3, 8, 8))
SQUARE = RANDOM.integers(0, 256, (8, 8, 3), np.uint8)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ***** ONNX's sets of tensors *****


def proto(path, array, name="", **changed):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    tensor = numpy_helper.from_array(array, name)
    for field, value in changed.items():
        setattr(tensor, field, value)
    onnx.save_tensor(tensor, path)


def test_sets_of_tensors_are_batches_by_number_or_by_name():
    info = network((3, 4), (2,))
    b = RANDOM.standard_normal((10, 2)).astype(np.float32)
    for number, (start, stop) in enumerate([(0, 2), (2, 3), (3, 10)]):
        proto(f"plain/test_data_set_{number * 5}/input_0.pb", X[start:stop])
        proto(f"plain/test_data_set_{number * 5}/input_1.pb", b[start:stop], "something")
        proto(f"plain/test_data_set_{number * 5}/output_0.pb", b)
        proto(f"named/test_data_set_{number}/input_0.pb", b[start:stop], "b")
        proto(f"named/test_data_set_{number}/input_1.pb", X[start:stop], "a")
    for word in ("plain", "named"):
        batches = list(own.batches(word, info, 4))
        assert [len(each.names) for each in batches] == [2, 1, 4, 3]
        assert all((one == other).all() for one, other in zip(read(word, info, 4), (X, b), strict=True))
    assert [each.names[0] for each in own.batches("plain", info, 9)] == [f"test_data_set_{n}[0]" for n in (0, 5, 10)]
    assert (read("named/test_data_set_2", info)[0] == X[3:]).all()


def test_tensors_that_are_damaged_or_missing(tmp_path):
    place = "model/test_data_set_0/input_0.pb"
    proto(place, X)
    assert refused("model", network((3, 4), (2,))) == "test_data_set_0 has no input_1.pb, for b"
    assert refused("model", network((3, 5))) == "test_data_set_0: x is (10, 3, 4), and the network takes (batch, 3, 5)"
    assert (
        refused("model", network((3, 4)), "folders")
        == "--labels folders is for images, and model holds sets of ONNX tensors (1)"
    )
    (tmp_path / place).write_bytes(b"\xff" * 99)
    assert refused("model", network((3, 4))) == f"{place} cannot be read: it is no TensorProto of ONNX"
    tensor = numpy_helper.from_array(X)
    tensor.dims[0] = 2**40
    (tmp_path / place).write_bytes(tensor.SerializeToString())
    assert refused("model", network((3, 4))).startswith(f"{place} cannot be read: ")
    proto(place, X, data_location=onnx.TensorProto.EXTERNAL)
    assert refused("model", network((3, 4))) == f"{place} cannot be read: its values are in another file"


# ***** folders of arrays, and tables *****


@pytest.mark.parametrize("size", [1, 4, 99])
def test_files_of_arrays_are_one_after_the_other(size, tmp_path):
    (tmp_path / "parts").mkdir()
    np.save("parts/1.npy", X[:3])
    np.save("parts/2.npy", X[3])
    np.savez("parts/10.npz", x=X[4:8])
    parquet.write_table(pyarrow.table({"x": X[8:].tolist()}), "parts/11.parquet")
    batches = list(own.batches("parts", network((3, 4)), size))
    assert [len(each.names) for each in batches[:-1]] == [size] * (9 // size)
    assert (np.concatenate([each.inputs[0] for each in batches]) == X).all()
    names = [name for each in batches for name in each.names]
    assert names[2:6] == ["1.npy[2]", "2.npy", "10.npz[0]", "10.npz[1]"]


def test_a_shared_input_may_change_between_files(tmp_path):
    (tmp_path / "parts").mkdir()
    for place, w in enumerate([1, 1, 2]):
        np.savez(f"parts/{place}.npz", a=X[place * 3 : place * 3 + 3], w=np.full(2, float(w)))
    batches = list(own.batches("parts", network((3, 4), shapes={"w": [2]}), 9))
    assert [(len(each.names), each.inputs[1].tolist()) for each in batches] == [(6, [1, 1]), (3, [2, 2])]


def test_a_folder_of_several_kinds_or_of_none(tmp_path):
    save("mixed/a.png", SQUARE)
    np.save("mixed/x.npy", X)
    proto("mixed/test_data_set_0/input_0.pb", X)
    line = "mixed holds sets of ONNX tensors (1) and images (1) and files of arrays (1): samples are of one kind"
    assert refused("mixed", COLOUR) == line
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden.png").touch()
    (tmp_path / "empty" / "readme.txt").touch()
    assert refused("empty", COLOUR).startswith("empty holds no samples: images, test_data_set_0, or files")


def test_tables_of_numbers_of_lists_and_of_images():
    info = network((3, 4), (), (1,), dtypes={"b": "int64"})
    columns = {"c": X[:, 0, 0], "b": Y.astype(np.int16), "a": X.tolist(), "label": Y}
    parquet.write_table(pyarrow.table(columns), "x.parquet", row_group_size=3)
    a, b, c = read("x.parquet", info, 4)
    assert (a == X).all() and (b == Y).all() and (c[:, 0] == X[:, 0, 0]).all()
    assert labels_of("x.parquet", info, 4) == Y.tolist()
    pictures = [png(SQUARE), png(SQUARE[::-1])]
    parquet.write_table(pyarrow.table({"image": pictures, "label": ["a", "b"]}), "bytes.parquet")
    parquet.write_table(pyarrow.table({"image": [{"bytes": each, "path": None} for each in pictures]}), "hub.parquet")
    for word in ("bytes.parquet", "hub.parquet"):
        given = read(f"{word}:scale=1", COLOUR)[0]
        assert (given == np.stack([SQUARE, SQUARE[::-1]]).transpose(0, 3, 1, 2)).all()
    assert labels_of("bytes.parquet", COLOUR) == ["a", "b"]


TABLES = {
    "length": ({"x": [[1.0, 2.0], [1.0]]}, "x.parquet[1]: x is (1,), and the network takes (batch, 2)"),
    "depth": ({"x": [[[1.0], [2.0]]]}, "x.parquet[0]: x is (2, 1), and the network takes (batch, 2)"),
    "flat": ({"x": [1.0, 2.0]}, "x.parquet[0]: x is (), and the network takes (batch, 2)"),
    "null": ({"x": [[1.0, 2.0], None]}, "x.parquet[1]: x is null"),
    "null inside": ({"x": [[1.0, 2.0], [1.0, None]]}, "x.parquet[1]: x is null"),
    "texts": ({"x": [["a", "b"]]}, "x.parquet: x is objects, and the network takes float32"),
    "column": ({"y": [1], "z": [1], "w": [2]}, "x.parquet has y, z, w, and no x, which the network takes"),
    "empty": ({"x": pyarrow.array([], pyarrow.list_(pyarrow.float32()))}, "x.parquet has no samples"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_that_do_not_fit(kind):
    columns, line = TABLES[kind]
    parquet.write_table(pyarrow.table(columns), "x.parquet")
    assert refused("x.parquet", network((2,))) == line


def test_tables_that_cannot_be_read(tmp_path):
    parquet.write_table(pyarrow.table({"x": [b"no image"]}), "x.parquet")
    assert refused("x.parquet", COLOUR) == "x.parquet[0] cannot be read: it is no image of PNG, JPEG, BMP, WEBP, GIF"
    parquet.write_table(pyarrow.table({"a": X.tolist(), "w": X[:, 0].tolist()}), "x.parquet")
    assert refused("x.parquet", network((3, 4), shapes={"w": [4]})) == (
        "x.parquet has a row for each sample, and w of the network is one for all"
    )
    assert refused("x.parquet:crop=8", network((3, 4))).startswith("x.parquet has a, w, and no x")
    data = (tmp_path / "x.parquet").read_bytes()
    for damaged in (b"", data[:-9], data[:40] + bytes(80) + data[120:], b"PAR1" + b"\xff" * 99 + b"PAR1"):
        (tmp_path / "x.parquet").write_bytes(damaged)
        assert refused("x.parquet", network((3, 4), (4,))).startswith("x.parquet")
