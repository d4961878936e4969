"""`xbench ask`: a network and inputs for a program that knows no xbench; `xbench judge` judges its answers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xbench.case import SYNTHETIC, Case
from xbench.cli.terminal import options
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.experiments import choose

if TYPE_CHECKING:
    from xbench.proof.question import Facts


def ask(
    model: options.Model,
    output: Annotated[Path, typer.Option("--output", help="The folder to write, new or empty.")],
    batch: Annotated[int, typer.Option(help="Samples of the first set; the second has one more.", min=1)] = 2,
    same_batch: Annotated[
        bool, typer.Option("--same-batch", help="The second set has as many: for a model compiled for one size.")
    ] = False,
    precision: options.Precision = "fp32",
    tensors: Annotated[
        bool, typer.Option("--tensors", help="A model, too, that gives every tensor: the first wrong one can be named.")
    ] = False,
    shapes: options.Shapes = None,
    inputs: options.Inputs = None,
    samples: options.Samples = None,
    ranges: options.Ranges = None,
    weights: options.Weights = None,
    timeout: options.Timeout = 900,
    as_json: options.Json = False,
) -> None:
    """Write a question: a network, inputs, and what float64 makes of them, to judge answers computed elsewhere.

    A phone, a browser, an accelerator or a C++ program runs the network on the inputs and writes its outputs; `xbench
    judge` then gives them the verdict of `xbench check`. The folder is laid out as ONNX's own tests are, its README
    says how to answer, and inputs are there as .npz, as ONNX's .pb and as raw bytes.
    """
    from xbench.experiments.request import samples as own_samples
    from xbench.proof.question import check_folder

    choose.need_torch()
    choose.choose_precision(precision)
    word = choose.choose_model("ask", model, shapes=shapes, inputs=inputs, ranges=ranges, weights=weights)
    check_folder(output, "--output")
    batches = (batch, batch if same_batch else batch + 1)
    case = Case(word, "", batch=batches[1], data=own_samples({"samples": samples}).get("data", SYNTHETIC))
    facts = _written(case, timeout, folder=output, batches=batches, precision=precision, tensors=tensors)
    if as_json:
        say(json.dumps({"folder": str(output), **facts}, indent=1))
    else:
        from xbench.converters.printable import shell

        say(f"written to {output}; its README says how to answer. Then: {shell('xbench', 'judge', output)} ANSWERS")


def _written(case: Case, timeout: float, **how: Any) -> "Facts":
    """Write the question of a case's model on its data, and return its facts."""
    from xbench.cli.terminal.progress import Bar
    from xbench.experiments import own_samples
    from xbench.experiments.experiment import Lab
    from xbench.proof import ask as asking

    with turn() as logs, Bar(1, "ask") as bar, Lab(logs, bar, timeout) as lab:
        bar.say(f"{case.model}: export to ONNX")
        artifact = lab.exporter.artifact(case.model)
        for remark in lab.exporter.remarks(artifact):
            bar.note(remark)
        (case,) = own_samples.settled(lab, [case], artifact)
        bar.say(f"{case.model}: compute it in float64")
        facts = asking.ask(artifact, lab.exporter, data=case.data, **how)
        bar.finish(f"{case.model}: inputs {len(facts['inputs'])}, outputs {len(facts['outputs'])}")
    return facts
