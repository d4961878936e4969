"""Jobs of the worker that reads a user's samples: their files and functions are opened in it alone. It has one reading
(`_READING`), and its jobs end with the batch in which their seconds are over, so that the caller can show the progress.
"""

import hashlib
import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xbench.converters.artifact import Artifact
from xbench.data import BadData, own
from xbench.data.own import Batch
from xbench.errors import XBenchError
from xbench.host.clock import now
from xbench.models import _factory
from xbench.parity import candidate, verdict
from xbench.workers import samples

SET_ASIDE = 8  # one sample of so many is for calibration,
MOST_ASIDE = 128  # until there are so many


@dataclass
class Written:
    """Samples that are joined to batches of `size` and written: `files` are their names, `inputs` the digest of their
    inputs, `waiting` those that do not yet fill a batch. `batched` says of each input whether its first axis is the
    samples."""

    folder: Path
    prefix: str
    size: int
    batched: Sequence[bool]
    samples: int = 0
    files: list[str] = field(default_factory=list)
    inputs: Any = field(default_factory=hashlib.sha256)
    waiting: list[Batch] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Adds samples; writes every batch that is full, and a smaller one before samples of other shapes."""
        kinds = [samples.kind(each.inputs, self.batched) for each in (*self.waiting[:1], batch)]
        if kinds[0] != kinds[-1]:
            self.write()
        self.waiting.append(batch)
        while sum(len(each.names) for each in self.waiting) >= self.size:
            self.write()

    def write(self) -> None:
        """Writes the first `size` samples that wait, or all if there are fewer.

        Raises:
            XBenchError: there is no space for them.
        """
        if not self.waiting:
            return
        joined = _joined(self.waiting, self.batched)
        count = len(joined.names)
        batch = taken(joined, np.arange(min(count, self.size)), self.batched)
        self.waiting = [taken(joined, np.arange(self.size, count), self.batched)] if count > self.size else []
        self.samples += len(batch.names)
        self.files.append(f"{self.prefix}{len(self.files):06d}.npz")
        arrays = {f"input/{place}": array for place, array in enumerate(batch.inputs)}
        labels = {} if batch.labels is None else {"labels": _array(batch)}
        facts = {"names": np.array(batch.names, str), "batched": np.array(self.batched, bool)}
        try:
            verdict.join(self.folder / self.files[-1], {**arrays, **labels, **facts})
        except OSError as error:
            words = f"cannot copy the samples to {self.folder}: {error.strerror or error}, at sample {self.samples:,}"
            raise XBenchError(f"{words}: TMPDIR names another place") from error


@dataclass
class Reading:
    """The samples of a word on their way to files: `kept` are evaluated, `aside` are for calibration, `content` is the
    digest of all."""

    batches: Iterator[Batch]
    kept: Written
    aside: Written
    sets_aside: bool
    limit: int | None
    seen: int = 0
    content: Any = field(default_factory=hashlib.sha256)


_READING: list[Reading] = []


def begin_samples(
    word: str,
    labels: str | None,
    artifact: str,
    folder: str,
    size: int,
    sets_aside: bool,
    limit: int | None,
    rows_apart: bool = True,
) -> None:
    """Opens a user's samples for a network; at most `limit` of them are read. `rows_apart` is for `fixed_batch`."""
    info = Artifact.read(Path(artifact)).info | {"rows_apart": rows_apart}
    function = _factory.function(word) if own.is_function(word) else None
    batches = own.batches(word, info, size, labels, function)
    batched = samples.batched(info)
    kept, aside = (Written(Path(folder), prefix, size, batched) for prefix in ("batch-", "aside-"))
    _READING[:] = [Reading(batches, kept, aside, sets_aside, limit)]


def read_samples(seconds: float) -> dict[str, Any]:
    """Reads on until the seconds are over: how many samples there are, and whether these are all."""
    (reading,) = _READING
    end, done = now() + seconds, False
    with samples.user_errors():
        while not done and now() < end:
            batch = None if reading.limit is not None and reading.seen >= reading.limit else next(reading.batches, None)
            done = batch is None
            if batch is not None:
                _add(reading, batch)
        if done:
            reading.kept.write()
            reading.aside.write()
    return {"samples": reading.seen, "done": done}


def samples_read() -> dict[str, Any]:
    """The files of the samples that were read, and the digest of them; ends the reading."""
    reading = _READING.pop()
    kept, aside = reading.kept, reading.aside
    found = {"batches": kept.files, "samples": kept.samples, "inputs": kept.inputs.hexdigest()[:16]}
    found |= {"aside": aside.files, "aside_samples": aside.samples, "aside_inputs": aside.inputs.hexdigest()[:16]}
    found |= {"size": kept.size, "batched": [*kept.batched]}
    return {**found, "content": reading.content.hexdigest()[:16]}


def source(word: str) -> str:
    """The digest of the file that defines a user's function; "" if it has none."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(_factory.function(word)))
    except TypeError:  # one that is not written in Python
        return ""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file else ""


def overlap(batches: list[str], others: list[str]) -> str | None:
    """The name of the first sample in files of samples that is also in other such files; None if there is none."""
    known = {digest for path in others for digest, _ in _digests(path)}
    named = (name for path in batches for digest, name in _digests(path) if digest in known)
    return next(named, None)


def _digests(path: str) -> Iterator[tuple[bytes, str]]:
    given = verdict.read(Path(path))
    inputs, batched = candidate.inputs_of(given), [*map(bool, given["batched"])]
    for place, name in enumerate(given["names"]):
        yield _digest(inputs, batched, place), str(name)


def _digest(inputs: Sequence[np.ndarray], batched: Sequence[bool], place: int) -> bytes:
    """The digest of a sample's inputs."""
    digest = hashlib.sha256()
    for array, of_sample in zip(inputs, batched, strict=True):
        digest.update(_bytes(array[place] if of_sample else array))
    return digest.digest()


def _bytes(values: np.ndarray) -> bytes:
    """The type, the shape and the values of an array."""
    return f"{values.dtype} {values.shape} ".encode() + np.ascontiguousarray(values).tobytes()


def _add(reading: Reading, batch: Batch) -> None:
    if reading.limit is not None:
        batch = taken(batch, np.arange(min(len(batch.names), reading.limit - reading.seen)), reading.kept.batched)
    places = reading.seen + np.arange(len(batch.names))
    reading.seen += len(batch.names)
    held = (places % SET_ASIDE == SET_ASIDE - 1) & (places < SET_ASIDE * MOST_ASIDE) & reading.sets_aside
    _note(reading, batch, held)
    for written, chosen in ((reading.kept, ~held), (reading.aside, held)):
        if chosen.any():
            written.add(taken(batch, np.flatnonzero(chosen), written.batched))


def _note(reading: Reading, batch: Batch, held: np.ndarray) -> None:
    """Adds samples to the digests."""
    for place, name in enumerate(batch.names):
        inputs = _digest(batch.inputs, reading.kept.batched, place)
        (reading.aside if held[place] else reading.kept).inputs.update(inputs)
        reading.content.update(f"{name} ".encode() + inputs)
        if batch.labels is not None:
            reading.content.update(_bytes(np.asarray(batch.labels[place])))


def taken(batch: Batch, places: np.ndarray, batched: Sequence[bool]) -> Batch:
    """Some samples of a batch, in their order there; the batch itself if these are all."""
    if len(places) == len(batch.names):
        return batch
    labels = None if batch.labels is None else [batch.labels[place] for place in places]
    inputs = [array[places] if own else array for array, own in zip(batch.inputs, batched, strict=True)]
    return Batch(inputs, labels, [batch.names[place] for place in places])


def _joined(batches: Sequence[Batch], batched: Sequence[bool]) -> Batch:
    """Batches of the same shapes as one."""
    first = batches[0]
    if len(batches) == 1:
        return first
    inputs = [
        np.concatenate([each.inputs[place] for each in batches]) if own else first.inputs[place]
        for place, own in enumerate(batched)
    ]
    labels = None if first.labels is None else [label for each in batches for label in _labels(each)]
    return Batch(inputs, labels, [name for each in batches for name in each.names])


def _labels(batch: Batch) -> Iterable[Any]:
    return () if batch.labels is None else batch.labels


def _array(batch: Batch) -> np.ndarray:
    """The labels of a batch as one array.

    Raises:
        BadData: they differ in shape, or are no numbers and no texts.
    """
    assert batch.labels is not None
    try:
        array = np.array([np.asarray(label) for label in batch.labels])
    except ValueError:
        array = np.array(None)
    if array.dtype.kind not in "fiubU":
        raise BadData(f"{batch.names[0]}: labels are numbers, texts, or arrays of one shape")
    return array


JOBS = (begin_samples, read_samples, samples_read, source, overlap)
