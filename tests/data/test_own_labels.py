"""A user's samples from functions and data sets, and labels in files of their own."""

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from own_kit import labels_of, network, read, refused
from pyarrow import parquet

from xbench import data, models
from xbench.data import own

RANDOM = np.random.default_rng(1)
X = RANDOM.standard_normal((10, 3)).astype(np.float32)
Z = RANDOM.integers(0, 9, (10, 2))
Y = RANDOM.integers(0, 10, 10)
ONE, TWO = network((3,)), network((3,), (2,), dtypes={"b": "int64"})


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ***** words *****


def test_which_words_are_functions(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "own.py").touch()
    (tmp_path / "odd:name").touch()
    for word in ("module:function", "a.b:c.d", "own.py:batches", "gone/own.py:batches", "package:batches"):
        assert own.is_function(word), word
    for word in ("digits", "mnist:folder", "photos", "photos:batches", "photos:resize=256", "gone:resize=256"):
        assert not own.is_function(word), word
    for word in (
        "own.py",
        "odd:name",
        "x.npz:key",
        "gone.parquet:column",
        "a b:c",
        "module:",
        ":c",
        "",
        "a\0:b",
        "/a/b:c",
    ):
        assert not own.is_function(word), word


# ***** functions *****

GIVEN = {
    "arrays": (ONE, lambda: iter([X[:4], X[4:]]), False),
    "one array": (ONE, lambda: X, False),
    "a list of arrays": (ONE, lambda: [X[:4], X[4:]], False),
    "single samples": (ONE, lambda: iter(X), False),
    "pairs": (ONE, lambda: ((X[n : n + 3], Y[n : n + 3]) for n in range(0, 10, 3)), True),
    "lists, as torch loads": (ONE, lambda: iter([[X[:4], Y[:4]], [X[4:], Y[4:]]]), True),
    "one pair": (ONE, lambda: (X, Y.tolist()), True),
    "dictionaries": (ONE, lambda: ({"x": X[n : n + 1], "labels": Y[n]} for n in range(10)), True),
    "a dictionary and labels": (TWO, lambda: iter([({"a": X, "b": Z}, Y)]), True),
    "a list and labels": (TWO, lambda: ([X, Z], Y), True),
    "a tuple": (TWO, lambda: (X, Z), False),
    "a tuple and labels": (TWO, lambda: (X, Z, Y), True),
    "a list of two": (TWO, lambda: [X, Z], False),
    "a tuple of pairs": (TWO, lambda: ((X[:4], Z[:4]), (X[4:], Z[4:])), False),
    "tensors": (
        TWO,
        lambda: iter([{"a": torch.tensor(X, requires_grad=True), "b": torch.tensor(Z), "y": torch.tensor(Y)}]),
        True,
    ),
    "a loader": (
        TWO,
        lambda: torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(*map(torch.tensor, (X, Z, Y))), batch_size=4
        ),
        True,
    ),
    "lists of numbers": (TWO, lambda: {"a": X.tolist(), "b": Z.tolist()}, False),
}


@pytest.mark.parametrize("size", [1, 4, 99])
@pytest.mark.parametrize("kind", GIVEN)
def test_what_a_function_gives(kind, size):
    info, function, labelled = GIVEN[kind]
    given = read("f.py:data", info, size, function=function)
    assert all((one == other).all() for one, other in zip(given, (X, Z), strict=False))
    batches = list(own.batches("f.py:data", info, size, None, function))
    assert [len(each.names) for each in batches[:-1]] == [size] * ((10 - 1) // size)
    assert [name for each in batches for name in each.names] == [f"f.py:data[{n}]" for n in range(10)]
    if labelled:
        assert [int(label) for each in batches for label in each.labels] == Y.tolist()
    else:
        assert all(each.labels is None for each in batches)


def test_an_endless_function_is_read_as_far_as_it_is_asked():
    taken = []

    def endless():
        for n in itertools.count():
            taken.append(n)
            yield np.full((2, 3), n, np.float32)

    batches = own.batches("m:endless", ONE, 4, None, endless)
    assert [next(batches).inputs[0][:, 0].tolist() for _ in range(2)] == [[0, 0, 1, 1], [2, 2, 3, 3]]
    assert taken == [0, 1, 2, 3]


def test_bfloat16_of_torch_and_labels_that_are_texts():
    def function():
        yield torch.tensor(X).bfloat16(), ["cat"] * 10

    info = network((3,), dtypes={"x": "bfloat16"})
    (batch,) = own.batches("m:f", info, 99, None, function)
    assert (batch.inputs[0].astype(np.float32) == torch.tensor(X).bfloat16().float().numpy()).all()
    assert batch.labels == ["cat"] * 10


def test_labels_of_several_lengths_are_a_list():
    (batch,) = own.batches("m:f", ONE, 99, None, lambda: (X[:2], [[1, 2], [3]]))
    assert batch.labels == [[1, 2], [3]]


def raising(error, after=0):
    def function():
        yield from [X] * after
        raise error

    return function


FAULTS = {
    "raises": (
        raising(ValueError("\n  no\x1b[31m file \nat all")),
        "m:f raises ValueError: no[31m file (before the first sample)",
    ),
    "raises later": (raising(KeyError("x"), 2), "m:f raises KeyError: 'x' (after 20 samples)"),
    "raises nothing": (raising(MemoryError()), "m:f raises MemoryError: MemoryError (before the first sample)"),
    "exits": (raising(SystemExit(3)), "m:f raises SystemExit: 3 (before the first sample)"),
    "takes": (lambda folder: 1, "m:f raises TypeError: FAULTS"),
    "nothing": (lambda: None, "m:f returns NoneType, and no arrays"),
    "text": (lambda: "x.npz", "m:f returns str, and no arrays"),
    "no batch": (lambda: [], "m:f has no samples"),
    "numbers": (lambda: [1, 2], "m:f[0] is int, and no arrays"),
    "three": (lambda: iter([X, (X, X, X)]), "m:f[10] is 3 arrays, and the network takes one, which labels may follow"),
    "shape": (lambda: X.T, "m:f: x is (3, 10), and the network takes (batch, 3)"),
    "type": (lambda: X.astype(np.uint8), "m:f: x is uint8, and the network takes float32: scale it first"),
    "nan": (lambda: iter([X, np.where(np.arange(30).reshape(10, 3) == 13, np.nan, X)]), "m:f[14]: x[1] is NaN"),
    "ragged": (lambda: {"x": [[1.0], [2.0, 3.0]]}, "m:f[0]: what it gives is no array: setting an array element"),
    "labels": (lambda: (X, Y[:4]), "m:f has 10 samples and 4 labels"),
    "some labels": (lambda: iter([(X, Y), X]), "m:f[0] has labels, and m:f[10] has none"),
    "names": (lambda: {"img": X, "ids": Y}, "m:f[0] has img, ids, and no x, which the network takes"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_of_a_function_are_one_line(kind):
    function, line = FAULTS[kind]
    info = network(shapes={"x": ["batch", 3]})
    assert refused("m:f", info, function=function).startswith(line.partition(" FAULTS")[0])


# ***** data sets *****


def test_the_test_part_of_a_data_set():
    spec = models.find("lenet")
    info = {
        "name": "lenet",
        "labels": models.plain(spec.labels),
        "inputs": [models.plain(each) for each in spec.inputs],
    }
    (expected,), labels = data.load("digits", info).batch("test", np.arange(360))
    assert (read("digits", info, 50)[0] == expected).all()
    assert labels_of("digits", info, 50) == labels.tolist()
    assert next(own.batches("digits", info, 2)).names == ["digits[0]", "digits[1]"]
    assert refused("digits", ONE).startswith("--data digits needs a network of 1 x 28 x 28 images")


# ***** labels *****


def table(path, **columns):
    parquet.write_table(pyarrow.table(columns), path)


def text(name, content):
    with open(name, "w", newline="") as file:
        file.write(content)


CATS = ["cat", "dog", "a, b", "é"]
WRITTEN = {
    "y.npy": (lambda: np.save("y.npy", Y[:4]), Y[:4]),
    "t.npy": (lambda: np.save("t.npy", np.array(CATS)), CATS),
    "pixels.npy": (lambda: np.save("pixels.npy", Z[:4]), Z[:4]),
    "y.npz": (lambda: np.savez("y.npz", other=Y, label=Y[:4]), Y[:4]),
    "one.npz": (lambda: np.savez("one.npz", anything=Y[:4]), Y[:4]),
    "y.npz:k": (lambda: np.savez("y.npz", k=Y[:4], label=Y), Y[:4]),
    "y.csv": (lambda: text("y.csv", "1\n2\r\n\n3\n4"), [1, 2, 3, 4]),
    "head.csv": (lambda: text("head.csv", "\ufeffclass\n1\n2\n3\n4\n"), [1, 2, 3, 4]),
    "two.csv": (lambda: text("two.csv", "file,label\na,0.5\nb,1\nc,-2e3\nd,.5\n"), [0.5, 1, -2000, 0.5]),
    "two.csv:file": (lambda: text("two.csv", 'file,label\ncat,1\ndog,2\n"a, b",3\né,4\n'), CATS),
    "texts.csv": (lambda: text("texts.csv", 'cat\ndog\n"a, b"\né\n'), CATS),
    "large.csv": (lambda: text("large.csv", f"1\n2\n3\n{2**70}\n"), ["1", "2", "3", str(2**70)]),
    "y.txt": (lambda: text("y.txt", "1\n2\n3\n4\n"), [1, 2, 3, 4]),
    "texts.txt": (lambda: text("texts.txt", "cat\r\ndog\r\na, b\r\né\r\n"), CATS),
    "y.json": (lambda: text("y.json", "[1, 2, 3, 4]"), [1, 2, 3, 4]),
    "floats.json": (lambda: text("floats.json", "[1, 2.5, 3, 4]"), [1, 2.5, 3, 4]),
    "texts.json": (lambda: text("texts.json", json.dumps(CATS)), CATS),
    "y.parquet": (lambda: table("y.parquet", id=CATS, y=[1, 2, 3, 4]), [1, 2, 3, 4]),
    "y.parquet:id": (lambda: table("y.parquet", id=CATS, y=[1, 2, 3, 4]), CATS),
}


@pytest.mark.parametrize("size", [1, 3, 9])
@pytest.mark.parametrize("word", WRITTEN)
def test_labels_of_a_file_replace_those_of_the_samples(word, size):
    write, expected = WRITTEN[word]
    write()
    np.savez("x.npz", x=X[:4], y=Y[:4] + 100)
    batches = list(own.batches("x.npz", ONE, size, word))
    given = [label for batch in batches for label in batch.labels]
    assert np.array_equal(given, expected) and [len(each.labels) for each in batches] == [
        len(each.names) for each in batches
    ]
    wanted = np.asarray(expected).dtype
    assert (wanted.kind == "U" and type(batches[0].labels) is list) or batches[0].labels.dtype == wanted


def test_the_numbers_of_labels_and_samples_must_be_equal(tmp_path):
    np.save("y.npy", Y[:9])
    np.save("x.npy", X)
    assert refused("x.npy", ONE, "y.npy") == "y.npy has 9 labels, and x.npy has 10 samples"
    (tmp_path / "parts").mkdir()
    for place in range(10):
        np.save(f"parts/{place}.npy", X[place])
    assert refused("parts", ONE, "y.npy") == "y.npy has 9 labels, and parts has 10 samples"
    assert refused("m:f", ONE, "y.npy", lambda: iter([X] * 3)) == "y.npy has 9 labels, and m:f has more samples"
    assert refused("m:f", ONE, "y.npy", lambda: iter([X[:2]] * 3)) == "y.npy has 9 labels, and m:f has 6 samples"


BAD = {
    "y.npy": (
        lambda: np.save("y.npy", np.array([{}], object), allow_pickle=True),
        "y.npy cannot be read: it has Python objects",
    ),
    "y.npz": (lambda: np.savez("y.npz", a=Y, b=Y), "y.npz has a, b: say which are the labels, --labels y.npz:a"),
    "y.npz:c": (lambda: np.savez("y.npz", a=Y, b=Y), "y.npz has no c: it has a, b"),
    "y.csv": (lambda: text("y.csv", "a,b\n1,2\n"), "y.csv has a, b: say which are the labels, --labels y.csv:a"),
    "y.csv:lable": (lambda: text("y.csv", "a,label\n1,2\n"), "y.csv has no column lable: did you mean label?"),
    "y.csv:b": (lambda: text("y.csv", "a,b\n1,2\n1\n"), "y.csv: label 1 is missing in its row"),
    "e.csv:b": (lambda: text("e.csv", "a,b\n1,2\n1,\n"), "e.csv: label 1 is empty"),
    "q.csv": (lambda: text("q.csv", '"a\n1\n'), "q.csv cannot be read: unexpected end of data"),
    "none.csv": (lambda: text("none.csv", ""), "none.csv has no labels"),
    "y.txt": (lambda: text("y.txt", "1\n\n2\n"), "y.txt: label 1 is empty"),
    "b.txt": (lambda: Path("b.txt").write_bytes(b"a\xff"), "b.txt is no UTF-8 text: byte 1 cannot be read"),
    "y.json": (lambda: text("y.json", '{"a": 1}'), "y.json holds no list of labels"),
    "deep.json": (lambda: text("deep.json", "[" * 100_000), "deep.json cannot be read: "),
    "cut.json": (lambda: text("cut.json", "[1, 2"), "cut.json cannot be read: Expecting ',' delimiter"),
    "null.parquet": (lambda: table("null.parquet", y=[1, None]), "null.parquet[1]: y is null"),
    "y.parquet:z": (lambda: table("y.parquet", y=[1, 2]), "y.parquet has no column z: it has y"),
    "fifo.csv": (lambda: os.mkfifo("fifo.csv"), "cannot read fifo.csv: it is no regular file"),
    "gone.txt": (lambda: None, "no file gone.txt"),
    "y.dat": (
        lambda: None,
        "--labels y.dat: labels are a file .npy, .npz, .safetensors, .csv, .parquet, .txt, .json, or",
    ),
    "folders": (lambda: None, "--labels folders is for images in subfolders, and x.npy is something else"),
}


@pytest.mark.parametrize("word", BAD)
def test_labels_that_cannot_be_read_are_one_line(word):
    write, line = BAD[word]
    write()
    np.save("x.npy", X[:2])
    assert refused("x.npy", ONE, word).startswith(line)


def test_a_set_is_named_without_an_option_that_the_user_did_not_give(monkeypatch):
    monkeypatch.delenv("XBENCH_DATA", raising=False)
    assert refused("mnist", ONE) == (
        "say where the files of mnist lie: mnist:folder, or XBENCH_DATA; nothing is downloaded"
    )
    assert refused("digits:here", ONE) == "digits:here: digits comes with its package and has no folder"
    with pytest.raises(data.BadData, match="say where the files of mnist lie: --data mnist:folder, or XBENCH_DATA"):
        data.parse("mnist")
