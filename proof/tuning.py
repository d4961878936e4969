"""Chooses settings of a runtime that are not part of the case: its options for `--tune`, and the layout if left open.

Every setting of `--tune max` is opened in a worker of its own, without a proof: they take turns, one awake at a time,
and the one with the fastest step is then opened, proved and timed. The result is stored next to the model, by all it
depends on.
"""

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from xbench.case import AUTO, Case, digest
from xbench.converters import seals
from xbench.converters.artifact import Artifact
from xbench.host import machine
from xbench.proof import kernels
from xbench.runtimes import layouts, parse, row_of, version
from xbench.workers.worker import Worker, WorkerFailure, worker_of

TUNED = "tuned"  # the folder next to a model
ROUNDS, BLOCK, STEPS = 7, 0.1, 5  # of a race: its rounds, and the most seconds and steps of each
NOTHING_CHOSEN = {"layout": None, "tuning": None}  # a record's fields
Median = tuple[str, str, float | None]  # a runtime's word, a layout, seconds


def settings(case: Case, artifact: Artifact) -> list[Case]:
    """The case as it may be opened: once for each setting and layout to try, one if there is no choice. Options in the
    user's own word are kept."""
    effort = row_of(case.runtime).effort
    kinds = [case.device, "open"] if case.mode == "forward" and artifact.has_open_axes else [case.device]
    keys = [*(f"{case.tune} {kind}" for kind in kinds), case.tune]
    tries = next((effort[key] for key in keys if key in effort), ("",))
    words = dict.fromkeys(_with(case.runtime, each.format(seconds=case.tune_budget)) for each in tries)
    orders = (layouts(case.runtime, artifact) if case.layout == AUTO else [case.layout]) or ["nchw"]
    return [dataclasses.replace(case, runtime=word, layout=order) for word in words for order in orders]


def _with(word: str, options: str) -> str:
    """A runtime's word with more options, without those that it has."""
    has = parse(word)[1]
    more = [each for each in options.split(",") if each and each.partition("=")[0] not in has]
    return f"{word}{',' if ':' in word else ':'}{','.join(more)}" if more else word


def settled(
    case: Case,
    artifact: Artifact,
    references: Sequence[str],
    log: Path,
    timeout: float,
    calibration: Sequence[str] = (),
) -> tuple[Case, dict[str, Any]]:
    """The case as it is opened, and the fields of its record about the choice.

    Raises:
        WorkerFailure: none of the settings can be opened.
    """
    tried = settings(case, artifact)
    if len(tried) == 1 and (case.tune != "max" or tried[0].runtime == case.runtime):
        return tried[0], _choice(case, tried[0], (), None)
    key = _key(case)
    kept = artifact.folder / TUNED / f"{key}.json"
    race = seals.kept(kept, key) if case.tune == "max" else None
    if race is None:
        open_cell = partial(kernels.ready, artifact=artifact, references=references, calibration=calibration)
        race = _raced(case, tried, open_cell, log, timeout)
        if case.tune == "max":
            kept.parent.mkdir(exist_ok=True)
            seals.keep(kept, key, race)
    best = min((each for each in race["medians"] if each[2] is not None), key=lambda each: each[2])
    chosen = next(each for each in tried if [each.runtime, each.layout] == best[:2])
    return chosen, _choice(case, chosen, race["medians"], race["seconds"])


def _raced(
    case: Case, tried: Sequence[Case], open_cell: Callable[..., object], log: Path, timeout: float
) -> dict[str, Any]:
    """The median step of each setting (runtime, layout, seconds), null for one that cannot be opened or fails, and the
    seconds that the race took.

    Raises:
        WorkerFailure: all of them fail.
    """
    start, failed = time.monotonic(), WorkerFailure("CRASH", "nothing to try")
    alive, medians = dict[Case, Worker](), {each: list[float]() for each in tried}
    with contextlib.ExitStack() as stack:
        for number, each in enumerate(tried):
            worker = worker_of(each, log.with_suffix(f".{number}.log"))
            stack.callback(worker.stop)
            try:
                open_cell(worker, each, timeout=timeout + 2 * case.tune_budget)
                worker.pause()
                alive[each] = worker
            except WorkerFailure as failure:  # such as a module that calls `view` on a channels-last tensor
                failed = failure
        for number in range(ROUNDS):
            for each in list(alive)[:: 1 - 2 * (number % 2)]:
                try:
                    medians[each].append(_block(alive[each], timeout))
                except WorkerFailure as failure:
                    failed = failure
                    del alive[each]
    if not alive:
        raise failed
    step_s = {each: statistics.median(medians[each]) for each in alive}
    return {
        "medians": [[each.runtime, each.layout, step_s.get(each)] for each in tried],
        "seconds": time.monotonic() - start,
    }


def _block(worker: Worker, timeout: float) -> float:
    """The median step of one turn."""
    worker.resume()
    samples: list[float] = worker.call("block", timeout, seconds=BLOCK, limit=STEPS, seed=0)["samples"]
    worker.pause()
    return statistics.median(samples)


def as_opened(case: Case, artifact: Artifact, record: Mapping[str, Any]) -> Case:
    """The case as it was opened by its record; as it would be opened if the record does not say."""
    first = settings(case, artifact)[0]
    options = (record["tuning"] or {}).get("chosen")
    word = _with(case.runtime, options or "") if options is not None or case.tune == "max" else first.runtime
    return dataclasses.replace(case, runtime=word, layout=(record["layout"] or {}).get("chosen") or first.layout)


def _choice(case: Case, opened: Case, medians: Sequence[Median], seconds: float | None) -> dict[str, Any]:
    """The fields `layout` and `tuning` of a record, and in `notes` what is shown next to the runtime's name."""
    fields: dict[str, Any] = {"layout": None, "tuning": None, "notes": []}
    layouts = _fastest((layout, median) for _, layout, median in medians)
    if len(layouts) > 1:
        fields["layout"] = {"chosen": opened.layout, "median_s": layouts}
        fields["notes"].append(opened.layout)
    if case.tune != "default":
        tried = _fastest((_option(case, word), median) for word, _, median in medians)
        option = _option(case, opened.runtime)
        fields["tuning"] = {"chosen": option, "tried": tried, "seconds": seconds}
        fields["notes"].append(option or ("as it is" if tried else f"has nothing for --tune {case.tune}"))
    elif option := _option(case, opened.runtime):
        fields["notes"].append(option)
    return fields


def _option(case: Case, word: str) -> str:
    """The option that was added to the runtime's word."""
    return word.removeprefix(case.runtime).lstrip(":,")


def _fastest(named: Iterable[tuple[str, float | None]]) -> dict[str, float | None]:
    """The lowest median by name; None if none of that name could be opened."""
    fastest: dict[str, float | None] = {}
    for name, median in named:
        best = fastest.setdefault(name, median)
        if best is None or (median is not None and median < best):
            fastest[name] = median
    return fastest


def _key(case: Case) -> str:
    """The key of a choice: what it depends on besides the model."""
    row = row_of(case.runtime)
    return digest(asdict(case) | {"model": None}, version(row, case.runtime), machine.processor(case.device))
