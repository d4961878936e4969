"""The tables of a study in its own shape: a `Grid` each, today's runtimes as columns, published figures beside them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from xbench.bench.results import Record
from xbench.studies import Part, Quote

Value = dict[str, Any]  # status, value, low, high, std, converged, message
Column = dict[str, Value]  # by row

HERE = "this machine"
TOP = 10  # layers shown
PHASES = {
    "t_io": "read a batch",
    "t_h2d": "put it on the device",
    "t_f": "forward",
    "t_b": "backward, loss",
    "t_u": "update",
    "t_iter": "the whole iteration, measured",
    "other": "what the phases leave of it",
}


@dataclass(frozen=True)
class Grid:
    """One table. `rows` name what `corner` says; `ours` holds a column of values for each runtime, `theirs` the
    published ones by tool. Values are in `unit`: s, or nothing. `quotes` say where the published ones are from. `axis`
    is what a picture of it is drawn by, if there is one (`plots`)."""

    part: str
    title: str
    corner: str
    rows: tuple[str, ...]
    ours: dict[str, Column]
    theirs: dict[str, dict[str, float]] = field(default_factory=dict)
    unit: str = "s"
    quotes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    axis: str = ""

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def grids_of(part: Part, records: Sequence[Record]) -> list[Grid]:
    """The tables of a part, of the records of its cells."""
    return SHAPES[part.kind](part, records) if records else []


def _value(record: Record, scale: float = 1.0) -> Value:
    """The time of a cell; none beside anything but a proof."""
    times = record["times"] if record["status"] == "PASS" else None
    told = {"status": record["status"], "message": record["message"]}
    if not times:
        return told | {"value": None}
    names = {"value": "median_s", "low": "low_s", "high": "high_s"}
    bounds = {name: None if times[of] is None else times[of] * scale for name, of in names.items()}
    return told | bounds | {"converged": times["converged"]}


def _columns(records: Iterable[Record], row: Callable[[Record], str], scale: float = 1.0) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for record in records:
        found.setdefault(_label(record), {})[row(record)] = _value(record, scale)
    return found


def _label(record: Record) -> str:
    """A runtime's name; what its makers' default is called, where it has a name."""
    return f"{record['case']['runtime']} ({record['note']})" if record["note"] else str(record["case"]["runtime"])


def _rows(*names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for some in names for name in some))


def _quoted(quotes: Iterable[Quote]) -> dict[str, Any]:
    """The published columns, and the lines that say where they are from."""
    theirs: dict[str, dict[str, float]] = {}
    for quote in quotes:
        for row, tools in quote.rows.items():
            for tool, value in tools.items():
                theirs.setdefault(tool, {})[row] = value
    lines = _rows(f"{', '.join(_rows(*quote.rows.values()))}: {quote.about}; {quote.source}" for quote in quotes)
    return {"theirs": theirs, "quotes": lines}


def _times(part: Part, records: Sequence[Record]) -> list[Grid]:
    """A row a network, mode and batch; sums of others below."""
    ours = _columns(records, _cell)
    for name, parts in part.sums.items():
        for column in ours.values():
            column[name] = _sum([column.get(each) for each in parts])
    rows = _rows(map(_cell, records), part.sums, *(quote.rows for quote in part.quotes))
    return [Grid(part.name, part.title, "", rows, ours, **_quoted(part.quotes), notes=part.notes)]


def _cell(record: Record) -> str:
    case = record["case"]
    return f"{case['model']} {case['mode']}, batch {case['batch']}"


def _sum(values: Sequence[Value | None]) -> Value:
    """The sum of cells that all have a time, with the sum of how far their intervals reach."""
    bad = [each for each in values if not each or each["value"] is None]
    if bad:
        return {"status": (bad[0] or {}).get("status", ""), "value": None, "message": None}
    given = [each for each in values if each]
    return {name: sum(each[name] or each["value"] for each in given) for name in ("value", "low", "high")} | {
        "status": "PASS",
        "message": None,
        "converged": all(each["converged"] for each in given),
    }


def _tools(part: Part, records: Sequence[Record]) -> list[Grid]:
    """A row a runtime or published tool, a column a machine: what so many samples would take at the rate of a step."""
    case = records[0]["case"]
    scale = part.samples[case["model"]] / case["batch"]
    here = f"{HERE}, batch {case['batch']}"
    ours = {here: {_label(record): _value(record, scale) for record in records}}
    theirs: dict[str, dict[str, float]] = {}
    for quote in part.quotes:
        for card, tools in quote.rows.items():
            theirs.setdefault(card, {}).update({f"{tool} (published)": value for tool, value in tools.items()})
    rows = _rows(ours[here], *theirs.values())
    lines = _rows(f"{quote.about}; {quote.source}" for quote in part.quotes)
    return [Grid(part.name, part.title, "", rows, ours, theirs, quotes=lines, notes=part.notes)]


def _swept(part: Part, records: Sequence[Record]) -> list[Grid]:
    """A table a network and mode, a row a number of threads, or a batch size."""
    name = {"threads": "threads", "batches": "batch"}[part.kind]
    other = {"threads": "batch", "batches": "threads"}[part.kind]
    tables: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        tables.setdefault((record["case"]["model"], record["case"]["mode"]), []).append(record)
    found = []
    for (model, mode), own in tables.items():
        quotes = [q for q in part.quotes if q.network == model and q.mode in ("", mode)]
        rows = _rows((str(record["case"][name]) for record in own), *(quote.rows for quote in quotes))
        title = f"{model} {mode}, {other} {own[0]['case'][other]}"
        ours = _columns(own, lambda record: str(record["case"][name]))
        found.append(
            Grid(part.name, f"{part.title}: {title}", name, rows, ours, **_quoted(quotes), notes=part.notes, axis=name)
        )
    return found


def _phases(part: Part, records: Sequence[Record]) -> list[Grid]:
    """A table a network, a row a phase."""
    tables: dict[str, list[Record]] = {}
    for record in records:
        tables.setdefault(record["case"]["model"], []).append(record)
    found = []
    for model, own in tables.items():
        quotes = [quote for quote in part.quotes if quote.network == model]
        ours = {_label(record): _phase_column(record) for record in own}
        title = f"{part.title}: {model}, batch {own[0]['case']['batch']}"
        told = _quoted(quotes)
        found.append(Grid(part.name, title, "phase", tuple(PHASES), ours, **told, notes=part.notes, axis="phases"))
    return found


def _phase_column(record: Record) -> Column:
    told = {"status": record["status"], "message": record["message"]}
    if not record["phases"]:
        return {row: told | {"value": None} for row in PHASES}
    return {row: told | {"value": record["phases"][row]["mean"], "std": record["phases"][row]["std"]} for row in PHASES}


def _training(part: Part, records: Sequence[Record]) -> list[Grid]:
    """A table a network, a row an epoch's loss or accuracy, and the seconds of an epoch."""
    tables: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        tables.setdefault((record["case"]["model"], record["case"]["data"]), []).append(record)
    found = []
    for (model, data), own in tables.items():
        ours = {_label(record): _training_column(record) for record in own}
        title = f"{part.title}: {model} on {data.partition(':')[0]}, batch {own[0]['case']['batch']}"
        rows = _rows(*ours.values())
        found.append(Grid(part.name, title, "", rows, ours, unit="", notes=part.notes, axis="training"))
    return found


def _training_column(record: Record) -> Column:
    told = {"status": record["status"], "message": record["message"]}
    found = record["training"]
    steps = found["train_samples"] // found["batch"]
    column: Column = {}
    for epoch, accuracy in enumerate(found["test_accuracy"]):
        losses = found["losses"][epoch * steps : (epoch + 1) * steps]
        column[f"loss, epoch {epoch + 1}"] = told | {"value": sum(losses) / len(losses)}
        column[f"test accuracy, %, epoch {epoch + 1}"] = told | {"value": 100 * accuracy}
    column["seconds an epoch"] = told | {"value": sorted(found["epoch_s"])[len(found["epoch_s"]) // 2]}
    return column if found["losses"] else {"seconds an epoch": told | {"value": None}}


def _layers(part: Part, records: Sequence[Record]) -> list[Grid]:
    """A table a network and runtime, a row a layer, the longest first; then what the others take, and what is left."""
    return [_layers_of(part, record) for record in records]


def _layers_of(part: Part, record: Record) -> Grid:
    case, told = record["case"], {"status": record["status"], "message": record["message"]}
    title = f"{part.title}: {case['model']}, batch {case['batch']}, {_label(record)}"
    if not record["profile"]:
        return Grid(part.name, title, "layer", ("whole",), {_label(record): {"whole": told | {"value": None}}})
    layers = sorted(record["profile"]["layers"], key=lambda layer: -layer["median_s"])
    top, whole = int(part.settings.get("top", TOP)), record["profile"]["whole_s"]
    rows = {f"{layer['name']} ({layer['operator']})": layer["median_s"] for layer in layers[:top]}
    rest, total = layers[top:], sum(layer["median_s"] for layer in layers)
    rows |= {f"{len(rest)} others": sum(layer["median_s"] for layer in rest)} if rest else {}
    rows |= {"outside of layers": whole - total, "whole": whole}
    column = {row: told | {"value": value} for row, value in rows.items()}
    share = {row: told | {"value": 100 * value / whole, "unit": "%"} for row, value in rows.items()}
    return Grid(part.name, title, "layer", tuple(rows), {"median": column, "share": share}, notes=part.notes)


def _costs(part: Part, records: Sequence[Record]) -> list[Grid]:
    """A row a cell and what it costs besides time: the peak of its host memory, and the joules of a step."""
    ours: dict[str, Column] = {}
    for record in records:
        cost, told = record["cost"] or {}, {"status": record["status"], "message": record["message"]}
        column = ours.setdefault(_label(record), {})
        memory, joules = cost.get("peak_memory_bytes"), cost.get("energy_j")
        passed = record["status"] == "PASS"
        column[f"{_cell(record)}: memory, MiB"] = told | {"value": memory / 2**20 if memory and passed else None}
        column[f"{_cell(record)}: energy of a step, J"] = told | {"value": joules if passed else None}
    rows = [row for row in _rows(*ours.values()) if any(column.get(row, {}).get("value") for column in ours.values())]
    return [Grid(part.name, part.title, "", tuple(rows), ours, unit="", notes=part.notes)]


SHAPES = {
    "times": _times,
    "tools": _tools,
    "threads": _swept,
    "batches": _swept,
    "costs": _costs,
    "phases": _phases,
    "layers": _layers,
    "training": _training,
}
