"""Reads a user's samples for a network, once a command, in the worker that scores."""

import time
from typing import TYPE_CHECKING, Any

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.data.own import fixed_batch
from xbench.errors import XBenchError
from xbench.workers.samples import Calibration, OwnSamples, batched

if TYPE_CHECKING:
    from xbench.experiments.experiment import Lab

SECONDS = 0.5  # of a job: the interval of the progress bar
ENOUGH = 1024  # samples for a command that draws batches of them, or more for two large ones


def read(
    lab: "Lab",
    case: Case,
    artifact: Artifact,
    word: str,
    labels: str | None = None,
    sets_aside: bool = False,
    limit: int | None = None,
) -> OwnSamples:
    """The samples of a word in batches of the cell's size. Some are set aside for calibration if `sets_aside`.

    Raises:
        XBenchError: they cannot be read, or do not fit the network.
    """
    size = batch_of(case, artifact)
    what = {"word": word, "labels": labels, "size": size, "sets_aside": sets_aside, "limit": limit}
    name = digest("own", artifact.digest, what)
    return lab.once(name, lambda: _read(lab, artifact, what, name))


def _read(lab: "Lab", artifact: Artifact, what: dict[str, Any], name: str) -> OwnSamples:
    folder, word, start = lab.logs / name, what["word"], time.monotonic()
    folder.mkdir(exist_ok=True)
    lab.score("begin_samples", artifact=str(artifact.folder), folder=str(folder), **what)
    while not (answer := lab.score("read_samples", seconds=SECONDS))["done"]:
        lab.progress.say(f"{answer['samples']:,} samples of {word} read")
        if time.monotonic() - start > lab.timeout:
            words = f"{answer['samples']:,} samples were read in {lab.timeout:g} s, and there are more"
            raise XBenchError(f"{word}: {words}: --timeout reads longer, --limit of `xbench evaluate` fewer")
    found = lab.score("samples_read")
    number, content = found.pop("aside_samples"), found.pop("aside_inputs")
    aside = Calibration(word, [str(folder / each) for each in found["aside"]], number, content)
    return OwnSamples(word=word, folder=folder, calibration=aside if number else None, **found)


def batch_of(case: Case, artifact: Artifact) -> int:
    """The samples of a batch: as many as the graph fixes, one if it has no axis of samples, else those of the cell."""
    return (fixed_batch(artifact.info) or case.batch) if any(batched(artifact.info)) else 1


def enough(case: Case, artifact: Artifact) -> int:
    """How many samples a command reads that draws batches of them."""
    return max(ENOUGH, 2 * batch_of(case, artifact) + 2)
