"""One search for the nodes that must stay in float32 on a runtime, from the question to the record.

Each set of nodes is a word of the runtime (`wide=...`), so that its evaluation and its times are records like any
others: a search that was ended goes on where it was.
"""

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xbench.case import OWN, Case, digest
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.experiments.evaluate import Evaluate, command
from xbench.experiments.experiment import Lab, run, with_samples
from xbench.experiments.original import places_of
from xbench.experiments.own_samples import SECONDS
from xbench.experiments.session import Time
from xbench.experiments.settings import Protocol
from xbench.experiments.widen import points
from xbench.experiments.widen.search import Found, smallest
from xbench.proof.kernels import SETTINGS
from xbench.proof.prove import outcome
from xbench.proof.record import base, impossible, key
from xbench.runtimes.support.wide import option
from xbench.store.experiments import NarrowNode
from xbench.store.record import Record, completed
from xbench.store.results import open_store
from xbench.workers.worker import WorkerFailure, worker_of

FILE = "widened.jsonl"


@dataclass(frozen=True)
class Question:
    """What good enough is (`evaluation`), how many sets may be evaluated, and for how many seconds each point is timed,
    with `batch` samples; 0: not at all."""

    evaluation: Evaluate
    trials: int
    budget: float
    batch: int
    timeout: float


@dataclass(frozen=True)
class Timed(Time):
    """Times cells of several precisions in one session, so that their ratios are taken round by round."""

    def group(self, case: Case) -> Hashable:
        return case.model


@dataclass(frozen=True)
class Search:
    """The search on one runtime: `case` is in the lower precision. `done` gets a line for every set."""

    question: Question
    case: Case
    lab: Lab
    out: Path
    again: str
    done: Callable[[str], object]

    def record(self) -> Record:
        """The record, however the search ends; it is stored.

        Raises:
            XBenchError: the network or the samples cannot be used at all; the store cannot be written.
        """
        artifact = self.lab.artifact(self.case.model)
        if artifact is None:
            raise XBenchError(f"{self.case.model} cannot be exported")
        record = completed(base(self.case, artifact, "widen"), {"widening": points.nothing(self.question.evaluation)})
        settings = replace(self.question.evaluation, precisions=(self.case.precision,))
        again = command(replace(self.case, batch=self.question.batch), settings, "widen")
        record |= {"key": digest("widen", key(self.case, artifact), self.question), "command": again}
        record = self._ended(record, artifact)
        open_store(self.out, FILE).append(record)
        return record

    def _ended(self, record: Record, artifact: Artifact) -> Record:
        if reason := impossible(self.case, artifact):
            return record | {"status": "UNSUPPORTED", "message": reason}
        exact, full = (self._evaluated(each) for each in (replace(self.case, precision="fp32"), self.case))
        for each, usable in ((exact, exact["status"] == "PASS"), (full, full["evaluation"]["verdict"] is not None)):
            if not usable:
                words = f"in {each['case']['precision']}: {each['message']}"
                return record | {"status": each["status"], "message": words}
        try:
            nodes = self._nodes(artifact)
        except WorkerFailure as failure:
            return record | outcome(failure)
        tried = {frozenset[str](): full}
        found = smallest(
            {each["tensor"]: math.inf if each["error"] is None else each["error"] for each in nodes},
            lambda wide: self._is_good(wide, [each["tensor"] for each in nodes], tried),
            self.question.trials,
        )
        return self._answered(record, nodes, [exact, *tried.values()], found)

    def _evaluated(self, case: Case) -> Record:
        """The evaluation of a case, from the store or made now."""
        store = open_store(self.out, Evaluate.file)
        (record,) = run(self.question.evaluation, [case], self.lab, store, self.again).records
        return record

    def _is_good(self, wide: Collection[str], order: Sequence[str], tried: dict[frozenset[str], Record]) -> bool:
        """Whether the answers are good enough with these nodes in float32."""
        chosen = frozenset(wide)
        if chosen not in tried:
            word = option(self.case.runtime, [each for each in order if each in chosen])
            tried[chosen] = self._evaluated(replace(self.case, runtime=word))
        found = tried[chosen]
        value = points.value(found["evaluation"])
        self.done(f"{self.case.runtime}: {points.count(len(chosen))} in float32: {found['status']}, {value}")
        return found["status"] == "PASS"

    def _nodes(self, artifact: Artifact) -> list[NarrowNode]:
        """The nodes in the lower precision, and how far each alone is off on a batch of samples.

        Raises:
            WorkerFailure: the runtime cannot say.
        """
        question, lab = self.question, self.lab
        (case,) = with_samples(question.evaluation, [self.case], artifact, lab)
        own = question.evaluation.samples(case, artifact, lab)
        ranges = list(own.calibration.files) if own.calibration else []
        batch = (ranges or own.paths(1))[0]
        log = lab.logs / f"{digest(case, 'widen')}.log"
        worker = worker_of(case, log, timed=False, templates=lab.exporter.templates)
        try:
            references = [lab.exporter.reference(artifact, "forward", case.batch, seed, case.data) for seed in (0, 1)]
            settings = {name: getattr(case, name) for name in SETTINGS}
            given = {"references": list(map(str, references)), "calibration": ranges}
            worker.call("open_cell", lab.timeout, artifact=str(artifact.folder), **given, **settings)
            nodes, errors = worker.call("narrow_nodes", lab.timeout), list[float]()
            names = [name for name, _ in nodes]
            outputs = places_of(artifact, question.evaluation)
            where = {"batch": batch, "outputs": outputs, "size": own.size, "nodes": names, "seconds": SECONDS}
            while len(errors) < len(nodes):
                errors += worker.call("node_errors", lab.timeout, skip=len(errors), **where)
                lab.say(case, f"how much each node is off: {len(errors)} of {len(nodes)}")
        finally:
            worker.stop()
        return [
            {"tensor": name, "operator": operator, "error": error if math.isfinite(error) else None}
            for (name, operator), error in zip(nodes, errors, strict=True)
        ]

    def _answered(self, record: Record, nodes: list[NarrowNode], tried: Sequence[Record], found: Found) -> Record:
        """The record with what was found, and the times of the points worth a look."""
        chosen = None if found.nodes is None else [e["tensor"] for e in nodes if e["tensor"] in found.nodes]
        timed = self._timed(points.worth_timing(tried, chosen)) if self.question.budget else []
        widening = {
            **points.nothing(self.question.evaluation),
            "accepted": tried[0]["evaluation"]["accepted"],
            "nodes": nodes,
            "points": points.points(tried, timed),
            "wide": chosen,
            "trials": found.trials,
            "ended": found.ended,
        }
        record = completed(record, {"widening": widening})
        if chosen is not None:
            return record | {"status": "PASS", "message": points.remark(found, len(nodes))}
        return record | {"status": "FAIL", "message": points.none_found(found, len(nodes), self.case.precision)}

    def _timed(self, evaluated: Iterable[Record]) -> list[Record]:
        """The times of evaluated cells, side by side."""
        cells = [Case(**record["case"]) for record in evaluated]
        samples = f"{OWN}{self.question.evaluation.inputs}#"
        cells = [replace(each, batch=self.question.batch, data=samples) for each in cells]
        protocol = Protocol(budget=self.question.budget, timeout=self.question.timeout)
        timed = Timed(protocol, evaluation=(self.question.evaluation, self.case.batch))
        return run(timed, cells, self.lab, open_store(self.out, Time.file), self.again).records
