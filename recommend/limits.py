"""Limits on a cell: what it may take at most, whether a record proves that, and how to relax a limit it misses.
Pure functions on records.

A limit is met only if that is certain: a percentile counts with the upper end of its 95 % interval, and an unknown
quantity meets no limit.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xbench.errors import XBenchError
from xbench.host.machine import label
from xbench.recommend import chance
from xbench.store.record import NOTHING, Record, known

MEMORY = "memory"
MB = 1e6  # bytes
SERVER = "server"
SAME = ("model", "runtime", "mode", "batch", "device", "threads", "precision", "layout", "tune", "tune_budget")


@dataclass(frozen=True)
class Limit:
    """An upper limit for a cell: `name` is `p99`, in seconds, or `memory`, in bytes."""

    name: str
    most: float

    @property
    def percent(self) -> float | None:
        return None if self.name == MEMORY else float(self.name[1:])

    def allows(self, value: float | None) -> bool:
        """Whether a value is known and within the limit; allows for rounding of the typed milliseconds."""
        return value is not None and value <= self.most * (1 + 1e-9)


@dataclass(frozen=True)
class Relaxation:
    """Limits, by name, that are wide enough for a cell, and the cell's label."""

    limits: dict[str, float]
    label: str


def latency_limit(word: str) -> Limit:
    """`p99=5`, or `5` for the median: milliseconds.

    Raises:
        XBenchError: the word is neither.
    """
    name, equals, number = word.rpartition("=")
    name = name.strip() if equals else "p50"
    try:
        percent, most = float(name.removeprefix("p")), float(number) / 1e3
    except ValueError:
        percent = most = math.nan
    if not (0 < percent < 100 and 0 < most < math.inf and name.startswith("p")):
        raise XBenchError(f"--max-latency-ms must be milliseconds such as 5, or p99=5 with a percentile, not {word!r}")
    return Limit(f"p{percent:g}", most)


def samples_of(record: Record) -> list[float]:
    """The seconds of each step, or of each query of a load."""
    if "load" in record:
        return list(record["load"].get("latencies") or ())
    return [value for block in known(record["times"]).get("blocks") or () for value in block["samples"]]


def at_most(record: Record, limit: Limit, timed: Iterable[Record] = ()) -> float | None:
    """The upper bound of a limited quantity, None if unknown: the upper end of a percentile's 95 % interval, the peak
    memory, for a server the bound that its rate was searched for. `timed` are the records of `xbench time`, which have
    the memory of loaded cells."""
    if limit.percent is None:
        return _memory(record, timed)
    if is_server(record):
        load = record["load"]
        return load.get("bound_s") if load.get("percentile") == limit.percent else None
    samples = samples_of(record)
    return chance.percentile_of(samples, limit.percent)[1] if samples else None


def over(record: Record, limit: Limit, known: float | None) -> str:
    """Why a cell does not meet a limit, given its upper bound `known`; empty if it does."""
    if limit.allows(known):
        return ""
    if limit.percent is None:
        if known is None:
            return "its memory is not known" + (": `xbench time` tells it" if "load" in record else "")
        return f"its memory is {known / MB:.4g} MB, over {limit.most / MB:.4g}"
    most = f"{limit.most * 1e3:.4g}"
    if is_server(record):
        load = record["load"]
        bound = f"p{load.get('percentile', 0):g} within {(load.get('bound_s') or 0) * 1e3:.4g} ms"
        return f"its rate is for {bound}, not {limit.name} within {most}"
    samples = samples_of(record)
    value = chance.percentile_of(samples, limit.percent)[0] if samples else 0.0
    if value > limit.most:
        return f"{limit.name} is {value * 1e3:.4g} ms, over {most}"
    if known is None:
        needed = chance.samples_needed(limit.percent)
        return f"only {len(samples)} samples: {limit.name} is not known (that takes {needed}); measure longer"
    return f"{limit.name} is {value * 1e3:.4g} ms, and may be {known * 1e3:.4g}, over {most}"


def worth_repeating(record: Record, limit: Limit, known: float | None) -> bool:
    """Whether measuring again would decide if a cell meets a limit that it is not known to meet."""
    if is_server(record):
        return limit.percent is not None and not limit.allows(known)
    if limit.percent is None:
        return known is None and "load" not in record
    samples = samples_of(record)
    return known is None and not (samples and chance.percentile_of(samples, limit.percent)[0] > limit.most)


def wrong_load(record: Record) -> str | None:
    """What makes the load of a record invalid, or None; the rest of a record is checked on reading."""
    load = record.get("load")
    if not isinstance(load, dict) or not isinstance(load.get("scenario"), str):
        return "no load with a scenario"
    for name in ("percentile", "bound_s", "queries_per_s", "samples_per_s", "samples_per_query"):
        if not (load.get(name) is None or _is_amount(load[name])):
            return f"load.{name} is no amount: {load[name]!r}"
    latencies = load.get("latencies")
    if not (latencies is None or (isinstance(latencies, list) and all(map(_is_amount, latencies)))):
        return "load.latencies is no list of times"
    return None


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def is_server(record: Record) -> bool:
    return (record.get("load") or NOTHING).get("scenario") == SERVER


def relaxations(
    excluded: Iterable[tuple[str, Mapping[str, float | None]]], limits: Sequence[Limit]
) -> list[Relaxation]:
    """The smallest relaxations that admit a cell: of each limit alone, if that is enough for one; else of several at
    once, none of which is wider than another in every limit. `excluded` are the cells that only limits exclude: label
    and upper bounds; a cell with an unknown bound is skipped."""
    wanted = []
    for label_, most in excluded:
        values = {limit.name: most.get(limit.name) for limit in limits}
        needs = {each.name: v for each in limits if (v := values[each.name]) is not None and not each.allows(v)}
        if needs and None not in values.values():
            wanted.append(Relaxation(needs, label_))
    alone = [each for each in wanted if len(each.limits) == 1]
    if alone:
        names = dict.fromkeys(name for each in alone for name in each.limits)
        return [min((e for e in alone if name in e.limits), key=lambda e: e.limits[name]) for name in names]
    kept: list[Relaxation] = []
    for each in wanted:
        if not any(_no_wider(other.limits, each.limits) for other in kept):
            kept = [other for other in kept if not _no_wider(each.limits, other.limits)] + [each]
    return kept


def _no_wider(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    return all(name in b and most <= b[name] for name, most in a.items())


def _memory(record: Record, timed: Iterable[Record]) -> float | None:
    """The peak memory of a cell; for a loaded cell that of the same cell when it was timed."""

    def same(other: Record) -> bool:
        alike = all(other["case"].get(name) == record["case"].get(name) for name in SAME)
        return alike and label(other.get("machine")) == label(record.get("machine"))

    if "load" in record:
        record = ([each for each in timed if same(each)] or [record])[-1]
    peak: Any = (record.get("cost") or NOTHING).get("peak_memory_bytes")
    return float(peak) if peak and _is_amount(peak) else None
