"""Runs one graph on one or two runtimes with the same inputs, and compares the results with the float64 oracle and
each other."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from xbench.case import Case
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.parity import verdict
from xbench.proof.tuning import NOTHING_CHOSEN, as_opened
from xbench.workers.template import Templates
from xbench.workers.worker import Worker, WorkerFailure, worker_of

LETTERS = "ab"


@dataclass(frozen=True)
class Trial:
    """The results of one graph on every runtime: the errors of every tensor in noise floors, None for a runtime that
    failed; the tensors on which the runtimes differ, in order; the failures. `folder` has the answers, `limit` is the
    error that the graph's own precision explains.
    """

    folder: Path
    errors: Mapping[str, list[float | None]]
    apart: list[str]
    failures: Sequence[WorkerFailure | None]
    limit: float = verdict.LIMITS["fp32"]

    @property
    def failed(self) -> bool:
        return any(self.failures)

    @property
    def differs(self) -> bool:
        return self.failed or bool(self.apart)

    def worst(self) -> list[float | None]:
        """The worst error of each runtime."""
        every = [[each for each in errors if each is not None] for errors in zip(*self.errors.values())]
        return [max(each) if each else None for each in every] or [None] * len(self.failures)

    def wrong(self) -> list[bool]:
        """Whether each runtime failed or is off by more than it may be."""
        pairs = zip(self.failures, self.worst(), strict=True)
        return [bool(failure) or (off or 0.0) > self.limit for failure, off in pairs]

    def is_like(self, other: "Trial") -> bool:
        """Whether a part shows the fault of the whole model: a difference, or the same kind of failure."""
        pairs = zip(self.failures, other.failures, strict=True)
        return bool(self.apart) or any(a and b and _kind(a) == _kind(b) for a, b in pairs)


def _kind(failure: WorkerFailure) -> tuple[str, str]:
    """The status and exception class of a failure: a part that fails for another reason shows nothing."""
    return failure.status, failure.message.partition(":")[0] if failure.status == "CRASH" else ""


@dataclass
class Pair:
    """The runtimes that are compared, each in a worker that is started when needed."""

    cases: Sequence[Case]
    timeout: float
    logs: Path
    templates: Templates | None = None  # from which the workers are forked
    _workers: dict[int, Worker] = field(default_factory=dict)
    _longest: float = 0.0
    _hung: bool = False

    def run(self, artifact: Path, mode: str, reference: Path, place: Path) -> Trial:
        """Runs them on a converted model; their answers are written to `place`, a.npz and b.npz."""
        failures: list[WorkerFailure | None] = []
        for index, case in enumerate(self.cases):
            try:
                self._answer(index, case, mode, artifact, reference, place)
                failures.append(None)
            except WorkerFailure as failure:
                self._workers.pop(index).stop()
                self._hung |= failure.status == "TIMEOUT"
                if failure.status == "ERROR":
                    raise XBenchError(failure.message) from failure
                failures.append(failure)
        expected = verdict.read(reference)
        answers = [verdict.read(place / f"{each}.npz") for each, f in zip(LETTERS, failures) if not f]
        asked = self.cases[0].precision
        compared = verdict.errors(answers, expected, asked) if answers else {}
        errors = {name: _in_place(off, failures) for name, (off, _) in compared.items()}
        apart = [] if any(failures) else [name for name, (_, differ) in compared.items() if differ]
        limit = verdict.ALLOWED.get(asked if asked != "fp32" else verdict.narrow_of(expected), math.inf)
        return Trial(place, errors, apart, failures, limit)

    def _answer(self, index: int, case: Case, mode: str, artifact: Path, reference: Path, place: Path) -> None:
        where = {"artifact": str(artifact), "reference": str(reference), "path": str(place / f"{LETTERS[index]}.npz")}
        opened = as_opened(replace(case, mode=mode), Artifact.read(artifact), NOTHING_CHOSEN)
        settings = {"runtime": opened.runtime, "device": case.device, "threads": case.threads, "layout": case.layout}
        settings["precision"] = case.precision
        if index not in self._workers:
            log = self.logs / f"bisect-{LETTERS[index]}.log"
            self._workers[index] = worker_of(case, log, timed=False, templates=self.templates)
        # After a hang the limit is no longer than what a run that does not hang may take.
        limit = min(self.timeout, 30 + 10 * self._longest) if self._hung else self.timeout
        start = time.monotonic()
        self._workers[index].call("answer", limit, mode=mode, **settings, **where)
        self._longest = max(self._longest, time.monotonic() - start)

    def close(self) -> None:
        while self._workers:
            self._workers.popitem()[1].stop()


def _in_place(errors: Sequence[float], failures: Sequence[WorkerFailure | None]) -> list[float | None]:
    """The errors of the runtimes that answered, with None for the others."""
    remaining = iter(errors)
    return [None if failure else next(remaining) for failure in failures]
