"""The promises of a timed runtime, each judged on measurements in its worker (`jobs/audit.py`).

A broken promise is named with its evidence. Those of `REQUIRED` are needed for a time; the others are only reported.
"""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xbench.case import Case
from xbench.host import machine
from xbench.runtimes import UNCLOCKED, parse
from xbench.store.record import Promise
from xbench.workers.worker import Worker

Facts = Mapping[str, Any]

REQUIRED = ("clock", "timed", "begins", "complete", "fresh", "random", "threads", "placement", "physical")
FAKED = ("begins", "physical")  # exempt for the fake runtimes that tests time
CLEAR = 1e-4  # seconds below which a difference may come from the clock or the cache
COPY = 1e9  # bytes a second that any machine can copy
TRANSFER = 1e-3  # seconds at most to fetch an array from a device, whatever its size
AGAIN = 40  # rounds of a second measurement: on a busy machine others may disturb all of a few steps of milliseconds
TURNS = 2  # repeated measurements
LATE = 5e-3  # seconds by which the parent may note a mark too late, besides waiting for a CPU
BETWEEN = 2e-6  # seconds from one step to the next
CLOSE = 1.25  # factor below which two clocks of the same time differ
LOOK, MOST = 0.1, 1 << 17  # seconds of steps to measure the speed of a clock, and their largest number
LEFT = 1.0  # seconds that fetching may take after these steps
PATIENCE = 30.0  # seconds for these: disturbances are equal for all steps so long that fewer fit
SPARE = 0.25  # of a thread, and of those allowed: more may be at work while one hands over to another
SLOW, RARE = 0.25, 1e-3  # share of slow steps on any machine; probability too low to be chance
ENOUGH = 5  # steps at least: all of them being slow is not chance
COUNTED = 1.05  # tolerance of CPU time from two counters read one after the other


@dataclass(frozen=True)
class Contract:
    """`held` is None if it could not be measured; `says` is the evidence, in words."""

    held: bool | None
    says: str | None = None


def audited(
    worker: Worker, case: Case, timeout: float, seconds: float, patience: float | None = None
) -> tuple[Facts, dict[str, Contract]]:
    """The measurements in a cell's worker, and every promise by name. If a required one looks broken all is measured
    again, for longer: on a shared machine a few steps may all be disturbed. `patience` is the time its steps may take,
    `seconds` by default: of longer steps, what needs more than one is not checked."""
    paced = _paced(worker, timeout, LOOK)
    if not clock(paced).held:
        paced = _paced(worker, timeout, min(20 * LOOK, PATIENCE))
    if clock(paced).held is False:  # its other measurements are worth nothing
        return {"pace": paced}, {"clock": clock(paced)}

    def measured(rounds: int, patience: float, seconds: float) -> Facts:
        settings = {"cpus": machine.allowed()}
        audit: dict[str, Any] = worker.call(
            "audit", timeout, rounds=rounds, patience=patience, seconds=seconds, **settings
        )
        return {"pace": paced} | audit

    facts = measured(5, patience or seconds, seconds)
    promises = judge(case, facts)
    for turn in range(TURNS):
        # The likeliest false alarm is that new inputs took longer by chance, as others used the CPUs: once more.
        if not broken(promises, case.runtime) or (turn and promises["fresh"].held is not False):
            break
        facts = measured(AGAIN, min(PATIENCE, timeout / 4), max(4 * seconds, 2.0))
        promises = judge(case, facts)
    return facts, promises


def _paced(worker: Worker, timeout: float, seconds: float) -> Facts:
    """Steps that take `seconds` by this process's clock, or a single one, and the worker's own time of them."""
    count, pace = 1, dict[str, Any]()
    while count:
        pace = worker.call("pace", timeout, count=count) | worker.passed
        more = min(int(count * 1.2 * seconds / max(pace["parent_s"], CLEAR)) + 1, 64 * count, MOST)
        short = pace["parent_s"] < seconds and pace["left_s"] < LEFT  # else its queue grows with every step
        count = more if short and more > count else 0
    return pace


def judge(case: Case, facts: Facts) -> dict[str, Contract]:
    """Every promise by name."""
    return {
        "clock": clock(facts["pace"]),
        "begins": _begins(facts),
        "complete": _complete(facts),
        "fresh": _fresh(facts),
        "random": _random(facts),
        "threads": _threads(case.threads, facts),
        "idle": _idle(facts),
        "placement": _placement(case.device, facts),
        "deterministic": _deterministic(facts),
    }


def broken(contracts: Mapping[str, Contract], runtime: str) -> str | None:
    """The evidence of the first broken required promise. Our own fake runtime, which takes a given time, may compute
    before the clock starts, and take no time at all."""
    fake = parse(runtime)[0] in UNCLOCKED
    required = [name for name in REQUIRED if name in contracts and not (fake and name in FAKED)]
    return next((contracts[name].says for name in required if contracts[name].held is False), None)


def late(seconds: Sequence[float]) -> float:
    """The median of the later half: a runtime that changes its behaviour when warm begins honestly."""
    return statistics.median(seconds[len(seconds) // 2 :])


def clock(pace: Facts) -> Contract:
    """The seconds reported for some steps are those that passed for the parent. They may be less only by what a clock
    other than the worker's need not see, or by what the worker waited for a CPU; its own clock sees all that passes
    between its marks, waiting included."""
    reported, passed, unseen = pace["told_s"], pace["parent_s"], pace["unseen_s"]
    span = pace.get("span_s", math.inf)
    if (shortest := pace["shortest_s"]) <= 0:
        return Contract(False, f"has a clock that stands still or goes back: of a step it tells {ms(shortest)}")
    late_s = LATE * pace.get("blocks", 1) + pace.get("late_s", 0.0)
    slack = late_s + BETWEEN * pace["steps"]
    if passed > CLOSE * span + late_s:
        return Contract(False, f"has a clock that is wrong: {ms(span)} pass for it where {ms(passed)} do")
    if passed > CLOSE * (reported + unseen) + slack or reported > CLOSE * passed + slack:
        return Contract(False, f"has a clock that is wrong: it tells {ms(reported)} where {ms(passed)} pass")
    if pace.get("missing", 0.0) > 1 - 1 / CLOSE:
        return Contract(False, f"has a clock of its own that leaves out {pace['missing']:.0%} of a step")
    if pace.get("here", 0.0) > 1 - 1 / CLOSE:
        return Contract(False, f"tells the clock of another process, and spends {pace['here']:.0%} of it in this one")
    if passed < 4 * slack:
        return Contract(None, "its steps are over too soon to tell")
    return Contract(True)


def _begins(facts: Facts) -> Contract:
    """Putting inputs on the device copies them, and computes nothing."""
    put, step = late(facts["put_s"]), late(facts["repeated_s"])
    says = f"works before the clock starts: putting inputs takes {ms(put)}, a step then {ms(step)}"
    return _within(put, 0.25 * step + facts["put_bytes"] / COPY, CLEAR * (1 + facts["put_arrays"]), says)


def _complete(facts: Facts) -> Contract:
    """The result is complete when `wait` returns: fetching it then copies, and computes nothing."""
    first, again, step = (late(facts[name]) for name in ("fetch_s", "refetch_s", "repeated_s"))
    way = "answers before it is done" if again < first / 2 else "computes when the result is fetched"
    says = f"{way}: a step takes {ms(step)}, fetching its result {ms(first)}, and {ms(again)} again"
    slack, size, brought = CLEAR * (1 + facts["fetched_arrays"]), facts["fetched_bytes"], transfer(facts, "all")
    kept = _within(first, 0.25 * step + size / COPY + brought, slack, says)
    sooner = _within(first - max(again, brought), 0.25 * step + size / (2 * COPY), slack, says)
    return sooner if kept.held else kept


def transfer(facts: Facts, which: str) -> float:
    """Seconds to fetch from the device what need not be computed, `all` arrays of a result or `one`; limited to what
    an honest runtime can need."""
    took, arrays = facts.get("transfer_s", {}).get(which), facts["fetched_arrays"] if which == "all" else 1
    return min(late(took), TRANSFER * max(1, arrays)) if took else 0.0


def _fresh(facts: Facts) -> Contract:
    """Inputs it has seen cost as much as others."""
    if facts["stale"]:
        return Contract(
            False, "remembers by identity: new values in arrays it has seen give another answer than theirs"
        )
    if not facts["fresh_s"]:
        return Contract(None, "no inputs can be drawn but the ones it has seen")
    seen, fresh, copied = (late(facts[name]) for name in ("repeated_s", "fresh_s", "copied_s"))
    way = "by value" if copied < (seen + fresh) / 2 else "by identity"
    says = f"remembers answers {way}: {ms(seen)} for inputs it has seen, {ms(fresh)} for others"
    promise = _within(fresh, 1.5 * seen, CLEAR, says)
    latest, usual = (facts[name][len(facts[name]) // 2 :] for name in ("fresh_s", "repeated_s"))
    if promise.held is False and len(latest) >= ENOUGH and chance(slow(latest, seen), slow_share(usual, seen)) > RARE:
        return Contract(None, "other processes used its CPUs: steps on one input differ as much")
    return promise


def slow(steps: Sequence[float], usual: float) -> list[bool]:
    """For each step whether it took clearly longer than a usual one."""
    return [each > 1.5 * usual + CLEAR for each in steps]


def slow_share(steps: Sequence[float], usual: float) -> float:
    """The probability that a step is slow by chance, from others of its kind; at least one in four."""
    return max(SLOW, (1 + sum(slow(steps, usual))) / (1 + len(steps)))


def chance(are_slow: Sequence[bool], share: float) -> float:
    """The probability of that many slow steps, or more, if each is slow with probability `share`."""
    count, total = len(are_slow), math.lgamma(len(are_slow) + 1)  # of thousands, binomials have no float

    def of(k: int) -> float:
        ways = total - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        return (
            math.exp(ways + k * math.log(share) + (count - k) * math.log1p(-share)) if share < 1 else float(k == count)
        )

    return sum(map(of, range(sum(are_slow), count + 1)))


def _random(facts: Facts) -> Contract:
    """With dropout, two runs of one input differ."""
    if facts["varies"] is None:
        return Contract(None, "asked only where dropout is on, in mode gradient")
    return Contract(True) if facts["varies"] else Contract(False, "with dropout two runs of one input are the same")


def _within(seconds: float, limit: float, slack: float, says: str) -> Contract:
    """Kept up to a limit, broken beyond the slack that a clock needs, and in between too short to tell."""
    if seconds <= limit:
        return Contract(True)
    return Contract(None, "its steps are too short to tell") if seconds <= limit + slack else Contract(False, says)


def _threads(allowed: int, facts: Facts) -> Contract:
    if facts["threads_at_once"] is None:
        return Contract(None, "its steps are over too soon to tell")
    words, limit = "was" if allowed == 1 else "were", allowed * (1 + SPARE) + SPARE
    if facts["most_cpus"] > limit:
        return Contract(False, f"uses {facts['most_cpus']:.1f} CPUs where {allowed} {words} told")
    if facts["threads_at_once"] > limit + SPARE:  # two that share a CPU both wait for it while one hands over
        return Contract(False, f"has {facts['threads_at_once']:.1f} threads at work where {allowed} {words} told")
    return Contract(True)


def limited(told: int, cpu: float, wall: float, blocks: int, elsewhere: Collection[int] = ()) -> Contract:
    """While timed it may run on as many CPUs as the `told` threads, and so cannot use more, however busy they are.
    `elsewhere` are other CPUs that a thread of its processes may run on."""
    words = f"CPUs where {told} {'was' if told == 1 else 'were'} told"
    if cpu > COUNTED * told * wall + LATE * blocks:
        return Contract(False, f"uses {cpu / wall:.1f} {words}")
    if elsewhere:
        return Contract(False, f"lets itself run on {told + len(elsewhere)} {words}")
    return Contract(True)


def _idle(facts: Facts) -> Contract:
    if facts["idle_cpus"] <= 0.2:
        return Contract(True)
    return Contract(False, f"keeps {facts['idle_cpus']:.1f} CPUs busy while nothing is asked of it")


def _placement(device: str, facts: Facts) -> Contract:
    """It runs on the requested device. A runtime's own report does not make up for a GPU that is not open."""
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
    """The broken promises of a cell that is timed anyway, in words."""
    return [str(each.says) for each in contracts.values() if each.held is False]


def _list(placed: Mapping[str, int]) -> str:
    return ", ".join(f"{place} ({count})" for place, count in placed.items())


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def as_dicts(contracts: Mapping[str, Contract]) -> dict[str, Promise]:
    return {name: {"held": each.held, "says": each.says} for name, each in contracts.items()}
