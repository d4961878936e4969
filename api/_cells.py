"""What the functions of the package do: words become cells, which experiments/ runs as for the commands."""

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbench import models as zoo
from xbench.case import GIVEN, Case
from xbench.converters.artifact import Artifact
from xbench.converters.source import with_options
from xbench.errors import XBenchError
from xbench.experiments import choose
from xbench.experiments.check import Check, row_of
from xbench.experiments.convert import Convert, need_folders
from xbench.experiments.convert import row_of as row_of_conversion
from xbench.experiments.experiment import Lab, run
from xbench.experiments.session import Time
from xbench.experiments.settings import Protocol
from xbench.proof import file_parity
from xbench.store import results, turn
from xbench.workers import live
from xbench.workers.prepare import EXPORT_TIMEOUT
from xbench.workers.worker import WorkerFailure

Rows = list[dict[str, Any]]
Options = tuple[Sequence[str] | None, Sequence[str] | None]  # the words of `shapes` and of `ranges`
Told = Callable[[str], object] | bool | None


@dataclass
class Lines:
    """Tells of every cell that is done."""

    told: Told
    total: int = 0
    done: int = 0

    def say(self, words: str) -> None:
        """What goes on is for a terminal."""

    def note(self, words: str) -> None:
        """So are remarks."""

    def skip(self, number: int = 1) -> None:
        self.total -= number

    def finish(self, words: str) -> None:
        self.done += 1
        if callable(self.told):
            self.told(words)
        elif self.told:
            sys.stderr.write(f"[{self.done}/{self.total}] {words}\n")


@dataclass
class Networks:
    """What is measured: the names of the networks, and the lab; of one that was given as it is the batch, the field of
    a case that says so, and the values of its inputs."""

    names: list[str]
    lab: Lab
    lines: Lines
    batch: int | None = None
    data: Mapping[str, str] | None = None
    values: Mapping[str, Any] | None = None


@contextlib.contextmanager
def networks(
    models: Any,
    inputs: Any,
    default: Sequence[str],
    options: Options,
    optimizer: str | None,
    progress: Told,
    timeout: float = EXPORT_TIMEOUT,
) -> Iterator[Networks]:
    """The networks that words mean, or one that is given as it is.

    Raises:
        XBenchError: a word that means nothing, or inputs that do not fit.
    """
    with contextlib.ExitStack() as stack:
        logs = stack.enter_context(turn.taken(None, lambda words: warnings.warn(words, stacklevel=9)))
        lines = Lines(progress)
        lab = stack.enter_context(Lab(logs, lines, timeout))
        if live.is_module(models):
            if inputs is None:
                raise XBenchError("a module needs inputs: arrays, the first axis of each the batch")
            given = stack.enter_context(live.handed_over(models, inputs, optimizer))
            lab.given[given.name] = given.artifact(lab.exporter)
            yield Networks([given.name], lab, lines, given.batch, {"data": GIVEN}, given.values)
            return
        words = listed(models, "models")
        shapes, ranges = options
        rest = listed(inputs, "inputs"), optimizer, listed(ranges, "ranges")
        yield Networks(choose.choose_models(words, default, listed(shapes, "shapes"), *rest), lab, lines)


def listed(words: Any, name: str) -> list[str] | None:
    """One word or several as a list.

    Raises:
        XBenchError: something else than words.
    """
    found = [words] if isinstance(words, str) else words
    if found is None or (isinstance(found, Sequence) and all(isinstance(word, str) for word in found)):
        return None if found is None else list(found)
    raise XBenchError(f"{name} must be a word or a list of words, not {words!r:.80}")


def cell_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """What the cells have in common.

    Raises:
        XBenchError: a word that means nothing.
    """
    threads = choose.choose_threads(told["threads"])
    if words := choose.too_many_threads(threads):
        warnings.warn(words, stacklevel=4)
    choose.choose_device(told["device"])
    choose.choose_layout(told["layout"])
    choose.choose_precision(told["precision"])
    choose.need_torch()
    return {**told, "threads": threads}


def at_least(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise XBenchError(f"{name} must be at least {least:g}, not {value!r}")


def check(
    models: Any,
    inputs: Any,
    runtimes: Sequence[str] | None,
    modes: Sequence[str] | None,
    batch: int | None,
    options: Options,
    optimizer: str | None,
    timeout: float,
    explain: bool,
    progress: Told,
    told: Mapping[str, Any],
) -> Rows:
    """The rows of `xbench.check`."""
    targets = choose.choose_runtimes(listed(runtimes, "runtimes"))
    words = choose.choose_modes(listed(modes, "modes"), ("forward", "gradient"))
    choose.choose_precision(told["precision"], explain)
    cell = cell_of(told)
    at_least("batch", 2 if batch is None else batch, 1)
    at_least("steps", told["steps"], 1)
    with networks(models, inputs, tuple(zoo.MODELS), options, optimizer, progress, timeout) as given:
        size = _batch(given, batch) or 2
        cases = choose.cells(given.names, targets, words, [size], {**cell, **(given.data or {})})
        return _checked(given, cases, bool(modes), explain)


def _checked(given: Networks, cases: Sequence[Case], strict: bool, explain: bool = False) -> Rows:
    """The rows of a check that is kept nowhere."""
    given.lines.total, experiment = len(cases), Check(explain)
    store = results.open_store(given.lab.logs, experiment.file)
    return [row_of(record) for record in run(experiment, cases, given.lab, store, strict=strict).records]


def _batch(given: Networks, batch: int | None) -> int | None:
    if given.batch and batch not in (None, given.batch):
        raise XBenchError(f"batch is {batch}, and the inputs have {given.batch}")
    return given.batch or batch


def time(
    models: Any,
    inputs: Any,
    runtimes: Sequence[str] | None,
    modes: Sequence[str] | None,
    batches: Sequence[int] | None,
    options: Options,
    optimizer: str | None,
    out: str | Path | None,
    again: str,
    progress: Told,
    told: Mapping[str, Any],
    words: Mapping[str, str],
    tune_budget: float,
    protocol: Mapping[str, Any],
) -> Rows:
    """The rows of `xbench.time`."""
    from xbench.reports import rows

    targets = choose.choose_runtimes(listed(runtimes, "runtimes"))
    asked = choose.choose_modes(listed(modes, "modes"), ("forward", "step"))
    sizes = choose.choose_batches([str(size) for size in batches] if batches else None)
    cell = cell_of(told) | choose.choose_words(**words)
    cell["tune_budget"] = tune_budget if cell["tune"] == "max" else 0.0
    for name, value, least in (("budget", protocol["budget"], 0.01), ("processes", protocol["processes"], 1)):
        at_least(name, value, least)
    folder = None if live.is_module(models) else Path(out or results.FOLDER)
    limit = float(protocol["timeout"])
    with (
        networks(models, inputs, zoo.DEFAULT_SUITE, options, optimizer, progress, limit) as given,
        contextlib.ExitStack() as stack,
    ):
        if given.batch:
            if out is not None:
                raise XBenchError("out is for networks with a word: nobody could measure this one again by its name")
            sizes = [_batch(given, size) or 1 for size in sizes] or [given.batch]
        cases = choose.cells(given.names, targets, asked, sizes, {**cell, **(given.data or {})})
        store = results.open_store(folder or given.lab.logs)
        stack.enter_context(turn.held(store.path.parent))
        given.lines.total, experiment = len(cases), Time(Protocol(**protocol))
        return rows(run(experiment, cases, given.lab, store, again, strict=bool(modes)).records)


def convert(
    models: Any,
    inputs: Any,
    runtimes: Sequence[str] | None,
    to: Sequence[str] | None,
    options: Options,
    optimizer: str | None,
    oracle: bool,
    kernels: bool,
    progress: Told,
    where: Mapping[str, Any],
) -> Rows:
    """The rows of `xbench.convert`."""
    forms = choose.choose_runtimes(listed(to, "to")) if to else []
    asked = choose.choose_runtimes(listed(runtimes, "runtimes") or forms)
    targets = list(dict.fromkeys([*asked, *forms]))
    cell = {"device": choose.choose_device(where["device"]), "layout": choose.choose_layout(where["layout"])}
    choose.need_torch()
    at_least("batch", where["batch"], 1)
    if live.is_module(models):
        raise XBenchError("convert takes words: a factory of the module, as module:factory")
    experiment = Convert(tuple(forms), Path(where["output"]), oracle, kernels)
    with networks(models, inputs, zoo.DEFAULT_SUITE, options, optimizer, progress) as given:
        if forms:
            need_folders(given.names, experiment.output)
        cases = choose.cells(given.names, targets, ["forward"], [where["batch"]], cell)
        given.lines.total, store = len(cases), results.open_store(given.lab.logs, experiment.file)
        return [row_of_conversion(record) for record in run(experiment, cases, given.lab, store).records]


def compared(
    module: Any,
    inputs: Any,
    runtimes: Sequence[str] | None,
    modes: Sequence[str],
    converted: Path | None,
    shapes: Sequence[str] | None,
    optimizer: str | None,
    timeout: float,
    told: Mapping[str, Any],
) -> tuple[Rows, file_parity.Parting | None, str]:
    """The rows of `assert_same_network`, where a file parts from the module, and what the module is called."""
    if not live.is_module(module):
        raise XBenchError(f"the module must be a torch.nn.Module, not {type(module).__name__}")
    targets = choose.choose_runtimes(listed(runtimes, "runtimes"))
    words = choose.choose_modes(listed(modes, "modes"), ("forward",))
    cell = cell_of(told)
    if converted and words != ["forward"]:
        raise XBenchError("converted is compared in mode forward alone")
    with networks(module, inputs, (), (None, None), optimizer, None, timeout) as given:
        (name,) = given.names
        network = given.lab.given[name]
        artifact = given.lab.given[name] = _file(given, network, converted, shapes) if converted else network
        cases = choose.cells(given.names, targets, words, [given.batch or 1], {**cell, **(given.data or {})})
        rows = _checked(given, cases, strict=runtimes is not None)
        parting = None
        if converted and any(row["status"] == "FAIL" for row in rows):
            with contextlib.suppress(WorkerFailure):  # too much for the oracle
                parting = file_parity.parting(given.lab.exporter, network, artifact, given.batch or 1)
        if parting:
            for row in (row for row in rows if row["status"] == "FAIL"):
                row["first_wrong"] = parting.tensor
        return rows, parting, name


def _file(given: Networks, network: Artifact, converted: Path, shapes: Sequence[str] | None) -> Artifact:
    """A file as an artifact of its own, which is judged on what the network gives."""
    word = with_options(str(converted), listed(shapes, "shapes") or [], [])
    artifact = given.lab.exporter.exported(word, live.made(network.folder.with_name("file")))
    file_parity.prepare(given.lab.exporter, network, artifact, given.values or {}, given.batch or 1)
    return artifact
