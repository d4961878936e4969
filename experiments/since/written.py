"""The files by which anybody sees, without xbench, what two releases of a runtime do."""

from pathlib import Path

from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.experiments.since.questions import Bench, Slower
from xbench.experiments.since.run import Report
from xbench.runtimes import _configuration, _environments, row_of
from xbench.workers.worker import WorkerFailure

SAYS = {"wrong": "is wrong", "crashes": "crashes"}


def write(report: Report, bench: Bench, artifact: Artifact, out: Path) -> Report:
    """The report with the paths of what is written: the network, inputs and a script that times it in both releases, or
    that shows the error of the bad one; or with the reason why nothing is."""
    try:
        return report | {"files": _written(report, bench, artifact, out)}
    except Unwritten as error:
        return report | {"note": "; ".join(filter(None, (report["note"], str(error))))}


class Unwritten(Exception):
    """The reason why there is no script."""


def _written(report: Report, bench: Bench, artifact: Artifact, out: Path) -> list[str]:
    case, exporter = bench.case, bench.lab.exporter
    if case.mode != "forward" or case.precision != "fp32":
        raise Unwritten(f"there is no script without xbench for {case.mode} in {case.precision}")
    good, bad = (bench.word(report[each]) for each in ("good", "bad"))
    runtime = {"word": bad, "device": case.device, "threads": case.threads, "layout": case.layout, "answer": None}
    about = f"{case.model}, batch {case.batch}, threads {case.threads}: {bad}"
    try:
        reference = exporter.reference(artifact, "forward", case.batch, 0, case.data)
        files = {"folder": str(artifact.folder), "reference": str(reference), "out": str(out.absolute())}
        out.mkdir(parents=True, exist_ok=True)
        if report["question"] == Slower.name:
            title = f"{about} takes {report['ratio']['value']:.3f} x the time of {good}"
            needs = [_needs(good), _needs(bad)]
            names = exporter.call("write_times", runtime=runtime, requirements=needs, title=title, **files)
        else:
            title = f"{about} {SAYS[report['kind']]}, {good} is right; it needs {_needs(bad)}"
            names = exporter.call("write_reproduction", mode="forward", runtimes=[runtime], title=title, **files)
    except (OSError, WorkerFailure, XBenchError) as error:
        raise Unwritten(f"{out} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    if not names:
        raise Unwritten(f"{bad} has no script without xbench")
    return [str(out / name) for name in names]


def _needs(word: str) -> str:
    """What has to be installed for a runtime in a release, as it was here."""
    name = _configuration.own_environment(word)
    made = _environments.find(name) if name else None
    versions = made.versions if made else {}
    row = row_of(word)
    package = next((each for each in row.packages if each in versions), row.packages[0])
    packages = (package, "numpy", *(("safetensors",) if row.operators else ()))
    return " ".join(f"{each}=={versions[each]}" if each in versions else each for each in packages)
