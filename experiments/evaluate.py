"""Is it still the same model on the user's data? A metric of each runtime's answers, compared with the answers in
float64, sample by sample, of the network itself or of the one that it was made of (`original.py`).

The verdict is one of non-inferiority: PASS if the interval of the difference excludes a loss of more than `drop`, FAIL
if the metric is worse and that is not excluded, UNVERIFIED if there are too few samples to know. In float32 a runtime
is also compared with the oracle on the user's samples, as in `check`: if it computes something else it fails, whatever
the metric says; if it does not, and no answer changed, it passes, however few samples there are.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from xbench.case import CALIBRATED, Case, digest
from xbench.converters import temporary
from xbench.converters.artifact import Artifact
from xbench.converters.printable import shell
from xbench.errors import XBenchError
from xbench.experiments import own_samples
from xbench.experiments.experiment import Experiment, Lab
from xbench.experiments.original import Reference, places_of, reference_of
from xbench.metrics import OWN, row_of
from xbench.proof.prove import combined, outcome, ranges
from xbench.proof.record import base, impossible, key
from xbench.stats.quantities import of_metric
from xbench.store.record import Record, completed
from xbench.workers.samples import Calibration, OwnSamples
from xbench.workers.worker import Worker, WorkerFailure, worker_of

ROUNDED = 1e-4  # of a metric, by which float32 may change it though no answer changes
Run = Callable[..., int]  # runs a network on some files of samples, and returns how many it did


@dataclass(frozen=True)
class Evaluate(Experiment):
    """What is compared: the `metric` of the answers to `inputs`, whose right answers are in `labels`. `post` is a
    function of the user's that makes an answer of the outputs of each sample; `output` is the name of the output that
    counts. `drop` is the largest acceptable loss, `relative` to the reference's value or not; with `less` a smaller
    value is better. `limit` is the most samples. `calibration` are other samples, to find the ranges of int8 with;
    without it some of `inputs` are set aside if int8 is among the `precisions` of the command. `like` is the word of
    the network that this one was made of, with whose answers its own are compared."""

    name: ClassVar[str] = "evaluate"
    file: ClassVar[str] = "evaluation.jsonl"

    inputs: str
    labels: str | None
    metric: str
    drop: float
    relative: bool = False
    less: bool = False
    confidence: float = 0.95
    post: str | None = None
    output: str | None = None
    limit: int | None = None
    calibration: str | None = None
    precisions: tuple[str, ...] = ("fp32",)
    like: str | None = None

    def need(self, cases: Sequence[Case]) -> None:
        row_of(self.metric)

    def samples(self, case: Case, artifact: Artifact, lab: Lab) -> OwnSamples:
        aside = self.calibration is None and any(each in CALIBRATED for each in self.precisions)
        given = own_samples.read(lab, case, artifact, self.inputs, self.labels, aside, self.limit)
        if not given.samples:
            raise XBenchError(f"{self.inputs}: all samples are set aside for calibration")
        calibrated = self.calibration and case.precision in CALIBRATED and not impossible(case, artifact)
        return self._with_others(given, case, artifact, lab) if calibrated else given

    def _with_others(self, given: OwnSamples, case: Case, artifact: Artifact, lab: Lab) -> OwnSamples:
        """The samples, with others for calibration.

        Raises:
            XBenchError: they cannot be read, or some are evaluated.
        """
        assert self.calibration
        limit = own_samples.enough(case, artifact)
        others = own_samples.read(lab, case, artifact, self.calibration, limit=limit)

        def check() -> None:
            if both := lab.score("overlap", batches=given.paths(), others=others.paths()):
                raise XBenchError(f"--calibrate {self.calibration}: {both} is also evaluated, in {self.inputs}")

        lab.once((self, artifact.digest, "overlap"), check)
        return replace(given, calibration=Calibration(others.word, others.paths(), others.samples, others.inputs))

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        given = self.samples(case, artifact, lab)
        ranges = given.calibration.content if given.calibration else ""
        settings = (self.metric, self.post, self.output, self.drop, self.relative, self.less, self.confidence)
        original = [] if self.like is None else [reference_of(self, case, artifact, lab, given.size).artifact.digest]
        return [digest("evaluate", key(case, artifact), ranges, *settings, *self._sources(lab), *original)]

    def _sources(self, lab: Lab) -> list[str]:
        """The digests of the files of the user's functions.

        Raises:
            XBenchError: a function cannot be imported.
        """
        words = [self.post, self.metric if row_of(self.metric) is OWN else None]
        return [lab.once(("source", word), partial(lab.score, "source", word=word)) for word in words if word]

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterator[Record]:
        for case in cases:
            yield _Evaluation(self, case, artifact, lab).record() | {"key": self.keys(case, artifact, lab)[0]}

    def line(self, record: Record) -> str:
        found, words = record["evaluation"], [record["status"]]
        words += [f"{self.metric} {found['value']:.6g}"] if found["value"] is not None else []
        message = f": {record['message']}" if record["message"] else ""
        return f"{record['case']['model']} {record['case']['runtime']}: {', '.join(words)}{message}"


@dataclass(frozen=True)
class _Evaluation:
    """The evaluation of one cell."""

    settings: Evaluate
    case: Case
    artifact: Artifact
    lab: Lab

    def record(self) -> Record:
        """The record, however it ends."""
        settings, case, lab = self.settings, self.case, self.lab
        given = settings.samples(case, self.artifact, lab)
        source = reference_of(settings, case, self.artifact, lab, given.size)
        found = _nothing(settings, given, case)
        record = completed(base(case, self.artifact, "evaluate"), {"evaluation": found})
        record["command"] = command(case, settings)
        if reason := impossible(case, self.artifact):
            return record | {"status": "UNSUPPORTED", "message": reason}
        reference = self._reference(given, source)  # what is wrong with it is wrong for every runtime
        worker = worker_of(case, lab.logs / f"{digest(case)}.log", timed=False, templates=lab.exporter.templates)
        try:
            record = self._opened(record, worker)
            found = self._scored(given, reference, partial(worker.call, "answer_samples", lab.timeout))
            found["form_bytes"] = self._form_bytes(worker)
            return _judged(record, found, settings)
        except WorkerFailure as failure:
            return record | outcome(failure)
        except XBenchError as error:
            return record | {"status": "UNVERIFIED", "message": str(error)}
        finally:
            worker.stop()

    def _opened(self, record: Record, worker: Worker) -> Record:
        """The record with the verdict on the runtime's outputs for two batches of the samples."""
        case, lab = self.case, self.lab
        paths = [
            str(lab.exporter.reference(self.artifact, "forward", case.batch, seed, case.data, 1, case.precision))
            for seed in (0, 1)
        ]
        files = ranges(case, self.artifact, lab.exporter)
        if case.precision in CALIBRATED and not files:
            words = f"{case.precision} needs --calibrate"
            raise XBenchError(f"{self.settings.inputs} has too few samples to set some aside: {words}")
        lab.say(case, "load, compile")
        names = ("runtime", "mode", "device", "threads", "layout", "precision")
        where = {"artifact": str(self.artifact.folder), "references": paths, "calibration": files}
        opening = worker.call("open_cell", lab.timeout, **where, **{name: getattr(case, name) for name in names})
        verdicts = [worker.call("check", lab.timeout, index=index) for index in range(len(paths))]
        fields = combined(verdicts, case.steps) | {"versions": record["versions"] | opening["versions"]}
        return completed(record, fields)

    def _reference(self, given: OwnSamples, source: Reference) -> str:
        """The folder of what the metric keeps of the float64 answers, made once for all runtimes.

        Raises:
            XBenchError: the oracle cannot compute them, or they do not fit the labels.
        """
        exporter, network = self.lab.exporter, source.artifact
        places = {"order": source.inputs, "outputs": source.outputs}
        run = partial(exporter.call, "oracle_samples", None, artifact=str(network.folder), **places)
        made = exporter.renewals.get(network.folder, 0)  # its answers before were those of a damaged model
        name = digest("reference", self.settings, network.digest, given.content, bool(given.aside), made)

        def kept() -> str:
            """The folder, once the metric is known to be a number."""
            if network != self.artifact:  # which is checked where its own results are not as expected
                exporter.renewed(network)
            folder = self._kept(given, run, "the reference in float64", self.lab.logs / name)
            self.lab.score("score_alone", names=given.batches, kept=folder, metric=self.settings.metric)
            return folder

        try:
            return self.lab.once(name, kept)
        except WorkerFailure as error:
            known = error.status == "ERROR"
            words = error.message if known else f"the reference cannot be computed: {error.message}"
            raise XBenchError(words) from error

    def _kept(self, given: OwnSamples, run: Run, what: str, folder: Path) -> str:
        """Runs a network on all samples; returns the folder of what the metric keeps of its outputs."""
        lab, outputs, kept = self.lab, folder / "outputs", folder / "kept"
        for each in (outputs, kept):
            each.mkdir(parents=True, exist_ok=True)
        left = given.paths()
        while left:
            done = run(
                batches=left,
                size=given.size,
                folder=str(outputs),
                seconds=own_samples.SECONDS,
            )
            done = min(max(done, 1), len(left))
            what_to_keep = {"metric": self.settings.metric, "post": self.settings.post, "outputs": str(outputs)}
            lab.score("keep_answers", samples=left[:done], folder=str(kept), **what_to_keep)
            left = left[done:]
            lab.say(self.case, f"{what}: {1 - len(left) / len(given.batches):.0%} of {given.samples:,} samples")
        return str(kept)

    def _scored(self, given: OwnSamples, reference: str, run: Run) -> dict[str, Any]:
        settings, lab = self.settings, self.lab
        with temporary.folder(lab.logs, temporary.HIDDEN) as place:
            run = partial(run, outputs=places_of(self.artifact, settings))
            own = self._kept(given, run, "answers", place)
            lab.say(self.case, f"{settings.metric} and its interval")
            folders = {"samples": str(given.folder), "reference": reference, "own": own}
            how = {name: getattr(settings, name) for name in ("metric", "less", "drop", "relative", "confidence")}
            how["seconds"] = lab.timeout / 2
            found: dict[str, Any] = lab.score("score_answers", names=given.batches, **folders, **how)
        return found

    def _form_bytes(self, worker: Worker) -> int | None:
        """The size of the runtime's own form; None if it has none, or cannot write it."""
        with temporary.folder(self.lab.logs, temporary.HIDDEN) as place, contextlib.suppress(WorkerFailure):
            size: int | None = worker.call("form_bytes", self.lab.timeout, folder=str(place / "form"))
            return size
        return None


def _nothing(settings: Evaluate, given: OwnSamples, case: Case) -> dict[str, Any]:
    """The fields of an evaluation in a record (docs/results.md) before it was made."""
    plain = ("inputs", "labels", "metric", "post", "output", "less", "confidence", "calibration", "limit", "like")
    numbers = ("value", "reference", "difference", "low", "high", "accepted", "verdict", "needed", "constant")
    counts = ("changed", "changed_share", "gained", "lost", "p_value", "form_bytes")
    calibration = given.calibration if case.precision in CALIBRATED else None
    facts = {"samples": given.samples, "set_aside": bool(given.aside), "content": given.content, "worst": []}
    facts |= {"ranges": calibration.content if calibration else None}
    return {name: getattr(settings, name) for name in plain} | dict.fromkeys((*numbers, *counts)) | facts


def _judged(record: Record, found: dict[str, Any], settings: Evaluate) -> Record:
    """The record with the metric, and the status that follows."""
    proved, exact = record["status"], record["case"]["precision"] == "fp32"
    alike = exact and proved == "PASS" and settings.like is None  # its tensors were compared with the reference's
    if alike and _is_same(found):  # tensors show more than any number of answers
        found = found | {"verdict": "same", "needed": None}
    record = completed(record, {"evaluation": {**record["evaluation"], **found}})
    if exact and proved != "PASS":
        return record | ({"message": f"it computes something else: {record['message']}"} if proved == "FAIL" else {})
    if proved == "UNSUPPORTED":  # it computed in another precision
        return record
    status = {"worse": "FAIL", "unclear": "UNVERIFIED"}.get(found["verdict"], "PASS")
    return record | {"status": status, "message": None if status == "PASS" else _why(found, settings)}


def _is_same(found: dict[str, Any]) -> bool:
    """Whether no answer changed, and the metric by no more than rounding explains."""
    if found["changed"] or found["gained"] or found["lost"] or found["difference"] is None:
        return False
    return bool(found["changed"] == 0 and abs(found["difference"]) <= ROUNDED * max(abs(found["reference"]), 1e-9))


def _why(found: dict[str, Any], settings: Evaluate) -> str:
    share = row_of(settings.metric).share
    accepted = of_metric(found["accepted"], share)
    if found["difference"] is None:
        return f"{settings.metric} is not a number: an output is not finite"
    if found["verdict"] == "worse":
        least, most = (of_metric(each, share) for each in sorted((abs(found["low"]), abs(found["high"]))))
        return f"{settings.metric} is worse by {least} to {most}, and a loss of {accepted} is accepted"
    words = f"too few samples: a loss of more than {accepted} is not excluded"
    if found["needed"] is None:
        return f"a loss of more than {accepted} is not excluded, nor would it be by more samples like these"
    return f"{words}; {found['needed']:,} like these would exclude it"


def command(case: Case, settings: Evaluate, name: str = "evaluate") -> str:
    """The command line that evaluates this again, or does what is named with the same settings."""
    drop = f"{settings.drop * 100:g}%" if settings.relative or row_of(settings.metric).share else f"{settings.drop:g}"
    words: list[object] = ["xbench", name, case.model, "--inputs", settings.inputs, "--metric", settings.metric]
    words += ["--max-drop", drop, "--runtime", case.runtime, "--precision", ",".join(settings.precisions)]
    words += ["--batch", case.batch, "--threads", case.threads, "--device", case.device]
    options = {"labels": settings.labels, "post": settings.post, "output": settings.output, "limit": settings.limit}
    options |= {"calibrate": settings.calibration, "like": settings.like}
    words += [word for name, value in options.items() if value is not None for word in (f"--{name}", value)]
    words += ["--less-is-better"] if settings.less and not row_of(settings.metric).less else []
    return shell(*words, "--confidence", settings.confidence, "--rerun")
