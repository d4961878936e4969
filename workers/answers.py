"""Schemas of the answers to a worker's jobs (`jobs/`), checked in the parent, where an answer arrives.

A worker runs foreign code, so an answer may be anything. An answer that does not match its schema is rejected, and its
cell fails; later code never meets a negative time or a text that a terminal would obey. An object may have
more fields than its schema. Jobs without a schema compute nothing of a runtime.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

DEEPEST = 64  # levels of nested objects and lists
LARGEST = 2**63  # of whole numbers
LONGEST = 1e9  # seconds
TEXT, NAME = 1000, 100_000  # characters: of a runtime's text, and of tensor names in a file

Test = Callable[[Any], bool]
Shape = Any  # a test, an object of shapes by name, or a list: of one shape each, of two: any of them


def nothing(value: Any) -> bool:
    return value is None


def flag(value: Any) -> bool:
    return isinstance(value, bool)


def number(value: Any) -> bool:
    """NaN and infinity, too: an error may be any of them."""
    return not isinstance(value, bool) and (isinstance(value, float) or (isinstance(value, int) and _is_near(value)))


def seconds(value: Any) -> bool:
    return number(value) and 0 <= value <= LONGEST


def amount(value: Any) -> bool:
    return number(value) and math.isfinite(value)


def count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST


def text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= TEXT and value.isprintable()


def string(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= NAME


def _is_near(value: int) -> bool:
    return -LARGEST <= value < LARGEST


class Maybe:
    """A shape, or null."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape


class Each:
    """A list of values of one shape; at least `least`."""

    def __init__(self, shape: Shape, least: int = 0) -> None:
        self.shape, self.least = shape, least


class Named:
    """An object with all values of one shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape


WORDS: Mapping[Any, str] = {
    nothing: "null",
    flag: "true or false",
    number: "a number",
    seconds: "a time in seconds",
    amount: "a number that is finite",
    count: "a whole number of 0 or more",
    text: "a short printable text",
    string: "a text",
}


def problem(shape: Shape, value: Any, place: str = "it") -> str | None:
    """Why a value does not match a shape, in words; None if it does."""
    if isinstance(shape, Maybe):
        return None if value is None else problem(shape.shape, value, place)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{place} is no object"
        parts = ((each, value.get(name), name) for name, each in shape.items())
    elif isinstance(shape, Each):
        if not isinstance(value, list) or len(value) < shape.least:
            return f"{place} is no list{f' of {shape.least} or more' if shape.least else ''}"
        parts = ((shape.shape, item, place) for item in value)
    elif isinstance(shape, Named):
        if not isinstance(value, dict) or not all(map(text, value)):
            return f"{place} is no object with printable names"
        parts = ((shape.shape, item, f"{place} of {name}") for name, item in value.items())
    else:
        return None if shape(value) else f"{place} is not {WORDS[shape]}"
    return next((wrong for part in parts if (wrong := problem(*part))), None)


def too_deep(value: Any, left: int = DEEPEST) -> bool:
    """Whether objects and lists are nested deeper than later code can handle."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left == 0 or any(too_deep(item, left - 1) for item in items if isinstance(item, dict | list))


TIMES = {"load_s": seconds, "compile_s": Maybe(seconds), "first_s": seconds}
VERDICT = {
    "status": text,
    "class": text,
    "worst_tensor": Maybe(string),
    "ratio": Maybe(number),
    "tensors": count,
    "rel_l2": Maybe(number),
    "message": Maybe(string),
    "first_wrong": Maybe(string),
    "steps": count,
}
HEALTH = {"wall_s": seconds, "steal": Maybe(amount), "others": Maybe(amount), "waited": Maybe(amount)}
SAMPLES = Each(seconds, least=1)
AUDIT: dict[str, Shape] = {name: SAMPLES for name in ("put_s", "repeated_s", "copied_s", "fetch_s", "refetch_s")}
AUDIT |= {"fresh_s": Each(seconds), "placed": Maybe(Named(count)), "same": Maybe(number), "stale": Maybe(flag)}
AUDIT |= {name: count for name in ("put_bytes", "put_arrays", "fetched_bytes", "fetched_arrays", "open_cpus")}
AUDIT |= {"cpus": amount, "idle_cpus": amount, "gpu_open": flag, "proof_s": seconds}
AUDIT |= {"most_cpus": amount, "varies": Maybe(flag), "transfer_s": Named(Each(seconds))}
AUDIT |= {"threads_at_once": Maybe(amount), "busy_threads": Maybe(count)}
PACE = {"steps": count, "told_s": number, "shortest_s": number, "span_s": Maybe(number), "unseen_s": amount}
BLOCK = {"samples": SAMPLES, "lead": Each(seconds), "cpu_s": amount, "wall_s": seconds, "health": HEALTH, "pace": PACE}
BLOCK |= {"fetch_s": Each(seconds), "judged": count, "unseen": Maybe(count)}
OPERATORS = Maybe(Named(count))
VERSIONS = {"versions": Named(text)}

ANSWERS: Mapping[str, Shape] = {
    "answer": Maybe(string),
    "convertible": VERSIONS,
    "open_cell": {"times": TIMES, "recalled": flag, "tuned": Maybe(text), **VERSIONS},
    "check": VERDICT,
    "check_more": VERDICT,
    "certify": {"parameters": Each({"name": string}), "equal": Maybe(flag), "different": Each(string)},
    "save": {"files": Each(text), **VERSIONS},
    "arm": nothing,
    "warm": Each(seconds),
    "pace": PACE | {"left_s": seconds, "missing": Maybe(amount), "here": Maybe(amount)},
    "block": BLOCK,
    "state": {"steps": Maybe(count), "segment": Maybe(count), "index": Maybe(count)},
    "audit": AUDIT,
    "respond": {"forward_s": seconds},
    "load": {"latencies": SAMPLES, "done_s": seconds, "cpus": amount, "flooded": flag},
    "cost": {"peak_memory_bytes": Maybe(count), "device_memory_bytes": Maybe(count), "energy_j": Maybe(amount)},
    "iterate": {name: SAMPLES for name in ("io", "h2d", "compute", "whole")},
    "timed_layers": {
        "layers": Each({"name": text, "operator": text, "median_s": seconds}),
        "whole_s": seconds,
        "passes": count,
    },
    "open_training": VERSIONS,
    "train": {"losses": Each(number, least=1), "seconds": seconds},
    "judge_training": VERDICT,
    "begin_again": nothing,
    "count_right": {"right": count, "seen": count, "next": count},
    "answer_samples": count,
    "form_bytes": Maybe(count),
    "narrow_nodes": Each(Each(string, least=2)),
    "node_errors": Each(number, least=1),
    "join_workers": VERSIONS,
    "work_together": {"losses": Each(number)},
    "take_shard": {"messages": Each(count), "early": flag},
    "time_act": {"begins": SAMPLES, "ends": SAMPLES, "digest": Maybe(text)},
    "time_exchange": SAMPLES,
}
