"""`xbench plugin`: adapters of other packages, and whether they can be trusted."""

import json
from dataclasses import asdict
from typing import Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.errors import XBenchError
from xbench.experiments import choose

GROUP = "xbench.runtimes"
app = typer.Typer(
    no_args_is_help=True, help="Adapters of other distributions: list them, test whether they are honest."
)


@app.command("list")
def list_plugins(as_json: options.Json = False) -> None:
    """The runtimes that installed packages add through the entry-point group xbench.runtimes."""
    from xbench.converters.printable import one_line
    from xbench.runtimes._plugins import points

    words = (
        {"runtime": point.name, "package": point.dist.name, "version": point.dist.version, "entry": point.value}
        for point in points()
        if point.dist
    )
    plugins = [{name: one_line(word) for name, word in each.items()} for each in words]
    if as_json:
        say(json.dumps(plugins, indent=1))
    elif not plugins:
        say(f"no installed package adds a runtime; the entry-point group is {GROUP}")
    for row in () if as_json else plugins:
        say(f"{row['runtime']}: {row['package']} {row['version']}, {row['entry']}")


@app.command("test")
def test_plugin(
    runtime: options.Runtime,
    device: options.Device = "cpu",
    threads: options.ThreadCount = 1,
    timeout: options.Timeout = 600,
    as_json: options.Json = False,
) -> None:
    """Test an adapter: is what it computes right, and does the clock see all of the work and nothing else?

    Small networks run on it as every network does. Each fault is named: it answers before it is done, remembers
    answers, leaves an output out, copies through the host, runs on another device or in less precision, uses more
    threads than allowed, and so on. Exit code 1 when a fault is found, or nothing could be tested.
    """
    from xbench.cli.terminal.progress import Bar
    from xbench.proof import conformance, probes
    from xbench.proof.conformance_cell import Bench
    from xbench.workers.prepare import Exporter

    words = choose.choose_runtimes([runtime])
    if len(words) != 1:
        raise XBenchError(f"one runtime at a time, not {', '.join(words)}")
    choose.need_torch()
    device, findings = choose.choose_device(device), []
    with turn() as folder:
        exporter = Exporter(folder, timeout)
        bench = Bench(words[0], device, threads, exporter, probes.write(folder), folder, timeout)
        audited = len(conformance.CHECKS) - len(conformance.PROBES)
        try:
            with Bar(audited * len(conformance.modes(words[0])) + len(conformance.PROBES), f"test {words[0]}") as bar:
                for finding in conformance.examine(bench, bar.say):
                    findings.append(asdict(finding))
                    bar.finish(_line(findings[-1]))
        finally:
            exporter.close()
    if as_json:
        say(json.dumps(findings, indent=1))
    else:
        _print(words[0], findings, conformance.CHECKS)
    tested = any(each["check"] == "result" and each["held"] for each in findings)
    raise typer.Exit(int(not tested or any(each["held"] is False for each in findings)))


WORDS = {True: "holds", False: "BROKEN", None: "not asked"}
COLOURS = {True: "green", False: "bold red", None: "cyan"}


def _line(finding: dict[str, Any]) -> str:
    word = WORDS[finding["held"]]
    says = f": {finding['says']}" if finding["says"] and finding["held"] is not True else ""
    return f"{finding['mode']} {finding['check']}: {word}{says}"


def _print(runtime: str, findings: list[dict[str, Any]], checks: dict[str, str]) -> None:
    from rich.table import Column, Table
    from rich.text import Text

    from xbench.cli.terminal.console import console

    out = console()
    modes = list(dict.fromkeys(each["mode"] for each in findings))
    by_place = {(each["check"], each["mode"]): each for each in findings}
    narrow = [Column(mode, no_wrap=True) for mode in modes]
    table = Table("promise", *narrow, Column("what it means", overflow="fold"), box=None, pad_edge=False)
    for check in (check for check in checks if any(name == check for name, _ in by_place)):
        row = [by_place.get((check, mode)) for mode in modes]
        words = [Text(WORDS[each["held"]], COLOURS[each["held"]]) if each else "" for each in row]
        table.add_row(check, *words, checks[check])
    out.print(table)
    broken = [each for each in findings if each["held"] is False]
    silent = [each for each in findings if each["held"] is None and each["check"] == "result"]
    for each in broken + silent:
        colour = "bold red" if each in broken else "cyan"
        head = (f"{each['mode']} {each['check']}", colour)
        out.print(Text.assemble(head, f": {each['says']}"), soft_wrap=True)
    tested = sum(each["held"] is not None for each in findings)
    count = f"{len(broken)} of {tested} promises are broken" if broken else f"all {tested} promises hold"
    count = count if tested else "it could not be tested"
    out.print(f"{runtime}: {count}")
