"""The work behind the package's functions: turn arguments into cells, which experiments/ run as for commands."""

import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xbench.case import GIVEN, Case
from xbench.converters.artifact import Artifact
from xbench.converters.source import with_options
from xbench.errors import XBenchError
from xbench.experiments import choose, of_network
from xbench.experiments import request as requests
from xbench.experiments.check import row_of as check_row
from xbench.experiments.convert import row_of as convert_row
from xbench.experiments.experiment import Lab, run
from xbench.experiments.request import Asked, Request
from xbench.proof import file_parity
from xbench.store import results, turn
from xbench.store.record import Record
from xbench.workers import live
from xbench.workers.prepare import EXPORT_TIMEOUT
from xbench.workers.worker import WorkerFailure

Rows = list[dict[str, Any]]
Progress = Callable[[str], object] | bool | None


@dataclass
class Lines:
    """Reports every finished cell."""

    progress: Progress
    total: int = 0
    done: int = 0

    def say(self, words: str) -> None:
        """Ignored: for terminals only."""

    def note(self, words: str) -> None:
        """Ignored, like `say`."""

    def skip(self, number: int = 1) -> None:
        self.total -= number

    def finish(self, words: str) -> None:
        self.done += 1
        if callable(self.progress):
            self.progress(words)
        elif self.progress:
            sys.stderr.write(f"[{self.done}/{self.total}] {words}\n")


@dataclass
class Networks:
    """What is measured: the cells of the requested networks, and the lab; for a module also the values of its
    inputs."""

    request: Request
    cases: Sequence[Case]
    lab: Lab
    values: Mapping[str, Any] | None = None

    def records(self, folder: Path | None = None) -> list[Record]:
        """Run the experiment into a folder; without one the records are not kept."""
        request = self.request
        store = results.open_store(folder or self.lab.logs, request.experiment.file)
        with turn.held(store.path.parent):
            return run(request.experiment, self.cases, self.lab, store, request.again, request.strict).records


@contextlib.contextmanager
def networks(options: Asked, request: Request, timeout: float = EXPORT_TIMEOUT) -> Iterator[Networks]:
    """The named networks, or the given module.

    Raises:
        XBenchError: an unknown name, or inputs that do not fit.
    """
    if words := choose.too_many_threads(request.cell.get("threads", 1)):
        warnings.warn(words, stacklevel=5)
    choose.need_torch()
    with contextlib.ExitStack() as stack:
        logs = stack.enter_context(turn.taken(None, lambda words: warnings.warn(words, stacklevel=9)))
        lines = Lines(options["progress"])
        lab = stack.enter_context(Lab(logs, lines, timeout))
        if live.is_module(options.get("models")):
            given = stack.enter_context(_handed_over(options))
            lab.given[given.name] = given.artifact(lab.exporter)
            cases = request.cases([given.name], [_batch(options, request, given.batch)], data=GIVEN)
            prepared = Networks(request, cases, lab, given.values)
        else:
            prepared = Networks(request, request.cases(request.names(options)), lab)
        lines.total = len(prepared.cases)
        yield prepared


def _handed_over(options: Asked) -> contextlib.AbstractContextManager[live.Live]:
    if options["inputs"] is None:
        raise XBenchError("a module needs inputs: arrays, the first axis of each the batch")
    if options.get("samples"):
        raise XBenchError("samples are for networks with a word: give a module arrays as inputs")
    if options.get("loss"):
        raise XBenchError("loss is for module:factory: let the module return its loss as the first output")
    if options.get("weights"):
        raise XBenchError("weights are for module:factory: a module is taken with those that it has")
    return live.handed_over(options["models"], options["inputs"], options["optimizer"])


def _batch(options: Asked, request: Request, own: int) -> int:
    """The batch of a module's inputs.

    Raises:
        XBenchError: a different batch was requested.
    """
    sizes = request.batches if options.get("batches") or options.get("batch") else ()
    for size in sizes:
        if size != own:
            raise XBenchError(f"batch is {size}, and the inputs have {own}")
    return own


def check(options: Asked) -> Rows:
    """The rows of `xbench.check`."""
    with networks(options, requests.check(options), options["timeout"]) as given:
        return [check_row(record) for record in given.records()]


def time(options: Asked) -> Rows:
    """The rows of `xbench.time`."""
    from xbench.reports import rows

    request, out = requests.time(options), options["out"]
    words = not live.is_module(options["models"])
    if out is not None and not words:
        raise XBenchError("out is for networks with a word: nobody could measure this one again by its name")
    with networks(options, request, options["timeout"]) as given:
        return rows(given.records(Path(out or results.FOLDER) if words else None))


def convert(options: Asked) -> Rows:
    """The rows of `xbench.convert`."""
    if live.is_module(options["models"]):
        raise XBenchError("convert takes words: a factory of the module, as module:factory")
    with networks(options, requests.convert(options)) as given:
        return [convert_row(record) for record in given.records()]


def evaluate(options: Asked) -> Rows:
    """The records of `xbench.evaluate`."""
    if live.is_module(options["model"]):
        raise XBenchError("evaluate takes a word: a factory of the module, as module:factory")
    options = {**options, **_words(options), "max_drop": str(options["max_drop"])}
    with networks(options, of_network.evaluate(options), options["timeout"]) as given:
        stored = given.records(Path(options["out"] or results.FOLDER))
        return [json.loads(results.encode(record)) for record in stored]


def _words(options: Asked) -> dict[str, str]:
    """The arguments of `xbench.evaluate` that are words; a path is one.

    Raises:
        XBenchError: one is something else, such as a function.
    """
    words = {}
    for name in ("model", "samples", "labels", "metric", "post", "output", "calibrate", "like"):
        if isinstance(value := options[name], Path) and name in ("samples", "labels", "calibrate", "like"):
            value = str(value)
        if value is None and name not in ("model", "samples", "metric"):
            continue
        if not isinstance(value, str):
            raise XBenchError(f"{name} must be a word, not {type(value).__name__}")
        words[name] = value
    return words


def compared(
    options: Asked, converted: Path | None, shapes: Sequence[str] | None
) -> tuple[Rows, file_parity.Parting | None, str]:
    """The rows of `assert_same_network`, where a file diverges from the module, and the module's name."""
    module, modes = options["models"], requests.listed(options, "modes") or ["forward"]
    if not live.is_module(module):
        raise XBenchError(f"the module must be a torch.nn.Module, not {type(module).__name__}")
    request = replace(requests.check({**options, "modes": modes}), strict=options["runtimes"] is not None)
    if converted and modes != ["forward"]:
        raise XBenchError("converted is compared in mode forward alone")
    with networks(options, request, options["timeout"]) as given:
        name, batch = given.cases[0].model, given.cases[0].batch
        network = given.lab.given[name]
        artifact = given.lab.given[name] = _file(given, network, converted, shapes) if converted else network
        rows = [check_row(record) for record in given.records()]
        parting = None
        if converted and any(row["status"] == "FAIL" for row in rows):
            with contextlib.suppress(WorkerFailure):  # too much for the oracle
                parting = file_parity.parting(given.lab.exporter, network, artifact, batch)
        if parting:
            for row in (row for row in rows if row["status"] == "FAIL"):
                row["first_wrong"] = parting.tensor
        return rows, parting, name


def _file(given: Networks, network: Artifact, converted: Path, shapes: Sequence[str] | None) -> Artifact:
    """A file as its own artifact, judged against the network's outputs."""
    word = with_options(str(converted), requests.listed({"shapes": shapes}, "shapes") or [], [])
    artifact = given.lab.exporter.exported(word, live.made(network.folder.with_name("file")))
    file_parity.prepare(given.lab.exporter, network, artifact, given.values or {}, given.cases[0].batch)
    return artifact
