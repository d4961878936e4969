"""A cell as a folder that runs without xbench: the model in the runtime's own format, a script of 20 lines, its
requirements at the measured versions, and the data that proves it.

The script is run here first: if its outputs differ from float64's, nothing is deployed.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from xbench.case import SYNTHETIC, Case
from xbench.converters import temporary
from xbench.converters.artifact import Artifact
from xbench.converters.printable import command, requirement
from xbench.errors import XBenchError
from xbench.experiments.convert import save
from xbench.host import machine
from xbench.parity.verdict import read
from xbench.proof.question import check_folder
from xbench.proof.tuning import NOTHING_CHOSEN, as_opened
from xbench.recommend.lower import lowered, most_off
from xbench.recommend.lower import packages as packages_of
from xbench.recommend.metric_script import EVALUATED, Repeated, lines, packages, why_not, write
from xbench.recommend.readme import NONE, readme
from xbench.recommend.script import form, script
from xbench.runtimes import _configuration, _environments
from xbench.runtimes.scripts import Form
from xbench.store.record import Record
from xbench.workers.prepare import Exporter
from xbench.workers.samples import OwnSamples
from xbench.workers.variables import MEMORY

PATIENCE = 900  # seconds that the script may take here
SAID = "outputs "  # begins what the script prints of its outputs


def deploy(
    record: Record,
    artifact: Artifact,
    exporter: Exporter,
    folder: Path,
    logs: Path,
    repeated: Repeated | None = None,
    own: OwnSamples | None = None,
) -> list[str]:
    """Write the folder of a cell that passed; return notes on it: the script's output here, and what differs between
    this machine and the measured one. `repeated` is an evaluation that the script repeats, `own` are a user's samples
    with those on which its precision is calibrated.

    Raises:
        XBenchError: there is no script for it or no format, there is nothing to calibrate it on, the model is not the
            one that was measured, the script computes something else, or the folder cannot be written.
    """
    check_folder(folder, "--deploy")
    case = as_opened(Case(**record["case"]), artifact, NOTHING_CHOSEN | record)
    how = form(case)
    lower = lowered(case, own, _installed(case.runtime, packages_of(case)))
    if record.get("artifact") != artifact.digest:
        raise XBenchError(
            f"{case.model} is not the model that was measured: measure it again, {command(record.get('command'), NONE)}"
        )
    try:
        with temporary.folder(folder.parent, temporary.HIDDEN) as place:
            made = _saved(case, artifact, exporter, how, place, logs, own)
            versions, notes = _versions(record, how)
            notes += lower.changed(record)
            lower.certify(made / "certificate.json")
            data = own.data if own else SYNTHETIC
            allowed = _expected(case, artifact, exporter, data, made / "expected.npz")
            names = {"inputs": [item["name"] for item in artifact.info["inputs"]], "outputs": artifact.info["outputs"]}
            threads = f"{case.threads} thread{'s' * (case.threads > 1)}"
            title = f"{case.model} by {case.runtime}, batch {case.batch}, {threads}, as it was measured"
            more, tools, why = _repeated(repeated, made, case.batch)
            (made / "run.py").write_text(script(case, how, title, made.parent.name, names, allowed, more))
            needed = [requirement(name, version) for name, version in {**versions, **machine.versions(tools)}.items()]
            (made / "requirements.txt").write_text(lower.comment() + "".join(f"{line}\n" for line in needed))
            answers = _tried(made / "run.py", case.runtime)
            (made / "README.md").write_text(readme(record, case, answers, lower, repeated, why))
            folder.rmdir() if folder.exists() else None
            os.rename(made, folder)
    except OSError as error:
        raise XBenchError(f"--deploy {folder}: {error.strerror}") from error
    except ValueError as error:
        raise XBenchError(f"{case.runtime} is not deployed: {error}") from error
    left_out = [f"the folder does not repeat the evaluation: {why}"] if why else []
    return [*(f"run.py computes it here: {answer}" for answer in answers), *notes, *left_out]


def _repeated(repeated: Repeated | None, folder: Path, batch: int) -> tuple[str, tuple[str, ...], str]:
    """The lines of the script that repeat an evaluation, the packages that they need, and the reason if there are none.
    Writes the samples."""
    if repeated is None:
        return "", (), ""
    if why := why_not(repeated) or write(repeated, folder):
        return "", (), why
    return lines(repeated, batch), packages(repeated), ""


def _saved(
    case: Case, artifact: Artifact, exporter: Exporter, how: Form, place: Path, logs: Path, own: OwnSamples | None
) -> Path:
    """The folder of the model in the runtime's format, with its certificate, without files the script does not need."""
    saved = save(artifact, case, exporter, place, logs, own)
    if not saved.get("files"):
        raise XBenchError(f"{case.runtime} is not deployed: {saved.get('message')}")
    made = Path(saved["files"][0]).parent
    for path in made.iterdir():
        if path.suffix in how.needless:
            path.unlink()
    return made


def _versions(record: Record, how: Form) -> tuple[dict[str, str], list[str]]:
    """The versions to install, by package: the measured ones; and a note for each that differs here."""
    measured = record.get("versions") or {}
    here = _installed(record["case"]["runtime"], tuple(name for each in how.packages for name in each))
    required: dict[str, str] = {}
    notes = []
    for names in how.packages:
        name = next((name for name in names if name in measured or name in here), names[0])
        if name not in measured and name not in here:
            raise XBenchError(f"--deploy: nobody knows which {name} was measured")
        required[name] = measured.get(name) or here[name]
        if name in here and here[name] != required[name]:
            notes.append(f"{name} {required[name]} was measured and is required, {here[name]} is installed here")
    return required, notes


def _installed(runtime: str, packages: tuple[str, ...]) -> Mapping[str, str]:
    """The versions that the runtime's own environment has, else this one."""
    own = _configuration.own_environment(runtime)
    made = _environments.find(own) if own else None
    return made.versions if made else machine.versions(packages)


def _expected(case: Case, artifact: Artifact, exporter: Exporter, data: str, path: Path) -> list[float]:
    """Write inputs and their float64 outputs; return the relative error (L2 norm) that each output may have, as in the
    proof."""
    reference = read(exporter.reference(artifact, "forward", case.batch, 0, data, 1, case.precision))
    arrays = {name: array for name, array in reference.items() if name.startswith("input/")}
    allowed = []
    for place, name in enumerate(artifact.info["outputs"]):
        expected = reference[f"output/{name}"]
        arrays[f"output/{place}"] = expected
        allowed.append(most_off(reference, f"output/{name}", case.precision))
    np.savez(path, **arrays)  # type: ignore[arg-type]  # NumPy's own option has no such name
    return allowed


def _tried(path: Path, runtime: str) -> list[str]:
    """The lines of the script's output here, run by the Python of the runtime but without xbench.

    Raises:
        XBenchError: its exit code is not 0.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | MEMORY
    command = [_configuration.worker(runtime), "-I", path.name]
    try:
        done = subprocess.run(
            command, cwd=path.parent, env=environment, capture_output=True, timeout=PATIENCE, text=True
        )
    except subprocess.TimeoutExpired as error:
        raise XBenchError(f"{runtime} is not deployed: run.py took more than {PATIENCE} s") from error
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
    words = [
        line for line in (done.stdout if done.returncode == 0 else done.stderr or done.stdout).splitlines() if line
    ]
    if done.returncode:
        raise XBenchError(f"{runtime} is not deployed: run.py failed here: {words[-1] if words else done.returncode}")
    # A library may print something, too, also when its process ends.
    return [line for line in words if line.startswith(SAID) or EVALUATED in line] or words[-1:]
