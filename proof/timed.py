"""Judges a cell's timed blocks, so that what is timed is what was verified; its worker checks more by itself.

Training blocks end in a state: losses, weights, statistics, the optimizer's arrays. It is requested after a block, in
one random round of the first three and when a cell ends, so that no runtime can know which steps are judged. PyTorch
then makes the same steps (`jobs/trajectory.py`), once for all cells of a round.
"""

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.proof import contracts
from xbench.proof.contracts import CLEAR, COPY, Contract, Facts
from xbench.proof.prove import SEEDS, references
from xbench.workers import batches
from xbench.workers.prepare import Exporter
from xbench.workers.worker import Worker, WorkerFailure

AT = ("steps", "index")  # the point at which a state was taken
LEAST = 2  # least steps between two resets: the first one does not count
EARLY = 3  # rounds, of which one is judged against float64
FEW = 1.25  # times the limit that each of a few late fetches takes
SHORT = 8  # most steps of a block made short so that float64 shows more of it


@dataclass
class Looks:
    """Observations in the timed blocks of one process: seconds of fetching results, and of steps on new inputs, each
    with the median of the other steps of its block and the share of those that were slow."""

    fetch_s: list[float] = field(default_factory=list)
    unseen_s: list[tuple[float, float, float]] = field(default_factory=list)
    judged: int = 0
    states: list["State"] = field(default_factory=list)

    def add(self, block: Mapping[str, Any]) -> None:
        self.fetch_s += block["fetch_s"]
        self.judged += block["judged"]
        place, samples = block["unseen"], block["samples"]
        others = (
            [*block["lead"], *samples] if place is None else [*samples[:place], *samples[place + 1 :], *block["lead"]]
        )
        if place is not None and others:
            usual = statistics.median(others)
            self.unseen_s.append((samples[place], usual, contracts.slow_share(others, usual)))


@dataclass
class Judge:
    """Judges the training blocks of one comparison. `reach` is the number of steps that float32 can be judged on."""

    artifact: Artifact
    exporter: Exporter
    session: str
    folder: Path
    reach: int = batches.SEGMENT

    def __post_init__(self) -> None:
        self.early = random.Random(f"{self.session} early").randrange(EARLY)

    def seed(self, number: int) -> int:
        """The seed of the batches of a round; the same for all cells."""
        return random.Random(f"{self.session} {number}").getrandbits(31)

    def segment(self, case: Case) -> int:
        """The most training steps between two resets; fewer if rounding is coarser."""
        return self.reach if case.precision == "fp32" else min(self.reach, SHORT)

    def limit(self, case: Case, number: int, most: int) -> int:
        """The timed steps of a block: in the early round half of them, at random, are short."""
        draw = random.Random(f"{self.session} {number} {case}")
        is_short = case.mode == "step" and number == self.early and draw.random() < 0.5
        return draw.randint(1, SHORT) if is_short else most

    def asks(self, case: Case, number: int, ended: bool) -> bool:
        return case.mode != "forward" and (ended or (case.mode == "step" and number == self.early))

    def take(self, case: Case, worker: Worker, timeout: float, looks: Looks) -> list["State"]:
        """The states after the worker's last block; none if the worker has judged it itself and found it right.

        Raises:
            WorkerFailure: it was wrong, or cannot be fetched.
        """
        states = []
        for index in range(len(SEEDS[:2])) if case.mode == "gradient" else (None,):
            path = self.folder / f"state-{digest(case.runtime, case.layout, case.mode, case.tune, index)}.npz"
            report = worker.call("state", timeout, path=str(path), index=index)
            looks.judged += report["steps"] is None
            states += [State(case, path, report)] if report["steps"] is not None else []
        return states

    def judge(self, number: int, states: Sequence["State"]) -> None:
        """Gives every state of a round its outcome; all are of one group. If PyTorch cannot make the steps,
        the outcome says so, and no cell is blamed."""
        for segment in sorted({each.report["segment"] for each in states}):
            own = [each for each in states if each.report["segment"] == segment]
            try:
                outcomes = self._trained(number, segment, own)
            except (XBenchError, WorkerFailure) as error:
                words = f"PyTorch cannot make the steps that were timed: {error}"
                outcomes = [{"passed": None, "says": words, "reach": self.reach}] * len(own)
            for state, outcome in zip(own, outcomes, strict=True):
                state.outcome = outcome
                if outcome["passed"] is None:
                    self.reach = max(LEAST, min(self.reach, outcome["reach"]))
        for state in states:
            state.path.unlink(missing_ok=True)

    def _trained(self, number: int, segment: int, states: Sequence["State"]) -> list[dict[str, Any]]:
        case = states[0].case
        outcomes: list[dict[str, Any]] = self.exporter.call(
            "trajectory",
            artifact=str(self.artifact.folder),
            mode=case.mode,
            references=references(case, self.artifact, self.exporter, [case.batch, case.batch]),
            seed=self.seed(number),
            segment=segment,
            states=[{"path": str(each.path), **{name: each.report[name] for name in AT}} for each in states],
            exact=number == self.early,
            precision=case.precision,
        )
        return outcomes


@dataclass
class State:
    """The state after a training block: its file, the worker's report of it (`jobs/block.py:state`), and the
    outcome."""

    case: Case
    path: Path
    report: dict[str, Any]
    outcome: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool | None:
        return bool(self.outcome["passed"]) if self.outcome.get("passed") is not None else None


def contracts_of(case: Case, facts: Facts, looks: Looks, step: float) -> dict[str, Contract]:
    """The promises judged on timed blocks: `facts` are the audit's, `step` is the median of a step."""
    promises = {"timed": _timed(case, looks), "complete": _complete(case, facts, looks, step), "fresh": _fresh(looks)}
    return {name: each for name, each in promises.items() if each is not None}


def _timed(case: Case, looks: Looks) -> Contract:
    """The timed steps did the work."""
    if wrong := next((each for each in looks.states if each.passed is False), None):
        return Contract(False, f"while it was timed {wrong.outcome['says']}")
    if looks.judged or any(each.passed for each in looks.states):
        return Contract(True)
    return Contract(None, next((each.outcome["says"] for each in looks.states), "no result was judged"))


def _complete(case: Case, facts: Facts, looks: Looks, step: float) -> Contract | None:
    """A result fetched after a step is copied, as in the audit, and not computed; nor does fetching the state after a
    block take as long as two steps."""
    count, size = (1, 4) if case.mode == "step" else (facts["fetched_arrays"], facts["fetched_bytes"])
    slack = CLEAR * (1 + count) + contracts.transfer(facts, "one" if case.mode == "step" else "all")
    limit = 0.25 * step + size / COPY + slack
    usual = statistics.median(looks.fetch_s or [0.0])
    if usual > 2 * limit or _are_late(looks.fetch_s, limit):
        took = contracts.ms(usual)
        return Contract(False, f"computes when the result is fetched: {took} after steps of {contracts.ms(step)}")
    reports = [each.report for each in looks.states]
    way = CLEAR + contracts.transfer(facts, "all") / max(1, facts["fetched_arrays"])  # per array
    late = [each for each in reports if each["fetch_s"] > 2 * step + each["bytes"] / COPY + way * each["arrays"]]
    if late and len(late) == len(reports) and min(each["steps"] for each in reports) > 2:
        says = f"{contracts.ms(min(each['fetch_s'] for each in late))} after steps of {contracts.ms(step)}"
        return Contract(False, f"computes when its weights are fetched: {says}")
    return None


def _are_late(times: Sequence[float], limit: float) -> bool:
    """Whether so many are above the limit that it is not chance; of a few, which a busy machine may all delay, each
    must be clearly above it."""
    if len(times) < contracts.ENOUGH:
        return bool(times) and min(times) > FEW * limit
    return contracts.chance([each > limit for each in times], contracts.SLOW) <= contracts.RARE


def _fresh(looks: Looks) -> Contract | None:
    """New inputs cost as much as others, in the timed blocks too. A step may be slow by chance, as often as the others
    of its block are."""
    are_slow = [contracts.slow([new], usual)[0] for new, usual, _ in looks.unseen_s]
    if not any(are_slow):
        return None
    if contracts.chance(are_slow, statistics.fmean(share for *_, share in looks.unseen_s)) > contracts.RARE:
        return None
    new, usual, _ = (statistics.median(each) for each in zip(*looks.unseen_s, strict=True))
    return Contract(
        False,
        f"remembers answers while it is timed: {contracts.ms(usual)} for inputs it has seen, "
        f"{contracts.ms(new)} for others",
    )
