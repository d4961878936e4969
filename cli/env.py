"""`xbench env create|list|remove`: separate environments for old frameworks, and for other versions of runtimes."""

import json
from typing import Annotated

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say

app = typer.Typer(
    no_args_is_help=True,
    help="Environments of old frameworks and of other versions of runtimes: make one with one command, list them, "
    "remove one.",
)


def complete_name(incomplete: str) -> list[str]:
    from xbench.runtimes._environments import RECIPES

    return [name for name in RECIPES if name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(
        help="mxnet, chainer, theano, cntk or caffe2; or a runtime in another version: onnxruntime==1.20.1.",
        autocompletion=complete_name,
    ),
]


@app.command("create")
def create(
    name: Name,
    python: Annotated[
        str | None, typer.Option("--python", help="The Python to make it with. Default: one on the PATH or of pyenv.")
    ] = None,
) -> None:
    """Make the environment of a framework, or of another version of a runtime: a Python of this machine, and pinned
    packages.

    A word such as `onnxruntime==1.20.1` stands wherever a runtime does, and makes its environment when it is first
    used. It is made in $XBENCH_ENVIRONMENTS, or ~/.local/share/xbench/environments. A build that was interrupted does
    not count. No Python is downloaded: exit code 2 if none on this machine fits.
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
    from xbench.runtimes._environments import root
    from xbench.workers import environment

    rows = environment.listed()
    if as_json:
        say(json.dumps(rows, indent=1))
        return
    table = Table()
    for name in ("name", "framework", "state", "Python", "MB", "holds, or needs"):
        table.add_column(name, no_wrap=name == "name")
    for row in rows:
        versions, package = row["versions"], environment.recipe(row["name"]).package
        text = f"{package} {versions.get(package)}, numpy {versions.get('numpy')}" if versions else row["remark"]
        python, size = versions.get("python") or row["pythons"][0], f"{row['bytes'] / 1e6:.0f}" if row["bytes"] else ""
        table.add_row(row["name"], row["framework"], row["state"], python, size, text)
    console().print(table)
    say(f"They lie in {root()}")


@app.command("remove")
def remove(name: Name) -> None:
    """Delete an environment, or what is left of one that was not finished."""
    from xbench.workers import environment

    say(f"removed {environment.remove(name)}")
