"""The tables of a study in its own shape, each a `Grid`: current runtimes as columns, next to published figures."""

from collections.abc import Callable, Sequence
from statistics import fmean

from xbench.host import usage
from xbench.reports import scaling
from xbench.reports.curves import losses_of
from xbench.reports.grid import Column, Grid, Listing, Value, columns, label_of, quoted, united, value_of
from xbench.store.record import NOTHING, Record, by_name
from xbench.studies import COMMUNICATION, Part

HERE = "this machine"
ONLY = "published only: not measured at this scale"
TOP = 10  # layers shown
PHASES = {
    "t_io": "read a batch",
    "t_h2d": "put it on the device",
    "t_f": "forward",
    "t_b": "backward, loss",
    "t_u": "update",
    "t_step": "a step on data that is there already",
    "t_iter": "the whole iteration, measured",
    "other": "what the phases leave of it",
}


Shape = Callable[[Part, Sequence[Record]], Sequence[Grid | Listing]]


def grids_of(part: Part, records: Sequence[Record]) -> Sequence[Grid | Listing]:
    """The tables of a part, from the records of its cells."""
    return SHAPES[part.kind](part, records) if records else []


def _times(part: Part, records: Sequence[Record]) -> list[Grid]:
    """One row per network, mode and batch; sums of others below."""
    measured = columns(records, _cell)
    for name, parts in part.sums.items():
        for column in measured.values():
            column[name] = _sum([column.get(each) for each in parts])
    rows = united(map(_cell, records), part.sums, *(quote.rows for quote in part.quotes))
    return [Grid(part.name, part.title, "", rows, measured, **quoted(part.quotes), notes=part.notes)]


def _cell(record: Record) -> str:
    case = record["case"]
    return f"{case['model']} {case['mode']}, batch {case['batch']}"


def _sum(values: Sequence[Value | None]) -> Value:
    """The sum of cells that all have a time, with the sums of their interval bounds."""
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
    """One row per runtime or published tool, one column per machine: the time of `part.samples` at a step's rate."""
    case = records[0]["case"]
    scale = part.samples[case["model"]] / case["batch"]
    here = f"{HERE}, batch {case['batch']}"
    measured = {here: {label_of(record): value_of(record, scale) for record in records}}
    published: dict[str, dict[str, float]] = {}
    for quote in part.quotes:
        for card, tools in quote.rows.items():
            published.setdefault(card, {}).update({f"{tool} (published)": value for tool, value in tools.items()})
    rows = united(measured[here], *published.values())
    lines = united(f"{quote.about}; {quote.source}" for quote in part.quotes)
    return [Grid(part.name, part.title, "", rows, measured, published, quotes=lines, notes=part.notes)]


def _swept(part: Part, records: Sequence[Record]) -> list[Grid]:
    """One table per network and mode, one row per number of threads or batch size; also those only published."""
    name = {"threads": "threads", "batches": "batch"}[part.kind]
    other = {"threads": "batch", "batches": "threads"}[part.kind]
    tables: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        tables.setdefault((record["case"]["model"], record["case"]["mode"]), []).append(record)
    for quote in part.quotes:
        if not any(model == quote.network and quote.mode in ("", mode) for model, mode in tables):
            tables[quote.network, quote.mode] = []
    grids = []
    for (model, mode), own in tables.items():
        quotes = [q for q in part.quotes if q.network == model and q.mode in ("", mode)]
        rows = united((str(by_name(record["case"])[name]) for record in own), *(quote.rows for quote in quotes))
        about = f"{other} {by_name(own[0]['case'])[other]}" if own else ONLY
        measured = columns(own, lambda record: str(by_name(record["case"])[name]))
        title = f"{part.title}: {' '.join(filter(None, (model, mode)))}, {about}"
        grids.append(Grid(part.name, title, name, rows, measured, **quoted(quotes), notes=part.notes, axis=name))
    return grids


def _by_model(part: Part, records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each network; empty for those that are only published."""
    tables: dict[str, list[Record]] = {}
    for record in records:
        tables.setdefault(record["case"]["model"], []).append(record)
    return tables | {quote.network: [] for quote in part.quotes if quote.network not in tables}


def _phases(part: Part, records: Sequence[Record]) -> list[Grid]:
    """One table per network, one row per phase."""
    grids = []
    for model, own in _by_model(part, records).items():
        quotes = [quote for quote in part.quotes if quote.network == model]
        measured = {label_of(record): _phase_column(record) for record in own}
        about = f"batch {own[0]['case']['batch']}" if own else ONLY
        title = f"{part.title}: {model}, {about}"
        cited = quoted(quotes)
        grids.append(Grid(part.name, title, "phase", tuple(PHASES), measured, **cited, notes=part.notes, axis="phases"))
    return grids


def _phase_column(record: Record) -> Column:
    outcome = {"status": record["status"], "message": record["message"]}
    if not record["phases"]:
        return {row: outcome | {"value": None} for row in PHASES}
    phases = by_name(record["phases"])
    return {row: outcome | {"value": phases[row]["mean"], "std": phases[row]["std"]} for row in PHASES}


def _training(part: Part, records: Sequence[Record]) -> list[Grid]:
    """One table per network: a row for each epoch's loss or accuracy, and the seconds of an epoch."""
    tables: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        tables.setdefault((record["case"]["model"], record["case"]["data"]), []).append(record)
    grids = []
    for (model, data), own in tables.items():
        measured = {label_of(record): _training_column(record) for record in own}
        title = f"{part.title}: {model} on {data.partition(':')[0]}, batch {own[0]['case']['batch']}"
        rows = united(*measured.values())
        grids.append(Grid(part.name, title, "", rows, measured, unit="", notes=part.notes, axis="training"))
    return grids


def _training_column(record: Record) -> Column:
    outcome = {"status": record["status"], "message": record["message"]}
    training = record["training"]
    column: Column = {}
    for epoch, accuracy in enumerate(training["test_accuracy"]):
        column[f"loss, epoch {epoch + 1}"] = outcome | {"value": fmean(losses_of(training, epoch))}
        column[f"test accuracy, %, epoch {epoch + 1}"] = outcome | {"value": 100 * accuracy}
    column["seconds an epoch"] = outcome | {"value": sorted(training["epoch_s"])[len(training["epoch_s"]) // 2]}
    if peaks := [each["peak_bytes"] for each in training["usage"]]:
        column["peak of the host's memory, MiB"] = outcome | {"value": max(peaks) / 2**20}
    if (power := usage.watts(training["usage"])) is not None:
        column["mean power, W"] = outcome | {"value": power}
    return column if training["losses"] else {"seconds an epoch": outcome | {"value": None}}


def _layers(part: Part, records: Sequence[Record]) -> list[Grid]:
    """One table per network and runtime, one row per layer, the slowest first; then the other layers, and the rest."""
    return [_layers_of(part, record) for record in records]


def _layers_of(part: Part, record: Record) -> Grid:
    case, outcome = record["case"], {"status": record["status"], "message": record["message"]}
    title = f"{part.title}: {case['model']}, batch {case['batch']}, {label_of(record)}"
    if not record["profile"]:
        return Grid(part.name, title, "layer", ("whole",), {label_of(record): {"whole": outcome | {"value": None}}})
    layers = sorted(record["profile"]["layers"], key=lambda layer: -layer["median_s"])
    top, entire = int(part.settings.get("top", TOP)), record["profile"]["whole_s"]
    rows = {f"{layer['name']} ({layer['operator']})": layer["median_s"] for layer in layers[:top]}
    rest, total = layers[top:], sum(layer["median_s"] for layer in layers)
    rows |= {f"{len(rest)} others": sum(layer["median_s"] for layer in rest)} if rest else {}
    rows |= {"outside of layers": entire - total, "whole": entire}
    column = {row: outcome | {"value": value} for row, value in rows.items()}
    share = {row: outcome | {"value": 100 * value / entire, "unit": "%"} for row, value in rows.items()}
    return Grid(part.name, title, "layer", tuple(rows), {"median": column, "share": share}, notes=part.notes)


def _workers(part: Part, records: Sequence[Record]) -> list[Grid | Listing]:
    """For each network the speed-up, measured and predicted; the time of the communication; all recorded fields."""
    grids: list[Grid | Listing] = []
    for model, measured in _by_model(part, records).items():
        own = scaling.rows(measured)
        speed, communication = (
            [q for q in part.quotes if q.network == model and (q.mode == COMMUNICATION) == second]
            for second in (False, True)
        )
        names = [str(workers) for workers in dict.fromkeys(row["workers"] for row in own)]
        title = scaling.title(own[0]) if own else f"{model}, {ONLY}"
        rows = united(names, *(quote.rows for quote in speed))
        predicted = {f"{name}, model": column for name, column in _by_workers(own, "model_speed_up").items()}
        shown = _by_workers(own, "speed_up") | predicted
        published = quoted(speed)
        grids.append(Grid(part.name, f"Speed-up: {title}", "workers", rows, shown, **published, unit="", axis="speed"))
        rows = united([name for name in names if name != "1"], *(quote.rows for quote in communication))
        shown = _by_workers([row for row in own if row["workers"] > 1], "comm_s")
        grids.append(Grid(part.name, f"Communication: {title}", "workers", rows, shown, **quoted(communication)))
        if own:
            cells = tuple(tuple(scaling.cells(row)) for row in own)
            notes = (*scaling.says(own), *part.notes)
            grids.append(Listing(part.name, f"{part.title}: {title}", scaling.HEADER, cells, notes, own))
    return grids


def _by_workers(rows: Sequence[scaling.Row], name: str) -> dict[str, Column]:
    """One column per runtime, one row per number of workers."""
    by_runtime: dict[str, Column] = {}
    for row in rows:
        value = row[name]
        figures = value if isinstance(value, dict) else {"median": value}
        bounds = {"value": figures["median"], "low": figures.get("low"), "high": figures.get("high")}
        column = by_runtime.setdefault(row["runtime"], {})
        column[str(row["workers"])] = bounds | {"status": row["status"], "message": row["message"]}
    return by_runtime


def _costs(part: Part, records: Sequence[Record]) -> list[Grid]:
    """Rows for each cell's costs besides time: the peak of its host memory, and the joules of a step."""
    measured: dict[str, Column] = {}
    for record in records:
        cost, outcome = record["cost"] or NOTHING, {"status": record["status"], "message": record["message"]}
        column = measured.setdefault(label_of(record), {})
        memory, joules = cost.get("peak_memory_bytes"), cost.get("energy_j")
        passed = record["status"] == "PASS"
        column[f"{_cell(record)}: memory, MiB"] = outcome | {"value": memory / 2**20 if memory and passed else None}
        column[f"{_cell(record)}: energy of a step, J"] = outcome | {"value": joules if passed else None}
    rows = [
        row
        for row in united(*measured.values())
        if any(column.get(row, {}).get("value") for column in measured.values())
    ]
    return [Grid(part.name, part.title, "", tuple(rows), measured, unit="", notes=part.notes)]


SHAPES: dict[str, Shape] = {
    "times": _times,
    "tools": _tools,
    "threads": _swept,
    "batches": _swept,
    "costs": _costs,
    "phases": _phases,
    "layers": _layers,
    "scaling": _workers,
    "training": _training,
}
