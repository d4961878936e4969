"""`xbench import`: results of several machines in one store."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.errors import XBenchError
from xbench.store.results import FOLDER

if TYPE_CHECKING:
    from xbench.store.merge import Merged


def import_(
    sources: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders of results.")],
    out: options.Out = FOLDER,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="What their machine is called here, such as laptop.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Merge the results of other machines, or of other folders, into one store.

    For example: xbench import from-laptop --as laptop; xbench show --machine laptop. Cells of two machines are never
    ranked together, and every table names its machine: by its CPU, or by the name given. Records that are there already
    are left out, so the same import again changes nothing; so are those older than what the store has of the same
    cell. Lines that cannot be read are skipped and named.
    """
    if name is not None and not name.strip():
        raise XBenchError("--as needs a name, such as laptop")
    from xbench.store.merge import merge

    merged = merge(sources, out, name and name.strip())
    for words in (words for each in merged for words in each.problems):
        say(f"xbench: skipped {words}", err=True)
    if as_json:
        say(json.dumps([vars(each) for each in merged], indent=1))
        return
    for each in merged:
        say(_line(each))


def _line(each: "Merged") -> str:
    parts = [f"{each.added} added"]
    parts += [f"{each.known} there already"] if each.known else []
    parts += [f"{each.older} older than what is there"] if each.older else []
    parts += [f"{len(each.problems)} not readable"] if each.problems else []
    machines = f" ({'; '.join(each.machines)})" if each.machines else ""
    return f"{each.file}: {', '.join(parts)}{machines}"
