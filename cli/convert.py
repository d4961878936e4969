"""`xbench convert`: export networks to ONNX and make every runtime accept them."""

import json
import tempfile
import time as clock
from pathlib import Path
from typing import Annotated, Any

import typer

from xbench.cli import _choose as choose


def convert(
    model: Annotated[
        list[str] | None,
        typer.Argument(
            help="Networks of the zoo, `all`, or paths of .onnx files. Default: the default suite.",
            autocompletion=choose.complete_model,
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to", "--runtime", help="Runtime; may be repeated. Default: all.", autocompletion=choose.complete_runtime
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of objects.")] = False,
) -> None:
    """Export each model once and convert it for each runtime; what is missing is named, all at once.

    The results are cached by content: a second call does nothing. Exit code 1 when a conversion crashed; operators that
    a runtime lacks are no failure of the command.
    """
    from xbench import models
    from xbench.bench.prepare import Exporter
    from xbench.cli._progress import Bar

    names = choose.choose_models(model, models.DEFAULT_SUITE)
    targets = choose.choose_runtimes(to)
    choose.choose_device(device)
    choose.need_torch()
    rows: list[dict[str, Any]] = []
    broken: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="xbench-logs-") as logs, Bar(len(names) * len(targets), "convert") as bar:
        exporter = Exporter(Path(logs))
        try:
            for name in names:
                bar.say(f"{name}: export to ONNX")
                artifact = choose.exported(exporter, name, broken)
                if artifact is None:
                    continue
                for target in targets:
                    bar.say(f"{name}: {target}")
                    row = _convert(artifact, target, device, Path(logs))
                    rows.append({"model": name, "runtime": target, **row})
                    bar.finish(_line(rows[-1]))
        finally:
            exporter.close()
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    raise typer.Exit(2 if broken else int(any(row["status"] in ("CRASH", "TIMEOUT", "OOM") for row in rows)))


def _convert(artifact: Any, runtime: str, device: str, logs: Path) -> dict[str, Any]:
    """Converts for one runtime, or returns what an earlier call found for the same version of it."""
    from xbench import runtimes
    from xbench.bench.prepare import converted, read_json

    version = runtimes.version(runtimes.table()[runtimes.parse(runtime)[0]])
    path = converted(artifact, runtime)
    known = read_json(path)
    if known and known.get("version") == version and known.get("device") == device:
        return known
    start = clock.perf_counter()
    row = _outcome(artifact, runtime, device, logs) | {"version": version, "device": device}
    row |= {"seconds": round(clock.perf_counter() - start, 3), "folder": str(artifact.folder)}
    if row["status"] in ("CONVERTED", "UNSUPPORTED"):
        path.write_text(json.dumps(row))
    return row


def _outcome(artifact: Any, runtime: str, device: str, logs: Path) -> dict[str, Any]:
    """Whether the runtime takes the model: looked up where the text runs in our own table, else tried in a worker."""
    from xbench.bench.worker import Worker, WorkerFailure
    from xbench.converters import UnsupportedOps, operators_of
    from xbench.runtimes import parse, table

    if own := table()[parse(runtime)[0]].operators:
        known = operators_of(own)
        missing = UnsupportedOps({name: n for name, n in artifact.info["operators"].items() if name not in known})
        module = own == "torch" and artifact.info["origin"] == "zoo"  # PyTorch runs the module itself
        if module or not missing.operators:
            return {"status": "CONVERTED", "operators": {}, "message": None}
        message = f"operators missing: {missing}"
        return {"status": "UNSUPPORTED", "operators": missing.operators, "message": message}
    worker = Worker(logs / "convert.log", device)
    try:
        worker.call("convertible", 600, artifact=str(artifact.folder), runtime=runtime, device=device)
    except WorkerFailure as failure:
        return {"status": failure.status, "operators": failure.operators or {}, "message": failure.message}
    finally:
        worker.stop()
    return {"status": "CONVERTED", "operators": {}, "message": None}


def _line(row: dict[str, Any]) -> str:
    detail = f": {row['message']}" if row["message"] else f" in {row['seconds']:.1f} s"
    return f"{row['model']} -> {row['runtime']}: {row['status']}{detail}"
