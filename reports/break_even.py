"""Break-even: after how many calls a runtime that starts slowly overtakes one that starts fast.

The time until call n is done is a line: the start-up (loading, compiling and the first call, with nothing on disk),
plus a median step for each later call. Two lines cross once.
"""

import math
from collections.abc import Mapping, Sequence

from xbench.converters.printable import visible
from xbench.reports import Row, is_ranked
from xbench.reports.formats import label
from xbench.stats.quantities import number

NEVER = math.inf


def start_up(row: Row) -> float | None:
    """Return the seconds until the first call is done, with nothing on disk; None if that was not measured."""
    first = row["anew_s"] if row["anew_s"] is not None else row["first_s"]
    if not is_ranked(row) or first is None or row["load_s"] is None:
        return None
    return float(row["load_s"] + (row["compile_s"] or 0.0) + first)


def total(row: Row, calls: float) -> float:
    """Return the seconds until `calls` calls are done, for a row whose start-up is known."""
    return (start_up(row) or 0.0) + (calls - 1) * float(row["median_s"])


def break_even(row: Row, other: Row) -> float | None:
    """Return the number of the first call that `row` finishes before `other`: 1 if it is ahead from the start, infinity
    if it never is, None if either's start-up is unknown."""
    start, other_start = start_up(row), start_up(other)
    if start is None or other_start is None:
        return None
    if start < other_start:
        return 1
    won = other["median_s"] - row["median_s"]
    return math.floor((start - other_start) / won) + 2 if won > 0 else NEVER


def tuned(tuning: float, default: float, searched: float) -> float | None:
    """Return after how many steps a search of `tuning` seconds pays off, which changed a step from `default` to
    `searched` seconds; infinity if it gained nothing."""
    return math.ceil(tuning / (default - searched)) if default > searched else NEVER


def leaders(rows: Sequence[Row]) -> list[tuple[Row, int]]:
    """Return the leading rows over time, each with the first call from which it is ahead: the lower envelope of the
    lines, in the order of calls."""
    open_ = [row for row in rows if start_up(row) is not None]
    if not open_:
        return []
    ahead = min(open_, key=lambda row: (start_up(row) or 0.0, row["median_s"]))
    leading = [(ahead, 1)]
    while True:
        calls = {id(row): break_even(row, ahead) or NEVER for row in open_ if row["median_s"] < ahead["median_s"]}
        later = [row for row in open_ if id(row) in calls and calls[id(row)] < NEVER]
        if not later:
            return leading
        ahead = min(later, key=lambda row: (calls[id(row)], row["median_s"]))
        leading.append((ahead, int(calls[id(ahead)])))


def sentence(rows: Sequence[Row]) -> str:
    """Return the leaders in words: `torch first; onnxruntime from call 120; openvino from call 3,400`."""
    (first, _), *rest = leaders(rows) or [({}, 1)]
    if not first:
        return "the start was not measured"
    if not rest:
        return f"{visible(label(first))} from the first call on"
    later = [f"{visible(label(row))} from call {calls:,}" for row, calls in rest]
    return "; ".join([f"{visible(label(first))} first", *later])


def ahead_from(row: Row, rows: Sequence[Row]) -> str:
    """Return, for a table, from which call on the row is ahead of its group's fastest start."""
    open_ = [each for each in rows if start_up(each) is not None]
    if not open_ or start_up(row) is None:
        return ""
    soonest = min(open_, key=lambda each: (start_up(each) or 0.0, each["median_s"]))
    if row is soonest:
        return "starts first"
    calls = break_even(row, soonest)
    return "never" if calls in (None, NEVER) else f"{int(calls or 0):,}"


def tuning_rows(found: Sequence[tuple[Row, Mapping[str, object]]]) -> list[tuple[Row, float, Row, float]]:
    """Return the tuned rows, each with the seconds of the search, the row of the same cell with default settings, and
    the number of steps after which the search pays off."""
    default = {_untuned(row): row for row, _ in found if row["tune"] == "default" and row["median_s"]}
    made = []
    for row, record in found:
        tuning = record.get("tuning")
        other = default.get(_untuned(row))
        if row["tune"] != "max" or not row["median_s"] or other is None or not isinstance(tuning, dict):
            continue
        taken = tuning.get("seconds")
        if isinstance(taken, int | float):
            steps = tuned(taken, other["median_s"], row["median_s"])
            made.append((row, float(taken), other, NEVER if steps is None else steps))
    return made


def _untuned(row: Row) -> tuple[object, ...]:
    names = ("model", "runtime", "mode", "batch", "device", "threads", "precision", "layout", "plane", "data")
    return (*(row[name] for name in names), row.get("machine"))


def steps(value: float) -> str:
    """Return a number of calls for a table."""
    return "never" if value == NEVER else f"{value:,.0f}" if value < 1e6 else f"{number(value / 1e6)} million"
