"""The record of several workers: the request, the results of their times, and the model's prediction."""

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.converters.printable import shell
from xbench.experiments.scaling import model as scaling_model
from xbench.experiments.scaling.model import Line, Phases
from xbench.host import machine
from xbench.proof import record as records
from xbench.runtimes import distributed
from xbench.stats.statistics import Interval, median_interval
from xbench.store.record import Record, completed, known
from xbench.workers.worker_group import Group

PARTS = ("io", "h2d", "forward", "gradient", "step")
HIDDEN = 0.5  # of the communication, the most that is visible if it is called hidden
Layers = list[tuple[int, int]]  # bytes of gradients, multiply-accumulates


@dataclass(frozen=True)
class Plan:
    """The settings for every runtime. With `weak` scaling a case's batch is that of each worker, with `strong` it is
    that of all together. `budget` are the seconds of timing a group, over `rounds`."""

    workers: tuple[int, ...]
    kind: str
    budget: float = 4.0
    rounds: int = 8
    timeout: float = 600.0

    def shard(self, batch: int, workers: int) -> int:
        """The samples of one worker."""
        return batch if self.kind == "weak" else batch // workers


@dataclass
class Team:
    """A proved group, and its times: kind -> round -> seconds of iterations, and bytes -> seconds of
    all-reduces."""

    workers: int
    group: Group
    shard: int
    record: Record
    proof: dict[str, Any]
    versions: dict[str, str]
    messages: list[int] = field(default_factory=list)
    early: bool = False
    blocks: dict[str, list[list[float]]] = field(default_factory=dict)
    exchanges: dict[int, list[float]] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("apart", *PARTS) if self.workers == 1 else ("together", "apart", "reduction")


def key(case: Case, artifact: Artifact, plan: Plan, workers: int) -> str:
    """The key of a record."""
    return digest(records.key(case, artifact), plan.kind, workers)


def filed(record: Record, case: Case, artifact: Artifact, plan: Plan, workers: int) -> Record:
    """The record of `workers` workers before anything ran (docs/results.md)."""
    shard, cpus = plan.shard(case.batch, workers), machine.cpus()
    words = ["xbench", "scale", case.model, "--runtime", case.runtime, "--workers", workers, "--scaling", plan.kind]
    words += ["--batch", case.batch, "--threads", case.threads, "--device", case.device, "--budget", f"{plan.budget:g}"]
    names = ("proof", "iteration_s", "apart_s", "comm_s", "exposed_s", "hidden", "samples_per_s", "speed_up")
    facts = {
        "kind": plan.kind,
        "workers": workers,
        "shard": shard,
        "total": shard * workers,
        "engine": distributed.words_of(case.runtime),
        "cpus": cpus,
        "oversubscribed": case.device == "cpu" and workers * case.threads > cpus,
    }
    more = ("efficiency", "phases", "messages", "early", "line", "prediction", "blocks")
    fields = {"key": key(case, artifact, plan, workers), "command": shell(*words, "--rerun")}
    return completed(record, {**fields, "scaling": facts | dict.fromkeys((*names, *more))})


def interval(blocks: list[list[float]]) -> Interval:
    return median_interval(blocks, np.random.default_rng(0))


def final(team: Team, one: Team | None, phases: dict[int, dict[str, Interval]], layers: Layers, case: Case) -> Record:
    """The record of a timed group."""
    main = team.kinds[0]
    facts: dict[str, Any] = {**known(team.record["scaling"])}
    iteration, shard = interval(team.blocks[main]), phases.get(team.shard)
    numbers: dict[str, Any] = {
        "iteration_s": iteration._asdict(),
        "samples_per_s": facts["total"] / iteration.median,
        "messages": team.messages,
        "early": team.early,
        "phases": shard and {kind: each._asdict() for kind, each in shard.items()},
        "blocks": team.blocks,
    }
    if team.workers > 1:
        numbers |= communication(team)
    if one:
        work = facts["total"] / one.shard
        pairs = zip(one.blocks["apart"], team.blocks[main], strict=True)
        speed = interval([[work * statistics.median(alone) / statistics.median(all_)] for alone, all_ in pairs])
        numbers |= {"speed_up": speed._asdict(), "efficiency": speed.median / team.workers}
    if one and shard and one.shard in phases:
        numbers["prediction"] = modelled(
            team, facts | numbers, as_phases(shard), as_phases(phases[one.shard]), layers, case
        )
    says = [team.record["message"]]
    if facts["oversubscribed"]:
        threads = team.workers * case.threads
        says.append(f"oversubscribed: {threads} threads on {facts['cpus']} CPUs")
    versions = team.record["versions"] | team.versions
    message = "; ".join(filter(None, says)) or None
    return completed(team.record, {"message": message, "versions": versions, "scaling": facts | numbers})


def communication(team: Team) -> dict[str, Any]:
    """The averaging alone, its visible part in an iteration, and whether that is little; None if the interval leaves
    it open."""
    comm, apart = (interval(team.blocks[kind]) for kind in ("reduction", "apart"))
    middle = {kind: [statistics.median(each) for each in team.blocks[kind]] for kind in team.kinds}
    seen = difference([[a - b] for a, b in zip(middle["together"], middle["apart"], strict=True)])
    bound = HIDDEN * comm.median
    hidden = None
    if seen.low is not None and seen.high is not None and not seen.low < bound < seen.high:
        hidden = seen.high <= bound
    points = [(size, statistics.median(seconds)) for size, seconds in team.exchanges.items()]
    line = scaling_model.fitted(points) if len(points) > 1 else Line(points[0][1], 0.0)  # of four numbers there is one
    fit = {"latency_s": line.latency, "per_byte_s": line.per_byte, "points": points}
    return {
        "comm_s": comm._asdict(),
        "apart_s": apart._asdict(),
        "exposed_s": seen._asdict(),
        "hidden": hidden,
        "line": fit,
    }


def difference(blocks: list[list[float]]) -> Interval:
    """The interval of differences, which may be negative, unlike that of times."""
    lift = 1 - min(min(block) for block in blocks)
    shifted = interval([[each + lift for each in block] for block in blocks])
    low, high = (None if each is None else each - lift for each in (shifted.low, shifted.high))
    return Interval(shifted.median - lift, low, high)


def as_phases(intervals: dict[str, Interval]) -> Phases:
    """The phases of the model. A runtime does not report when its forward pass ends and its update begins, so they
    are differences: of the forward pass in evaluation, the gradient, the complete step."""
    io, h2d, forward, gradient, step = (intervals[kind].median for kind in PARTS)
    return Phases(io, h2d, forward, gradient - forward, step - gradient)


def modelled(
    team: Team, facts: dict[str, Any], here: Phases, single: Phases, layers: Layers, case: Case
) -> dict[str, Any]:
    """The model's prediction, from one worker and the line only; `slower` is how many threads share a CPU.
    `given_apart_s` is its iteration if the workers' slowdown is measured, without communication, not computed."""
    slower = max(1.0, team.workers * case.threads / facts["cpus"]) if case.device == "cpu" else 1.0
    line = Line(facts["line"]["latency_s"], facts["line"]["per_byte_s"]) if facts["line"] else None
    parts = scaling_model.shares(team.messages, layers, team.early)
    prediction = scaling_model.predicted(here, line or Line(0, 0), team.messages, parts, slower)
    work, measured = facts["total"] / case.batch, facts["iteration_s"]["median"]
    return {
        **asdict(here),
        "slower": slower,
        "comm_s": prediction.comm if line else None,
        "visible_s": prediction.visible if line else None,
        "case": prediction.case if line else None,
        "iteration_s": prediction.iteration,
        "speed_up": work * single.iteration / prediction.iteration,
        "error": prediction.iteration / measured - 1,
        "given_apart_s": facts["apart_s"]["median"] + prediction.visible if line else None,
    }
