"""A user's samples in hostile files: every fault is one line; nothing is run, waited for, or unpacked without end."""

import io
import os
import struct
import warnings
import zipfile

import ml_dtypes  # noqa: F401  which tells NumPy of bfloat16
import numpy as np
import pytest
from own_kit import network, refused

from xbench.data import own
from xbench.data.own import arrays

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((23, 3, 4)).astype(np.float32)
Y = RANDOM.integers(0, 10, 23)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def header(shape, dtype="<f4"):
    """A file that claims an array, without values."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def zipped(*members, packed=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packed) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


OBJECTS = written(np.array([{}, "pickled"], object))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the name that is there twice
    TWICE = zipped(("x.npy", written(X)), ("x.npy", written(X)))
HOSTILE = {
    "x.npy": {
        "objects": (OBJECTS, "it has Python objects, which are not read: they can run any code"),
        "cut": (written(X)[:-5], "it is cut short: its header claims 1104 bytes of values, and 1099 are there"),
        "long": (written(X) + b"12345", "it is longer than its header says"),
        "claims": (header((2**40, 3, 4)), "it is cut short: its header claims 52776558133248 bytes"),
        "negative": (header((-1, 3, 4)), "a size is negative, or its type has none"),
        "empty": (b"", "EOF: reading magic string, expected 8 bytes got 0"),
        "other": (b"PK\x03\x04 no array at all", "the magic string is not correct"),
    },
    "x.npz": {
        "objects": (zipped(("x.npy", OBJECTS)), "it has Python objects, which are not read: they can run any code"),
        "cut": (zipped(("x.npy", written(X)))[:-50], "File is not a zip file"),
        "claims": (zipped(("x.npy", header((2**40, 3, 4)))), "it is cut short: its header claims 52776558133248 bytes"),
        "twice": (TWICE, "it has x twice"),
        "packed": (zipped(("x.npy", written(X)), packed=zipfile.ZIP_BZIP2), "x.npy is packed in a way that NumPy does"),
        "damaged": (
            zipped(("x.npy", written(X)), packed=zipfile.ZIP_STORED).replace(X[5].tobytes(), bytes(48)),
            "Bad CRC",
        ),
    },
    "x.safetensors": {
        "claims": (struct.pack("<Q", 2**60) + b"{}", "Error while deserializing header: header too large"),
        "empty": (b"", "Error while deserializing header: header too small"),
        "cut": (
            struct.pack("<Q", 64) + b'{"x":{"dtype":"F32","shape":[9,3,4],"data_offsets":[0,432]}}'.ljust(64),
            "Error while deserializing header: incomplete metadata, file not fully covered",
        ),
    },
}


@pytest.mark.parametrize(("word", "kind"), [(word, kind) for word in HOSTILE for kind in HOSTILE[word]])
def test_hostile_files_are_one_line(word, kind, tmp_path):
    data, reason = HOSTILE[word][kind]
    (tmp_path / word).write_bytes(data)
    line = refused(word, network((3, 4)))
    assert line.startswith(f"{word} cannot be read: ") and reason in line


def test_a_bomb_is_refused_and_what_is_large_is_read_in_parts(monkeypatch):
    monkeypatch.setattr(arrays, "LARGEST", 2**20)
    np.savez_compressed("x.npz", x=np.zeros((2**17, 3, 4), np.float32))
    assert refused("x.npz", network((3, 4))) == (
        "x.npz cannot be read: x.npy unpacks to 6 MiB from 0 MiB: write it with numpy.savez"
    )
    np.savez("y.npz", x=np.zeros((2**17, 3, 4), np.float32))
    assert len(next(own.batches("y.npz", network((3, 4)), 10)).names) == 10
    np.savez("z.npz", x=np.asfortranarray(np.zeros((2**17, 3, 4), np.float32)))
    assert "its order is Fortran's" in refused("z.npz", network((3, 4)))
    assert refused("x.npz", network((3, 4)), "y.npz") == "y.npz: x has more than 1 MiB"


def test_what_is_no_file_is_not_opened(tmp_path):
    os.mkfifo("x.npy")
    assert refused("x.npy", network((3, 4))) == "cannot read x.npy: it is no regular file"
    (tmp_path / "loop.npz").symlink_to("loop.npz")
    assert refused("loop.npz", network((3, 4))).startswith("cannot read loop.npz: Too many levels of symbolic links")
    assert refused("gone.npz", network((3, 4))) == "no file or folder gone.npz"
    assert refused("a\nb.npz", network((3, 4))) == r"no file or folder a\nb.npz"
    assert refused("nul\0.npz", network((3, 4))) == r"no file or folder nul\x00.npz"
    assert refused("digit", network((3, 4))) == "no file or folder digit; did you mean the data set digits?"
    (tmp_path / "x.txt").touch()
    assert refused("x.txt", network((3, 4))) == "x.txt is no folder, and no file .npy, .npz, .safetensors, .parquet"
    np.save("y.npy", X)
    assert refused("y.npy:resize=3", network((3, 4))) == "y.npy has no images, which resize=3 is for"


def test_a_name_with_a_newline_stays_one_line(tmp_path):
    np.save("a\nb.npy", np.array([[np.nan]]))
    assert refused("a\nb.npy", network((1,))) == r"a\nb.npy[0]: x[0] is NaN"
    (tmp_path / "c\nd.npz").write_bytes(b"")
    assert refused("c\nd.npz", network((1,))) == r"c\nd.npz cannot be read: File is not a zip file"
