"""What a runtime promises whose time is shown, each judged on what was measured in its worker (`jobs/audit.py`).

A promise that is broken is named with its evidence. Those of `REQUIRED` are needed for a time; the others are told.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xbench.bench import Case, machine
from xbench.bench.worker import Worker

Facts = Mapping[str, Any]

REQUIRED = ("begins", "complete", "fresh", "threads", "placement")
CLEAR = 1e-4  # seconds below which a difference may be the clock's or the cache's
COPY = 1e9  # bytes a second that any machine copies at
AGAIN = 40  # rounds of measuring again: a few steps of milliseconds may all have met the others on a busy machine
PATIENCE = 30.0  # seconds that these may take: steps so long that fewer fit meet the others all alike
SPARE = 0.5  # of the threads that were told: so many more may be at work while one hands over to another


@dataclass(frozen=True)
class Contract:
    """`held` is None where it could not be measured; `says` is the evidence, in words."""

    held: bool | None
    says: str | None = None


def audited(
    worker: Worker, case: Case, timeout: float, seconds: float, patience: float | None = None
) -> tuple[Facts, dict[str, Contract]]:
    """What was measured in a cell's worker, and every promise by name. Where one looks broken that a time needs all is
    measured again, for longer: on a machine that others use a few steps may all meet them. `patience` is what its steps
    may take, `seconds` unless told: what needs more than one of a step that is longer is not asked."""
    told = {"plane": case.plane, "cpus": machine.allowed()}
    facts = worker.call("audit", timeout, rounds=5, patience=patience or seconds, seconds=seconds, **told)
    if broken(judge(case, facts)):
        patience, seconds = min(PATIENCE, timeout / 4), max(4 * seconds, 2.0)
        facts = worker.call("audit", timeout, rounds=AGAIN, patience=patience, seconds=seconds, **told)
    return facts, judge(case, facts)


def judge(case: Case, facts: Facts) -> dict[str, Contract]:
    """Every promise by name."""
    return {
        "begins": _begins(facts),
        "complete": _complete(facts),
        "fresh": _fresh(facts),
        "threads": _threads(case.threads, facts),
        "idle": _idle(facts),
        "placement": _placement(case.device, facts),
        "deterministic": _deterministic(facts),
    }


def broken(contracts: Mapping[str, Contract], fake: bool = False) -> str | None:
    """What the first broken promise says of those that a time needs. The fake of our own that takes the time it is told
    may compute before the clock: it is told."""
    asked = [name for name in REQUIRED if not (fake and name == "begins")]
    return next((contracts[name].says for name in asked if contracts[name].held is False), None)


def _begins(facts: Facts) -> Contract:
    """Putting inputs on the device copies them, and computes nothing."""
    put, step = min(facts["put_s"]), min(facts["repeated_s"])
    says = f"works before the clock starts: putting inputs takes {_ms(put)}, a step then {_ms(step)}"
    return _within(put, 0.25 * step + facts["put_bytes"] / COPY, CLEAR * (1 + facts["put_arrays"]), says)


def _complete(facts: Facts) -> Contract:
    """The result is there when `wait` returns: what is fetched then is copied, not computed."""
    first, again, step = min(facts["fetch_s"]), statistics.median(facts["refetch_s"]), min(facts["repeated_s"])
    way = "answers before it is done" if again < first / 2 else "computes when the result is fetched"
    says = f"{way}: a step takes {_ms(step)}, fetching its result {_ms(first)}, and {_ms(again)} again"
    slack = CLEAR * (1 + facts["fetched_arrays"])
    kept = _within(first, 0.25 * step + facts["fetched_bytes"] / COPY, slack, says)
    sooner = _within(first - again, 0.25 * step + facts["fetched_bytes"] / (2 * COPY), slack, says)
    return sooner if kept.held else kept


def _fresh(facts: Facts) -> Contract:
    """Inputs it has seen cost what others do."""
    if facts["stale"]:
        return Contract(
            False, "remembers by identity: new values in arrays it has seen give another answer than theirs"
        )
    if not facts["fresh_s"]:
        return Contract(None, "no inputs can be drawn but the ones it has seen")
    seen, fresh = statistics.median(facts["repeated_s"]), min(facts["fresh_s"])
    copied = statistics.median(facts["copied_s"])
    way = "by value" if copied < (seen + fresh) / 2 else "by identity"
    says = f"remembers answers {way}: {_ms(seen)} for inputs it has seen, {_ms(fresh)} for others"
    return _within(fresh, 1.5 * seen, CLEAR, says)


def _within(found: float, limit: float, slack: float, says: str) -> Contract:
    """Held within a limit, broken beyond the slack that a clock needs, and in between too short to tell."""
    if found <= limit:
        return Contract(True)
    return Contract(None, "its steps are too short to tell") if found <= limit + slack else Contract(False, says)


def _threads(told: int, facts: Facts) -> Contract:
    if facts["threads_at_once"] is None:
        return Contract(None, "its steps are over too soon to tell")
    words, limit = "was" if told == 1 else "were", told * (1 + SPARE)
    if facts["cpus"] > limit:
        return Contract(False, f"uses {facts['cpus']:.1f} CPUs where {told} {words} told")
    if facts["threads_at_once"] > limit + SPARE:  # two that share a CPU both wait for it while one hands over
        return Contract(False, f"has {facts['threads_at_once']:.1f} threads at work where {told} {words} told")
    return Contract(True)


def _idle(facts: Facts) -> Contract:
    if facts["idle_cpus"] <= 0.2:
        return Contract(True)
    return Contract(False, f"keeps {facts['idle_cpus']:.1f} CPUs busy while nothing is asked of it")


def _placement(device: str, facts: Facts) -> Contract:
    """It runs where it was told. What a runtime says of itself does not make up for a GPU that is not open."""
    placed = facts["placed"]
    if device == "cuda" and not facts["gpu_open"]:
        return Contract(False, "asked for cuda, but its process has no GPU open")
    if not placed:
        return Contract(True if device == "cpu" and not facts["gpu_open"] else None, "it names nothing that is placed")
    elsewhere = {place: count for place, count in placed.items() if place != device}
    if not placed.get(device):
        return Contract(False, f"asked for {device}, but runs on {_list(elsewhere) or 'nothing that it names'}")
    return Contract(True, f"{elsewhere and _list(elsewhere)} beside {device}" if elsewhere else None)


def _deterministic(facts: Facts) -> Contract:
    far = facts["same"]
    if far is None:
        return Contract(None, "not asked of long steps, of mode step, nor where dropout is on")
    return Contract(True) if far == 0 else Contract(False, f"two runs of one input differ by {far:.1e} of the result")


def told(contracts: Mapping[str, Contract]) -> list[str]:
    """What is to be said of a cell that is timed all the same: its broken promises."""
    return [str(each.says) for each in contracts.values() if each.held is False]


def _list(placed: Mapping[str, int]) -> str:
    return ", ".join(f"{place} ({count})" for place, count in placed.items())


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def as_dicts(contracts: Mapping[str, Contract]) -> dict[str, dict[str, Any]]:
    return {name: {"held": each.held, "says": each.says} for name, each in contracts.items()}
