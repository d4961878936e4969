"""`xbench report`: everything a store holds, as one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.errors import XBenchError
from xbench.store.record import Record, by_name
from xbench.store.results import FILE, FOLDER, salvage

OUTPUT = Path("report.html")


def report(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[FOLDER]...", help="Folders of results. Default: that of --out.")
    ] = None,
    out: options.Out = FOLDER,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = OUTPUT,
    title: Annotated[str, typer.Option(help="Heading of the report.")] = "",
    model: options.OnlyModels = None,
    runtime: options.OnlyRuntimes = None,
    mode: options.OnlyModes = None,
) -> None:
    """Write one HTML file to look at: verdicts in words, the parity matrix, times, costs, curves, commands.

    For example: xbench report --output today.html. It reads nothing from the network and opens from a disk; filters,
    sorting and pictures need JavaScript, the tables do not. Trainings, phases, loads, layers, evaluations and several
    workers are shown where their files lie in the folder. Lines that cannot be read are skipped, counted and shown.
    """
    from xbench.reports.html import page
    from xbench.reports.html.other_experiments import FILES

    def is_to_be(folder: Path, name: str) -> bool:
        """Whether a missing file is required: results, if there is nothing else."""
        return not name and not any((folder / other).exists() for other in FILES.values())

    given = folders or [out]
    records, problems = {}, []
    for name, file in {"": FILE, **FILES}.items():
        records[name], skipped = _read(
            [folder / file for folder in given if (folder / file).exists() or is_to_be(folder, name)]
        )
        problems += skipped
    for words in problems:
        say(f"xbench: skipped {words}", err=True)
    chosen = {name: words for name, words in (("model", model), ("runtime", runtime), ("mode", mode)) if words}
    for column, given_words in chosen.items():
        _name_unknown(column, given_words, [record for some in records.values() for record in some])
    text = page(records.pop(""), records, title=title, problems=problems, chosen=chosen)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise XBenchError(f"cannot write {output}: {error.strerror}") from error
    say(f"{output}: {len(text.encode()) / 1e6:.2f} MB")


def _read(paths: list[Path]) -> tuple[list[Record], list[str]]:
    """The records of files, by time if there are several files, and the problems in reading them."""
    records, problems = [], []
    for path in paths:
        some, skipped = salvage(path)
        records += some
        problems += skipped
    return sorted(records, key=lambda record: str(record.get("time") or "")) if len(paths) > 1 else records, problems


def _name_unknown(name: str, words: list[str], records: list[Record]) -> None:
    """Print a line on stderr for each word that no record has."""
    known = sorted({by_name(record["case"])[name] for record in records})
    for word in words:
        if word not in known:
            say(f"no {name} {word!r} among the results; there is: {', '.join(known) or 'none'}", err=True)
