"""An experiment is a value, and one loop runs them all: it resumes, stores each record once it is final, and reports.

A `Lab` is what the cells of a command share: the worker that exports networks and computes references, the folder of
the logs, and the progress display.
"""

import typing
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from xbench.case import CALIBRATED, Case
from xbench.converters.artifact import Artifact
from xbench.converters.cache import CacheError
from xbench.errors import XBenchError
from xbench.experiments import own_samples
from xbench.experiments.blame import sound
from xbench.host import machine
from xbench.proof.record import expected, impossible
from xbench.store.record import Record
from xbench.store.results import Store, latest
from xbench.store.schema import FAILED
from xbench.workers.prepare import EXPORT_TIMEOUT, Exporter
from xbench.workers.samples import OwnSamples
from xbench.workers.worker import Worker, WorkerFailure

AGAIN = ("none", "failed", "all")  # which stored records are measured again
T = TypeVar("T")


class Progress(typing.Protocol):
    """Shows how a command proceeds."""

    def say(self, words: str) -> None:
        """What happens now."""

    def note(self, words: str) -> None:
        """A remark that stays."""

    def skip(self, number: int = 1) -> None:
        """Records that will not be made, or exist."""

    def finish(self, words: str) -> None:
        """A record is final."""


class Lab:
    """What the cells of a command share; a context manager, which ends its worker.

    With `keep_going` a model that cannot be exported is noted, and the other models are measured; without it the
    error is raised. `given` are models that are artifacts already, by their words.
    """

    def __init__(
        self, logs: Path, progress: Progress, timeout: float = EXPORT_TIMEOUT, keep_going: bool = False
    ) -> None:
        self.logs, self.progress, self.timeout, self.keep_going = logs, progress, timeout, keep_going
        self.exporter = Exporter(logs, timeout)
        self.given: dict[str, Artifact] = {}
        self.broken: set[str] = set()
        self._made: dict[Hashable, Any] = {}
        self._refusals: set[str] = set()
        self._scorer: list[Worker] = []

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.exporter.close()
        for worker in self._scorer:
            worker.stop()

    def score(self, job: str, **arguments: Any) -> Any:
        """Runs a job of the worker that reads a user's samples and scores answers; it is started when it is needed.

        Raises:
            XBenchError: the job failed: the samples or the functions are the user's.
        """
        if not self._scorer:
            self._scorer.append(Worker(self.logs / "samples.log", threads=machine.cpus(), timed=False))
        try:
            return self._scorer[0].call(job, self.timeout, **arguments)
        except WorkerFailure as error:
            self._scorer.pop().stop()
            if error.status == "ERROR":
                raise XBenchError(error.message) from error
            words = f"nothing within {self.timeout:g} s" if error.status == "TIMEOUT" else error.message
            raise XBenchError(f"your samples or functions: {words}") from error

    def artifact(self, model: str) -> Artifact | None:
        """The exported model; None if it cannot be exported, which has been noted.

        Raises:
            CacheError: the cache cannot be written.
            XBenchError: the model cannot be exported, unless `keep_going`.
        """
        if model in self.given:
            return self.given[model]
        if model in self.broken:
            return None
        try:
            artifact = self.exporter.artifact(model)
        except CacheError:
            raise
        except XBenchError as error:
            self.refuse(model, error)
            return None
        for remark in self.exporter.remarks(artifact):
            self.progress.note(remark)
        return artifact

    def refuse(self, model: str, error: XBenchError) -> None:
        """Leaves a model out.

        Raises:
            XBenchError: `error`, unless `keep_going`.
        """
        if not self.keep_going:
            raise error
        if (words := str(error)) not in self._refusals:  # the sizes of a sweep are refused for one reason
            self.progress.note(words)
        self._refusals.add(words)
        self.broken.add(model)

    def say(self, case: Case, words: str) -> None:
        """What a cell does now."""
        self.progress.say(f"{case.runtime}: {words}")

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """A value that several cells need, made once."""
        if name not in self._made:
            self._made[name] = make()
        return typing.cast(T, self._made[name])


class Experiment:
    """A kind of measurement. A value: a frozen dataclass, whose fields are its settings."""

    name: ClassVar[str]  # of its command
    file: ClassVar[str]  # of its records, in the folder of results

    @property
    def records(self) -> int:
        """How many records a cell has."""
        return 1

    def group(self, case: Case) -> Hashable:
        """Cells of the same group, if they are next to each other, are measured together."""
        return case

    def need(self, cases: Sequence[Case]) -> None:
        """Checks preconditions before measuring.

        Raises:
            XBenchError: one is not met.
        """

    def samples(self, case: Case, artifact: Artifact, lab: Lab) -> OwnSamples | None:
        """The user's samples that a cell computes on; None if it has others. If its precision is calibrated, it is on
        some that are set aside, as in `evaluate`.

        Raises:
            XBenchError: they cannot be read, or do not fit the network.
        """
        if case.own is None:
            return None
        limit, aside = own_samples.enough(case, artifact), case.precision in CALIBRATED
        return own_samples.read(lab, case, artifact, case.own, sets_aside=aside, limit=limit)

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        """The keys of the records of a cell."""
        raise NotImplementedError

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterable[Record]:
        """The records of a group, each once it is final. `wanted` are the keys of those that are missing; an experiment
        may measure others of the same cells along with them."""
        raise NotImplementedError

    def line(self, record: Record) -> str:
        """The outcome of a cell, for a log."""
        case, words = record["case"], filter(None, (record["status"], record["message"]))
        return f"{case['model']} {case['runtime']}: {': '.join(words)}"


@dataclass
class Outcome:
    """The result of a run: `records` in the order of the cells; `kept` of them were stored before. `left_out` are the
    cells that were not requested and cannot or should not be measured unasked."""

    records: list[Record] = field(default_factory=list)
    kept: int = 0
    left_out: list[tuple[Case, Artifact]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)

    @property
    def exit_code(self) -> int:
        """2 if a model is unusable, 1 if a cell failed."""
        return 2 if self.broken else int(any(record["status"] in FAILED for record in self.records))


def run(
    experiment: Experiment, cases: Sequence[Case], lab: Lab, store: Store, again: str = "none", strict: bool = True
) -> Outcome:
    """Measures the cells that are not stored, group by group. If not `strict`, cells not worth measuring are
    left out (`expected`).

    Raises:
        XBenchError: a model cannot be exported, unless the lab keeps going; the store cannot be read or written; every
            cell was left out; a precondition of the experiment is not met.
    """
    experiment.need(cases)
    known = {key: record for key, record in latest(store.read()).items() if _can_be_shown(record, experiment)}
    requested, outcome = list[str](), Outcome(broken=lab.broken)
    for _, group in groupby(cases, key=experiment.group):
        members = list(group)
        lab.progress.say(f"{members[0].model}: export to ONNX")
        artifact = lab.artifact(members[0].model)
        members = with_samples(experiment, members, artifact, lab) if artifact else members
        if artifact is None or members[0].model in lab.broken:
            lab.progress.skip(experiment.records * len(members))
            continue
        keys = {case: experiment.keys(case, artifact, lab) for case in members if strict or expected(case, artifact)}
        missing = {case: [key for key in own if wanted(known.get(key), again)] for case, own in keys.items()}
        outcome.left_out += [(case, artifact) for case in members if case not in keys]
        outcome.kept += (stored := sum(len(own) - len(missing[case]) for case, own in keys.items()))
        lab.progress.skip(experiment.records * (len(members) - len(keys)) + stored)
        requested += [key for own in keys.values() for key in own]
        for record in _measured(experiment, missing, artifact, lab):
            store.append(record)
            known[record["key"]] = record
            lab.progress.finish(experiment.line(record))
    outcome.records = [known[key] for key in requested if key in known]
    if outcome.left_out and not (outcome.records or outcome.broken):
        reason = impossible(*outcome.left_out[-1]) or "it is slow to prepare, and is measured where it is asked for"
        raise XBenchError(f"there is nothing to measure: {reason}")
    return outcome


def with_samples(experiment: Experiment, cases: list[Case], artifact: Artifact, lab: Lab) -> list[Case]:
    """The cells, with the digest of the user's samples that they compute on; the exporter makes references of them."""
    made = list[Case]()
    try:
        for case in cases:
            if own := experiment.samples(case, artifact, lab):
                case = own_samples.noted(case, own, artifact, lab.exporter)
            made.append(case)
    except XBenchError as error:
        lab.refuse(cases[0].model, error)
    return made or cases


def _can_be_shown(record: Record, experiment: Experiment) -> bool:
    """Whether a stored record has the experiment's fields: the file may have been edited."""
    try:
        return bool(experiment.line(record))
    except (LookupError, TypeError, ValueError, AttributeError):
        return False


def _measured(experiment: Experiment, missing: dict[Case, list[str]], artifact: Artifact, lab: Lab) -> Iterator[Record]:
    """The records that are missing. No runtime is blamed for a damaged cache (`experiments/blame.py`)."""

    def once(done: Collection[str]) -> Iterable[Record]:
        left = {case: [key for key in own if key not in done] for case, own in missing.items()}
        todo = [case for case, own in left.items() if own]
        return experiment.measure(todo, {key for own in left.values() for key in own}, artifact, lab) if todo else ()

    return sound(once, artifact, lab.exporter)


def wanted(record: Record | None, again: str) -> bool:
    """Whether a record is made, given what is stored."""
    return record is None or again == "all" or (again == "failed" and record["status"] in FAILED)
