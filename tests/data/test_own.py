"""A user's samples in files of arrays, from functions and from data sets, and labels in files: what is valid is read
back equal, everything else is one line that names the file and the sample."""

import ml_dtypes  # noqa: F401  which tells NumPy of bfloat16
import numpy as np
import pytest
from own_kit import network, read, refused
from safetensors.numpy import save_file

from xbench.data import own

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((23, 3, 4)).astype(np.float32)
Y = RANDOM.integers(0, 10, 23)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ***** files of arrays *****

FORMS = {
    "x.npy": lambda: np.save("x.npy", X),
    "x.npz": lambda: np.savez("x.npz", x=X, labels=Y),
    "one.npz": lambda: np.savez_compressed("one.npz", anything=X, y=Y),
    "place.npz": lambda: np.savez("place.npz", X),
    "fortran.npz": lambda: np.savez("fortran.npz", x=np.asfortranarray(X)),
    "fortran.npy": lambda: np.save("fortran.npy", np.asfortranarray(X)),
    "swapped.npy": lambda: np.save("swapped.npy", X.astype(">f4")),
    "x.safetensors": lambda: save_file({"x": X, "targets": Y}, "x.safetensors"),
}


@pytest.mark.parametrize("size", [1, 7, 23, 100])
@pytest.mark.parametrize("word", FORMS)
def test_batches_are_the_array_in_parts_of_any_size(word, size):
    FORMS[word]()
    batches = list(own.batches(word, network((3, 4)), size))
    assert [len(batch.names) for batch in batches[:-1]] == [size] * (22 // size)
    assert all(batch.inputs[0].flags.writeable and batch.inputs[0].dtype == np.float32 for batch in batches)
    assert (np.concatenate([batch.inputs[0] for batch in batches]) == X).all()
    assert [name for batch in batches for name in batch.names] == [f"{word}[{n}]" for n in range(23)]
    if word in ("x.npz", "one.npz", "x.safetensors"):
        assert np.concatenate([batch.labels for batch in batches]).tolist() == Y.tolist()
    else:
        assert batches[0].labels is None


def test_several_inputs_by_name_and_by_place_and_one_without_samples():
    info = network((3, 4), (2,), shapes={"w": [5]}, dtypes={"b": "int64"})
    b, w = RANDOM.integers(-5, 5, (23, 2)).astype(np.int8), np.arange(5.0)
    np.savez("x.npz", w=w, b=b, a=X, more=np.zeros(3))
    np.savez("y.npz", X, b, w)
    for word in ("x.npz", "y.npz"):
        one, other = own.batches(word, info, 16)
        assert [each.shape for each in one.inputs] == [(16, 3, 4), (16, 2), (5,)]
        assert [each.dtype.name for each in other.inputs] == ["float32", "int64", "float32"]
        assert (other.inputs[1] == b[16:]).all() and (other.inputs[2] == w).all()


def test_a_batch_fills_at_most_256_mb(monkeypatch):
    monkeypatch.setattr(own, "BYTES", 5 * 3 * 4 * 4)
    np.save("x.npy", X)
    assert [len(batch.names) for batch in own.batches("x.npy", network((3, 4)), 100)] == [5, 5, 5, 5, 3]
    fixed = network(shapes={"x": [8, 3, 4]})
    assert [len(batch.names) for batch in own.batches("x.npy", fixed, 8)] == [8, 8, 7]


def test_one_sample_needs_no_axis_of_samples():
    np.save("x.npy", X[0])
    np.savez("x.npz", x=X[0], label=7)
    (one,), (other,) = own.batches("x.npy", network((3, 4)), 8), own.batches("x.npz", network((3, 4)), 8)
    assert one.inputs[0].shape == (1, 3, 4) and one.names == ["x.npy"]
    assert other.labels.tolist() == [7]


def test_graphs_that_fix_their_batch():
    assert own.fixed_batch(network(shapes={"x": [8, 3], "y": [8]})) == 8
    assert own.fixed_batch(network(shapes={"x": [8, 3], "y": [4]})) is None
    assert own.fixed_batch(network(shapes={"x": [8, 3], "y": []})) is None
    assert own.fixed_batch(network((3, 4))) is None
    np.save("x.npy", X[:, None])
    np.save("y.npy", X)
    for word in ("x.npy", "y.npy"):
        assert (read(word, network(shapes={"x": [1, 3, 4]}), 1)[0] == X).all()


def test_rows_that_are_not_apart_are_no_batch():
    facts = network(shapes={"x": [6, 4], "y": [6]})
    assert own.fixed_batch(facts | {"rows_apart": True}) == 6 and not own.takes_one(facts | {"rows_apart": True})
    assert own.fixed_batch(facts | {"rows_apart": False}) is None and own.takes_one(facts | {"rows_apart": False})
    assert own.fixed_batch(network(shapes={"x": [1, 4]}) | {"rows_apart": False}) == 1
    assert own.fixed_batch(network(shapes={"x": [0, 4]})) is None


@pytest.mark.parametrize("images", [X, X[:, None]])
def test_beside_an_input_without_samples_a_first_axis_of_one_may_be_left_out(images):
    info = network(shapes={"x": [1, 3, 4], "y": [20, 2]})
    boxes = np.arange(23 * 40, dtype=np.float32).reshape(23, 20, 2)
    np.savez("x.npz", x=images, y=boxes)
    batches = list(own.batches("x.npz", info, 8))
    assert [len(batch.names) for batch in batches] == [1] * 23
    for n in (0, 22):
        assert [each.shape for each in batches[n].inputs] == [(1, 3, 4), (20, 2)]
        assert (batches[n].inputs[0][0] == X[n]).all() and (batches[n].inputs[1] == boxes[n]).all()
    np.savez("one.npz", x=images[0], y=boxes[0])
    (one,) = own.batches("one.npz", info, 8)
    assert len(one.names) == 1 and (one.inputs[0][0] == X[0]).all()
    np.savez("few.npz", x=images, y=boxes[:5])
    assert refused("few.npz", info) == "few.npz: x has 23 samples, and y has 5"


def test_a_graph_without_samples_gets_one_at_once():
    info = network(shapes={"x": [3, 4], "y": [2]})
    np.savez("x.npz", x=X, y=np.zeros((23, 2), np.float32), labels=Y)
    batches = list(own.batches("x.npz", info, 8))
    assert [batch.names for batch in batches[:2]] == [["x.npz[0]"], ["x.npz[1]"]] and len(batches) == 23
    assert (batches[22].inputs[0] == X[22]).all() and batches[22].labels.tolist() == [Y[22]]


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ("float64", "float32"),
        ("float16", "float32"),
        ("float32", "float16"),
        ("bfloat16", "bfloat16"),
        ("float32", "bfloat16"),
        ("bfloat16", "float32"),
        ("int64", "int32"),
        ("uint8", "int64"),
        ("bool", "int64"),
        ("int64", "bool"),
    ],
)
def test_types_that_are_converted(stored, wanted):
    array = np.array([[0, 1], [1, 1]], np.dtype(stored))
    np.save("x.npy", array)
    save_file({"x": array}, "x.safetensors")
    for word in ("x.npy", "x.safetensors"):
        given = read(word, network((2,), dtypes={"x": wanted}))[0]
        assert given.dtype.name == wanted and (given.astype(np.float32) == array.astype(np.float32)).all()


INDEX = {"why": "indexes the table emb", "low": 0, "high": 30}
REFUSED = {
    "nothing": (np.zeros((0, 2), np.float32), {}, "x.npy has no samples"),
    "shape": (np.zeros((4, 3), np.float32), {}, "x.npy: x is (4, 3), and the network takes (batch, 2)"),
    "rank": (np.zeros(5, np.float32), {}, "x.npy: x is (5,), and the network takes (batch, 2)"),
    "bytes": (np.zeros((4, 2), np.uint8), {}, "x.npy: x is uint8, and the network takes float32: scale it first"),
    "ints": (np.zeros((4, 2), int), {}, "x.npy: x is int64, and the network takes float32: convert it first"),
    "floats": (
        np.zeros((4, 2)),
        {"dtype": "int64"},
        "x.npy: x is float64, and the network takes int64: convert it first",
    ),
    "texts": (np.array([["a", "b"]]), {}, "x.npy: x is texts, and the network takes float32"),
    "complex": (np.zeros((4, 2), complex), {}, "x.npy: x is complex128, and the network takes float32"),
    "nan": (np.array([[0, 1], [np.inf, np.nan]]), {}, "x.npy[1]: x[1] is NaN"),
    "large": (np.array([[0, 1e300]]), {}, "x.npy[0]: x[1] is 1e+300, which is too large for float32"),
    "fits not": (np.array([[1, 2], [300, 2]]), {"dtype": "int8"}, "x.npy[1]: x[0] is 300, and int8 is -128 to 127"),
    "no bool": (np.array([[1, 2]]), {"dtype": "bool"}, "x.npy[0]: x[1] is 2, and bool is 0 to 1"),
    "unsigned": (
        np.array([[1, 2**63]], np.uint64),
        {"dtype": "int64"},
        "x.npy[0]: x[1] is 9223372036854775808, and int64 is -9223372036854775808 to 9223372036854775807",
    ),
    "index": (
        np.array([[1, 29], [2, 30]]),
        {"dtype": "int64", **INDEX},
        "x.npy[1]: x[1] is 30, and x indexes the table emb: 0 to 29",
    ),
    "below": (np.array([[-31, 2]]), {"dtype": "int64", **INDEX}, "x.npy[0]: x[0] is -31, and x indexes the table emb"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_values_that_the_network_does_not_take(kind):
    array, facts, line = REFUSED[kind]
    np.save("x.npy", array)
    assert refused("x.npy", network((2,), facts={"x": facts})).startswith(line)


def test_infinite_values_and_indices_from_the_end_are_taken():
    np.save("x.npy", [[np.inf, -np.inf]])
    assert read("x.npy", network((2,)))[0].tolist() == [[np.inf, -np.inf]]
    np.save("i.npy", [[-30, 29]])
    assert read("i.npy", network((2,), facts={"x": {"dtype": "int64", **INDEX}}))[0].tolist() == [[-30, 29]]


def test_a_shared_input_is_checked_under_the_name_of_its_file():
    np.savez("x.npz", a=X, w=np.array([0, np.nan]))
    assert refused("x.npz", network((3, 4), shapes={"w": [2]})) == "x.npz: w[1] is NaN"


ARCHIVES = {
    "missing": (
        {"imags": X, "id": Y},
        ["image"],
        "x.npz has imags, id, and no image, which the network takes; is it imags?",
    ),
    "only labels": ({"labels": Y}, ["x"], "x.npz has labels, and no x, which the network takes"),
    "too many": ({"arr_0": X, "arr_1": Y}, ["x"], "x.npz has arr_0, arr_1, and no x, which the network takes"),
    "two labels": (
        {"x": X, "y": Y, "label": Y},
        ["x"],
        "x.npz has label and y: which are the labels? Name them with --labels",
    ),
    "labels": ({"x": X, "y": Y[:9]}, ["x"], "x.npz has 23 samples and 9 labels"),
    "samples": ({"x": X, "z": X[:9]}, ["x", "z"], "x.npz: x has 23 samples, and z has 9"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archives_that_do_not_say_what_is_what(kind):
    arrays, names, line = ARCHIVES[kind]
    np.savez("x.npz", **arrays)
    assert refused("x.npz", network(shapes={name: ["batch", 3, 4] for name in names})) == line


def test_an_input_may_have_the_name_of_labels():
    np.savez("x.npz", y=X, labels=Y)
    (batch,) = own.batches("x.npz", network(shapes={"y": ["batch", 3, 4]}), 99)
    assert (batch.inputs[0] == X).all() and (batch.labels == Y).all()
