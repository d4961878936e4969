"""Data sets in their publishers' formats, on small files made here: valid files are read, others are one line."""

import gzip
import os
import struct

import numpy as np
import pytest

from xbench import data, models
from xbench.data import _files

RANDOM = np.random.default_rng(0)


def network(name):
    """What `model.json` says of a network of the zoo."""
    spec = models.find(name)
    return {"name": name, "labels": models.plain(spec.labels), "inputs": [models.plain(each) for each in spec.inputs]}


def load(folder, model):
    return data.load(f"{folder.name}:{folder}", network(model))


def refused(folder, model):
    with pytest.raises(data.BadData) as error:
        load(folder, model)
    assert "\n" not in str(error.value)
    return str(error.value)


# ***** the files *****


def idx(array):
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def mnist(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    for stem, count in (("train", 12), ("t10k", 5)):
        images = RANDOM.integers(0, 256, (count, 28, 28), np.uint8)
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(idx(np.arange(count, dtype=np.uint8) % 10))
    return folder


@pytest.fixture
def cifar10(tmp_path):
    folder = tmp_path / "cifar10"
    folder.mkdir()
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        records = RANDOM.integers(0, 256, (4, 3073), np.uint8)
        records[:, 0] = range(4)
        (folder / name).write_bytes(records.tobytes())
    return folder


@pytest.fixture
def imdb(tmp_path):
    for part in ("train", "test"):
        for kind, words in (("pos", "Good, GOOD film.<br /><br />I liked it"), ("neg", "a bad film")):
            folder = tmp_path / "imdb" / part / kind
            folder.mkdir(parents=True)
            for number in range(3):
                (folder / f"{number}_9.txt").write_text(f"{words} {'unheard' if part == 'test' else ''}")
    return tmp_path / "imdb"


@pytest.fixture
def ptb(tmp_path):
    folder = tmp_path / "ptb"
    folder.mkdir()
    for part, lines in (("train", 20), ("valid", 5), ("test", 10)):
        (folder / f"ptb.{part}.txt").write_text(" the cat <unk> on the mat \n" * lines)
    return folder


# ***** valid files *****


def test_mnist_is_read_plain_and_packed(mnist):
    plain = load(mnist, "lenet")
    for path in list(mnist.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    packed = load(mnist, "lenet")
    assert plain.train_inputs.shape == (12, 1, 28, 28)
    assert plain.test_labels.tolist() == [0, 1, 2, 3, 4]
    assert all((vars(plain)[name] == vars(packed)[name]).all() for name in vars(plain))


def test_images_are_scaled_by_the_batch(mnist):
    dataset = load(mnist, "lenet")
    (images,), labels = dataset.batch("test", np.array([3, 1]))
    assert (images.dtype, images.shape, labels.tolist()) == (np.float32, (2, 1, 28, 28), [3, 1])
    np.testing.assert_allclose(images[0], (dataset.test_inputs[3] / 255 - 0.1307) / 0.3081, rtol=1e-5, atol=1e-6)


def test_a_network_of_784_numbers_takes_the_same_images(mnist):
    rows, images = load(mnist, "fcn5_mnist"), load(mnist, "lenet")
    (flat,), _ = rows.batch("train", np.arange(3))
    assert (flat == images.batch("train", np.arange(3))[0][0].reshape(3, 784)).all()


def test_cifar10_is_read_channel_by_channel(cifar10):
    dataset = load(cifar10, "resnet56_cifar")
    assert dataset.train_inputs.shape == (20, 3, 32, 32)
    record = np.frombuffer((cifar10 / "data_batch_2.bin").read_bytes(), np.uint8)[3073:6146]
    assert (dataset.train_inputs[5].ravel() == record[1:]).all()
    assert dataset.train_labels[5] == 1
    (images,), _ = dataset.batch("train", np.array([5]))
    assert images[0, 2, 0, 0] == pytest.approx((record[1 + 2048] / 255 - 0.4465) / 0.2616, rel=1e-4)


def test_reviews_are_numbers_of_words_padded_in_front(imdb):
    dataset = load(imdb, "imdb_gru")
    assert dataset.train_inputs.shape == (6, 150)
    assert dataset.train_labels.tolist() == [0, 0, 0, 1, 1, 1]
    # film and good are there six times, the others three times, in the order of their letters
    known = ["film", "good", ",", ".", "a", "bad", "i", "it", "liked"]
    words = dict(zip(known, range(2, 11), strict=True))
    review = [words[word] for word in ["good", ",", "good", "film", ".", "i", "liked", "it"]]
    assert dataset.train_inputs[3].tolist() == [0] * (150 - len(review)) + review
    assert dataset.test_inputs[0].tolist() == [0] * 146 + [words["a"], words["bad"], words["film"], 1]


def test_the_vocabulary_of_the_reviews_is_taken_where_it_is_there(imdb):
    (imdb / "imdb.vocab").write_text("bad\nfilm\n")
    assert load(imdb, "imdb_gru").train_inputs[0, -3:].tolist() == [1, 2, 3]


def test_a_long_review_keeps_its_end(imdb):
    (imdb / "train" / "neg" / "0_9.txt").write_text("film " * 500 + "bad")
    last = load(imdb, "imdb_gru").train_inputs[0]
    assert last[0] == last[148] != last[149]
    assert last.min() > 1


def test_every_word_of_a_text_is_labelled_with_the_next(ptb):
    dataset = load(ptb, "lstm_ptb")
    assert dataset.train_inputs.shape == dataset.train_labels.shape == (4, 32)  # 140 words
    assert dataset.test_inputs.shape == (2, 32)
    assert (dataset.train_inputs.ravel()[1:] == dataset.train_labels.ravel()[:-1]).all()
    unknown, the, end, cat, mat, on = 0, 1, 2, 3, 4, 5
    assert dataset.train_inputs[0, :7].tolist() == [the, cat, unknown, on, the, mat, end]


def test_words_that_training_did_not_know_are_unknown(ptb):
    (ptb / "ptb.test.txt").write_text("dog " * 33)
    assert (load(ptb, "lstm_ptb").test_inputs == 0).all()


def test_digits_are_cut_once_and_for_all():
    first, again = (data.load("digits", network("lenet")) for _ in range(2))
    assert (len(first.train_labels), len(first.test_labels)) == (1437, 360)
    assert (first.test_inputs == again.test_inputs).all()
    joined = np.concatenate([first.train_inputs, first.test_inputs]).reshape(1797, -1)
    assert len(np.unique(joined, axis=0)) == 1797


def test_an_epoch_takes_every_sample_once_and_the_next_in_another_order():
    dataset = data.load("digits", network("fcn5_mnist"))
    epochs = [
        np.concatenate([dataset.training_batch(479, 7, step)[1] for step in range(e * 3, e * 3 + 3)]) for e in (0, 1)
    ]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(dataset.train_labels)
    assert not (epochs[0] == epochs[1]).all()
    assert (dataset.training_batch(479, 7, 1)[1] == epochs[0][479:958]).all()
    assert not (dataset.training_batch(479, 8, 1)[1] == epochs[0][479:958]).all()


def test_the_folder_may_be_named_once_for_all_sets(mnist, monkeypatch):
    monkeypatch.setenv("XBENCH_DATA", str(mnist.parent))
    assert data.load("mnist", network("lenet")).train_inputs.shape == (12, 1, 28, 28)


# ***** damaged files *****


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("minst:here", "unknown data set 'minst': did you mean mnist?"),
        ("x", "the data sets are digits, mnist, cifar10, imdb, ptb"),
        ("mnist", "say where the files of mnist lie: --data mnist:folder, or XBENCH_DATA"),
        ("mnist:nowhere", "no folder nowhere with the files of mnist; nothing is downloaded"),
        ("digits:here", "digits comes with its package and has no folder"),
    ],
)
def test_a_word_that_names_no_set_is_one_line(word, line, monkeypatch):
    monkeypatch.delenv("XBENCH_DATA", raising=False)
    with pytest.raises(data.BadData) as error:
        data.load(word, network("lenet"))
    assert line in str(error.value)


IMAGES = "train-images-idx3-ubyte"
BAD_IDX = {
    "empty": (b"", "begins with nothing"),
    "another format": (b"\x89PNG\r\n\x1a\n" * 4, "begins with 89 50 4e 47"),
    "labels for images": (idx(np.zeros(12, np.uint8)), "begins with 00 00 08 01"),
    "cut in its head": (b"\0\0\x08\x03\0\0", "begins with 00 00 08 03"),
    "cut short": (idx(np.zeros((12, 28, 28), np.uint8))[:-1], "says it holds 12 x 28 x 28 bytes, but 9407 follow"),
    "too long": (idx(np.zeros((12, 28, 28), np.uint8)) + b"\0", "but 9409 follow"),
    "huge": (b"\0\0\x08\x03" + b"\xff" * 12, "says it holds 4294967295 x 4294967295 x 4294967295 bytes, but 0 follow"),
    "other images": (idx(np.zeros((12, 14, 56), np.uint8)), "images of 14 x 56, not of 28 x 28"),
    "fewer images": (idx(np.zeros((11, 28, 28), np.uint8)), "has 11 images"),
}


@pytest.mark.parametrize("kind", BAD_IDX)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_a_damaged_idx_file_is_named(mnist, kind, packed):
    content, line = BAD_IDX[kind]
    (mnist / IMAGES).unlink()
    path = mnist / (f"{IMAGES}.gz" if packed else IMAGES)
    path.write_bytes(gzip.compress(content) if packed else content)
    message = refused(mnist, "lenet")
    assert str(path) in message
    assert line in message


@pytest.mark.parametrize(("left", "line"), [(0, "begins with nothing"), (5, "cut short"), (-9, "cut short or damaged")])
def test_a_packed_file_that_was_cut_is_named(mnist, left, line):
    packed = gzip.compress((mnist / IMAGES).read_bytes())
    (mnist / IMAGES).unlink()
    (mnist / f"{IMAGES}.gz").write_bytes(packed[:left])
    assert line in refused(mnist, "lenet")


def test_a_packed_file_with_a_changed_byte_is_named(mnist):
    packed = bytearray(gzip.compress((mnist / IMAGES).read_bytes()))
    packed[len(packed) // 2] ^= 0x55
    (mnist / IMAGES).unlink()
    (mnist / f"{IMAGES}.gz").write_bytes(bytes(packed))
    assert f"{IMAGES}.gz is" in refused(mnist, "lenet")


def test_what_is_called_packed_and_is_not_is_named(mnist):
    (mnist / IMAGES).rename(mnist / f"{IMAGES}.gz")
    assert f"{IMAGES}.gz is no gzip file" in refused(mnist, "lenet")


def test_a_packed_file_of_endless_zeros_is_not_unpacked(mnist, monkeypatch):
    monkeypatch.setattr(_files, "LARGEST", 1 << 20)
    (mnist / IMAGES).unlink()
    (mnist / f"{IMAGES}.gz").write_bytes(gzip.compress(bytes(1 << 24)))
    assert "holds more than 1 MiB" in refused(mnist, "lenet")


def test_a_label_that_is_no_class_is_named_with_its_file(mnist, cifar10):
    path = mnist / "t10k-labels-idx1-ubyte"
    path.write_bytes(idx(np.array([0, 1, 200, 3, 4], np.uint8)))
    assert refused(mnist, "lenet") == f"{path}: label 2 is 200, which is none of the 10 classes"
    path = cifar10 / "data_batch_3.bin"
    path.write_bytes(b"\x0a" + bytes(3072))
    assert refused(cifar10, "alexnet_cifar") == f"{path}: label 0 is 10, which is none of the 10 classes"


def test_a_set_without_samples_is_told(mnist):
    (mnist / "t10k-images-idx3-ubyte").write_bytes(idx(np.zeros((0, 28, 28), np.uint8)))
    (mnist / "t10k-labels-idx1-ubyte").write_bytes(idx(np.zeros(0, np.uint8)))
    assert "has 12 samples to train with and 0 to test with" in refused(mnist, "lenet")


@pytest.mark.parametrize("content", [b"", bytes(3072), bytes(3 * 3073 + 1)])
def test_a_damaged_file_of_cifar10_is_named(cifar10, content):
    (cifar10 / "test_batch.bin").write_bytes(content)
    assert f"test_batch.bin has {len(content)} bytes, which are no records of 3073" in refused(cifar10, "alexnet_cifar")


@pytest.mark.parametrize(
    ("name", "model", "file"),
    [
        ("mnist", "lenet", "t10k-labels-idx1-ubyte"),
        ("cifar10", "cifar_vgg", "data_batch_5.bin"),
        ("ptb", "lstm_ptb", "ptb.test.txt"),
    ],
)
def test_a_missing_file_is_named(request, name, model, file):
    folder = request.getfixturevalue(name)
    (folder / file).unlink()
    assert refused(folder, model) == f"no file {folder / file}; nothing is downloaded"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_read(cifar10, make):
    (cifar10 / "test_batch.bin").unlink()
    make(cifar10 / "test_batch.bin")
    assert "test_batch.bin is no regular file" in refused(cifar10, "cifar_vgg")


def test_reviews_that_are_missing_are_told(imdb):
    for path in (imdb / "test" / "pos").iterdir():
        path.unlink()
    assert f"no reviews in {imdb / 'test' / 'pos'}" in refused(imdb, "imdb_gru")


def test_a_review_that_is_no_text_is_named(imdb):
    (imdb / "train" / "pos" / "1_9.txt").write_bytes(b"good \xff film")
    assert "1_9.txt is no UTF-8 text: byte 5 cannot be read" in refused(imdb, "imdb_gru")


def test_a_text_shorter_than_a_window_is_named(ptb):
    (ptb / "ptb.test.txt").write_text("the cat")
    assert "ptb.test.txt has 2 words, fewer than one window of 32 and the next" in refused(ptb, "lstm_ptb")


@pytest.mark.parametrize(
    ("name", "model", "line"),
    [
        ("mnist", "cifar_vgg", "--data mnist needs a network of 1 x 28 x 28 images and 10 classes; cifar_vgg takes"),
        (
            "cifar10",
            "lenet",
            "--data cifar10 needs a network of 3 x 32 x 32 images and 10 classes; lenet takes float32",
        ),
        ("cifar10", "resnet50", "resnet50 takes float32 (batch, 3, 224, 224) and has 1000 classes"),
        ("imdb", "lstm_ptb", "--data imdb needs a network of texts, int64 (batch, words), with one label of 2 classes"),
        ("ptb", "imdb_gru", "with the next word of each; imdb_gru takes int64 (batch, 150) and has 2 classes"),
        ("ptb", "lenet", "--data ptb needs a network of texts"),
    ],
)
def test_a_network_that_takes_something_else_is_told_both(request, name, model, line):
    assert line in refused(request.getfixturevalue(name), model)


def test_the_next_word_must_be_one_the_network_can_give(ptb):
    with pytest.raises(data.BadData, match="with the next word of each; lstm_ptb takes"):
        data.load(f"ptb:{ptb}", network("lstm_ptb") | {"labels": models.plain(models.classes(500, 32))})
