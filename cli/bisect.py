"""`xbench bisect`: where do two runtimes diverge? The first tensor, and the smallest subgraph that shows it."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli.quality._like import bisect_like
from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.errors import XBenchError
from xbench.experiments import choose

A = Annotated[str | None, typer.Argument(help="A runtime.", autocompletion=options.complete_runtime)]
B = Annotated[
    str | None,
    typer.Argument(help="Another; without it A is compared with float64.", autocompletion=options.complete_runtime),
]
Mode = Annotated[str, typer.Option(help="forward, gradient or step; the simpler ones are looked at before.")]
Precision = Annotated[
    str,
    typer.Option(
        help="Of one runtime, forward: the first tensor that overflows, or is off by more than fp16, int8 or int4 is."
    ),
]
Seed = Annotated[int, typer.Option(help="Of the inputs that are drawn; of --inputs the batch, from 0.", min=0)]
Batch = Annotated[int | None, typer.Option(help="Batch size. Default: 2; with --like 16.", min=1)]
Like = Annotated[
    str | None,
    typer.Option(
        metavar="ORIGINAL",
        help="The network that MODEL was made of, as by a quantiser: which node of MODEL loses what?",
    ),
]
Out = Annotated[
    Path | None, typer.Option(help="Folder for what is found. Default: xbench-bisect/MODEL-A-B/; with --like none.")
]


def bisect(
    model: options.Model,
    a: A = None,
    b: B = None,
    mode: Mode = "forward",
    batch: Batch = None,
    seed: Seed = 0,
    threads: options.Threads = None,
    device: options.Device = "cpu",
    layout: Annotated[str, typer.Option(help="Order of an image's axes inside the runtimes: nchw or nhwc.")] = "nchw",
    precision: Precision = "fp32",
    shape: options.Shapes = None,
    inputs: options.Inputs = None,
    samples: options.Samples = None,
    ranges: options.Ranges = None,
    weights: options.Weights = None,
    like: Like = None,
    timeout: options.Timeout = 900,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """Find the first ONNX tensor on which two runtimes differ, forward or backward.

    The first tensor that one of them computes wrongly is found in one run with every tensor an output, then confirmed
    on its node alone, given what float64 says of the node's inputs. Where marking or cutting hides the difference,
    the smallest part of the network that shows it is found by cutting down the whole. That part is written as
    subgraph.onnx, its inputs, what float64 and the runtimes make of them, and reproduce.py, which needs no xbench.
    Exit code 0: they agree; 1: a difference was found.

    With --like no runtime runs: MODEL, which was quantised, and ORIGINAL are computed in float64. Every node of MODEL
    gets right inputs, so that what it loses is its own, and the node is named whose range, weights or few large
    channels lose most of what a better choice would keep. Exit code 1: a node is named; 0: the loss is spread.
    """
    from xbench.experiments.request import samples as own_samples

    settings: dict[str, Any] = {"mode": mode, "device": device, "layout": layout, "precision": precision}
    settings |= {"batch": batch, **own_samples({"samples": samples})}
    if like is not None:
        words = {"shapes": shape, "inputs": inputs, "ranges": ranges, "weights": weights}
        bisect_like(model, like, a, words, {**settings, "seed": seed, "timeout": timeout}, out, as_json)
    settings |= {"threads": threads, "batch": batch or 2}
    cases = _cases(model, [each for each in (a, b) if each], (shape, inputs, None, ranges, weights), settings)
    choose.need_torch()
    report = _report(cases, seed, timeout, out)
    if as_json:
        say(json.dumps(report, indent=1))
    elif report["differs"]:
        _print(report)
    raise typer.Exit(int(report["differs"]))


def _cases(model: str, typed: list[str], model_options: tuple[Any, ...], settings: dict[str, Any]) -> list[Any]:
    """One cell per runtime.

    Raises:
        XBenchError: an invalid or ambiguous word.
    """
    from xbench.case import AUTO, Case
    from xbench.runtimes import row_of

    if not typed:
        raise XBenchError("which runtime? xbench bisect MODEL A [B], or for a quantised file: --like ORIGINAL")
    words = [word for each in typed for word in choose.choose_runtimes([each])]
    if len(words) != len(typed):
        raise XBenchError(f"one runtime beside another: xbench bisect MODEL A B, not {', '.join(words)}")
    precision, mode = settings["precision"], settings["mode"]
    if choose.choose_precision(precision) != "fp32" and (len(typed) > 1 or mode != "forward"):
        raise XBenchError(f"--precision {precision} is for one runtime, and --mode forward")
    device, threads = choose.choose_device(settings["device"]), options.choose_threads(settings["threads"])
    names = choose.choose_models([model], (), *model_options)
    modes = choose.choose_modes([mode], ())
    if len(names) > 1 or len(modes) > 1:
        raise XBenchError("one model and one mode at a time")
    if choose.choose_layout(settings["layout"]) == AUTO:
        raise XBenchError("--layout auto: runtimes are compared in one layout, nchw or nhwc")
    layout = settings["layout"]
    known = [layout in row_of(word).layouts for word in words]
    layouts = [layout if is_known or not any(known) else "nchw" for is_known in known]  # for those that have the layout
    cell = {**settings, "mode": modes[0], "device": device, "threads": threads}
    return [Case(names[0], word, **{**cell, "layout": each}) for word, each in zip(words, layouts, strict=True)]


def _report(cases: list[Any], seed: int, timeout: float, out: Path | None) -> dict[str, Any]:
    from xbench.cli.terminal.progress import Bar
    from xbench.converters.printable import file_name
    from xbench.experiments import own_samples
    from xbench.experiments.experiment import Lab
    from xbench.proof.bisect.run import of_artifact, title

    stem = "-".join(file_name(word) for word in (Path(cases[0].model).stem, *(case.runtime for case in cases)))
    with turn() as place, Bar(1, "bisect") as bar, Lab(place, bar, timeout) as lab:
        bar.say(f"{cases[0].model}: export to ONNX")
        artifact = lab.exporter.artifact(cases[0].model)
        cases = own_samples.settled(lab, cases, artifact, seed + 1)
        own_samples.need_batch(lab.exporter.own.get((artifact.folder, cases[0].data)), seed)
        report = of_artifact(cases, artifact, lab.exporter, seed, out or Path("xbench-bisect", stem), bar.say)
        bar.finish(title(report))
    return report


def _print(report: dict[str, Any]) -> None:
    """Print the report, one line per fact."""
    facts = {}
    for letter in ("a", "b"):
        if report[letter]:
            facts[report[letter]] = _state(report, letter)
    if report["node"]:
        node = report["node"]
        facts |= {"tensor": report["tensor"], "node": f"{node['op_type']} {node['name'] or ''}".strip()}
        facts |= {"reads": ", ".join(node["inputs"]), "gives": ", ".join(node["outputs"])}
    facts |= {"inputs": report["inputs"]} if report["inputs"] else {}
    if report["note"]:
        facts["note"] = report["note"]
    facts["files"] = str(Path(report["files"][0]).parent)
    for name, value in facts.items():
        say(f"{name:16} {value}")


def _state(report: dict[str, Any], letter: str) -> str:
    """A runtime's result, in words."""
    if failure := report["failures"].get(letter):
        return f"fails: {failure}"
    off = report["error_in_floors"].get(letter)
    size = "not finite or of another shape" if off is None else f"{off:.1f} times the float32 noise off"
    return f"{'wrong' if report['wrong'] in (letter, 'both') else 'right'}: {size}"
