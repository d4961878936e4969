"""A training step by several workers, each framework's own engine: proved, then timed against one worker and the
same workers without communication, and compared with the performance model (`model.py`).

The groups of all sizes of a runtime are alive at once, one active at a time, and take turns round by round, so that a
drift of the machine affects them all. An iteration takes a batch from the host's arrays, copies it to the device, and
does a step; it lasts from the start of the last worker to the end of the last one. All workers run on this machine, so
their clocks are one.
"""

import random
import statistics
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.experiments.experiment import Experiment, Lab
from xbench.experiments.scaling.proof import prove, reference
from xbench.experiments.scaling.record import PARTS, Plan, Team, filed, final, interval, key
from xbench.proof import record as records
from xbench.proof.prove import outcome
from xbench.runtimes import distributed
from xbench.stats import quantities
from xbench.stats.statistics import Interval
from xbench.store.record import Record, completed, known
from xbench.workers.prepare import Exporter
from xbench.workers.worker import WorkerFailure
from xbench.workers.worker_group import Group

KINDS = ("weak", "strong")
LEAST, MOST = 2, 200  # iterations of a block
EXCHANGES = 3  # of every size per round
Say = Callable[[str], None]


def sensible(plan: Plan, batch: int, device: str) -> None:
    """
    Raises:
        XBenchError: a batch that cannot be divided, or more workers than GPUs.
    """
    wrong = [n for n in plan.workers if plan.kind == "strong" and batch % n]
    if wrong:
        raise XBenchError(f"--batch {batch} cannot be divided among {wrong[0]} workers: take a multiple")
    gpus = len([*Path("/dev").glob("nvidia[0-9]*")])
    if device == "cuda" and max(plan.workers) > gpus:
        raise XBenchError(f"--workers {max(plan.workers)}: this machine has {gpus} GPU, and each worker needs its own")


@dataclass(frozen=True)
class Scale(Experiment):
    """One record per number of workers."""

    name: ClassVar[str] = "scale"
    file: ClassVar[str] = "scaling.jsonl"

    plan: Plan

    @property
    def records(self) -> int:
        return len(self.plan.workers)

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        return [key(case, artifact, self.plan, workers) for workers in self.plan.workers]

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterator[Record]:
        """The record of a failed group comes at once, the others when all groups are timed. One worker takes turns
        with each number of workers: a speed-up is relative to it."""
        for case in cases:
            workers = tuple(each for each in self.plan.workers if key(case, artifact, self.plan, each) in wanted)
            plan = replace(self.plan, workers=workers)
            yield from _run(case, artifact, plan, lab.exporter, lab.logs, partial(lab.say, case))

    def line(self, record: Record) -> str:
        scaling, case, words = known(record["scaling"]), record["case"], [record["status"]]
        if record["status"] == "PASS":
            words += [f"iteration {quantities.seconds(known(scaling['iteration_s'])['median'])}"]
            words += [f"speed-up {quantities.number(scaling['speed_up']['median'])}"] if scaling["speed_up"] else []
        message = f": {record['message']}" if record["message"] else ""
        return f"{case['model']} {case['runtime']} x {scaling['workers']}: {', '.join(words)}{message}"


def _run(case: Case, artifact: Artifact, plan: Plan, exporter: Exporter, logs: Path, say: Say) -> Iterator[Record]:
    session = uuid.uuid4().hex[:12]
    reason = _impossible(case, artifact)
    teams: list[Team] = []
    try:
        for workers in sorted({1, *plan.workers}):
            fresh = filed(records.base(case, artifact, session), case, artifact, plan, workers)
            if reason:
                opened: Team | Record = fresh | {"status": "UNSUPPORTED", "message": reason}
            else:
                opened = _opened(case, artifact, plan, exporter, logs, fresh, teams, say)
            if isinstance(opened, Team):
                teams.append(opened)
            elif workers in plan.workers:
                yield opened
        if teams:
            yield from _measured(case, artifact, plan, exporter, teams, say)
    finally:
        for team in teams:
            team.group.stop()


def _impossible(case: Case, artifact: Artifact) -> str | None:
    """Why no number of workers can train this."""
    if reason := distributed.missing(case.runtime) or records.impossible(case, artifact):
        return reason
    given = [*artifact.info["inputs"], artifact.info["labels"]]
    if any(each["shape"][:1] != ["batch"] for each in given):
        return f"{case.model} cannot be cut into shards: not all of its inputs have their samples along the first axis"
    return None


def _opened(
    case: Case,
    artifact: Artifact,
    plan: Plan,
    exporter: Exporter,
    logs: Path,
    record: Record,
    teams: list[Team],
    say: Say,
) -> Team | Record:
    """A proved group, or the record of its failure."""
    scaling, timeout = known(record["scaling"]), plan.timeout
    workers, group = scaling["workers"], None
    say(f"{_count(workers)}: start, load, check")
    try:
        log = logs / f"scale-{digest(case.model, case.runtime)}-{workers}.log"
        group = Group(case.runtime, workers, log, case.device, case.threads, timeout)
        where = {"artifact": str(artifact.folder), "device": case.device, "threads": case.threads}
        versions = group.call("join_workers", timeout, runtime=case.runtime, **where)[0]["versions"]
        one = next((team.group for team in teams if team.workers == 1), None)
        proved = prove(group, one, artifact, exporter, scaling["shard"], timeout)
        proof = proved.pop("proof")
        record = completed(record, {**proved, "scaling": {**scaling, "proof": proof}})
        if proved["status"] == "PASS":
            return Team(workers, group, scaling["shard"], record, proof, versions)
        group.stop()
        return record
    except WorkerFailure as failure:
        return record | outcome(failure)
    except XBenchError as error:
        if group:
            group.stop()
        return record | {"status": "UNVERIFIED", "message": str(error)}
    except BaseException:
        if group:
            group.stop()
        raise


def _measured(
    case: Case, artifact: Artifact, plan: Plan, exporter: Exporter, teams: list[Team], say: Say
) -> Iterator[Record]:
    """Times proved groups; one that fails meanwhile is reported, the others continue."""
    phases: dict[int, dict[str, Interval]] = {}
    others = sorted({team.shard for team in teams} - {case.batch})
    for team in list(teams):
        try:
            for shard in others if team.workers == 1 else ():
                say(f"phases of one worker, batch {shard}")
                _ready(team, artifact, exporter, shard, plan)
                phases[shard] = _phases(team, plan)
            _ready(team, artifact, exporter, team.shard, plan)
        except WorkerFailure as failure:
            yield from _lost(team, teams, plan, failure)
    shuffle = random.Random(case.runtime).shuffle
    for number in range(plan.rounds):
        order = list(teams)
        shuffle(order)
        for team in order:
            say(f"round {number + 1} of {plan.rounds}, {_count(team.workers)}")
            try:
                for kind in team.kinds:
                    team.blocks.setdefault(kind, []).append(_block(team, kind, plan))
                if team.workers > 1:
                    _exchange(team, plan)
            except WorkerFailure as failure:
                yield from _lost(team, teams, plan, failure)
    layers = exporter.call("layers", artifact=str(artifact.folder)) if teams else []
    one = next((team for team in teams if team.workers == 1), None)
    if one:
        phases[one.shard] = {kind: interval(one.blocks[kind]) for kind in PARTS}
    for team in teams:
        if team.workers in plan.workers:
            yield final(team, one, phases, [(size, macs) for size, macs in layers], case)


def _lost(team: Team, teams: list[Team], plan: Plan, failure: WorkerFailure) -> Iterator[Record]:
    teams.remove(team)
    if team.workers in plan.workers:
        yield team.record | outcome(failure)


def _count(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"


def _ready(team: Team, artifact: Artifact, exporter: Exporter, shard: int, plan: Plan) -> None:
    """Prepares the workers for iterations of `shard` samples."""
    given = [reference(artifact, exporter, "gradient", shard, team.workers, seed) for seed in (0, 1)]
    paths = list(dict.fromkeys(str(path) for each in given for path in each.paths))
    answer = team.group.call("take_shard", plan.timeout, references=paths, batch=shard)[0]
    team.messages, team.early = answer["messages"], answer["early"]


def _phases(team: Team, plan: Plan) -> dict[str, Interval]:
    """The seconds of the parts of one worker's iteration, for a batch other than the timed one."""
    blocks = {kind: [_block(team, kind, plan, 3 * len(PARTS)) for _ in range(3)] for kind in PARTS}
    return {kind: interval(seconds) for kind, seconds in blocks.items()}


def _block(team: Team, kind: str, plan: Plan, parts: int | None = None) -> list[float]:
    """The seconds of some iterations, each from the start of the last worker to the end of the last.

    Raises:
        WorkerFailure: a worker failed, or the parameters were the same in the proof and differ after these steps.
    """
    seconds = plan.budget / (parts or plan.rounds * len(team.kinds))
    once = statistics.median(_times(team, kind, LEAST, plan))
    return _times(team, kind, max(LEAST, min(MOST, int(seconds / once))), plan)


def _times(team: Team, kind: str, count: int, plan: Plan) -> list[float]:
    answers = team.group.call("time_act", plan.timeout, kind=kind, count=count)
    if team.proof["alike"] and len({answer["digest"] for answer in answers}) > 1:
        team.group.stop()
        raise WorkerFailure("FAIL", "while it was timed the workers' parameters became different")
    begins, ends = (np.max([answer[name] for answer in answers], axis=0) for name in ("begins", "ends"))
    return [float(each) for each in np.maximum(ends - begins, 1e-9)]


def _exchange(team: Team, plan: Plan) -> None:
    """All-reduces alone, of all gradients and of shares down to a 512th, to fit the line. A single number is left out,
    as engines have a shortcut for it."""
    most = sum(team.messages) // 4
    for count in sorted({max(1, most // 8**power) for power in range(4)}):
        answers = team.group.call("time_exchange", plan.timeout, count=count, times=EXCHANGES)
        team.exchanges.setdefault(4 * count, []).append(float(np.median(np.max(answers, axis=0))))
