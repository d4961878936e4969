"""Reads a user's samples for a network, once a command, in the worker that scores."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.data.own import fixed_batch, takes_one
from xbench.errors import XBenchError
from xbench.workers.prepare import Exporter
from xbench.workers.samples import Calibration, OwnSamples

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
    facts = {**artifact.info, "rows_apart": lab.exporter.rows_apart(artifact)}
    size = 1 if takes_one(facts) else fixed_batch(facts) or case.batch
    what = {"word": word, "labels": labels, "size": size, "sets_aside": sets_aside, "limit": limit}
    what["rows_apart"] = facts["rows_apart"]
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


def settled(lab: "Lab", cases: Sequence[Case], artifact: Artifact, batches: int = 2) -> list[Case]:
    """The cases of a command that draws so many batches; those on samples of the user, which are read now, with their
    digest.

    Raises:
        XBenchError: as `read`.
    """

    def each(case: Case) -> Case:
        if case.own is None:
            return case
        own = read(lab, case, artifact, case.own, limit=enough(case, artifact, batches))
        return noted(case, own, artifact, lab.exporter)

    return [each(case) for case in cases]


def need_batch(own: OwnSamples | None, number: int) -> None:
    """
    Raises:
        XBenchError: the samples, if there are some, have fewer batches than that with this number, from 0.
    """
    if own and number * own.size >= own.samples:
        words = f"{own.samples:,} samples, {-(-own.samples // own.size):,} batches of {own.size}"
        raise XBenchError(f"--seed {number} is the batch of that number, from 0, and {own.word} has {words}")


def noted(case: Case, own: OwnSamples, artifact: Artifact, exporter: Exporter) -> Case:
    """The case with the digest of its samples, of which the exporter makes its references from now on."""
    case = replace(case, data=own.data)
    exporter.own[artifact.folder, case.data] = own
    return case


def at_once(artifact: Artifact) -> int | None:
    """How many samples the graph takes; None if any number."""
    return fixed_batch(artifact.info)


def enough(case: Case, artifact: Artifact, batches: int = 2) -> int:
    """How many samples a command reads that draws so many batches of them, or of one sample more."""
    return max(ENOUGH, batches * ((fixed_batch(artifact.info) or case.batch) + 1))
