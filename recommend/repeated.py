"""Reads the user's samples again: those of a question, and those on which the cell was evaluated that is deployed."""

import dataclasses
from collections.abc import Sequence

from xbench.case import Case
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.experiments import own_samples
from xbench.experiments.experiment import Lab
from xbench.recommend.metric_script import Repeated
from xbench.recommend.quality import Quality, same
from xbench.recommend.question import Question
from xbench.store.experiments import Evaluation
from xbench.store.record import Record
from xbench.workers.samples import OwnSamples


def read_again(question: Question, lab: Lab) -> Question:
    """The question with the digest of the user's samples as they are now, which are read.

    Raises:
        XBenchError: they cannot be read, or do not fit the network.
    """
    case = Case(question.model, "", batch=question.batch, data=question.data)
    (case,) = own_samples.settled(lab, [case], lab.exporter.artifact(question.model))
    lab.progress.finish(f"{case.own} is read")
    return dataclasses.replace(question, data=case.data)


def repeated(
    record: Record, artifact: Artifact, lab: Lab, quality: Quality | None, evaluated: Sequence[Record]
) -> Repeated | None:
    """The evaluation of a cell, with its samples; None if its quality was not asked for.

    Raises:
        XBenchError: the samples cannot be read, or are others now.
    """
    if quality is None:
        return None
    found = [each for each in quality.of(evaluated, record["case"]["model"]) if same(each, record)][-1]["evaluation"]
    given = _samples(Case(**record["case"]), artifact, lab, found)
    outputs: list[str] = artifact.info["outputs"]
    place = outputs.index(found["output"]) if found["output"] in outputs else 0
    return Repeated(found, given.paths(), given.batched, place, given.size)


def _samples(case: Case, artifact: Artifact, lab: Lab, found: Evaluation) -> OwnSamples:
    """The samples that were evaluated.

    Raises:
        XBenchError: as `repeated`.
    """
    where = found["inputs"], found["labels"], found["set_aside"], found["limit"]
    given = own_samples.read(lab, case, artifact, *where)
    if given.content == found["content"]:
        return given
    raise XBenchError(f"{found['inputs']} has other samples than those that were evaluated: evaluate them again")
