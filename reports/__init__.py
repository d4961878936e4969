"""Reports: the records of a store as rows, and how a row is printed. Imports no framework.

A row is one cell in machine-readable form (docs/results.md, "Rows"). `formats` writes rows as JSON, CSV and Markdown,
`table` for the terminal, `cost` the tables of the whole cost and of the roofline,
which `roofs` draws.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from xbench.case import MODES, Case
from xbench.host.machine import label
from xbench.stats.ratio import paired_ratio
from xbench.stats.roofline import attainable
from xbench.store.record import NOTHING, Record, by_name, known

Row = dict[str, Any]
Cell = tuple[str, Case]  # the machine in words, and the case measured on it

COLUMNS = (
    *("model", "runtime", "mode", "batch", "device", "threads", "machine", "status", "class", "autodiff"),
    *("median_s", "low_s", "high_s", "converged", "ratio", "ratio_low", "ratio_high", "paired", "samples_per_s"),
    *(
        "compile_s",
        "load_s",
        "first_s",
        "anew_s",
        "precision",
        "layout",
        "plane",
        "tune",
        "tune_budget",
        "data",
        "note",
        "message",
        "time",
    ),
    *("convert_s", "peak_memory_bytes", "peak_memory_of", "device_memory_bytes", "energy_j"),
    *("artifact_bytes", "parameter_bytes", "flop", "bytes", "peak_flops", "bandwidth"),
    *("flops", "bytes_per_s", "intensity", "share_of_peak", "share_of_attainable", "bound_by"),
)
COUNTS = (
    *("convert_s", "peak_memory_bytes", "device_memory_bytes", "energy_j"),
    *("artifact_bytes", "parameter_bytes", "flop", "bytes", "peak_flops", "bandwidth"),
)  # numbers of a record's `cost`
SHARED = ["machine", *(f.name for f in dataclasses.fields(Case) if f.name in COLUMNS and f.name != "runtime")]
# the fields that the cells of a group share


def rows(records: Iterable[Record]) -> list[Row]:
    """Return one row per cell, from the last record of its case, group by group, the fastest of a group first."""
    return [row for row, _ in pairs(records)]


def pairs(records: Iterable[Record]) -> list[tuple[Row, Record]]:
    """Return the rows, each with its record.

    Cells of two machines are never in one group. Groups are in the order in which the store first has their models.
    Only a PASS with times is ranked; all other rows follow unranked, without time and ratio, whatever their record has.
    """
    cells = {(label(record.get("machine")), Case(**record["case"])): record for record in records}
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for machine, case in sorted(cells, key=_order(cells)):
        groups.setdefault((machine, *case.group), []).append((machine, case))
    return [pair for places in groups.values() for pair in _ranked([(place, cells[place]) for place in places])]


def is_ranked(row: Row) -> bool:
    """Return whether the row is ranked in its group."""
    return row["ratio"] is not None


def grouped(found: Iterable[Row]) -> list[list[Row]]:
    """Return the rows in groups of comparable ones."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in found:
        groups.setdefault(tuple(row[name] for name in SHARED), []).append(row)
    return list(groups.values())


def _order(cells: Iterable[Cell]) -> Any:
    """Return the sort key of cells: machines and models by first occurrence, then modes, then the rest."""
    machines: dict[str, int] = {}
    models: dict[str, int] = {}
    for machine, case in cells:
        machines.setdefault(machine, len(machines))
        models.setdefault(case.model, len(models))
    modes = {mode: place for place, mode in enumerate(MODES)}
    return lambda cell: (
        models[cell[1].model],
        modes.get(cell[1].mode, len(modes)),
        cell[1].batch,
        [str(value) for value in cell[1].group],
        machines[cell[0]],
        cell[1].runtime,
    )


def _ranked(cells: list[tuple[Cell, Record]]) -> list[tuple[Row, Record]]:
    """Return the rows of one group, ranked by their time over that of the fastest."""
    passed = [record for _, record in cells if _is_timed(record)]
    ratios: dict[int, Row] = {}
    if passed:
        fastest = min(passed, key=lambda record: known(record["times"])["median_s"])
        ratios = {id(record): _ratio(record, fastest) for record in passed}
        # Round by round another cell can be ahead of the one with the lowest median: then it is the fastest.
        ahead = min(passed, key=lambda record: float(ratios[id(record)]["ratio"]))
        if ratios[id(ahead)]["ratio"] < 1:
            ratios = {id(record): _ratio(record, ahead) for record in passed}
    ranked = [(_row(place, record, ratios.get(id(record), {})), record) for place, record in cells]
    return sorted(ranked, key=lambda pair: (not is_ranked(pair[0]), pair[0]["ratio"] or 0.0))


def _is_timed(record: Record) -> bool:
    """Return whether the record may be ranked: its parity passed and it has a time."""
    return record["status"] == "PASS" and bool((record.get("times") or NOTHING).get("median_s"))


def _ratio(record: Record, fastest: Record) -> Row:
    """Return the ratio columns of a record; the seed is fixed so that the same store prints the same report."""
    if record is fastest:
        return {"ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0, "paired": True}
    times, reference = known(record["times"]), known(fastest["times"])
    if not times.get("blocks") or not reference.get("blocks"):
        return {"ratio": times["median_s"] / reference["median_s"], "paired": False}
    same = record.get("session") is not None and record.get("session") == fastest.get("session")
    result = paired_ratio(times["blocks"], reference["blocks"], np.random.default_rng(0), same_session=same)
    return dict(zip(("ratio", "ratio_low", "ratio_high", "paired"), result, strict=True))


def _row(cell: Cell, record: Record, ratio: Row) -> Row:
    """Return the row of one cell, every column present."""
    machine, case = cell
    row: Row = dict.fromkeys(COLUMNS) | {"machine": machine}
    row |= {name: value for name, value in dataclasses.asdict(case).items() if name in row}
    row |= {name: record.get(name) for name in ("status", "autodiff", "note", "message", "time")}
    word = (record.get("parity") or NOTHING).get("class")
    row["class"] = word if isinstance(word, str) else None
    if _is_timed(record):
        times = known(record["times"])
        names = ("median_s", "low_s", "high_s", "converged", "compile_s", "load_s", "first_s", "anew_s")
        row |= {name: by_name(times).get(name) for name in names}
        row["samples_per_s"] = case.batch / times["median_s"]
        row |= _cost(record.get("cost") or NOTHING, times["median_s"])
    return row | ratio


def _cost(counted: Mapping[str, Any], median: float) -> Row:
    """Return the cost columns of a step that takes `median` seconds: the counts, and from them the place under the
    roofline; only positive numbers are valid, as no step is free of energy or work."""
    row: Row = {name: counted.get(name) if _is_positive(counted.get(name)) else None for name in COUNTS}
    row["peak_memory_of"] = counted.get("peak_memory_of") if row["peak_memory_bytes"] else None
    flop, moved, peak, bandwidth = (row[name] for name in ("flop", "bytes", "peak_flops", "bandwidth"))
    row["flops"] = flop / median if flop else None
    row["bytes_per_s"] = moved / median if moved else None
    row["share_of_peak"] = row["flops"] / peak if flop and peak else None
    if flop and moved:
        row["intensity"] = flop / moved
        if peak and bandwidth:
            limit, row["bound_by"] = attainable(row["intensity"], peak, bandwidth)
            row["share_of_attainable"] = row["flops"] / limit
    return row


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
