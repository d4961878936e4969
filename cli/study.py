"""`xbench study`: repeat one of the five comparisons on this machine, with current runtimes."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.experiments import choose
from xbench.store.record import Record
from xbench.store.results import FOLDER
from xbench.studies import RUNTIMES, SCALES, STUDIES

Name = Annotated[
    str | None,
    typer.Argument(
        help=f"{', '.join(STUDIES[:-1])} or {STUDIES[-1]}. Without it the studies are listed.",
        autocompletion=lambda incomplete: [name for name in STUDIES if name.startswith(incomplete)],
    ),
]
Scale = Annotated[
    str,
    typer.Option(
        help="tiny: a quarter of an hour on two cores; small: a desktop, some hours; full: what the study did, as far "
        "as it can be done again. What a scale leaves out is printed.",
        autocompletion=lambda incomplete: [scale for scale in SCALES if scale.startswith(incomplete)],
    ),
]
Plan = Annotated[
    bool, typer.Option("--plan", help="Show what would be measured and how long that takes; measure nothing.")
]
Show = Annotated[bool, typer.Option("--show", help="Print the tables of what is recorded; measure nothing.")]
Parts = Annotated[list[str] | None, typer.Option("--part", help="Only this table of the study; may be repeated.")]
DEFAULTS: dict[str, Any] = {"runtime": None, "threads": None, "device": "cpu", "budget": 0.5}


def study(
    name: Name = None,
    scale: Scale = "tiny",
    part: Parts = None,
    runtime: options.Runtimes = DEFAULTS["runtime"],
    threads: options.Threads = DEFAULTS["threads"],
    device: options.Device = DEFAULTS["device"],
    budget: options.Budget = DEFAULTS["budget"],
    timeout: options.Timeout = 600,
    plan: Plan = False,
    show: Show = False,
    out: options.Out = FOLDER,
    rerun: options.Rerun = False,
    retry: options.Retry = False,
    as_json: options.Json = False,
) -> None:
    """Run a published study again, with its networks, its protocol and its tables, on current runtimes.

    The plan is shown first, with what the scale leaves out and how long it may take. Every network is verified on a
    runtime before it is timed. Each measurement is stored as soon as it is final: the same command resumes. Published
    figures are shown next to ours as quotations. Tables and pictures (study.md, PNG, SVG) are in the folder of the
    results. Exit code 1 when a measurement failed.
    """
    from xbench import studies
    from xbench.errors import XBenchError
    from xbench.experiments import study as running

    if name is None:
        _list(as_json)
        raise typer.Exit
    chosen = _chosen(name, part)
    setting = _setting(scale, runtime, device, threads, budget, timeout)
    folder = out / f"{chosen.name}-{scale}"
    tasks = running.plan(chosen, setting, folder)
    if plan or not show:
        _show_plan(tasks, studies.omitted(chosen, scale, setting.cpus, setting.runtimes), as_json and plan)
    if plan:
        raise typer.Exit
    choose.need_torch()
    again = choose.again(rerun, retry)
    records, broken = (_stored(tasks, folder), set()) if show else _run(chosen, tasks, setting, folder, again)
    if not records and not broken:
        raise XBenchError(f"nothing is recorded in {folder}: run the same command without --show")
    given = {"runtime": runtime, "threads": threads, "device": device, "budget": budget}
    command = _command(name, scale, {name: value for name, value in given.items() if value != DEFAULTS[name]})
    _report(name, [part.name for part in chosen.parts], setting, folder, as_json, command)
    failed = any(record["status"] not in ("PASS", "UNSUPPORTED") for record in records)
    raise typer.Exit(2 if broken else int(failed))


def _setting(
    scale: str, runtime: list[str] | None, device: str, threads: int | None, budget: float, timeout: float
) -> Any:
    """How the study is run.

    Raises:
        XBenchError: an invalid word.
    """
    from xbench.experiments.settings import Protocol
    from xbench.experiments.study import Setting

    _known("--scale", scale, SCALES)
    own = [each for each in choose.choose_runtimes(None) if each in RUNTIMES[scale]]
    targets = choose.choose_runtimes(runtime) if runtime else own
    cpus, protocol = options.choose_threads(threads), Protocol(budget=budget, target=0.05, timeout=timeout)
    return Setting(scale, tuple(targets), choose.choose_device(device), cpus, protocol)


def _command(name: str, scale: str, options: dict[str, Any]) -> str:
    """The command that makes the study's page, with the given options."""
    each = {option: value if isinstance(value, list) else [value] for option, value in options.items()}
    pairs = [word for option, values in each.items() for value in values for word in (f"--{option}", str(value))]
    from xbench.converters.printable import shell

    return shell("xbench", "study", name, "--scale", scale, *pairs)


def _known(option: str, word: str, words: Sequence[str]) -> None:
    """
    Raises:
        XBenchError: the word is not one of `words`.
    """
    from xbench.errors import XBenchError

    if word not in words:
        near = difflib.get_close_matches(word, words, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(words)}"
        raise XBenchError(f"{option}: there is no {word!r}: {hint}")


def _chosen(name: str, parts: list[str] | None) -> Any:
    """The study, with the requested tables."""
    from xbench import studies

    _known("study", name, STUDIES)
    published = studies.find(name)
    for word in choose.split(parts):
        _known("--part", word, [part.name for part in published.parts])
    kept = tuple(part for part in published.parts if not parts or part.name in choose.split(parts))
    return replace(published, parts=kept)


def _list(as_json: bool) -> None:
    from rich.table import Table

    from xbench import studies
    from xbench.cli.terminal.console import console

    published = [studies.find(name) for name in STUDIES]
    if as_json:
        say(json.dumps([asdict(each) for each in published], indent=1))
        return
    table = Table("study", "what it measured", "tables")
    for each in published:
        table.add_row(each.name, f"{each.about}. {each.source}", ", ".join(part.name for part in each.parts))
    console().print(table)


def _show_plan(tasks: Sequence[Any], omitted: Sequence[str], as_json: bool) -> None:
    """What will be measured, on stderr, or as JSON on stdout."""
    rows = [
        {
            "part": task.part.name,
            "network": case.model,
            "batch": case.batch,
            "mode": case.mode if task.part.kind != "phases" else "all",
            "threads": case.threads,
            "runtimes": [each.runtime for each in task.cases],
            "records": task.records,
            "seconds": round(task.seconds),
        }
        for task in tasks
        for case in task.cases[:1]
    ]
    if as_json:
        say(json.dumps({"tasks": rows, "omitted": list(omitted)}, indent=1))
        return
    from rich.table import Table

    from xbench.cli.terminal.console import console

    out = console(120, err=True)
    table = Table("table", "network", "mode", "batch", "threads", "cells", "about")
    for row in rows:
        words = [str(row[name]) for name in ("part", "network", "mode", "batch", "threads")]
        table.add_row(*words, str(row["records"]), _minutes(row["seconds"]) if row["seconds"] else "recorded")
    out.print(table)
    out.print(f"in all about {_minutes(sum(row['seconds'] for row in rows))}; left out:", highlight=False)
    for line in omitted:
        out.print(f"  {line}", highlight=False, soft_wrap=True)


def _minutes(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


def _run(chosen: Any, tasks: Sequence[Any], setting: Any, folder: Path, again: str) -> tuple[list[Record], set[str]]:
    """The records of all tasks, each stored as soon as it is final, and the networks that could not be exported."""
    from xbench.cli.terminal.progress import Bar
    from xbench.experiments import study as running
    from xbench.experiments.experiment import Lab, run

    stores, records = running.stores(folder, chosen), []
    bar = Bar(sum(task.records for task in tasks), f"study {chosen.name}")
    with turn(folder) as logs, bar, Lab(logs, bar, setting.protocol.timeout, keep_going=True) as lab:
        for task in tasks:
            experiment = running.experiment(task.part, setting)
            records += run(experiment, task.cases, lab, stores[task.part.kind], again).records
        return records, lab.broken


def _stored(tasks: Sequence[Any], folder: Path) -> list[Record]:
    from xbench.experiments import study as running

    return [record for task in tasks for record in running.stored(task, folder)]


def _report(name: str, shown: Sequence[str], setting: Any, folder: Path, as_json: bool, command: str) -> None:
    """Print the requested tables on stdout; write all recorded tables of the study to `study.md`, with pictures."""
    from xbench import studies
    from xbench.cli.terminal.console import console
    from xbench.experiments import study as running
    from xbench.reports import study_page
    from xbench.reports.study import grids_of

    complete = studies.find(name)
    records: dict[str, list[Any]] = {part.name: [] for part in complete.parts}
    for task in running.plan(complete, setting, folder):
        records[task.part.name] += running.stored(task, folder)
    grids = [grid for part in complete.parts for grid in grids_of(part, records[part.name])]
    wanted = [grid for grid in grids if grid.part in shown]
    omitted = studies.omitted(complete, setting.scale, setting.cpus, setting.runtimes)
    if as_json:
        facts = {"study": name, "scale": setting.scale, "omitted": omitted, "tables": [grid.plain() for grid in wanted]}
        say(json.dumps(facts, indent=1))
    else:
        study_page.show(wanted, console(160))
    flat = [record for own in records.values() for record in own]
    try:
        saved = study_page.save(complete, command, grids, omitted, flat, folder)
    except OSError as error:
        say(f"saved in {folder}; cannot write the page: {error.strerror}", err=True)
        return
    say(f"saved in {folder}: {', '.join(saved)}", err=True)
