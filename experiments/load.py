"""A network under load: MLPerf's scenarios, sent by MLCommons LoadGen to one runtime after the other.

Each runtime is proved and audited as for `xbench time`, in the process that is then loaded; after every run its last
answer is judged again. `jobs/load.py` makes a run of LoadGen; this file chooses its settings, and for the server it
searches the highest rate.
"""

import importlib.util
import math
import statistics
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from xbench.case import Case, digest
from xbench.converters.artifact import Artifact
from xbench.converters.printable import shell
from xbench.errors import XBenchError
from xbench.experiments.experiment import Experiment, Lab
from xbench.host import machine
from xbench.proof.open_cell import opened
from xbench.proof.prove import outcome
from xbench.proof.record import base, key
from xbench.stats.quantities import number
from xbench.stats.quantities import seconds as duration
from xbench.store.record import Record, completed
from xbench.workers.jobs.load import LEAST, MOST
from xbench.workers.worker import Worker, WorkerFailure

SCENARIOS = ("single-stream", "multi-stream", "offline", "server")
PERCENTILES = (50.0, 90.0, 99.0)
STREAM = 8  # samples of a multi-stream query, as in MLPerf
# The default bound: BOUND medians of a single stream; TAILS of its tails, which no load makes shorter; and at least
# SHORTEST seconds, as below that the system's scheduler is measured.
BOUND, TAILS, SHORTEST = 4.0, 2.0, 1e-3
LASTS = 20  # bounds that a trial lasts at least: a rate too high by a twentieth is then late by a bound
KEEPS_UP = 0.95  # least rate of answers, as a share of arrivals, of a server that keeps up
WIDTH = 0.05  # relative precision of the highest rate
TRIALS, DEEPEST = 14, 8  # at most; and how many times slower the slowest is than the first
FLOOD = 4  # bounds' worth of waiting queries before a trial is given up
WARM, AUDIT = 1.0, 0.2  # seconds
Say = Callable[[str], None]
Call = Callable[..., Any]


@dataclass(frozen=True)
class Load(Experiment):
    """`seconds` is the least duration of a run, `bound` the seconds within which `percentile` per cent of a server's
    queries are answered (None: the default), `stream` the samples of a multi-stream query."""

    name: ClassVar[str] = "load"
    file: ClassVar[str] = "load.jsonl"

    scenarios: tuple[str, ...]
    seconds: float
    percentile: float = 99.0
    bound: float | None = None
    stream: int = STREAM

    @property
    def records(self) -> int:
        return len(self.scenarios)

    def keys(self, case: Case, artifact: Artifact, lab: Lab) -> Sequence[str]:
        return [self.key(case, artifact, scenario) for scenario in self.scenarios]

    def key(self, case: Case, artifact: Artifact, scenario: str) -> str:
        """The key of the record of a scenario."""
        return digest(key(case, artifact), self.request(case, scenario))

    def request(self, case: Case, scenario: str) -> dict[str, Any]:
        """The requested load, as in a record."""
        return {
            "scenario": scenario,
            "seconds": self.seconds,
            "percentile": self.percentile,
            "bound_s": self.bound if scenario == "server" else None,
            "samples_per_query": self.stream if scenario == "multi-stream" else case.batch,
        }

    def measure(self, cases: Sequence[Case], wanted: Collection[str], artifact: Artifact, lab: Lab) -> Iterator[Record]:
        """One record per scenario. A worker in which a scenario failed is ended, and the next scenario gets a new one,
        which is verified, too."""
        for case in cases:
            missing = [each for each in self.scenarios if self.key(case, artifact, each) in wanted]
            yield from _run(case, artifact, self, missing, lab)

    def line(self, record: Record) -> str:
        load, case, words = record["load"], record["case"], [record["status"]]
        if record["status"] == "PASS" and load["samples_per_s"]:
            words += [f"p{percent} {duration(value)}" for percent, value in (load["latency_s"] or {}).items()]
            words += [f"{number(load['samples_per_s'])} samples/s"]
        message = f": {record['message']}" if record["message"] else ""
        return f"{case['model']} {case['runtime']} {load['scenario']}: {', '.join(words)}{message}"


def need_loadgen() -> None:
    """
    Raises:
        XBenchError: LoadGen is not installed.
    """
    if importlib.util.find_spec("mlperf_loadgen") is None:
        raise XBenchError("load scenarios need MLCommons LoadGen: pip install 'xbench[load]'")


def _run(case: Case, artifact: Artifact, plan: Load, scenarios: Sequence[str], lab: Lab) -> Iterator[Record]:
    record: Record = {}
    worker, refused, say = None, False, partial(lab.say, case)
    folder = lab.logs / f"loadgen-{digest(case.model, case.runtime)}"
    folder.mkdir(exist_ok=True)
    try:
        for scenario in scenarios:
            if worker is None and not refused:
                say("load, compile, check")
                fresh = base(case, artifact, "load")
                record, worker = opened(case, fresh, artifact, lab.exporter, lab.timeout, AUDIT, lab.logs)
                refused = worker is None
            if worker is None:
                yield filed(record, case, plan, scenario)
                continue
            try:
                result = _measured(worker, case, plan, scenario, folder, lab.timeout, say)
                final = filed(record, case, plan, scenario, result)
            except WorkerFailure as failure:
                worker = None
                final = filed(record | {"times": None} | outcome(failure), case, plan, scenario)
            yield final
    finally:
        if worker:
            worker.stop()


def filed(record: Record, case: Case, plan: Load, scenario: str, result: dict[str, Any] | None = None) -> Record:
    """The record of one scenario: the request, and the result if there is one (docs/results.md)."""
    request = plan.request(case, scenario)
    names = ("queries", "latency_s", "queries_per_s", "samples_per_s", "step_s", "single_stream_s", "cpus")
    nothing = dict.fromkeys(names) | {"trials": [], "latencies": []}
    says = "; ".join(filter(None, (record["message"], (result or {}).pop("says", None)))) or None
    more = {"key": digest(record["key"], request), "message": says, "command": _command(case, plan, scenario)}
    versions = record["versions"] | machine.versions(("mlcommons-loadgen",))
    return completed(record, {**more, "versions": versions, "load": request | nothing | (result or {})})


def _command(case: Case, plan: Load, scenario: str) -> str:
    """The command line that measures this again."""
    words = ["xbench", "load", case.model, "--runtime", case.runtime, "--scenario", scenario, "--batch", case.batch]
    words += ["--threads", case.threads, "--device", case.device, "--seconds", plan.seconds]
    words += ["--percentile", f"{plan.percentile:g}"]
    words += ["--latency-ms", f"{plan.bound * 1e3:g}"] if plan.bound and scenario == "server" else []
    words += ["--samples-per-query", plan.stream] if scenario == "multi-stream" else []
    words += ["--inputs", case.own] if case.own else []
    return shell(*words, "--rerun")


def _measured(
    worker: Worker, case: Case, plan: Load, scenario: str, folder: Path, timeout: float, say: Say
) -> dict[str, Any]:
    """A scenario's result on an open cell, after a warm-up. `timeout` is of a job, without its run."""
    say(f"{scenario}: warm-up")
    warmup = worker.call("warm", timeout, seconds=min(plan.seconds, WARM))
    step = statistics.median(warmup[-math.ceil(len(warmup) / 4) :])
    cpus = machine.allowed()

    def load(kind: str, seconds: float, batches: int = 1, rate: float = 0.0, waiting: int = 0) -> dict[str, Any]:
        arguments = {"scenario": kind, "seconds": seconds, "step": step, "batches": batches, "rate": rate}
        arguments |= {"waiting": waiting, "folder": str(folder), "cpus": cpus}
        patience = timeout + 10 * seconds + (2 * LEAST / rate if rate else 0)
        answer: dict[str, Any] = worker.call("load", patience, **arguments)
        return answer

    say(f"{scenario}: {plan.seconds:g} s")
    if scenario == "server":
        return _served(load, case, plan, say) | {"step_s": step}
    batches = 1
    if scenario == "multi-stream":
        batches = plan.stream // case.batch
    if scenario == "offline":  # a tenth more, as LoadGen does, so that it is not over before its time
        batches = max(1, min(MOST, math.ceil(1.1 * plan.seconds / step)))
    result = load(scenario, plan.seconds, batches)
    return _numbers(result, case.batch * batches, plan, offline=scenario == "offline") | {"step_s": step}


def _numbers(run: dict[str, Any], samples: int, plan: Load, offline: bool = False) -> dict[str, Any]:
    """The numbers of a run; `samples` are those of a query. The latency of the one query of an offline run adds
    nothing to its throughput."""
    latencies, queries = run["latencies"], 1 if offline else len(run["latencies"])
    pace = queries / run["done_s"]
    shown = {f"{each:g}": percentile(latencies, each) for each in sorted({*PERCENTILES, plan.percentile})}
    return {
        "queries": queries,
        "samples_per_query": samples,
        "latency_s": None if offline else shown,
        "queries_per_s": pace,
        "samples_per_s": pace * samples,
        "cpus": run["cpus"],
        "latencies": latencies,
    }


def _served(load: Call, case: Case, plan: Load, say: Say) -> dict[str, Any]:
    """The highest rate of a server, and its run; trials are recorded."""
    alone = load("single-stream", plan.seconds)["latencies"]
    single = percentile(alone, 50)
    bound = plan.bound or max(BOUND * single, TAILS * percentile(alone, plan.percentile), SHORTEST)
    trials: list[dict[str, Any]] = []
    runs: dict[float, dict[str, Any]] = {}

    def passes(rate: float) -> bool:
        seconds = min(max(plan.seconds, LASTS * bound), MOST / rate)
        run = load("server", seconds, rate=rate, waiting=16 + math.ceil(FLOOD * bound * rate))
        trials.append(judged(run, rate, bound, plan.percentile))
        runs[rate] = run
        passed = bool(trials[-1]["passed"])
        say(f"server: {rate:.4g} queries/s: {'within' if passed else trials[-1]['says']}")
        return passed

    best = highest_rate(passes, 0.5 / single)
    facts = {"bound_s": bound, "single_stream_s": single, "trials": trials}
    if best is None:
        least = min(trials, key=lambda trial: trial["rate_per_s"])
        words = f"no rate keeps p{plan.percentile:g} within {bound * 1e3:.3g} ms: "
        return facts | {"says": f"{words}at {least['rate_per_s']:.3g} queries/s {least['says']}"}
    shown = _numbers(runs[best], case.batch, plan) | {"queries_per_s": best, "samples_per_s": best * case.batch}
    return shown | facts


def judged(found: dict[str, Any], rate: float, bound: float, percent: float) -> dict[str, Any]:
    """The verdict on a trial at a rate: it passes if the percentile of its latencies is within the bound
    and it answers as fast as queries arrive."""
    tail = percentile(found["latencies"], percent)
    scheduled, answered = found["scheduled_per_s"], found["answered_per_s"]
    says = None
    if found["flooded"]:
        says = f"more than {FLOOD} bounds' worth of queries waited"
    elif tail > bound:
        says = f"p{percent:g} is {tail * 1e3:.3g} ms"
    elif scheduled and answered and answered < KEEPS_UP * scheduled:
        says = f"{answered:.4g} of {scheduled:.4g} queries/s are answered"
    return {
        "rate_per_s": rate,
        "scheduled_per_s": scheduled,
        "answered_per_s": answered,
        "latency_s": tail,
        "queries": len(found["latencies"]),
        "passed": says is None,
        "says": says,
    }


def highest_rate(passes: Callable[[float], bool], start: float, width: float = WIDTH) -> float | None:
    """The highest rate that passes, to a share of `width`; None if none did, down to an eighth of `start`. Doubles
    or halves from there until one rate passes and a higher one does not, then bisects on a logarithmic scale."""
    low = high = None
    rate = start
    for _ in range(TRIALS):
        if passes(rate):
            low = rate
        else:
            high = rate
        if (high or math.inf) <= (low * (1 + width) if low else start / DEEPEST):
            break
        rate = math.sqrt(low * high) if low and high else 2 * low if low else rate / 2
    return low


def percentile(latencies: Sequence[float], percent: float) -> float:
    """The latency that `percent` % of the queries stay below, by LoadGen's own definition (its results.cc): of
    few queries the highest percentiles are the slowest."""
    return sorted(latencies)[min(int(len(latencies) * (percent / 100)), len(latencies) - 1)]
