"""One training: the same samples in the same order, from the same weights by the same rule, on one runtime after the
other; the first steps are judged.

The proof is of the training itself: the loss of each of its first `PROOF` steps and all weights after them, against
the float64 oracle on the same batches. Only with dropout is the proof a separate run, without dropout.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.converters.autodiff.loss import CROSS_ENTROPY
from xbench.converters.printable import shell
from xbench.errors import XBenchError
from xbench.experiments.experiment import Experiment, Lab
from xbench.host import usage
from xbench.parity import verdict
from xbench.proof.prove import cut_short, outcome
from xbench.proof.record import base, impossible, key
from xbench.store.record import NOTHING, Record, completed, known
from xbench.workers import samples
from xbench.workers.worker import WorkerFailure, worker_of

PROOF = 20  # steps
SECONDS = 0.5  # of a job: the interval of the progress bar
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """A training, the same for every runtime. `file` holds the samples, `content` is their digest."""

    data: str
    file: Path
    content: str
    train_samples: int
    test_samples: int
    epochs: int
    batch: int
    seed: int
    dropout: bool

    @property
    def epoch(self) -> int:
        """Steps of an epoch."""
        return self.train_samples // self.batch

    @property
    def steps(self) -> int:
        return self.epochs * self.epoch

    @property
    def proof(self) -> int:
        """Steps that are judged."""
        return min(PROOF, self.steps)


def planned(data: str, artifact: Artifact, file: Path, epochs: int, batch: int, seed: int, dropout: bool) -> Plan:
    """Reads the data set and writes it for the workers.

    Raises:
        XBenchError: it is missing, damaged, too small for a batch, or made for other networks.
    """
    if (artifact.info["loss"] or {}).get("name") != CROSS_ENTROPY:
        raise XBenchError(f"{artifact.name} gives no row of logits a sample, so it learns no classes")
    given = samples.load(data, artifact.info)
    train, test = len(given.train_labels), len(given.test_labels)
    if batch > train:
        raise XBenchError(f"--batch {batch} is more than the {train} training samples of {data}")
    content = samples.write(given, file)
    return Plan(data, file, content, train, test, epochs, batch, seed, dropout and artifact.has_dropout)


@dataclass(frozen=True)
class Train(Experiment):
    """`epochs` passes through the samples in the order of `seed`; with the network's dropout if `dropout`. The data set
    is that of each case."""

    name: ClassVar[str] = "train"
    file: ClassVar[str] = "training.jsonl"

    epochs: int
    seed: int = 0
    dropout: bool = False

    def plan(self, case: Case, artifact: Artifact, lab: Lab) -> Plan:
        """The training of a case; its samples are read and written for the workers once."""

        def made() -> Plan:
            if artifact.has_dropout and not self.dropout:
                lab.progress.note(f"{case.model} is trained without its dropout; xbench train --dropout trains with it")
            file = lab.logs / f"samples-{digest(artifact.digest, case.data)}.npz"
            return planned(case.data, artifact, file, self.epochs, case.batch, self.seed, self.dropout)

        return lab.once((self, artifact.digest, case.data, case.batch), made)

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        plan = self.plan(case, artifact, lab)
        return [digest(key(case, artifact), plan.content, plan.epochs, plan.seed, plan.dropout)]

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterator[Record]:
        for case in cases:
            record = trained(case, artifact, self.plan(case, artifact, lab), lab)
            yield record | {"key": self.keys(case, artifact, lab)[0]}

    def line(self, record: Record) -> str:
        training, ratio = record["training"], (record["parity"] or NOTHING).get("ratio")
        words = [record["status"]]
        words += [f"{ratio:.1f} x noise in {known(record['parity'])['worst_tensor']}"] if ratio is not None else []
        words += [f"loss {training['losses'][-1]:.4f}"] if training["losses"] else []
        words += [f"test accuracy {training['test_accuracy'][-1]:.2%}"] if training["test_accuracy"] else []
        message = f": {record['message']}" if record["message"] else ""
        return f"{record['case']['model']} {record['case']['runtime']}: {', '.join(words)}{message}"


def trained(case: Case, artifact: Artifact, plan: Plan, lab: Lab) -> Record:
    """Trains one runtime; the record has the results so far, however it ended."""
    exporter, timeout = lab.exporter, lab.timeout
    say = partial(lab.say, case)
    record = base(case, artifact, "train") | {"dropout": plan.dropout, "command": _command(case, plan)}
    training = _nothing(plan)
    record = completed(record, {"training": training})
    if reason := impossible(case, artifact):
        return record | {"status": "UNSUPPORTED", "message": reason}
    worker = worker_of(case, lab.logs / f"{digest(case.model, case.runtime)}.log")

    def call(job: str, **arguments: Any) -> Any:
        return worker.call(job, timeout, **arguments)

    try:
        say(f"the first {plan.proof} steps in float64")
        fields = {"batch": plan.batch, "seed": plan.seed}
        reference = exporter.training_reference(artifact, plan.file, plan.content, steps=plan.proof, **fields)
        expected = verdict.read(reference)
        training["oracle_losses"] = [float(expected[name][0]) for name in expected if name.startswith("loss/")]
        say("load, compile")
        where = {"artifact": str(artifact.folder), "data": str(plan.file)}
        what = {"runtime": case.runtime, "device": case.device, "threads": case.threads}
        record["versions"] |= call("open_training", **where, **what, **fields)["versions"]
        return record | _trained(call, plan, training, reference, say)
    except WorkerFailure as failure:
        return record | outcome(failure)
    except XBenchError as error:
        return record | {"status": "UNVERIFIED", "message": str(error)}
    finally:
        worker.stop()


def _nothing(plan: Plan) -> dict[str, Any]:
    """The fields of a training in a record (docs/results.md), empty."""
    plain = ("epochs", "batch", "seed", "train_samples", "test_samples", "content")
    lists = ("losses", "oracle_losses", "train_accuracy", "test_accuracy", "epoch_s", "usage")
    empty: dict[str, Any] = {name: [] for name in lists}
    return {name: getattr(plan, name) for name in plain} | empty | {"proof_steps": plan.proof, "first_wrong_step": None}


def _command(case: Case, plan: Plan) -> str:
    """The command line that trains this again."""
    words = ["xbench", "train", case.model, "--data", plan.data, "--runtime", case.runtime, "--epochs", plan.epochs]
    words += ["--batch", plan.batch, "--seed", plan.seed, "--threads", case.threads, "--device", case.device]
    return shell(*words, *(["--dropout"] if plan.dropout else []), "--rerun")


def _trained(call: Callable[..., Any], plan: Plan, training: dict[str, Any], reference: Path, say: Say) -> Record:
    """Trains to the end, writing results into `training`; returns the verdict."""
    proof = len(training["oracle_losses"])
    if message := _advance(call, plan, training, proof, say):
        if not all(map(math.isfinite, training["oracle_losses"])):
            message += "; in float64 it comes to the same"
        return {"status": "FAIL", "message": message}
    judged = call("judge_training", reference=str(reference))
    wrong, message = judged["first_wrong"], judged["message"]
    if wrong:
        kind, _, step = wrong.partition("/")
        training["first_wrong_step"] = int(step) if kind == "loss" else proof
        message += f"; first wrong step: {step}" if kind == "loss" else f"; all {proof} losses are right"
    message = message or cut_short(judged, plan.proof)
    if plan.dropout:
        call("begin_again")
        training |= {"losses": [], "train_accuracy": [], "test_accuracy": [], "epoch_s": [], "usage": []}
    stopped = _advance(call, plan, training, plan.steps, say)
    status = "FAIL" if stopped else judged["status"]
    return {"status": status, "message": "; ".join(filter(None, (message, stopped))) or None, "parity": judged}


def _advance(call: Callable[..., Any], plan: Plan, training: dict[str, Any], last: int, say: Say) -> str | None:
    """Trains until `last` steps are done, and measures the accuracy at the end of every epoch; returns why it stopped
    early, if a loss was not finite."""
    losses = training["losses"]
    while len(losses) < last:
        epoch = len(losses) // plan.epoch
        answer = call("train", last=min(last, (epoch + 1) * plan.epoch), seconds=SECONDS)
        losses += answer["losses"]
        training["usage"] = usage.thinned([*training["usage"], answer["usage"]])
        training["epoch_s"][epoch:] = [sum(training["epoch_s"][epoch:]) + answer["seconds"]]
        if not math.isfinite(losses[-1]):
            return f"the loss is {losses[-1]} at step {len(losses)}, in epoch {epoch + 1} of {plan.epochs}"
        right = training["test_accuracy"][-1:]
        say(f"epoch {epoch + 1} of {plan.epochs}, loss {losses[-1]:.4f}" + "".join(f", test {a:.1%}" for a in right))
        if len(losses) == (epoch + 1) * plan.epoch:
            for part in ("train", "test"):
                training[f"{part}_accuracy"].append(_accuracy(call, part))
    return None


def _accuracy(call: Callable[..., Any], part: str) -> float:
    """The share of correctly predicted labels."""
    right, seen, first = 0, 0, 0
    while not seen or first:
        answer = call("count_right", part=part, first=first, seconds=SECONDS)
        right, seen, first = right + answer["right"], seen + answer["seen"], answer["next"]
    return right / seen
