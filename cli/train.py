"""`xbench train`: the same training on every trainer, to convergence, its first steps proved equal."""

import json
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

import typer

from xbench.cli import _choose as choose
from xbench.cli._terminal import say
from xbench.cli._turn import turn
from xbench.store.results import FOLDER

Model = Annotated[
    str,
    typer.Argument(
        help="A network of the zoo, or module:factory.",
        autocompletion=lambda incomplete: choose.complete_model(incomplete),
    ),
]
Data = Annotated[
    str,
    typer.Option(
        help="digits, or mnist, cifar10, imdb, ptb with the folder of the files: mnist:folder. "
        "Default folder: $XBENCH_DATA/mnist. Nothing is downloaded."
    ),
]
Epochs = Annotated[int | None, typer.Option(help="Times through the training samples. Default: the set's.", min=1)]
Batch = Annotated[int | None, typer.Option(help="Batch size. Default: the model's.", min=1)]
Seed = Annotated[int, typer.Option(help="Of the order of the samples; the weights are those of `xbench check`.", min=0)]
Dropout = Annotated[bool, typer.Option("--dropout", help="Train with the network's dropout; the proof is without it.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads of every runtime. Default: all.")]
Timeout = Annotated[float, typer.Option(help="Seconds one job of a worker may take.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder of training.jsonl and the curves.")]
Json = Annotated[bool, typer.Option("--json", help="Print the records as a JSON list.")]


def train(
    model: Model,
    data: Data,
    runtime: choose.RuntimeWords = None,
    epochs: Epochs = None,
    batch: Batch = None,
    seed: Seed = 0,
    dropout: Dropout = False,
    threads: Threads = None,
    device: choose.DeviceWord = "cpu",
    inputs: choose.InputWords = None,
    optimizer: choose.OptimizerWord = None,
    timeout: Timeout = 600,
    out: Out = FOLDER,
    as_json: Json = False,
) -> None:
    """Train a network on real data on every runtime that trains, draw the curves over each other, count what is right.

    The same samples in the same order, from the same weights, by the same rule. The loss of each of the first 20 steps
    and all weights behind them are compared with the same training in float64; a runtime that differs by more than the
    noise of float32 is a FAIL, and so is one whose loss is no number any more. Accuracy is counted by the runtime
    itself. TVM, which takes minutes to compile a step, is trained where --runtime names it. Exit code 1 when a runtime
    failed.
    """
    from xbench.data import SETS
    from xbench.errors import XBenchError
    from xbench.experiments.training import FILE
    from xbench.store.results import open_store
    from xbench.workers import samples

    names = choose.choose_models([model], (), None, inputs, optimizer)
    if len(names) > 1:
        raise XBenchError("train takes one network at a time")
    name, _ = samples.parse(data)
    targets = choose.choose_runtimes(runtime)
    cell = {"device": choose.choose_device(device), "threads": choose.choose_threads(threads), "data": data}
    choose.need_torch()
    store = open_store(out, FILE)
    order = {"epochs": epochs or SETS[name].epochs, "seed": seed, "dropout": dropout}
    with turn(out) as folder:
        records = _train(names[0], targets, batch, cell, order, bool(runtime), timeout, store, folder)
    _report(records, out, name, as_json)
    raise typer.Exit(int(any(record["status"] not in ("PASS", "UNSUPPORTED") for record in records)))


def _train(
    model: str,
    targets: list[str],
    batch: int | None,
    cell: dict[str, Any],
    order: dict[str, Any],
    strict: bool,
    timeout: float,
    store: Any,
    folder: Path,
) -> list[dict[str, Any]]:
    """The records of all runtimes, each stored as soon as it is final."""
    from xbench.case import Case
    from xbench.cli._progress import Bar
    from xbench.errors import XBenchError
    from xbench.experiments.training import planned, run
    from xbench.proof.record import expected, impossible
    from xbench.workers.prepare import Exporter

    records, left_out = [], list[str]()
    batch = batch or choose.batch_of(model, 32)
    exporter = Exporter(folder, timeout)
    with Bar(len(targets), f"train {model}") as bar:
        try:
            bar.say("export to ONNX")
            artifact = exporter.artifact(model)
            plan = planned(cell["data"], artifact, folder / "samples.npz", batch=batch, **order)
            if artifact.has_dropout and not plan.dropout:
                say(f"xbench: {model} is trained without its dropout; --dropout trains with it", err=True)
            for case in (Case(model, target, "step", batch, **cell) for target in targets):
                if not strict and not expected(case, artifact):
                    bar.skip()
                    left_out.append(case.runtime)
                    continue
                tell = lambda words, runtime=case.runtime: bar.say(f"{runtime}: {words}")  # noqa: E731
                record = run(case, artifact, plan, exporter, timeout, folder, tell)
                store.append(record)
                records.append(record)
                bar.finish(_line(record))
        finally:
            exporter.close()
    if not records:
        raise XBenchError(f"no installed runtime trains it: {impossible(case, artifact)}")
    if left_out:
        say(f"xbench: left out: {', '.join(left_out)}; --runtime trains it, or says why not", err=True)
    return records


def _line(record: dict[str, Any]) -> str:
    found, ratio = record["training"], (record["parity"] or {}).get("ratio")
    words = [record["status"]]
    words += [f"{ratio:.1f} x noise in {record['parity']['worst_tensor']}"] if ratio is not None else []
    words += [f"loss {found['losses'][-1]:.4f}"] if found["losses"] else []
    words += [f"test accuracy {found['test_accuracy'][-1]:.2%}"] if found["test_accuracy"] else []
    return f"{record['case']['runtime']}: {', '.join(words)}" + (f": {record['message']}" if record["message"] else "")


def _report(records: list[dict[str, Any]], out: Path, data: str, as_json: bool) -> None:
    """The table or the records on stdout; the curves beside the store."""
    from xbench.converters.source import parse
    from xbench.experiments.training import FILE
    from xbench.reports.curves import draw
    from xbench.store.results import encode

    if as_json:
        say(json.dumps([json.loads(encode(record)) for record in records], indent=1))
    else:
        _print(records)
    if not any(record["training"]["losses"] for record in records):
        return
    picture = out / f"{parse(records[0]['case']['model']).stem}-{data}.png"
    try:
        draw(records, picture)
        say(f"saved in {out / FILE} and {picture}", err=True)
    except ImportError:
        say(f"saved in {out / FILE}; for the curves: pip install 'xbench[plot]'", err=True)
    except OSError as error:
        say(f"saved in {out / FILE}; cannot write {picture}: {error.strerror}", err=True)


def _print(records: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from xbench.cli._console import console
    from xbench.converters.printable import visible
    from xbench.reports.formats import label

    names = ("error / noise", "steps proved", "train loss", "test accuracy", "s / epoch", "memory", "power")
    table = Table("runtime", "autodiff", "status", *names)
    for record in records:
        found, ratio = record["training"], (record["parity"] or {}).get("ratio")
        colour = {"PASS": "green", "UNSUPPORTED": "cyan"}.get(record["status"], "bold red")
        status = Text(record["status"], colour)
        cells = [label(record["case"] | {"note": record["note"]}), record["autodiff"] or "", status]
        table.add_row(*cells, "" if ratio is None else f"{ratio:.1f}", _proved(record), *_columns(found))
    out = console(160)
    out.print(table)
    for record in records:
        if record["message"]:
            out.print(f"{record['case']['runtime']}: {visible(record['message'])}", soft_wrap=True)


def _proved(record: dict[str, Any]) -> str:
    """Before which step the first wrong one comes, or the last that could be judged."""
    found = record["training"]
    if not record["parity"]:
        return ""
    right = len(found["oracle_losses"]) if found["first_wrong_step"] is None else found["first_wrong_step"] - 1
    return f"{right} of {found['proof_steps']}"


def _columns(found: dict[str, Any]) -> list[str]:
    """Mean loss of the last epoch that ended, its test accuracy, the median of the epochs' seconds; the peak of the
    memory, the mean power where something counts energy."""
    from xbench.host import usage
    from xbench.reports.cost import size
    from xbench.reports.formats import number

    if not (accuracies := found["test_accuracy"]):
        return [""] * 5
    steps = found["train_samples"] // found["batch"]
    last = found["losses"][(len(accuracies) - 1) * steps : len(accuracies) * steps]
    memory, power = max((each["peak_bytes"] for each in found["usage"]), default=None), usage.watts(found["usage"])
    cells = [f"{fmean(last):.4f}", f"{accuracies[-1]:.2%}", number(median(found["epoch_s"])), size(memory)]
    return [*cells, "" if power is None else f"{power:.3g} W"]
