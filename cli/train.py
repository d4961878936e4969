"""`xbench train`: the same training on every trainer, to convergence, its first steps proved equal."""

import json
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.declared import as_in, of_network
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.run import requested
from xbench.store.experiments import Training
from xbench.store.record import NOTHING, Record

Data = Annotated[
    str,
    typer.Option(
        help="digits, or mnist, cifar10, imdb, ptb with the folder of the files: mnist:folder. "
        "Default folder: $XBENCH_DATA/mnist. Nothing is downloaded."
    ),
]
Epochs = Annotated[int | None, typer.Option(help="Times through the training samples. Default: the set's.", min=1)]
Dropout = Annotated[bool, typer.Option("--dropout", help="Train with the network's dropout; the proof is without it.")]

REACHED = ("train loss", "test accuracy", "s / epoch", "memory", "power")
HEADER = ("runtime", "autodiff", "status", "error / noise", "steps proved", *REACHED)


@as_in(of_network, without=("samples", "shapes", "ranges"))
def train(
    arguments: dict[str, Any],
    data: Data,
    epochs: Epochs = None,
    seed: options.Seed = 0,
    dropout: Dropout = False,
) -> None:
    """Train a network on real data on every runtime that trains, draw the curves over each other, count what is right.

    The same samples in the same order, from the same weights, by the same rule. The loss of each of the first 20 steps
    and all weights after them are compared with the same training in float64; a runtime that differs by more than the
    noise of float32 is a FAIL, and so is one whose loss is not finite. Accuracy is counted by the runtime itself. TVM,
    which takes minutes to compile a step, is trained only if --runtime names it. A training that is recorded already
    is not repeated. Exit code 1 when a runtime failed.
    """
    from xbench.experiments import of_network as requests

    outcome = requested(requests.train(arguments), arguments)
    if outcome.left_out:
        left_out = ", ".join(case.runtime for case, _ in outcome.left_out)
        say(f"xbench: left out: {left_out}; --runtime trains it, or says why not", err=True)
    _report(outcome.records, arguments["out"], data.partition(":")[0], arguments["as_json"])
    raise typer.Exit(outcome.exit_code)


def _report(records: list[Record], out: Path, data: str, as_json: bool) -> None:
    """Print the table or the records on stdout; draw the curves next to the store."""
    from xbench.converters.source import parse
    from xbench.experiments.train import Train
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
        say(f"saved in {out / Train.file} and {picture}", err=True)
    except ImportError:
        say(f"saved in {out / Train.file}; for the curves: pip install 'xbench[plot]'", err=True)
    except OSError as error:
        say(f"saved in {out / Train.file}; cannot write {picture}: {error.strerror}", err=True)


def _print(records: list[Record]) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports.formats import label
    from xbench.reports.tables import COLOURS, OTHER, Table, show

    body, styles = list[list[str]](), [COLOURS.get(record["status"], OTHER) for record in records]
    for record in records:
        ratio: float | None = (record["parity"] or NOTHING).get("ratio")
        name, error = label({**record["case"], "note": record["note"]}), "" if ratio is None else f"{ratio:.1f}"
        named = [name, record["autodiff"] or "", record["status"], error, _proved(record)]
        body.append([*named, *_columns(record["training"])])
    notes = [f"{record['case']['runtime']}: {record['message']}" for record in records if record["message"]]
    show([Table("", HEADER, body, words=3, notes=notes, styles=styles, styled=2)], console(160))


def _proved(record: Record) -> str:
    """How many of the proof's steps are right."""
    training = record["training"]
    if not record["parity"]:
        return ""
    right = len(training["oracle_losses"]) if training["first_wrong_step"] is None else training["first_wrong_step"] - 1
    return f"{right} of {training['proof_steps']}"


def _columns(found: Training) -> list[str]:
    """Mean loss of the last finished epoch, its test accuracy, the median seconds of an epoch; the peak of the memory,
    the mean power if energy is counted."""
    from xbench.host import usage
    from xbench.reports.cost import size
    from xbench.reports.curves import losses_of
    from xbench.stats.quantities import number

    if not (accuracies := found["test_accuracy"]):
        return [""] * len(REACHED)
    loss = fmean(losses_of(found, len(accuracies) - 1))
    memory, power = max((each["peak_bytes"] for each in found["usage"]), default=None), usage.watts(found["usage"])
    cells = [f"{loss:.4f}", f"{accuracies[-1]:.2%}", number(median(found["epoch_s"])), size(memory)]
    return [*cells, "" if power is None else f"{power:.3g} W"]
