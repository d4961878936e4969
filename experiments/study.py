"""A study, planned and run: the cells of its tables, measured as `xbench time`, `scale` and `train` measure them, and
stored one by one, so that an interrupted run resumes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbench.case import MODES, SYNTHETIC, Case
from xbench.experiments.experiment import Experiment
from xbench.experiments.layers import Layers
from xbench.experiments.phases import Phases
from xbench.experiments.scaling.record import Plan as Workers
from xbench.experiments.scaling.run import Scale
from xbench.experiments.session import Time
from xbench.experiments.settings import Protocol
from xbench.experiments.train import Train
from xbench.models import MODELS
from xbench.runtimes import distributed
from xbench.store.record import NOTHING, Record
from xbench.store.results import Store, open_store
from xbench.studies import ALL, Part, Study, spread
from xbench.workers import samples

TIMES = ("times", "tools", "threads", "batches", "costs")  # kinds of tables that `xbench time` measures
OTHERS: dict[str, type[Experiment]] = {"phases": Phases, "layers": Layers, "training": Train, "scaling": Scale}
EXPERIMENTS = dict.fromkeys(TIMES, Time) | OTHERS  # by kind
# For estimates of the duration of a cell: fitted to runs on two cores, and good to a factor of two.
EXPORT_S, EXPORT_S_PER_PARAMETER = 4.0, 1e-7
CELL_S, WORK, ORACLE, MACS_PER_S = 1.8, 6, 6, 1e10  # `WORK`, `ORACLE`: passes of a proof with audit, of a reference


@dataclass(frozen=True)
class Setting:
    """How a study is run: at which scale, on which runtimes, on which device, with how many CPUs."""

    scale: str
    runtimes: tuple[str, ...]
    device: str
    cpus: int
    protocol: Protocol


@dataclass(frozen=True)
class Task:
    """The part of a table for one network: cells that differ only in the runtime, the number of their records, and
    their estimated seconds."""

    part: Part
    cases: tuple[Case, ...]
    records: int
    seconds: float


def plan(study: Study, setting: Setting, folder: Path) -> list[Task]:
    """The tasks of a study in the order of its tables; cells stored in the folder take no time."""
    done = {(_file(part), case) for part in study.parts for case in _stored(folder, part)}
    ready: set[tuple[Any, ...]] = set()  # networks exported, and references made, by an earlier task
    tasks = []
    for part in study.parts:
        for group in _groups(part, setting):
            todo = [case for case in group if (_file(part), case) not in done]
            done |= {(_file(part), case) for case in group}
            seconds = sum(_measuring(case, setting.protocol, part.kind) for case in todo)
            seconds += _preparing(group[0], part.kind, ready) if todo else 0.0
            each = len(_scaled(part, setting).workers) if part.kind == "scaling" else 1
            tasks.append(Task(part, tuple(group), each * len(group), seconds))
    return tasks


def _groups(part: Part, setting: Setting) -> Iterator[list[Case]]:
    for each in spread(part, setting.scale):
        (batch,), (mode,), (threads,) = each.batches, each.modes, each.threads
        if threads <= setting.cpus:
            fields: dict[str, Any] = {"device": setting.device, "plane": part.plane, "data": _data(part, each.network)}
            fields["threads"] = setting.cpus if threads == ALL else threads
            runtimes = [word for word in setting.runtimes if part.kind != "scaling" or not distributed.missing(word)]
            yield [Case(each.network, runtime, mode, batch, **fields) for runtime in runtimes]


def _data(part: Part, network: str) -> str:
    """The data set of a training: the first of a network's data sets whose files exist."""
    if part.kind != "training":
        return SYNTHETIC
    return next(word for word in part.settings[network].split() if samples.is_there(word))


def _file(part: Part) -> str:
    return EXPERIMENTS[part.kind].file


def _stored(folder: Path, part: Part) -> set[Case]:
    path = folder / _file(part)
    if not path.exists():
        return set()
    return {Case(**record["case"]) for record in Store(path).read()}


PASSES = {"forward": 1, "gradient": 3, "step": 6}  # two training steps are compared


def _measuring(case: Case, protocol: Protocol, kind: str) -> float:
    """Seconds of opening, proving and timing a cell of a table."""
    if kind == "scaling":  # two groups, each proved and timed in several ways
        return 2 * (3 * CELL_S + 8 * protocol.budget) + 4 * WORK * case.batch * MODELS[case.model].macs / MACS_PER_S
    modes = MODES if kind == "phases" else (case.mode,)
    proofs = sum(PASSES[mode] for mode in modes) * WORK * case.batch * MODELS[case.model].macs / MACS_PER_S
    return len(modes) * (CELL_S + 2 * protocol.budget) + proofs


def _preparing(case: Case, kind: str, ready: set[tuple[Any, ...]]) -> float:
    """Seconds of exporting a network and its references, if no earlier task has done it."""
    spec, modes = MODELS[case.model], MODES if kind == "phases" else (case.mode,)
    seconds = 0.0 if (spec.name,) in ready else EXPORT_S + EXPORT_S_PER_PARAMETER * spec.parameters
    for mode in modes:
        if (spec.name, mode, case.batch) not in ready:
            seconds += 1 + PASSES[mode] * ORACLE * case.batch * spec.macs / MACS_PER_S
    ready |= {(spec.name,), *((spec.name, mode, case.batch) for mode in modes)}
    return seconds


def stored(task: Task, folder: Path) -> list[Record]:
    """The last stored records of each cell of a task: one, or one per number of workers."""
    path = folder / _file(task.part)
    known: dict[Case, dict[Any, Record]] = {}
    for record in Store(path).read() if path.exists() else ():
        workers = (record.get("scaling") or NOTHING).get("workers")
        known.setdefault(Case(**record["case"]), {})[workers] = record
    return [record for case in task.cases for record in known.get(case, {}).values()]


def stores(folder: Path, study: Study) -> dict[str, Store]:
    """The files of results of a study, by kind of table.

    Raises:
        StoreError: one cannot be written.
    """
    return {part.kind: open_store(folder, _file(part)) for part in study.parts}


def experiment(part: Part, setting: Setting) -> Experiment:
    """How the cells of a table are measured."""
    if part.kind == "phases":
        return Phases(setting.protocol)
    if part.kind == "layers":
        return Layers()
    if part.kind == "training":
        return Train(int(part.settings[setting.scale]))
    if part.kind == "scaling":
        return Scale(_scaled(part, setting))
    return Time(setting.protocol)


def _scaled(part: Part, setting: Setting) -> Workers:
    """The plan for several workers: as many as the scale says, on GPUs at most one per GPU."""
    gpus = len([*Path("/dev").glob("nvidia[0-9]*")]) if setting.device == "cuda" else None
    wanted = map(int, part.settings[setting.scale].split())
    workers = tuple(number for number in wanted if gpus is None or number <= gpus)
    budget, timeout = 4 * setting.protocol.budget, setting.protocol.timeout
    return Workers(workers, part.settings["kind"], budget, timeout=timeout)
