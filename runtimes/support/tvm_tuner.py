"""TVM's own tuner, MetaSchedule: schedules of a module's loop nests are tried on this machine, and the fastest kept.

TVM's task schedulers take a number of trials, which on one machine are seconds and on another hours. Here it is a time,
so the loop over tasks is xbench's; space, search, cost model, runner and database are TVM's. TVM's builder starts a new
process for every round, which parses the intrinsics of all GPUs again: the one here does not.
The records are in a folder next to the model: a finished search is not repeated, an interrupted one resumes from its
records.
"""

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.s_tir import meta_schedule
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.s_tir.meta_schedule.builder.local_builder import default_build, default_export
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.s_tir.meta_schedule.relax_integration import extract_tasks, extracted_tasks_to_tune_contexts
from tvm.s_tir.meta_schedule.runner import EvaluatorConfig, LocalRunner, RunnerInput, RunnerResult

from xbench.converters import seals
from xbench.runtimes import Unavailable

DONE = "xbench.json"  # in the folder: the cost of the search
ROUND = 16  # schedules of one loop nest that are measured before the next nest is chosen
ENDLESS = 10**6
# A schedule is run once, or repeatedly for a tenth of a second: bad ones take seconds.
ONCE = EvaluatorConfig(number=1, repeat=1, min_repeat_ms=100)
PATIENCE = 10.0  # seconds that one schedule may take


def target_of(device: Any, threads: int) -> Any:
    """The target of the tuning: this CPU with `threads` threads, or the GPU."""
    if device.dlpack_device_type() != tvm.cpu().dlpack_device_type():
        return tvm.target.Target.from_device(device)
    return tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "num-cores": threads})


def tuned(module: Any, target: Any, folder: Path, seconds: float) -> tuple[Any, str]:
    """The module with the fastest schedules found in `seconds` seconds, and the cost of the search, in words.

    `module` is one of Relax whose operators are not lowered yet.

    Raises:
        Unavailable: xgboost is missing, which the search needs.
    """
    steps = (relax.transform.DecomposeOpsForInference(), relax.transform.CanonicalizeBindings(), relax.get_pipeline())
    with target:
        module = tvm.transform.Sequential([*steps])(module)
        done, place = folder / DONE, folder / f"tuned{seals.SUFFIX}"
        if seals.broken(place, folder.name):
            if done.exists():  # it was finished, and is damaged
                shutil.rmtree(folder)
            folder.mkdir(0o700, parents=True, exist_ok=True)
            done.write_text(json.dumps(_search(module, target, folder, seconds)))
            seals.seal(place, folder.name, [each.name for each in folder.iterdir() if each.is_file()])
        summary = json.loads(done.read_text())
        module = relax.transform.MetaScheduleApplyDatabase(str(folder))(module)
    return module, f"{summary['trials']} trials in {summary['seconds']:.0f} s"


@dataclass
class _Task:
    """One loop nest of the module. `weight` is how often it is run, `work` what one run computes, `best` the seconds of
    its fastest schedule so far, `idle` the rounds in a row that found none faster."""

    context: Any
    weight: float
    work: float
    best: float | None = None
    idle: int = 0

    @property
    def promise(self) -> tuple[bool, float]:
        """The possible gain: tasks never tried come first, those that compute most before others; tasks of which no
        schedule could be measured come last."""
        if self.best is None:
            return (False, 0.0) if self.idle else (True, self.weight * self.work)
        return False, self.weight * self.best / (1 + self.idle)


def _search(module: Any, target: Any, folder: Path, seconds: float) -> dict[str, float]:
    cpus = len(os.sched_getaffinity(0))  # TVM would count all of the machine's
    database = _database(folder)
    try:
        model = meta_schedule.CostModel.create("xgb", num_tuning_cores=cpus)
    except ImportError as error:
        raise Unavailable("tvm:tune needs xgboost: pip install 'xbench[tvm]'") from error
    start = time.monotonic()
    nests = extracted_tasks_to_tune_contexts(extract_tasks(module, target, {}), str(folder), num_threads=cpus, seed=0)
    tasks = [_Task(context, weight, estimate_tir_flops(context.mod)) for context, weight in zip(*nests, strict=True)]
    for task in tasks:
        task.context.pre_tuning(ENDLESS, ROUND, database=database, cost_model=model)
    runner, trials = LocalRunner(PATIENCE, ONCE), 0
    while tasks and (not trials or time.monotonic() - start < seconds):
        task = max(tasks, key=lambda each: each.promise)
        candidates = task.context.generate_measure_candidates()
        if not candidates:  # all of them were tried
            tasks.remove(task)
            continue
        results = _measured(candidates, task.context.target, runner, cpus)
        _keep(task, candidates, results, database)
        task.context.notify_runner_results(candidates, results)
        model.update(task.context, candidates, results)
        trials += len(candidates)
    if not len(database):
        raise RuntimeError(f"none of {trials} schedules could be measured in {seconds:g} s")
    return {"trials": trials, "seconds": time.monotonic() - start}


def _database(folder: Path) -> Any:
    """The records of an interrupted search; empty if they are damaged."""
    try:
        return meta_schedule.Database.create("json", work_dir=str(folder))
    except Exception:  # TVM's reader has no error of its own
        for each in folder.iterdir():
            each.unlink()
        return meta_schedule.Database.create("json", work_dir=str(folder))


def _measured(candidates: list[Any], target: Any, runner: Any, cpus: int) -> list[Any]:
    """The result of each schedule: its seconds, or why there are none."""
    with ThreadPoolExecutor(cpus) as pool:
        built = list(pool.map(lambda each: _built(each.sch.mod, target), candidates))
    given = [
        RunnerInput(str(file), "cuda" if target.kind.name == "cuda" else "cpu", each.args_info)
        for each, (file, _) in zip(candidates, built, strict=True)
        if file
    ]
    futures = iter(runner.run(given))
    results = [RunnerResult(None, error) if error else next(futures).result() for _, error in built]
    for file, _ in built:
        if file:
            shutil.rmtree(file.parent, ignore_errors=True)
    return results


def _built(module: Any, target: Any) -> tuple[Path | None, str | None]:
    """The file of a compiled schedule, in a folder of its own; or why it cannot be compiled."""
    try:
        return Path(default_export(default_build(module, target, None))), None
    except Exception as error:  # many schedules cannot be compiled
        return None, str(error) or type(error).__name__


def _keep(task: _Task, candidates: list[Any], results: list[Any], database: Any) -> None:
    """Writes what was measured to the database."""
    workload, before = database.commit_workload(task.context.mod), task.best
    for candidate, result in zip(candidates, results, strict=True):
        if result.error_msg:
            continue
        seconds = [float(each) for each in result.run_secs]
        record = TuningRecord(candidate.sch.trace, workload, seconds, task.context.target, candidate.args_info)
        database.commit_tuning_record(record)
        mean = sum(seconds) / len(seconds)
        task.best = mean if task.best is None else min(task.best, mean)
    task.idle = task.idle + 1 if task.best == before else 0
