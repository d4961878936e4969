"""The tables of results outside results.jsonl: conversions, checks, trainings, phases, layers, loads, workers,
answers on data, and which nodes they need in float32."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from xbench.converters.printable import script_json, visible
from xbench.experiments import judge
from xbench.experiments.check import held, row_of
from xbench.experiments.convert import row_of as converted
from xbench.reports import checks, load, scaling, study_page
from xbench.reports.formats import label
from xbench.reports.html.chart_data import DRAWN
from xbench.reports.quality import evaluation, widening
from xbench.reports.quality.changed import pictures
from xbench.reports.study import grids_of
from xbench.reports.tables import Table
from xbench.stats.quantities import number
from xbench.store.record import Record
from xbench.studies import Part

# Section, file, kind of table, and the command that measures it.
KINDS = (
    ("convert", "convert.jsonl", "Conversions", "xbench convert MODEL"),
    ("check", "check.jsonl", "Checks without times", "xbench check MODEL"),
    ("judge", "judge.jsonl", "Answers of other programs, not timed by xbench", "xbench judge QUESTION ANSWERS"),
    ("phases", "phases.jsonl", "Phases of a training iteration", "xbench phases MODEL"),
    ("training", "training.jsonl", "Training", "xbench train MODEL --data digits"),
    ("evaluate", "evaluation.jsonl", "Answers on data", "xbench evaluate MODEL --inputs SAMPLES"),
    ("widen", "widened.jsonl", "Nodes that stay in float32", "xbench widen MODEL --inputs SAMPLES"),
    ("load", "load.jsonl", "Under load", "xbench load MODEL"),
    ("scaling", "scaling.jsonl", "Several workers", "xbench scale MODEL --workers 1,2,4"),
    ("layers", "layers.jsonl", "Layer by layer", "xbench profile MODEL"),
)
FILES = {name: file for name, file, _, _ in KINDS}


def tables(name: str, records: Sequence[Record]) -> list[Table]:
    """The tables of a section, network by network, each with the notes below it.

    Raises:
        KeyError: the section is unknown.
    """
    by_model: dict[str, list[Record]] = {}
    for record in records:
        by_model.setdefault(visible(record["case"]["model"]), []).append(record)
    make = OWN.get(name) or (lambda own: _grids(name, own))
    return [replace(table, model=model) for model, own in by_model.items() for table in make(own)]


def _grids(name: str, records: Sequence[Record]) -> list[Table]:
    titles = {"phases": "Mean ± standard deviation", "training": "Training", "layers": "Median of a layer"}
    return [study_page.table(grid) for grid in grids_of(Part(name, titles[name], name, {}), list(records))]


CONVERTED = ("runtime", "status", "version", "seconds", "own form")


def _conversions(records: Sequence[Record]) -> list[Table]:
    lines, notes = [], []
    for record in records:
        row = converted(record)
        words = (row["runtime"], row["status"], row["version"] or "", number(row["seconds"]), *row.get("files", ())[:1])
        lines.append([visible(word) for word in (*words, "")][: len(CONVERTED)])
        if row["message"]:
            notes.append(f"{visible(row['runtime'])}: {visible(row['message'])}")
    return [Table("Whether a runtime takes the network", CONVERTED, lines, words=3, notes=notes)]


CHECKED = ("runtime", "mode", "status", "class", "parameters", "worst tensor", "batch", "error / noise")


def _checks(records: Sequence[Record]) -> list[Table]:
    lines, notes = [], []
    for record in records:
        row = row_of(record)
        name = label(record["case"] | {"note": record["note"]})
        mode = f"{row['steps']} steps" if row["steps"] else row["mode"]
        ratio = "" if row["ratio"] is None else number(row["ratio"])
        words = (name, mode, row["status"], row["class"] or "", held(row), row["worst_tensor"] or "")
        lines.append([*map(visible, words), str(record["case"]["batch"]), ratio])
        if row["message"]:
            notes.append(f"{visible(row['runtime'])} {mode}: {visible(row['message'])}")
    return [Table("Compared with float64", CHECKED, lines, words=6, notes=notes)]


OWN: Mapping[str, Callable[[Sequence[Record]], list[Table]]] = {
    "convert": _conversions,
    "check": _checks,
    "judge": lambda records: [checks.judged(judge.row_of(record)) for record in records],
    "evaluate": evaluation.tables,
    "widen": widening.tables,
    "load": lambda records: load.tables(load.rows(records)),
    "scaling": lambda records: scaling.tables(scaling.rows(records)),
}


def readable(name: str, records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """The last record of each key that can be shown, and a sentence for each that cannot: the store's reader checks
    only fields common to all files, and a field that a section shows may be missing or of another type."""
    shown: list[Record] = []
    problems: list[str] = []
    for record in {each["key"]: each for each in records}.values():
        try:
            tables(name, [record])
            script_json(DRAWN[name]([record]) if name in DRAWN else None)
            pictures([record] if name == "evaluate" else [])
            shown.append(record)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            case = record["case"]
            what = f"{case['model']} on {case['runtime']} ({type(error).__name__}: {error})"
            problems.append(f"{FILES[name]}: not what a record of {name} holds: {what}")
    return shown, problems
