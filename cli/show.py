"""`xbench show`: print what the store holds."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xbench.cli.terminal import form as choose
from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.errors import XBenchError
from xbench.host.memory import uncollected
from xbench.store.results import FILE, FOLDER, salvage

if TYPE_CHECKING:
    from xbench.reports import Row
    from xbench.reports.formats import View
    from xbench.store.record import Record

PICTURES = (".png", ".svg", ".pdf")


def show(
    out: options.Out = FOLDER,
    as_json: options.Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_markdown: options.Markdown = False,
    format_: choose.FormatWord = None,
    output: choose.OutputFile = None,
    cost: Annotated[bool, typer.Option("--cost", help="The whole cost: time, memory, energy, size.")] = False,
    roofline: Annotated[
        bool, typer.Option("--roofline", help="FLOP/s and bytes, as shares of what this machine can do.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the roofline, too: a .png, .svg or .pdf file.")] = None,
    model: options.OnlyModels = None,
    runtime: options.OnlyRuntimes = None,
    mode: options.OnlyModes = None,
    machine: Annotated[
        list[str] | None, typer.Option(help="Only this machine: its name, its CPU, or a part of it; may be repeated.")
    ] = None,
) -> None:
    """Print the results as tables, the fastest first; ratios are to the fastest of all, hidden ones included."""
    form = choose.choose_format(format_, {"json": as_json, "csv": as_csv, "markdown": as_markdown})
    choose.check_output(form, output)
    if cost + roofline + (form in ("json", "csv", "parquet")) > 1:
        raise XBenchError(
            "--cost and --roofline are two tables: give one of them; --json, --csv and parquet hold the columns of both"
        )
    if plot and plot.suffix not in PICTURES:
        raise XBenchError(f"--plot {plot}: the name must end with one of {', '.join(PICTURES)}")
    from xbench.reports import formats, rows
    from xbench.reports.cost import COST, ROOFLINE

    view = COST if cost else ROOFLINE if roofline else formats.TIMES

    judged = [
        each for each in _judged(out) if _is_chosen(each, model, runtime, mode) and not (cost or roofline or machine)
    ]
    records, problems = ([], []) if judged and not os.path.exists(out / FILE) else salvage(out / FILE)
    for problem in problems:
        say(f"xbench: skipped {problem}", err=True)
    with uncollected():  # garbage collection would traverse the entire store
        shown = rows(records)
    shown = _on(shown, machine)
    for name, words in (("model", model), ("runtime", runtime), ("mode", mode)):
        shown = _only(shown, name, words)
    if shown or not judged or form != "table":
        _give(shown, form, view, out, output)
    _give_judged(judged, form)
    if plot:
        _draw(shown, plot)


def _is_chosen(record: "Record", *chosen: Sequence[str] | None) -> bool:
    """Whether a record has one of the chosen models, runtimes and modes."""
    case = record["case"]
    own = (case["model"], case["runtime"], case["mode"])
    return all(not words or word in words for word, words in zip(own, chosen, strict=True))


def _judged(out: Path) -> "list[Record]":
    """Return the records of `xbench judge`, whose times xbench has not measured."""
    from xbench.experiments.judge import FILE as JUDGED
    from xbench.reports.html.other_experiments import readable

    if not os.path.exists(out / JUDGED):  # which takes any name
        return []
    records, problems = salvage(out / JUDGED)
    shown, more = readable("judge", records)
    for problem in (*problems, *more):
        say(f"xbench: skipped {problem}", err=True)
    return shown


def _give_judged(records: "list[Record]", form: str) -> None:
    """Print the tables of judged answers, or say that another form has no place for them."""
    from xbench.cli.terminal.console import console
    from xbench.reports.html.other_experiments import tables
    from xbench.reports.tables import show as show_tables

    if form == "table":
        show_tables(tables("judge", records), console(200))
    elif records:
        say(f"{len(records)} answers of other programs are not among these: judge.jsonl has them", err=True)


def _give(rows: "list[Row]", form: str, view: "View", out: Path, output: Path | None) -> None:
    """Print the rows, or write them to a file."""
    from xbench.reports import formats, github

    if form == "table":
        _print(rows, out, view)
    elif form == "github":
        choose.summarise(*github.times(rows, view))
    elif form == "parquet":
        assert output is not None
        _write_parquet(rows, output)
    else:
        texts = {"json": formats.to_json, "csv": formats.to_csv, "markdown": lambda f: formats.to_markdown(f, view)}
        choose.give(texts[form](rows), output)


def _write_parquet(rows: "list[Row]", path: Path) -> None:
    """Raises XBenchError: pyarrow is missing, or the file cannot be written."""
    from xbench.reports import parquet

    try:
        parquet.write(rows, path)
    except ImportError as error:
        raise XBenchError("--format parquet needs pyarrow: pip install 'xbench[parquet]'") from error
    except OSError as error:
        raise XBenchError(f"cannot write {path}: {error.strerror or error}") from error
    say(f"written to {path}", err=True)


def _draw(rows: "list[Row]", path: Path) -> None:
    """Draw the roofline of the rows.

    Raises:
        XBenchError: no row has a place in it, matplotlib is missing, or the file cannot be written.
    """
    from xbench.reports.roofline_plot import draw, points

    if not points(rows):
        raise XBenchError("nothing to plot: no result here has its cost; measure again with `xbench time --rerun`")
    try:
        draw(rows, path)
    except ImportError as error:
        raise XBenchError("--plot needs matplotlib: pip install 'xbench[plot]'") from error
    except OSError as error:
        raise XBenchError(f"cannot write {path}: {error.strerror}") from error
    say(f"drawn in {path}", err=True)


def _only(rows: "list[Row]", name: str, words: Sequence[str] | None) -> "list[Row]":
    """Return the rows whose column has one of the words; a word that no row has is named on stderr."""
    if not words:
        return rows
    known = sorted({row[name] for row in rows})
    for word in words:
        if word not in known:
            say(f"no {name} {word!r} among the results; there is: {', '.join(known) or 'none'}", err=True)
    return [row for row in rows if row[name] in words]


def _on(rows: "list[Row]", words: Sequence[str] | None) -> "list[Row]":
    """Return the rows of machines whose name contains one of the words; a word without a match is named on stderr."""
    names = sorted({row["machine"] for row in rows})
    chosen = {name for name in names for word in words or [""] if word.lower() in name.lower()}
    for word in words or ():
        if not any(word.lower() in name.lower() for name in names):
            say(f"no machine {word!r} among the results; there is: {'; '.join(names) or 'none'}", err=True)
    return [row for row in rows if row["machine"] in chosen]


def _print(rows: "list[Row]", out: Path, view: "View") -> None:
    """Print the tables to the terminal, at full width if the output is a file or a pipe."""
    from xbench.cli.terminal.console import console
    from xbench.reports.sweeps import shape_sweeps, shape_table
    from xbench.reports.table import show_table
    from xbench.reports.tables import show

    if not rows:
        say(f"nothing to show in {out}", err=True)
        return
    show_table(rows, console(200), view)
    show(map(shape_table, shape_sweeps(rows)), console(200))
