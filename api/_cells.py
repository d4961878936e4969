"""What the functions of the package do: words become cells, which experiments/ runs as for the commands."""

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbench import models as zoo
from xbench.case import GIVEN
from xbench.converters.artifact import Artifact
from xbench.converters.source import with_options
from xbench.errors import XBenchError
from xbench.experiments import checking, choose, conversion, suite
from xbench.experiments.settings import Protocol
from xbench.proof import lineup
from xbench.store import results, turn
from xbench.workers import live
from xbench.workers.prepare import EXPORT_TIMEOUT, Exporter
from xbench.workers.worker import WorkerFailure

Rows = list[dict[str, Any]]
Options = tuple[Sequence[str] | None, Sequence[str] | None]  # the words of `shapes` and of `ranges`
Told = Callable[[str], object] | bool | None


@dataclass
class Lines:
    """Tells of every cell that is done."""

    told: Told
    total: int
    done: int = 0

    def say(self, words: str) -> None:
        """What goes on is for a terminal."""

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
    """What is measured: the names of the networks and how each is converted; of one that was given as it is the batch,
    the field of a case that says so, and the values of its inputs."""

    names: list[str]
    artifact_of: Callable[[str], Artifact]
    exporter: Exporter
    logs: Path
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
    timeout: float = EXPORT_TIMEOUT,
) -> Iterator[Networks]:
    """The networks that words mean, or one that is given as it is.

    Raises:
        XBenchError: a word that means nothing, or inputs that do not fit.
    """
    with contextlib.ExitStack() as stack:
        logs = stack.enter_context(turn.taken(None, lambda words: warnings.warn(words, stacklevel=9)))
        exporter = stack.enter_context(contextlib.closing(Exporter(logs, timeout)))
        if live.is_module(models):
            if inputs is None:
                raise XBenchError("a module needs inputs: arrays, the first axis of each the batch")
            given = stack.enter_context(live.handed_over(models, inputs, optimizer))
            artifact = given.artifact(exporter)
            own = (given.batch, {"data": GIVEN}, given.values)
            yield Networks([given.name], lambda name: artifact, exporter, logs, *own)
            return
        words = listed(models, "models")
        shapes, ranges = options
        rest = listed(inputs, "inputs"), optimizer, listed(ranges, "ranges")
        names = choose.choose_models(words, default, listed(shapes, "shapes"), *rest)
        yield Networks(names, exporter.artifact, exporter, logs)


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
    with networks(models, inputs, tuple(zoo.MODELS), options, optimizer, timeout) as given:
        size = _batch(given, batch) or 2
        cases = suite.cells(given.names, targets, words, [size], {**cell, **(given.data or {})})
        lines = Lines(progress, len(cases))
        where = (given.artifact_of, given.exporter, timeout, given.logs, lines)
        return checking.check(cases, *where, bool(modes), explain)


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
        networks(models, inputs, zoo.DEFAULT_SUITE, options, optimizer, limit) as given,
        contextlib.ExitStack() as stack,
    ):
        if given.batch:
            if out is not None:
                raise XBenchError("out is for networks with a word: nobody could measure this one again by its name")
            sizes = [_batch(given, size) or 1 for size in sizes] or [given.batch]
        cases = suite.cells(given.names, targets, asked, sizes, {**cell, **(given.data or {})})
        store = results.open_store(folder or given.logs)
        stack.enter_context(turn.held(store.path.parent))
        where = (given.artifact_of, given.exporter, store, Protocol(**protocol), given.logs)
        records, _ = suite.measure(cases, *where, Lines(progress, len(cases)), bool(modes), again)
        return rows(records)


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
    choose.choose_device(where["device"])
    choose.choose_layout(where["layout"])
    choose.need_torch()
    at_least("batch", where["batch"], 1)
    if live.is_module(models):
        raise XBenchError("convert takes words: a factory of the module, as module:factory")
    told = {**where, "output": Path(where["output"])}
    plan = conversion.Plan(runtimes=targets, forms=forms, oracle=oracle, kernels=kernels, **told)
    with networks(models, inputs, zoo.DEFAULT_SUITE, options, optimizer) as given:
        lines = Lines(progress, len(given.names) * len(targets))
        return list(conversion.each(given.names, plan, given.artifact_of, _raise, given.exporter, given.logs, lines))


def _raise(model: str, error: XBenchError) -> None:
    raise error


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
) -> tuple[Rows, lineup.Parting | None, str]:
    """The rows of `assert_same_network`, where a file parts from the module, and what the module is called."""
    if not live.is_module(module):
        raise XBenchError(f"the module must be a torch.nn.Module, not {type(module).__name__}")
    targets = choose.choose_runtimes(listed(runtimes, "runtimes"))
    words = choose.choose_modes(listed(modes, "modes"), ("forward",))
    cell = cell_of(told)
    if converted and words != ["forward"]:
        raise XBenchError("converted is compared in mode forward alone")
    with networks(module, inputs, (), (None, None), optimizer, timeout) as given:
        (name,), network = given.names, given.artifact_of("")
        artifact = _file(given, network, converted, shapes) if converted else network
        cases = suite.cells(given.names, targets, words, [given.batch or 1], {**cell, **(given.data or {})})
        where = (given.exporter, timeout, given.logs, Lines(None, len(cases)))
        rows = checking.check(cases, lambda _: artifact, *where, strict=runtimes is not None)
        parting = None
        if converted and any(row["status"] == "FAIL" for row in rows):
            with contextlib.suppress(WorkerFailure):  # too much for the oracle
                parting = lineup.parting(given.exporter, network, artifact, given.batch or 1)
        if parting:
            for row in (row for row in rows if row["status"] == "FAIL"):
                row["first_wrong"] = parting.tensor
        return rows, parting, name


def _file(given: Networks, network: Artifact, converted: Path, shapes: Sequence[str] | None) -> Artifact:
    """A file as an artifact of its own, which is judged on what the network gives."""
    word = with_options(str(converted), listed(shapes, "shapes") or [], [])
    artifact = given.exporter.exported(word, live.made(network.folder.with_name("file")))
    lineup.prepare(given.exporter, network, artifact, given.values or {}, given.batch or 1)
    return artifact
