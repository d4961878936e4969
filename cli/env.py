"""`xbench env create|list|remove`: separate environments for frameworks that conflict with current packages."""

import json
from typing import Annotated

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say

app = typer.Typer(
    no_args_is_help=True, help="Environments of old frameworks: make one with one command, list them, remove one."
)


def complete_name(incomplete: str) -> list[str]:
    from xbench.runtimes._environments import RECIPES

    return [name for name in RECIPES if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="mxnet, chainer, theano, cntk or caffe2.", autocompletion=complete_name)]


@app.command("create")
def create(
    name: Name,
    python: Annotated[
        str | None, typer.Option("--python", help="The Python to make it with. Default: one on the PATH or of pyenv.")
    ] = None,
) -> None:
    """Make the environment of a framework: an old Python of this machine, and pinned packages.

    It is made in $XBENCH_ENVIRONMENTS, or ~/.local/share/xbench/environments. A build that was interrupted does not
    count. No Python is downloaded: exit code 2 if none on this machine fits.
    """
    from xbench.cli.terminal.progress import Bar
    from xbench.workers import environment

    with Bar(environment.steps(name), f"env {name}") as bar:
        made = environment.create(name, python, bar.say, bar.finish)
    versions = ", ".join(f"{package} {version}" for package, version in made.versions.items())
    say(f"{name} is ready in {made.folder}: {versions}")
    from xbench.converters.printable import shell

    say(f"Try it:  xbench check lenet --runtime {shell(name)} --mode forward")


@app.command("list")
def list_environments(as_json: options.Json = False) -> None:
    """Every recipe, whether its environment is ready, where it is and what it holds."""
    from rich.table import Table

    from xbench.cli.terminal.console import console
    from xbench.runtimes._environments import RECIPES, root
    from xbench.workers import environment

    rows = environment.listed()
    if as_json:
        say(json.dumps(rows, indent=1))
        return
    table = Table("name", "framework", "state", "Python", "holds, or needs")
    for row in rows:
        versions, package = row["versions"], RECIPES[row["name"]].package
        text = f"{package} {versions.get(package)}, numpy {versions.get('numpy')}" if versions else row["remark"]
        table.add_row(row["name"], row["framework"], row["state"], versions.get("python") or row["pythons"][0], text)
    console().print(table)
    say(f"They lie in {root()}")


@app.command("remove")
def remove(name: Name) -> None:
    """Delete an environment, or what is left of one that was not finished."""
    from xbench.workers import environment

    say(f"removed {environment.remove(name)}")
