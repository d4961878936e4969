"""The facts of a model before conversion, and which runtimes will take it.

A file is read by a worker that has `onnx` and no framework (`jobs/inspect.py`). A network of the zoo or of a factory
has no file: PyTorch's worker exports it, as for any other command. Then a runtime that runs our text is looked up in
its operator table, and one with an importer of its own reads the graph, in a worker of its own, unless asking is
switched off. None of them computes anything.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from xbench import models
from xbench.converters import operators_of, temporary
from xbench.converters.artifact import Artifact
from xbench.converters.source import Source, parse
from xbench.errors import XBenchError
from xbench.host.machine import cpus
from xbench.runtimes import Row, is_ours, row_of, table, version
from xbench.workers.prepare import FILE_TIMEOUT, Exporter
from xbench.workers.worker import Worker, WorkerFailure

LOOKED_UP, ASKED, NOT_ASKED = "looked up", "asked", "not asked"
REFUSED = "xbench convert will refuse it: "
TIMEOUT = 300.0  # seconds for a runtime to read a graph
Say = Callable[[str], object]
Facts = dict[str, Any]


def inspect(word: str, runtimes: Sequence[str], batch: int | None, device: str, ask: bool, say: Say) -> Facts:
    """The facts of a model and a row per runtime (docs/results.md, "What `xbench inspect --json` prints").

    Raises:
        XBenchError: the model cannot be read or exported.
    """
    source = parse(word)
    with temporary.folder() as folder:
        file, artifact = _file(source, folder, say)
        say("read the graph")
        with ThreadPoolExecutor() as pool:
            lowering = pool.submit(_of_artifact, artifact) if artifact else pool.submit(_lowered, source, file, folder)
            facts = _read(source, file, batch, folder)
        names = [each["name"] for each in facts["inputs"]]
        if unknown := [name for name in source.ranges if name not in names]:
            words = f"there is no input of this name; there are {', '.join(names)}"
            raise XBenchError(f"{source.place}: --range {unknown[0]}: {words}")
        lowered = _completed(lowering.result(), facts)
        say("which runtimes take it?")
        facts["remarks"] += lowered.pop("remarks")
        drawn = lowered.pop("drawn", {})
        facts["inputs"] = [each | {"drawn": drawn.get(each["name"])} for each in facts["inputs"]]
        rows = _rows(runtimes, lowered, device, ask, folder)
    readers = {"zoo": "PyTorch's exporter", "module": "PyTorch's exporter", "tensorflow": "tf2onnx"}
    training = {"trains": lowered["trains"], "without_gradient": lowered["gradients"]}
    return {
        "model": word,
        "kind": source.kind,
        "made_by": readers.get(source.kind),
        **facts,
        "training": training,
        "runtimes": rows,
    }


def default_runtimes() -> list[str]:
    """All that need not be requested by name, installed or not."""
    return [name for name, row in table().items() if not (row.hidden or row.named)]


def _file(source: Source, folder: Path, say: Say) -> tuple[Path, Artifact | None]:
    """The model as an ONNX file, and its artifact if it was exported for this."""
    if source.kind == "onnx":
        return Path(source.place), None
    if source.kind == "tensorflow":
        say("read it with TensorFlow")
        file = folder / "imported.onnx"
        worker = Worker(folder / "importer.log", threads=cpus(), timed=False)
        try:
            worker.call("import_tensorflow", FILE_TIMEOUT, path=source.place, file=str(file))
        except WorkerFailure as failure:
            raise _broken(source, failure) from failure
        finally:
            worker.stop()
        return file, None
    say("export to ONNX")
    exporter = Exporter(folder)
    try:
        artifact = exporter.artifact(source.word)
    finally:
        exporter.close()
    return artifact.folder / "model.onnx", artifact


def _broken(source: Source, failure: WorkerFailure) -> XBenchError:
    message = failure.message if failure.status == "ERROR" else f"cannot read {source.place}: {failure.message}"
    return XBenchError(message)


def _read(source: Source, file: Path, batch: int | None, folder: Path) -> Facts:
    """The facts of a file. If ONNX's own code crashes the worker, they are read again without it."""
    for infer in (True, False):
        worker = Worker(folder / "inspect.log", threads=cpus(), timed=False)
        try:
            arguments = {"word": source.word, "file": str(file), "batch": batch, "infer": infer}
            facts: Facts = worker.call("inspect_file", FILE_TIMEOUT, **arguments)
            if not infer:
                facts["remarks"].append("ONNX's shape inference fails on it: sizes are those that the file says")
            return facts
        except WorkerFailure as failure:
            if failure.status != "CRASH" or not infer:
                raise _broken(source, failure) from failure
        finally:
            worker.stop()
    raise AssertionError


def _lowered(source: Source, file: Path, folder: Path) -> Facts:
    """What runtimes must support: the operators of the text and the graph, and those without a gradient."""
    target = folder / "lowered"
    target.mkdir()
    worker = Worker(folder / "lower.log", threads=cpus(), timed=False)
    try:
        where = {"word": source.word, "file": str(file), "folder": str(target)}
        lowered: Facts = worker.call("lower_file", FILE_TIMEOUT, **where)
    except WorkerFailure as failure:
        return {
            "trains": False,
            "gradients": {},
            "folder": None,
            "module": False,
            "remarks": [REFUSED + failure.message],
        }
    finally:
        worker.stop()
    remarks = [f"to be converted it needs sizes: {lowered['wants']}"] if lowered["wants"] else []
    return {**lowered, "folder": str(target), "module": False, "remarks": remarks}


def _completed(lowered: Facts, facts: Facts) -> Facts:
    """The same, with known facts of a file that cannot be lowered."""
    remarks = list(lowered["remarks"])
    if facts["unknown"]:
        words = "runtimes are asked for the file as it is"
        remarks.append(f"{REFUSED}operators that ONNX does not define: {counted(facts['unknown'])}; {words}")
    return {"program": facts["operators"]} | lowered | {"remarks": remarks}


def _of_artifact(artifact: Artifact) -> Facts:
    info = artifact.info
    trains, zoo = bool(info["loss"] and artifact.parameters), info["origin"] == "zoo"
    why = info["untrainable"] if trains else None
    remarks = [f"no training step as a graph: {why}"] if why else []
    drawn = {each["name"]: models.drawn(models.Input(**each)) for each in info["inputs"]}
    facts = {"program": artifact.operators, "folder": str(artifact.folder), "remarks": remarks, "drawn": drawn}
    return {**facts, "trains": trains, "gradients": {}, "untrainable": why, "module": zoo}


def _rows(runtimes: Sequence[str], lowered: Facts, device: str, ask: bool, folder: Path) -> list[Facts]:
    """A row per runtime; workers that try it run in parallel."""
    rows = [_row(runtime, lowered) for runtime in runtimes]
    pending = [row for row in rows if row["version"] and row["takes"] is None and ask and lowered["folder"]]
    with ThreadPoolExecutor(max_workers=cpus()) as pool:
        logs = (folder / f"{place}.log" for place in range(len(pending)))
        answers = pool.map(lambda row, log: _convertible(row["runtime"], lowered["folder"], device, log), pending, logs)
        for row, answer in zip(pending, answers, strict=True):
            row |= {"how": ASKED} | answer
    for row in rows:
        row["modes"] = _modes(row_of(row["runtime"]), lowered) if row["takes"] else []
    return rows


def _row(runtime: str, lowered: Facts) -> Facts:
    """The facts of a runtime without a worker."""
    row = row_of(runtime)
    now = version(row, runtime)
    known: Facts = {"runtime": runtime, "version": now, "takes": None, "how": NOT_ASKED, "lacks": {}, "message": None}
    if row.operators and is_ours(runtime):
        lacks = {name: n for name, n in lowered["program"].items() if name not in operators_of(row.operators)}
        lacks = {} if row.operators == "torch" and lowered["module"] else lacks  # PyTorch runs the module itself
        known |= {"takes": not lacks, "how": LOOKED_UP, "lacks": lacks}
    return known | {"message": None if now else "not installed"}


def _convertible(runtime: str, folder: str, device: str, log: Path) -> Facts:
    from xbench.runtimes import _configuration, row_of

    worker = Worker(log, device, python=_configuration.worker(runtime), row=row_of(runtime))
    try:
        worker.call("convertible", TIMEOUT, artifact=folder, runtime=runtime, device=device)
    except WorkerFailure as failure:
        lacks = failure.operators or {}
        return {"takes": False, "lacks": lacks, "message": None if lacks else failure.message}
    finally:
        worker.stop()
    return {"takes": True}


def _modes(row: Row, lowered: Facts) -> list[str]:
    """The modes that it should have: a graph of the training step needs the gradient of every operator on its
    path."""
    graph_lacks = row.autodiff == "graph" and (lowered["gradients"] or lowered.get("untrainable"))
    if not lowered["trains"] or row.autodiff is None or graph_lacks:
        return ["forward"]
    return ["forward", "gradient", "step"]


def counted(operators: dict[str, int]) -> str:
    """Operators with their counts, in words."""
    return ", ".join(f"{name} ({n})" for name, n in operators.items())
