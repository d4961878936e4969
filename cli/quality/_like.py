"""`xbench bisect --like`: which node of a quantised file is to blame."""

import json
from pathlib import Path
from typing import Any

import typer

from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.errors import XBenchError
from xbench.experiments import choose

BATCH = 16  # samples, where no number is asked for
PLAIN = {"mode": "forward", "precision": "fp32", "device": "cpu", "layout": "nchw"}


def bisect_like(
    model: str,
    like: str,
    runtime: str | None,
    words: dict[str, Any],
    settings: dict[str, Any],
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare, print, and end the command: exit code 1 if a node is named. `words` are options of the models,
    `settings` those of the comparison; a runtime, and settings that only a runtime has, are refused.

    Raises:
        XBenchError: as `proof.bisect.like.compare`; the folder cannot be written.
    """
    from xbench.cli.terminal.console import console
    from xbench.cli.terminal.progress import Bar
    from xbench.experiments.experiment import Lab
    from xbench.reports.quality.like import table
    from xbench.reports.tables import show

    if runtime or {name: settings[name] for name in PLAIN} != PLAIN:
        raise XBenchError("--like compares two files in float64: no runtime, mode, precision, device or layout")
    own = choose.choose_model("bisect", model, **words)
    original = choose.choose_model("--like", like, shapes=words["shapes"], ranges=words["ranges"])
    choose.need_torch()
    with turn() as place, Bar(1, "bisect") as bar, Lab(place, bar, settings["timeout"]) as lab:
        report = _compared(lab, own, original, settings)
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


def _compared(lab: Any, model: str, like: str, settings: dict[str, Any]) -> dict[str, Any]:
    from xbench.case import SYNTHETIC, Case
    from xbench.experiments import own_samples
    from xbench.proof.bisect.like import compare

    batch, seed, given = settings["batch"] or BATCH, settings["seed"], None
    case = Case(model, "", batch=batch, data=settings.get("data", SYNTHETIC))
    if case.own is not None:
        artifact = lab.exporter.artifact(model)
        (case,) = own_samples.settled(lab, [case], artifact, seed + 1)
        own_samples.need_batch(lab.exporter.own[artifact.folder, case.data], seed)
        given = lab.exporter.reference(artifact, "forward", batch, seed, case.data)
    report = compare(model, like, lab.exporter, batch, seed, lab.progress.say, samples=given)
    return {**report, "samples": case.own}
