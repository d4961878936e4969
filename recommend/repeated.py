"""Reads the user's samples again: those of a question, and those on which the cell was evaluated that is deployed."""

from collections.abc import Sequence
from dataclasses import replace

from xbench.case import CALIBRATED, Case
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.experiments import own_samples
from xbench.experiments.evaluate import Evaluate
from xbench.experiments.experiment import Experiment, Lab
from xbench.recommend.metric_script import Repeated
from xbench.recommend.quality import Quality, same
from xbench.recommend.question import Question
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
    return replace(question, data=case.data)


def repeated(
    record: Record, artifact: Artifact, lab: Lab, quality: Quality | None, evaluated: Sequence[Record]
) -> Repeated | None:
    """The evaluation of a cell, with its samples; None if its quality was not asked for.

    Raises:
        XBenchError: the samples cannot be read, or are others now.
    """
    if quality is None:
        return None
    last = _last(record, quality, evaluated)
    found, given = last["evaluation"], _samples(last, artifact, lab)
    outputs: list[str] = artifact.info["outputs"]
    place = outputs.index(found["output"]) if found["output"] in outputs else 0
    return Repeated(found, given.paths(), given.batched, place, own_samples.at_once(artifact))


def calibrated(
    record: Record, artifact: Artifact, lab: Lab, quality: Quality | None, evaluated: Sequence[Record]
) -> OwnSamples | None:
    """The samples of the evaluation of a cell, else those that it was timed on, with the ones that its precision is
    calibrated on; None if it needs none, or there are none.

    Raises:
        XBenchError: as `repeated`.
    """
    case = Case(**record["case"])
    if case.precision not in CALIBRATED:
        return None
    timed_on = [each for each in evaluated if same(each, record) and each["case"]["data"] == case.data]
    if quality is not None or timed_on:
        given = _samples(_last(record, quality, evaluated) if quality else timed_on[-1], artifact, lab)
    elif case.own is None:
        return None
    else:
        read = Experiment().samples(case, artifact, lab)
        if read is None or read.data != case.data:
            raise XBenchError(f"{case.own} has other samples than those that were timed: measure it again")
        given = read
    lab.exporter.own[artifact.folder, given.data] = given
    return given


def _last(record: Record, quality: Quality, evaluated: Sequence[Record]) -> Record:
    return [each for each in quality.of(evaluated, record["case"]["model"]) if same(each, record)][-1]


def _samples(evaluation: Record, artifact: Artifact, lab: Lab) -> OwnSamples:
    """The samples of an evaluation.

    Raises:
        XBenchError: as `repeated`.
    """
    found, case = evaluation["evaluation"], Case(**evaluation["case"])
    precisions = (case.precision, *(CALIBRATED if found["set_aside"] else ()))
    settings = Evaluate(found["inputs"], found["labels"], found["metric"], 0.0, precisions=precisions)
    settings = replace(settings, limit=found["limit"], calibration=found["calibration"])
    given, ranges = settings.samples(case, artifact, lab), found.get("ranges")
    if given.content != found["content"]:
        raise XBenchError(f"{found['inputs']} has other samples than those that were evaluated: evaluate them again")
    if ranges and (given.calibration is None or given.calibration.content != ranges):
        raise XBenchError(f"{found['calibration']} has other samples than those it was calibrated on: evaluate again")
    return given
