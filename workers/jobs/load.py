"""A worker under load: MLCommons LoadGen sends queries to its cell, in one of MLPerf's scenarios.

A sample of LoadGen is a batch of xbench, the inputs of one reference: a step of `jobs.py` answers it, arrays of the
host in and out, and the last answer can be judged. Latencies are LoadGen's own, read from its trace: from the time for
which a query was scheduled, so that waiting for another query counts.
"""

import contextlib
import gc
import importlib
import os
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from xbench.errors import XBenchError
from xbench.host.clock import now, used
from xbench.workers.cell import CELL, Cell
from xbench.workers.jobs.block import verify

LEAST, MOST = 10, 100_000  # queries of a run, or batches of an offline one; all latencies are kept
SEEDS = {"qsl_rng_seed": 1, "sample_index_rng_seed": 2, "schedule_rng_seed": 3}
KINDS = {
    "single-stream": "SingleStream",
    "multi-stream": "MultiStream",
    "offline": "Offline",
    "server": "Server",
}
# A sample in the trace, with its scheduled time in microseconds, and its answer time since then.
SAMPLE = re.compile(rb'"ph":"b",.*?"ts":(-?[\d.]+),.*?"query_seq":(\d+),.*?"complete_ns":(\d+)')


def load(
    scenario: str, seconds: float, step: float, batches: int, rate: float, waiting: int, folder: str, cpus: list[int]
) -> dict[str, Any]:
    """One run of a scenario, and a check of its last answer; LoadGen writes its logs into `folder`.

    `step` is about the seconds of a query of one batch; `batches` are those of a query (multi-stream, offline);
    `rate`, in queries a second, and `waiting`, the most queries in flight, are the server's. LoadGen's own
    threads use those of `cpus` that are not the runtime's, if there are any.

    Returns the seconds of every query, or offline from the start to every batch (`latencies`); from the first arrival
    to the last answer (`done_s`); queries a second as scheduled and as answered; whether LoadGen gave up because too
    many queries waited (`flooded`); CPU time over wall time, LoadGen's included.

    Raises:
        verdict.Changed: the last answer is wrong.
    """
    (cell,) = CELL
    loadgen = importlib.import_module("mlperf_loadgen")
    settings = _settings(loadgen, scenario, seconds, step, batches, rate, waiting)
    logs = loadgen.LogSettings()
    logs.log_output.outdir, logs.enable_trace = folder, True
    gc.collect()
    gc.disable()  # as when steps are timed
    cpu, start = used(), now()
    try:
        _run(loadgen, cell, settings, logs, scenario == "server", cpus)
    finally:
        gc.enable()
    cpu, wall = used() - cpu, now() - start
    verify(cell)
    return _from_trace(Path(folder), scenario, seconds) | {"cpus": cpu / wall}


def _settings(loadgen: Any, scenario: str, seconds: float, step: float, batches: int, rate: float, waiting: int) -> Any:
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, KINDS[scenario])
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms, settings.min_query_count = round(seconds * 1000), LEAST
    for name, seed in SEEDS.items():
        setattr(settings, name, seed)
    # LoadGen makes the queries of twice the duration at this pace in advance: enough for one twice as fast, no more
    # than MOST.
    pace = max(step / 2, 2 * seconds / MOST) * 1e9
    if scenario == "single-stream":
        settings.single_stream_expected_latency_ns = pace
    elif scenario == "multi-stream":
        settings.multi_stream_samples_per_query = batches
        settings.multi_stream_expected_latency_ns = max(step * batches / 2, 2 * seconds / MOST) * 1e9
    elif scenario == "offline":  # all in one query: the minimum number if that is more than the rate makes
        settings.min_query_count, settings.offline_expected_qps = min(batches, MOST), 1 / (2 * seconds)
    else:
        settings.server_target_qps, settings.server_max_async_queries = rate, waiting
    return settings


def _run(loadgen: Any, cell: Cell, settings: Any, logs: Any, apart: bool, cpus: list[int]) -> None:
    """Runs LoadGen. Queries are answered in this thread, which prepared the runtime; LoadGen has a thread of its
    own (`apart`) if it must not wait for an answer before it sends the next query."""
    own = _affinity()
    queue: SimpleQueue[Any] = SimpleQueue()
    errors: list[BaseException] = []

    def answer(samples: Sequence[Any]) -> None:
        for sample in samples:
            if not errors:
                try:
                    cell.steps[sample.index]()
                    cell.index = sample.index
                except BaseException as error:  # propagated through LoadGen it would end the process
                    errors.append(error)
            loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(sample.id, 0, 0)])

    def test() -> None:
        # The thread that writes LoadGen's logs starts here, on these CPUs; then the samples are "loaded".
        _move(set(cpus) - own or own)
        sut = loadgen.ConstructSUT(lambda samples: queue.put(samples) if apart else answer(samples), lambda: None)
        library = loadgen.ConstructQSL(
            len(cell.steps), len(cell.steps), lambda _: None if apart else _move(own), lambda _: None
        )
        try:  # ignores audit.config in the working directory
            loadgen.StartTestWithLogSettings(sut, library, settings, logs, "")
        finally:
            _move(own)
            loadgen.DestroyQSL(library)
            loadgen.DestroySUT(sut)

    if apart:
        thread = threading.Thread(target=_then, args=(test, errors, queue), daemon=True)
        thread.start()
        for samples in iter(queue.get, None):
            answer(samples)
        thread.join()
    else:
        test()
    if errors:
        raise errors[0]


def _then(test: Any, errors: list[BaseException], queue: "SimpleQueue[Any]") -> None:
    try:
        test()
    except BaseException as error:
        errors.append(error)
    finally:
        queue.put(None)


def _affinity() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _move(cpus: set[int]) -> None:
    """Moves this thread, and those that it starts, to these CPUs."""
    if cpus:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cpus)


def _from_trace(folder: Path, scenario: str, seconds: float) -> dict[str, Any]:
    """The numbers of the queries in the trace."""
    queries: dict[int, tuple[float, float]] = {}  # scheduled time and latency, in nanoseconds
    for number, (scheduled, query, latency) in enumerate(_samples(folder / "mlperf_log_trace.json")):
        name = number if scenario == "offline" else query
        queries[name] = scheduled, max(latency, queries.get(name, (0.0, 0.0))[1])
    if not queries:
        raise XBenchError("the trace of this version of LoadGen cannot be read: pip install 'mlcommons-loadgen>=6,<7'")
    arrivals = [scheduled for scheduled, _ in queries.values()]
    answers = [scheduled + latency for scheduled, latency in queries.values()]
    first, last = min(arrivals), max(arrivals)
    gaps, done = len(queries) - 1, max(answers) - min(answers)
    return {
        "latencies": [round(latency * 1e-9, 9) for _, latency in queries.values()],
        "done_s": (max(answers) - first) * 1e-9,
        "scheduled_per_s": gaps / (last - first) * 1e9 if last > first else None,
        "answered_per_s": gaps / done * 1e9 if done > 0 else None,
        "flooded": scenario == "server" and (last - first) * 1e-9 < seconds - 1e-3,
    }


def _samples(trace: Path) -> Iterator[tuple[float, int, int]]:
    """Each sample's scheduled time in nanoseconds since the trace began, its query, its latency in nanoseconds."""
    with trace.open("rb") as file:
        for line in file:
            if b'"name":"Sample"' in line and (match := SAMPLE.search(line)):
                yield float(match[1]) * 1000, int(match[2]), int(match[3])


JOBS = (load,)
