"""`xbench convert`: export networks to ONNX and make every runtime accept them."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli import _choose as choose


def convert(
    model: choose.ModelWords = None,
    runtime: choose.RuntimeWords = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            help="Runtime in whose own form the model is also written, to be used without xbench; may be repeated.",
            autocompletion=choose.complete_runtime,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for --to: <output>/<model>/<runtime>/.")
    ] = Path("xbench-models"),
    batch: Annotated[int, typer.Option(help="Batch size of forms that fix it (TVM).", min=1)] = 1,
    device: choose.DeviceWord = "cpu",
    layout: choose.LayoutWord = "nchw",
    shape: choose.ShapeWords = None,
    inputs: choose.InputWords = None,
    optimizer: choose.OptimizerWord = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Compute in float64, too, what `time` proves forward and step against.")
    ] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Make the kernels that torch_compile keeps.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of objects.")] = False,
) -> None:
    """Export each model once and convert it for each runtime; what is missing is named, all at once.

    Without MODEL it is the default suite. The results are cached by content: a second call does nothing. With --to
    the model is also written in the runtime's own form: jax, tensorflow, torch: a Python file that reads like the
    network and trains, and its weights (.safetensors), tensorflow a SavedModel beside it; openvino: its IR; tvm: a
    library; onnxruntime: the ONNX file; each with certificate.json, which says what it holds. With --compile the
    kernels of forward and step are there when `time` asks for them; what making them took is told beside its times.
    Exit code 1 when a conversion crashed; operators that a runtime lacks are no failure of the command.
    """
    from xbench import models
    from xbench.cli._progress import Bar

    names = choose.choose_models(model, models.DEFAULT_SUITE, shape, inputs, optimizer)
    forms = choose.choose_runtimes(to) if to else []
    targets = list(dict.fromkeys([*choose.choose_runtimes(runtime or forms), *forms]))
    choose.choose_device(device)
    choose.choose_layout(layout)
    choose.need_torch()
    broken: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="xbench-logs-") as logs, Bar(len(names) * len(targets), "convert") as bar:
        where = {"device": device, "layout": layout, "batch": batch, "output": output, "logs": Path(logs)}
        rows = list(_rows(names, targets, forms, oracle, compiled, where, bar, broken))
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    raise typer.Exit(2 if broken else int(any(row["status"] in ("CRASH", "TIMEOUT", "OOM") for row in rows)))


def _rows(
    names: list[str],
    targets: list[str],
    forms: list[str],
    oracle: bool,
    compiled: bool,
    where: dict[str, Any],
    bar: Any,
    broken: set[str],
) -> Iterator[dict[str, Any]]:
    """One row a model and runtime; `forms` are the runtimes in whose own form it is written too."""
    from xbench.bench import conversion
    from xbench.bench.prepare import Exporter

    exporter = Exporter(where["logs"])
    try:
        for name in names:
            bar.say(f"{name}: export to ONNX")
            artifact = choose.exported(exporter, name, broken)
            if artifact is None:
                continue
            if oracle:
                bar.say(f"{name}: float64")
                _compute_references(exporter, artifact, name, broken)
            for target in targets:
                bar.say(f"{name}: {target}")
                row = conversion.convert(artifact, target, where["device"], where["logs"])
                if target in forms and row["status"] == "CONVERTED":
                    row |= conversion.save(artifact, name, target, exporter, **where)
                if compiled and row["status"] == "CONVERTED":
                    row |= _compile(artifact, name, target, exporter, where)
                row = {"model": name, "runtime": target, **row}
                bar.finish(_line(row))
                yield row
    finally:
        exporter.close()


def _compute_references(exporter: Any, artifact: Any, name: str, broken: set[str]) -> None:
    """What a cell of the batch that `time` takes is proved against."""
    from xbench.bench import STEPS, SYNTHETIC, XBenchError
    from xbench.bench.proof import SEEDS

    trained = artifact.info["loss"] and artifact.parameters
    try:
        for mode in ("forward", "step") if trained else ("forward",):
            for seed in SEEDS[:2]:
                exporter.reference(artifact, mode, choose.batch_of(name, 1), seed, SYNTHETIC, STEPS)
    except XBenchError as error:
        typer.echo(f"xbench: {error}", err=True)
        broken.add(name)


def _compile(artifact: Any, model: str, runtime: str, exporter: Any, where: dict[str, Any]) -> dict[str, Any]:
    """Makes the first call of what keeps its kernels, in a worker as `time` opens it in the modes that nobody need ask
    for; returns what changes in the row: the seconds by mode, null where the kernels lay there already."""
    from xbench.bench import Case, XBenchError, machine
    from xbench.bench.proof import opened_in, references
    from xbench.bench.record import expected
    from xbench.bench.worker import WorkerFailure, worker_of
    from xbench.runtimes import parse, table

    seconds: dict[str, float | None] = {}
    told = {name: where[name] for name in ("device", "layout")} | {"threads": machine.cpus()}
    for mode in ("forward", "step") if table()[parse(runtime)[0]].keeps else ():
        case = Case(model, runtime, mode, choose.batch_of(model, 1), **told)
        if not expected(case, artifact):
            continue
        worker = worker_of(case, where["logs"] / "kernels.log")
        try:
            paths = references(case, artifact, exporter, [case.batch] * 2)
            opening, _ = opened_in(worker, case, artifact, paths, 600)
        except WorkerFailure as failure:
            return {"status": failure.status, "operators": failure.operators or {}, "message": failure.message}
        except XBenchError as error:  # no reference, no first call
            return {"message": str(error)}
        finally:
            worker.stop()
        seconds[mode] = None if opening["recalled"] else opening["times"]["first_s"]
    return {"kernels": seconds} if seconds else {}


def _line(row: dict[str, Any]) -> str:
    detail = f": {row['message']}" if row["message"] else f" in {row['seconds']:.1f} s"
    made = {mode: seconds for mode, seconds in row.get("kernels", {}).items() if seconds}
    detail += f", kernels of {' and '.join(f'{mode} in {s:.1f} s' for mode, s in made.items())}" if made else ""
    detail += f": {row['files'][0]}" if row.get("files") else ""
    return f"{row['model']} -> {row['runtime']}: {row['status']}{detail}"
