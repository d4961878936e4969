"""The format of records (docs/results.md): validation, and migration of older records to the current one."""

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from xbench.case import Case
from xbench.store.fits import misfit
from xbench.store.record import Record

VERSION = 6
Plain = dict[str, Any]  # a record of an older format
FAILED = ("FAIL", "UNVERIFIED", "OOM", "TIMEOUT", "CRASH")  # the statuses of a cell that cannot be used as it is

OBJECTS = ("times", "cost", "parity", "machine", "versions")
NUMBERS = ("median_s", "low_s", "high_s", "load_s", "compile_s", "first_s", "anew_s")  # of `times`, all seconds
TEXTS = ("message", "note", "autodiff", "session", "command", "time")


def problem(record: Any) -> str | None:
    """Return why plain data is not a record that this version understands, or None."""
    if not isinstance(record, dict):
        return "not an object"
    schema = record.get("schema")
    if not isinstance(schema, int) or schema < 1:
        return "no schema version"
    if schema > VERSION:
        return f"written by a newer xbench (schema {schema}, this one reads up to {VERSION}); upgrade xbench"
    if not isinstance(record.get("key"), str) or not isinstance(record.get("status"), str):
        return "no key or no status"
    return _wrong_case(record.get("case")) or _wrong_field(record) or _wrong_times(record.get("times") or {})


def unreadable(record: Any) -> str | None:
    """As `problem` for data that was read, whose current fields must have the right types too."""
    return problem(record) or (misfit(record, Record) if record["schema"] == VERSION else None)


def is_newer(record: Any) -> bool:
    """Whether plain data is a record of a format that this version does not know."""
    return isinstance(record, dict) and isinstance(record.get("schema"), int) and record["schema"] > VERSION


def migrated(record: Plain) -> Record:
    """Return the record in the current format; fields that its own lacks are null."""
    for step in STEPS[record["schema"] - 1 :]:
        record = step(record)
    return cast(Record, record | {"schema": VERSION})


def _wrong_case(data: Any) -> str | None:
    try:
        case = Case(**data)
        hash(case)
    except TypeError as error:
        return f"not a case: {error}"
    for name, usual in vars(Case("", "")).items():
        value = getattr(case, name)
        kinds = (int, float) if isinstance(usual, float) else type(usual)
        if not isinstance(value, kinds) or isinstance(value, bool):
            return f"not a case: {name} is {value!r}"
    return None


def _wrong_field(record: Mapping[str, Any]) -> str | None:
    for name in OBJECTS:
        if not isinstance(record.get(name), dict | None):
            return f"{name} is not an object"
    for name in TEXTS:
        if not isinstance(record.get(name), str | None):
            return f"{name} is not text"
    return None


def _wrong_times(times: Mapping[str, Any]) -> str | None:
    for name in NUMBERS:
        if not (times.get(name) is None or _is_time(times[name])):
            return f"times.{name} is no time: {times[name]!r}"
    for name in ("blocks", "repeated", "processes"):
        value = times.get(name)
        if not (value is None or (isinstance(value, list) and all(isinstance(each, dict) for each in value))):
            return f"times.{name} is no list of objects"
    for block in times.get("blocks") or ():
        samples = block.get("samples")
        if not isinstance(block.get("round"), int) or not isinstance(samples, list) or not _are_times(samples):
            return "times.blocks has a block without a round or with samples that are no times"
    return None


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _are_times(values: list[Any]) -> bool:
    """`_is_time` for all values, without a Python call for each: a store has millions."""
    try:
        kinds = {*map(type, values)}
        numbers = bool not in kinds and all(issubclass(kind, int | float) for kind in kinds)
        return numbers and all(map(math.isfinite, values)) and min(values, default=0) >= 0
    except OverflowError:  # an integer too large for a float
        return False


def _promised(record: Plain) -> Plain:
    """1 had no `contracts` and no `audit`."""
    return {"contracts": None, "audit": None} | record


def _by_process(record: Plain) -> Plain:
    """2 had one process per cell, whose warm-up was in `times`, and no disturbances of blocks."""
    record = {"cost": None} | record
    times = record.get("times")
    if not times:
        return record
    first = {name: times.get(name) for name in ("load_s", "compile_s", "first_s")}
    first |= {"warmup": times.get("warmup") or [], "steady_from": None}
    blocks = [{"process": 0, "lead": [], "health": {}, "disturbed": None} | each for each in times.get("blocks") or ()]
    kept = {name: value for name, value in times.items() if name != "warmup"}
    unknown = {"processes": [first], "repeated": [], "drift": None, "resemblance": None, "cpus": None}
    return record | {"times": unknown | kept | {"blocks": blocks}}


def _tuned(record: Plain) -> Plain:
    """3 had no `tune`: the case gets the default, as there was no other."""
    return {"tuning": None} | record


def _cold_start(record: Plain) -> Plain:
    """4 had neither the first call without kernels on disk nor the time of the proof."""
    times = record.get("times")
    if not times:
        return record
    unknown = {"anew_s": None, "proof_s": None}
    processes = [unknown | each for each in times.get("processes") or ()]
    return record | {"times": {"anew_s": None} | times | {"processes": processes}}


def _over_time(record: Plain) -> Plain:
    """5 had no usage of a training over its time."""
    training = record.get("training")
    return record | {"training": {"usage": []} | training} if isinstance(training, dict) else record


# From 1 to 2, from 2 to 3, ...
STEPS: tuple[Callable[[Plain], Plain], ...] = (_promised, _by_process, _tuned, _cold_start, _over_time)
