"""Layer by layer: the time of each in a forward pass, as the runtime reports it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.converters.printable import shell
from xbench.experiments.experiment import Experiment, Lab
from xbench.proof.open_cell import opened
from xbench.proof.prove import outcome
from xbench.proof.record import base, key
from xbench.runtimes import row_of
from xbench.store.record import Record, completed
from xbench.workers.worker import WorkerFailure

PASSES = 20


@dataclass(frozen=True)
class Layers(Experiment):
    """One record per runtime, in mode forward; it is verified with the options that make it report its layers."""

    name: ClassVar[str] = "profile"
    file: ClassVar[str] = "layers.jsonl"

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        return [digest(key(case, artifact), "layers")]

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterator[Record]:
        for case in cases:
            yield _run(case, artifact, lab) | {"key": self.keys(case, artifact, lab)[0]}


def _run(case: Case, artifact: Artifact, lab: Lab) -> Record:
    record = base(case, artifact, "layers") | {"profile": None}
    record["command"] = _command(case)
    more = row_of(case.runtime).layers
    if more is None:
        message = f"{case.runtime} compiles a network as one, and tells of no single layer"
        return record | {"status": "UNSUPPORTED", "message": message}
    lab.say(case, "load, compile, check")
    proved, worker = opened(with_layers(case, more), record, artifact, lab.exporter, lab.timeout, 0.1, lab.logs)
    if worker is None:
        return proved
    try:
        profile: dict[str, Any] = worker.call("timed_layers", lab.timeout, count=PASSES)
        return completed(proved, {"times": None, "profile": profile})
    except WorkerFailure as failure:
        return proved | {"times": None} | outcome(failure)
    finally:
        worker.stop()


def with_layers(case: Case, more: str) -> Case:
    """The cell, with the options that make its runtime report its layers."""
    return replace(case, runtime=f"{case.runtime}{',' if ':' in case.runtime else ':'}{more}") if more else case


def _command(case: Case) -> str:
    """The command line that measures this again."""
    words = ["xbench", "profile", case.model, "--runtime", case.runtime, "--batch", case.batch]
    words += ["--inputs", case.own] if case.own else []
    return shell(*words, "--threads", case.threads, "--device", case.device, "--rerun")
