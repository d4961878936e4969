"""The job that copies a user's samples: a file is a batch, the digest is that of all samples, a fault is a line."""

from pathlib import Path

import numpy as np
import pytest

from xbench.errors import XBenchError
from xbench.parity import verdict
from xbench.workers.jobs import own_samples as jobs

IMAGES = np.random.default_rng(0).normal(size=(50, 1, 28, 28)).astype(np.float32)


@pytest.fixture
def copied(lenet, tmp_path):
    """The facts of a copy in batches of a size, and its folder."""
    np.savez(tmp_path / "x.npz", x=IMAGES, label=np.arange(50))

    def copied(size, folder="copy", **more):
        place = tmp_path / f"{folder}-{size}"
        if folder == "copy":
            place.mkdir()
        how = {"labels": None, "sets_aside": False, "limit": None} | more
        jobs.begin_samples(str(tmp_path / "x.npz"), artifact=str(lenet.folder), folder=str(place), size=size, **how)
        while not jobs.read_samples(0.1)["done"]:
            pass
        return jobs.samples_read(), place

    return copied


def rows(place: Path, names):
    """Images and labels of files, one after the other."""
    files = [verdict.read(place / name) for name in names]
    return (np.concatenate([each[name] for each in files]) for name in ("input/0", "labels"))


@pytest.mark.parametrize("aside", [False, True])
def test_a_copy_is_the_samples_whatever_the_size_of_its_batches(aside, copied):
    held = np.arange(50) % 8 == 7 if aside else np.zeros(50, bool)
    contents = set()
    for size in (1, 7, 50, 64):
        found, place = copied(size, sets_aside=aside)
        images, labels = rows(place, found["batches"])
        assert (images == IMAGES[~held]).all() and labels.tolist() == np.flatnonzero(~held).tolist()
        counts = [len(verdict.read(place / name, "names")["names"]) for name in found["batches"]]
        assert counts[:-1] == [size] * (len(counts) - 1) and (found["size"], found["batched"]) == (size, [True])
        if aside:
            assert next(rows(place, found["aside"])).tolist() == IMAGES[held].tolist()
        contents.add(found["content"])
    assert len(contents) == 1


def test_a_place_that_cannot_be_written_is_one_line(copied):
    with pytest.raises(XBenchError) as raised:
        copied(7, folder="nowhere")
    assert str(raised.value).endswith("nowhere-7: No such file or directory, at sample 7: TMPDIR names another place")
