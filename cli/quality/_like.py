"""`xbench bisect --like`: which node of a quantised file is to blame."""

import json
from pathlib import Path
from typing import Any

import typer

from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.errors import XBenchError
from xbench.experiments import choose


def bisect_like(
    model: str,
    like: str,
    words: dict[str, Any],
    options: dict[str, Any],
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare, print, and end the command: exit code 1 if a node is named. `words` are options of the models, `options`
    the rest of `proof.bisect.like.compare`.

    Raises:
        XBenchError: see there; the folder cannot be written.
    """
    from xbench.cli.terminal.console import console
    from xbench.cli.terminal.progress import Bar
    from xbench.proof.bisect.like import compare
    from xbench.reports.quality.like import table
    from xbench.reports.tables import show

    own = choose.choose_model("bisect", model, **words)
    original = choose.choose_model("--like", like, shapes=words["shapes"], ranges=words["ranges"])
    choose.need_torch()
    with turn() as place, Bar(1, "bisect") as bar:
        report = compare(own, original, place=place, say=bar.say, **options)
        bar.finish(report["says"])
    text = json.dumps(report, indent=1)
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
            (out / "report.json").write_text(text)
        except OSError as error:
            raise XBenchError(f"cannot write to {out}: {error.strerror}") from error
    if as_json:
        say(text)
    else:
        show([table(report)], console(160))
    raise typer.Exit(int(report["named"]))
