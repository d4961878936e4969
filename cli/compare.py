"""`xbench compare`: compare two stores, cell by cell, for a person or a pipeline."""

from pathlib import Path
from typing import Annotated

import typer

from xbench.cli.terminal import form as choose
from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.errors import XBenchError
from xbench.store.results import FILE, read


def compare(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="Folder of the older results.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Folder of the newer results.")],
    fail_on: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Exit with 1 where a cell became slower by this, such as 3%.")
    ] = None,
    as_json: options.Json = False,
    as_markdown: options.Markdown = False,
    format_: choose.FormatWord = None,
    output: choose.OutputFile = None,
) -> None:
    """Say which cells became slower or faster, and which no longer pass.

    A cell is called slower where that is no chance: of all that are, at most 5 % are not in truth, however many cells
    are compared. With --fail-on the exit code is 1 where one of those is slower by that share or more, or no longer
    passes. Two runs at different times differ by per cents on their own: measure both sides three times or more, in
    turns, `xbench time --rerun --out OLD` and `--out NEW`; every run counts.
    """
    form = choose.choose_format(format_, {"json": as_json, "markdown": as_markdown}, choose.FORMATS[:-1])
    choose.check_output(form, output)
    limit = _share(fail_on)
    sides = [read(folder if folder.is_file() else folder / FILE) for folder in (old, new)]
    from xbench.reports import changes as report
    from xbench.reports import github
    from xbench.store.comparison import compare as compared

    changes = compared(*sides)
    if not any(change.old and change.new for change in changes):
        raise XBenchError(f"{old} and {new} have no cell in common")
    texts = {"json": report.to_json, "csv": report.to_csv, "markdown": report.to_markdown}
    if form in texts:
        choose.give(texts[form](changes), output)
    elif form == "github":
        choose.summarise(*github.compared(changes, limit))
    else:
        from xbench.cli.terminal.console import console

        report.show(changes, console(200))
    failed = [change for change in changes if limit is not None and change.is_worse(limit)]
    for change in failed:
        say(f"{report.name(change)}: {change.verdict}", err=True)
    raise typer.Exit(int(bool(failed)))


def _share(word: str | None) -> float | None:
    """3% or 0.03 as 0.03.

    Raises:
        XBenchError: it is no number, negative, or not finite.
    """
    if word is None:
        return None
    try:
        share = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 100:
        raise XBenchError(f"--fail-on must be a share such as 3% or 0.03, not {word!r}")
    return share
