"""The rounds of a comparison: every cell gets one block a round, in random order, and its results are judged."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from xbench.case import Case
from xbench.experiments.settings import Protocol
from xbench.host import health
from xbench.proof import contracts
from xbench.proof.prove import outcome
from xbench.proof.timed import Judge, Looks, State, contracts_of
from xbench.proof.watch import Watch
from xbench.stats.statistics import median_interval, relative_half_width
from xbench.store.record import Cost, Record, known
from xbench.workers import cost
from xbench.workers.worker import Worker, WorkerFailure


@dataclass
class Open:
    """A cell with a live, verified worker, and the results of all its processes."""

    case: Case
    record: Record
    worker: Worker
    processes: list[dict[str, Any]]
    looks: Looks = field(default_factory=Looks)
    blocks: list[dict[str, Any]] = field(default_factory=list)
    repeated: list[dict[str, Any]] = field(default_factory=list)
    watch: Watch = field(default_factory=Watch)
    spent: float = 0.0
    lost: float = 0.0
    cpu: float = 0.0
    wall: float = 0.0

    @property
    def here(self) -> list[dict[str, Any]]:
        """The blocks of the live process."""
        return [each for each in self.blocks if each["process"] == len(self.processes) - 1]


def rounds(
    alive: list[Open],
    numbers: Iterator[int],
    protocol: Protocol,
    judge: Judge,
    say: Callable[[str], None],
    shuffle: Callable[[list[Open]], None],
) -> Iterator[Open | Record]:
    """Gives every cell a block per round until each has converged or spent its budget; yields those,
    processes ended, and the records of those that failed."""
    while alive:
        number = next(numbers)
        shuffle(alive)
        states: list[State] = []
        over: dict[Case, Record | None] = {}
        for cell in list(alive):
            say(f"{cell.case.runtime}: round {number + 1}")
            try:
                block(cell, number, protocol, judge)
                ended = _has_ended(cell, protocol)
                if judge.asks(cell.case, number, ended):
                    cell.worker.resume()
                    states += judge.take(cell.case, cell.worker, protocol.timeout, cell.looks)
                    cell.worker.pause()
                over |= {cell.case: None} if ended else {}
            except WorkerFailure as failure:
                over[cell.case] = cell.record | outcome(failure)
        if states:
            say(f"{alive[0].case.mode}: the steps of round {number + 1} in PyTorch")
        _judged(alive, number, states, judge)
        over = _ending(alive, over)
        for cell in [each for each in alive if each.case in over]:
            alive.remove(cell)
            record = over[cell.case] or _broken(cell)
            if record is None:
                cell.record["cost"] = cast(Cost | None, cost.whole(cell.case, cell.worker, protocol.timeout, say))
            cell.worker.stop()
            yield record or cell


def judged(cell: Open, number: int, protocol: Protocol, judge: Judge) -> None:
    """Judges the last block of a cell.

    Raises:
        WorkerFailure: it did not do the work.
    """
    cell.worker.resume()
    states = judge.take(cell.case, cell.worker, protocol.timeout, cell.looks)
    cell.worker.pause()
    _judged([cell], number, states, judge)
    if broken := _broken(cell):
        raise WorkerFailure("FAIL", str(broken["message"]))


def _judged(alive: Sequence[Open], number: int, states: Sequence[State], judge: Judge) -> None:
    judge.judge(number, states)
    for cell in alive:
        cell.looks.states += [state for state in states if state.case == cell.case]


def _ending(alive: Sequence[Open], over: dict[Case, Record | None]) -> dict[Case, Record | None]:
    """The cells that end in this round: those in `over`, those with wrong states; not those whose last state
    could not be judged, once: the next block has fewer steps between resets."""
    ends = dict(over)
    for cell in alive:
        states = [state.passed for state in cell.looks.states]
        if False in states:
            ends[cell.case] = _broken(cell)
        elif cell.case in over and not over[cell.case] and states and not any(states) and len(states) < 3:
            del ends[cell.case]
    return ends


def _broken(cell: Open) -> Record | None:
    """The record of a cell whose timed blocks broke a promise that a time needs; None if none did."""
    samples = [sample for each in cell.blocks for sample in each["samples"]]
    step = statistics.median(samples) if samples else 0.0
    promises = contracts_of(cell.case, known(cell.record["audit"]), cell.looks, step)
    known(cell.record["contracts"]).update(contracts.as_dicts(promises))
    if reason := contracts.broken(promises, cell.case.runtime):
        return cell.record | {"status": "FAIL", "message": reason, "times": None}
    return None


def block(cell: Open, number: int, protocol: Protocol, judge: Judge) -> None:
    """Runs one block. A disturbed one is set aside and run again, until there are as many as a process must give or
    they took half of the budget: on a busy machine disturbed blocks then count, and are reported."""
    cell.worker.resume()
    arguments = {"seed": judge.seed(number), "segment": judge.segment(cell.case), "seconds": protocol.block}
    limit = judge.limit(cell.case, number, protocol.max_samples)
    result = cell.worker.call("block", protocol.timeout, limit=limit, **arguments)
    passed = cell.worker.passed
    cell.worker.pause()
    promises = cell.watch.look(cell.case, cell.worker, result, passed)
    known(cell.record["contracts"]).update(contracts.as_dicts(promises))
    if words := contracts.broken(promises, cell.case.runtime):
        raise WorkerFailure("FAIL", f"while it was timed it {words}")
    cell.looks.add(result)
    reason = health.disturbance(result["health"])
    kept = {name: result[name] for name in ("samples", "lead", "health")} | {"disturbed": reason}
    kept |= {"round": number, "process": len(cell.processes) - 1}
    # By this process's clock: budgets end whatever other clocks show.
    seconds = max(passed["parent_s"] - sum(result["lead"]), passed["parent_s"] / 3)
    if reason and len(cell.repeated) < protocol.blocks and cell.lost < protocol.budget / 2:
        cell.repeated.append(kept)
        cell.lost += seconds
        return
    cell.blocks.append(kept)
    cell.spent += seconds
    cell.cpu, cell.wall = cell.cpu + result["cpu_s"], cell.wall + result["wall_s"]


def _has_ended(cell: Open, protocol: Protocol) -> bool:
    """Whether the live process is finished."""
    budget = protocol.budget / protocol.processes
    if (cell.spent >= budget and len(cell.here) >= 3) or cell.spent >= 4 * budget:  # a step longer than the budget
        return True
    if len(cell.here) < protocol.min_blocks:
        return False
    interval = median_interval([each["samples"] for each in cell.here], np.random.default_rng(0))
    return relative_half_width(interval) <= protocol.target
