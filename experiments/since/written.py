"""The files by which anybody sees, without xbench, what two releases of a runtime do."""

from pathlib import Path

from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.experiments.since.questions import Bench, Slower
from xbench.experiments.since.run import Report
from xbench.runtimes import _configuration, _environments, row_of
from xbench.workers.worker import WorkerFailure


def write(report: Report, bench: Bench, artifact: Artifact, out: Path) -> list[str]:
    """Writes the network, inputs and a script that times it in both releases, or that shows the error of the wrong one;
    returns the paths. In training there is no script, nor for every runtime: then nothing is written.

    Raises:
        XBenchError: the folder cannot be written.
    """
    case, exporter = bench.case, bench.lab.exporter
    if case.mode != "forward":
        return []
    reference = exporter.reference(artifact, "forward", case.batch, 0, case.data)
    good, bad = (bench.word(report[each]) for each in ("good", "bad"))
    runtime = {"word": bad, "device": case.device, "threads": case.threads, "layout": case.layout, "answer": None}
    about = f"{case.model}, batch {case.batch}: {bad}"
    files = {"folder": str(artifact.folder), "reference": str(reference), "out": str(out.absolute())}
    try:
        out.mkdir(parents=True, exist_ok=True)
        if report["question"] == Slower.name:
            title = f"{about} takes {report['ratio']['value']:.3f} x the time of {good}"
            needs = [_needs(good), _needs(bad)]
            names = exporter.call("write_times", runtime=runtime, requirements=needs, title=title, **files)
        else:
            title = f"{about} is wrong, {good} is right; it needs {_needs(bad)}"
            names = exporter.call("write_reproduction", mode="forward", runtimes=[runtime], title=title, **files)
    except OSError as error:
        raise XBenchError(f"{out} cannot be written: {error.strerror}") from error
    except WorkerFailure as failure:
        raise XBenchError(f"{out} cannot be written: {failure.message}") from failure
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
