"""`xbench show`: print what the store holds."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xbench.bench import XBenchError
from xbench.bench.results import FILE, FOLDER, read

if TYPE_CHECKING:
    from xbench.reports import Row


def show(
    out: Annotated[Path, typer.Option("--out", help="Folder of the results.")] = FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of objects.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
    model: Annotated[list[str] | None, typer.Option(help="Only this model; may be repeated.")] = None,
    runtime: Annotated[list[str] | None, typer.Option(help="Only this runtime; may be repeated.")] = None,
    mode: Annotated[list[str] | None, typer.Option(help="Only this mode; may be repeated.")] = None,
) -> None:
    """Print the results as tables, the fastest first; ratios are to the fastest of all, hidden ones included."""
    if as_json + as_csv + as_markdown > 1:
        raise XBenchError("--json, --csv and --markdown exclude one another: give one of them")
    from xbench.reports import formats, rows

    found = rows(read(out / FILE))
    for name, words in (("model", model), ("runtime", runtime), ("mode", mode)):
        found = _only(found, name, words)
    if as_json:
        typer.echo(formats.to_json(found), nl=False)
    elif as_csv:
        typer.echo(formats.to_csv(found), nl=False)
    elif as_markdown:
        typer.echo(formats.to_markdown(found), nl=False)
    else:
        _print(found, out)


def _only(found: "list[Row]", name: str, words: Sequence[str] | None) -> "list[Row]":
    """Return the rows whose column holds one of the words; a word that no row holds is named on stderr."""
    if not words:
        return found
    known = sorted({row[name] for row in found})
    for word in words:
        if word not in known:
            typer.echo(f"no {name} {word!r} among the results; there is: {', '.join(known) or 'none'}", err=True)
    return [row for row in found if row[name] in words]


def _print(found: "list[Row]", out: Path) -> None:
    """Print the tables to the terminal, in full width where the output is a file or a pipe."""
    from rich.console import Console

    from xbench.reports.table import show_table

    if not found:
        typer.echo(f"nothing to show in {out}", err=True)
        return
    show_table(found, Console() if sys.stdout.isatty() else Console(width=200))
