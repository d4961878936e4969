"""The numbers for pictures and filters, in compact form: ten thousand cells must fit in the page with their tables."""

from collections.abc import Iterable, Sequence
from typing import Any

from xbench.converters.printable import command, visible
from xbench.reports import Row
from xbench.reports.break_even import start_up
from xbench.reports.curves import over_time, thinned
from xbench.reports.distribution import distribution
from xbench.reports.formats import conditions, label
from xbench.reports.html.content import Content
from xbench.reports.html.plots import specs
from xbench.reports.study import PHASES
from xbench.reports.sweeps import AXES
from xbench.store.record import NOTHING, Record, by_name

# The fields of a timed cell as `report.js` names them; times in µs, memory in MiB. An untimed cell is its runtime only.
FIELDS = ("t", "median", "ratio", "low", "high", "q5", "q25", "q75", "q95", "n", "start", "memory", "rate", "intensity")
STACKED = ("t_io", "t_h2d", "t_f", "t_b", "t_u", "other")


class Words:
    """Words by number, in order of occurrence."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.numbers: dict[str, int] = {}
        for word in words:
            self(word)

    def __call__(self, word: str) -> int:
        return self.numbers.setdefault(word, len(self.numbers))

    @property
    def list(self) -> list[str]:
        return list(self.numbers)


class Index:
    """The numbers by which networks, modes, devices, machines and runtimes are filtered, here and in the tables."""

    def __init__(self, content: Content) -> None:
        self.models, self.modes, self.devices, self.machines, self.runtimes = (Words() for _ in range(5))
        for row in content.rows:
            self.of(row)
            self.runtimes(visible(label(row)))
        for record in (each for some in content.files.values() for each in some):
            self.models(visible(record["case"]["model"]))
            self.runtimes(named(record))

    def of(self, row: Row) -> tuple[int, int, int, int]:
        """The numbers of a row's model, mode, device and machine."""
        return (
            self.models(visible(row["model"])),
            self.modes(visible(row["mode"])),
            self.devices(visible(row["device"])),
            self.machines(visible(row.get("machine") or "")),
        )


def values(content: Content, index: Index) -> dict[str, Any]:
    """Return everything that `report.js` reads."""
    runtimes = index.runtimes.list
    data: dict[str, Any] = {
        "fields": FIELDS,
        "groups": [_group(content, index, each.rows[0], each.first, len(each.rows)) for each in content.groups],
        "cells": [_cell(row, record, index) for row, record in content.pairs],
        "roofs": _roofs(content.rows),
        **{axis: _sweeps(content, index, axis) for axis in AXES},
        "proofs": _proofs(content),
    }
    data |= {name: make(content.files.get(name, ())) for name, make in DRAWN.items()}
    names = ("models", "modes", "devices", "machines", "runtimes")
    return data | {name: getattr(index, name).list for name in names} | {"specs": specs(runtimes)}


def _round(value: float | None, scale: float = 1.0) -> float | None:
    """Four digits, as an integer if that is shorter."""
    if value is None:
        return None
    rounded = float(f"{value * scale:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def _group(content: Content, index: Index, row: Row, first: int, number: int) -> list[Any]:
    where = [row["batch"], conditions(row, content.several)]
    return [*index.of(row), *where, first, number]


def _cell(row: Row, record: Record, index: Index) -> list[Any]:
    runtime = index.runtimes(visible(label(row)))
    if row["median_s"] is None:
        return [runtime]
    quantiles = distribution(record.get("times"))
    box = (quantiles.low, quantiles.quarter, quantiles.three_quarters, quantiles.high) if quantiles else (None,) * 4
    times = [_round(value, 1e6) for value in box]
    ratios = [_round(row[name]) for name in ("ratio", "ratio_low", "ratio_high")]
    start, memory, rate = start_up(row), row["peak_memory_bytes"], row["flops"]
    rest = [_round(start, 1e6), _round(memory, 2**-20), _round(rate, 1e-9), _round(row["intensity"])]
    return [runtime, _round(row["median_s"], 1e6), *ratios, *times, quantiles.samples if quantiles else 0, *rest]


def _roofs(rows: Sequence[Row]) -> list[list[float]]:
    """The peaks in GFLOP/s and GB/s that cells are compared with."""
    peaks = {(row["peak_flops"], row["bandwidth"]) for row in rows if row["share_of_attainable"] is not None}
    return [[peak / 1e9, bandwidth / 1e9] for peak, bandwidth in sorted(peaks)]


def _sweeps(content: Content, index: Index, axis: str) -> list[dict[str, Any]]:
    return [
        {
            "at": index.of(sweep.row),
            "title": content.sweep_title(sweep),
            "lines": [
                [index.runtimes(name), [[n, _round(value, 1e6)] for n, value in line.items()]]
                for name, line in sweep.lines.items()
            ],
        }
        for sweep in content.sweeps(axis)
    ]


def _proofs(content: Content) -> dict[str, dict[str, Any]]:
    """The details of each place of the parity matrix, by the number of its row; none if there are very many places."""
    proofs: dict[str, dict[str, Any]] = {}
    for place in () if content.has_many_places else content.places:
        row, record = content.pairs[place.row]
        parity = place.parity
        fields = {name: parity.get(name) for name in ("worst_tensor", "first_wrong", "tensors")}
        fields |= {"steps": parity.get("steps") or None}
        fields |= {name: _round(parity.get(name)) for name in ("ratio", "rel_l2")}
        fields |= {"seeds": [_round(each) for each in parity["seeds"]], "class": row["class"]}
        fields |= {"status": row["status"], "message": visible(row["message"] or "")}
        fields |= {"command": command(record.get("command"), ""), "cells": place.cells}
        proofs[str(place.row)] = {name: value for name, value in fields.items() if value not in (None, "", [])}
    return proofs


def named(record: Record) -> str:
    """The runtime of a record, named as in its row."""
    return visible(label({"runtime": record["case"]["runtime"], "note": record.get("note")}))


def _training(records: Sequence[Record]) -> list[dict[str, Any]]:
    trainings = []
    for record in records:
        training = record.get("training") or NOTHING
        if not training.get("losses"):
            continue
        curve = [[_round(step), _round(loss)] for step, loss in zip(*thinned(training["losses"])) if loss > 0]
        case = record["case"]
        words = f"{case['model']} on {str(case.get('data')).partition(':')[0]}, batch {case['batch']}"
        accuracy = [[epoch, _round(100 * each)] for epoch, each in enumerate(training["test_accuracy"], 1)]
        passed = "" if record["status"] == "PASS" else f": {record['status']}"
        memory, power = ([[_round(x), _round(y)] for x, y in zip(*each)] for each in over_time(training["usage"]))
        fields: dict[str, Any] = {"title": visible(words), "runtime": named(record), "status": passed}
        fields |= {"loss": curve, "accuracy": accuracy, "memory": memory, "power": power}
        trainings.append({**fields, "model": visible(case["model"])})
    return trainings


def _phases(records: Sequence[Record]) -> list[dict[str, Any]]:
    bars = []
    for record in records:
        if not (phases := record.get("phases")):
            continue
        case = record["case"]
        parts = [[PHASES[name], _round(by_name(phases)[name]["mean"], 1e3)] for name in STACKED]
        name = f"{case['model']}, batch {case['batch']}: {named(record)}"
        bars.append({"title": visible(name), "model": visible(case["model"]), "runtime": named(record), "parts": parts})
    return bars


def _scaling(records: Sequence[Record]) -> list[dict[str, Any]]:
    from xbench.reports import scaling

    return [
        {
            "title": scaling.title(row),
            "model": visible(row["model"]),
            "runtime": visible(label(row)),
            "workers": row["workers"],
            "speed": _round(row["speed_up"]["median"]),
        }
        for row in scaling.rows(records)
        if row["speed_up"]
    ]


def _widen(records: Sequence[Record]) -> list[dict[str, Any]]:
    from xbench.reports.quality import widening

    return [
        {
            "title": visible(widening.title(record)),
            "model": visible(record["case"]["model"]),
            "runtime": named(record),
            "points": [[n, *map(_round, values), visible(words)] for n, values, words in widening.drawn(record)],
        }
        for record in records
    ]


DRAWN = {"training": _training, "phases": _phases, "scaling": _scaling, "widen": _widen}
