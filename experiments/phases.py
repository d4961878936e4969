"""The phases of a training iteration: t_io, t_h2d, t_f, t_b, t_u (the table of Shi, Wang and Chu, arXiv 1711.05979).

Three workers of one runtime have the network in the modes forward, gradient and step, and get blocks in turn. The time
of the network is `forward`; of the backward pass, `gradient` less `forward`, round by round; of the
update, `step` less `gradient`. The first is the network in evaluation form: the extra cost of its training form and
loss is in t_b. Between the blocks the third worker makes complete iterations on stored samples, which are timed part
by part and in total: what the phases do not explain is reported as `other`.
"""

import random
import statistics
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from xbench.case import MODES, Case, digest
from xbench.converters.artifact import Artifact
from xbench.converters.printable import shell
from xbench.experiments.experiment import Experiment, Lab
from xbench.experiments.rounds import Open, block, judged
from xbench.experiments.session import warmed
from xbench.experiments.settings import Protocol
from xbench.proof.prove import outcome
from xbench.proof.record import base, impossible, key
from xbench.proof.timed import Judge
from xbench.store.record import Record, by_name, completed
from xbench.workers import samples
from xbench.workers.worker import WorkerFailure

STORED = 8  # batches of samples in files
PHASES = ("t_io", "t_h2d", "t_f", "t_b", "t_u")


@dataclass(frozen=True)
class Phases(Experiment):
    """One record per runtime (docs/results.md); its status is PASS if the network is verified in all three modes."""

    name: ClassVar[str] = "phases"
    file: ClassVar[str] = "phases.jsonl"

    protocol: Protocol

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        return [digest(key(replace(case, mode="step"), artifact), "phases")]

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterator[Record]:
        for case in cases:
            yield _run(case, artifact, self.protocol, lab) | {"key": self.keys(case, artifact, lab)[0]}


def _run(case: Case, artifact: Artifact, protocol: Protocol, lab: Lab) -> Record:
    """
    Raises:
        XBenchError: no samples can be made for this network.
    """
    session = uuid.uuid4().hex[:12]
    own = replace(case, mode="step")
    record = base(own, artifact, session, protocol.words) | {"phases": None}
    record["command"] = _command(case, protocol)
    for mode in MODES:  # before anything is measured
        if reason := impossible(replace(case, mode=mode), artifact):
            return record | {"status": "UNSUPPORTED", "message": f"{mode}: {reason}"}
    judge = Judge(artifact, lab.exporter, session, lab.logs)
    folder = store(artifact, case.batch, lab.logs)
    cells: dict[str, Open] = {}
    try:
        for mode in MODES:
            lab.say(case, f"{mode}: load, compile, check")
            own = replace(case, mode=mode)
            fresh = base(own, artifact, session, protocol.words)
            cell = warmed(own, fresh, artifact, lab.exporter, protocol, lab.logs)
            if not isinstance(cell, Open):
                words = f"{mode}: {cell['message']}" if cell["message"] else mode
                return completed(record, {"status": cell["status"], "parity": cell["parity"], "message": words})
            cells[mode] = cell
        rounds = [_round(cells, number, protocol, judge, folder, lab) for number in range(protocol.blocks)]
        proved = by_name(cells["step"].record)
        fields = {name: proved[name] for name in ("status", "parity", "versions", "note", "contracts")}
        return completed(record, {**fields, "phases": summary(rounds) | {"rounds": rounds}})
    except WorkerFailure as failure:
        return record | outcome(failure)
    finally:
        for cell in cells.values():
            cell.worker.stop()


def _command(case: Case, protocol: Protocol) -> str:
    """The command line that measures this again."""
    words = ["xbench", "phases", case.model, "--runtime", case.runtime, "--batch", case.batch]
    words += ["--threads", case.threads, "--device", case.device, "--budget", f"{protocol.budget:g}", "--rerun"]
    return shell(*words)


def store(artifact: Artifact, batch: int, logs: Path) -> Path:
    """Writes samples for a network, one file per array; they are read through the system's page cache."""
    folder = logs / f"samples-{digest(artifact.digest, batch)}"
    if not folder.exists():
        folder.mkdir(parents=True)
        for name, array in vars(samples.synthetic(artifact.info, STORED * batch)).items():
            np.save(folder / f"{name}.npy", array)
    return folder


def _round(
    cells: dict[str, Open],
    number: int,
    protocol: Protocol,
    judge: Judge,
    folder: Path,
    lab: Lab,
) -> dict[str, Any]:
    """One block in every mode and one of iterations, in random order: the median of each, in seconds. The last blocks
    are judged.

    Raises:
        WorkerFailure: one of them did not do the work.
    """
    medians: dict[str, Any] = {}
    turns = [*MODES, "iteration"]
    random.shuffle(turns)
    for turn in turns:
        lab.say(cells["step"].case, f"round {number + 1}, {turn}")
        if turn == "iteration":
            medians |= _iterations(cells["step"], protocol, folder)
            continue
        cell = cells[turn]
        while not any(each["round"] == number for each in cell.blocks):
            block(cell, number, protocol, judge)
        if number + 1 == protocol.blocks and turn != "forward":
            judged(cell, number, protocol, judge)
        medians[turn] = statistics.median(cell.blocks[-1]["samples"])
    return medians


def _iterations(cell: Open, protocol: Protocol, folder: Path) -> dict[str, Any]:
    cell.worker.resume()
    arguments = {
        "folder": str(folder),
        "batch": cell.case.batch,
        "seconds": protocol.block,
        "limit": protocol.max_samples,
    }
    times = cell.worker.call("iterate", protocol.timeout, **arguments)
    cell.worker.pause()
    return {name: statistics.median(values) for name, values in times.items()}


def summary(rounds: Iterable[dict[str, float]]) -> dict[str, Any]:
    """Mean and standard deviation of every phase over the rounds, in seconds, as in the study; of the entire
    iteration (`t_iter`), of its remainder without the phases (`other`), and of a step on arrays that are on the device,
    which is the time with synthetic data (`t_step`)."""
    each = [_phases(one) for one in rounds]
    return {
        name: {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else 0.0}
        for name in (*PHASES, "t_step", "t_iter", "other")
        for values in [[phases[name] for phases in each]]
    }


def _phases(one: dict[str, float]) -> dict[str, float]:
    """
    >>> made = _phases({"io": 1, "h2d": 2, "forward": 3, "gradient": 7, "step": 8, "whole": 12})
    >>> made["t_b"], made["t_u"], made["other"]
    (4, 1, 1)
    """
    phases = {"t_io": one["io"], "t_h2d": one["h2d"], "t_f": one["forward"]}
    phases |= {"t_b": one["gradient"] - one["forward"], "t_u": one["step"] - one["gradient"]}
    rest = one["whole"] - sum(phases.values())
    return phases | {"t_step": one["step"], "t_iter": one["whole"], "other": rest}
