"""Frameworks of old studies run, and are proved, timed and audited like all others. MXNet's environment is made here
if an old Python is available; those of the others are used if they exist."""

import ast
import dataclasses
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from places import SUPPORT

from xbench.case import Case
from xbench.converters.autodiff import optimizer
from xbench.errors import XBenchError
from xbench.models import Optimizer
from xbench.proof import contracts
from xbench.proof.prove import verify
from xbench.runtimes import RUNTIMES, _environments
from xbench.runtimes.originals import update as old
from xbench.runtimes.support import remote
from xbench.workers import environment
from xbench.workers.cell import Cell, step_of
from xbench.workers.prepare import Exporter
from xbench.workers.worker import Worker, worker_of

ORIGINALS = [name for name, row in RUNTIMES.items() if row.environment]
TRAINERS = [name for name in ORIGINALS if RUNTIMES[name].autodiff]
FOLDER = Path(remote.__file__).parents[1] / "originals"
NORMAL = "small_nets:dropping@x:float32:batch,3,32,32"
RECURRENT = "small_nets:recurrent@words:int64:batch,7"
BARE = "small_nets:bare@x:float32:batch,3,8,8"


@pytest.fixture(scope="module")
def exporter(tmp_path_factory):
    made = Exporter(tmp_path_factory.mktemp("logs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]))
        yield made
    made.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make an environment unless it exists."""
    root = tmp_path_factory.mktemp("environments")
    with pytest.MonkeyPatch.context() as patch:

        def ready(name):
            if _environments.find(name):
                return
            if name != "mxnet":
                pytest.skip(f"its environment is not made here: xbench env create {name}")
            try:
                environment.interpreter(_environments.RECIPES[name])
            except XBenchError as error:
                pytest.skip(str(error))
            patch.setenv("XBENCH_ENVIRONMENTS", str(root))
            environment.create(name, None, lambda words: None, lambda words: None)

        yield ready


def verdict(exporter, model, runtime, mode, folder):
    record = verify(Case(model, runtime, mode, 2, threads=1), exporter.artifact(model), exporter, 300, folder)
    return record["status"], record["message"], record


@pytest.mark.parametrize("runtime", ORIGINALS)
@pytest.mark.parametrize("mode", ["forward", "gradient", "step"])
def test_an_original_computes_lenet(made, exporter, tmp_path, runtime, mode):
    if mode != "forward" and runtime not in TRAINERS:
        pytest.skip(f"{runtime} does not train here")
    made(runtime)
    status, message, record = verdict(exporter, "lenet", runtime, mode, tmp_path)
    assert (status, message) == ("PASS", None)
    assert record["certificate"]["equal"]
    package, python = RUNTIMES[runtime].packages[0], record["versions"]["python"]
    assert record["versions"][package].startswith(tuple("12570")) and python < "3.9"


@pytest.mark.parametrize("runtime", ["mxnet", "keras", "keras:backend=jax"])
def test_statistics_and_dropout_are_those_of_the_network(made, exporter, tmp_path, runtime):
    """BatchNorm's running variance is unbiased, which neither keeps by itself."""
    if runtime == "mxnet":
        made(runtime)
    status, message, _ = verdict(exporter, NORMAL, runtime, "step", tmp_path)
    assert (status, message) == ("PASS", None)


@pytest.mark.parametrize(("backend", "mode"), [("tensorflow", "forward"), ("tensorflow", "step"), ("jax", "step")])
def test_keras_computes_lenet_by_its_layers(exporter, tmp_path, backend, mode):
    status, message, record = verdict(exporter, "lenet", f"keras:backend={backend}", mode, tmp_path)
    assert (status, message) == ("PASS", None)
    assert "keras" in record["versions"]


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_keras_does_not_train_what_is_a_constant_of_the_graph(exporter, tmp_path, backend):
    status, message, _ = verdict(exporter, BARE, f"keras:backend={backend}", "step", tmp_path)
    assert (status, message) == ("PASS", None)


@pytest.mark.parametrize("runtime", ["mxnet", "keras"])
def test_an_operator_that_is_missing_is_named(made, exporter, tmp_path, runtime):
    if runtime == "mxnet":
        made(runtime)
    status, message, _ = verdict(exporter, RECURRENT, runtime, "forward", tmp_path)
    assert status == "UNSUPPORTED" and "GRU" in message


def cells_worker(exporter, folder):
    case, artifact = Case("lenet", "mxnet", "forward", 8, threads=1), exporter.artifact("lenet")
    paths = [str(exporter.reference(artifact, "forward", 8, seed, "synthetic")) for seed in (0, 1)]
    worker = worker_of(case, folder / "worker.log")
    settings = {"mode": "forward", "device": "cpu", "threads": 1, "layout": "nchw", "references": paths}
    worker.call("open_cell", 120, artifact=str(artifact.folder), runtime="mxnet", **settings)
    worker.call("arm", 60, plane="resident")
    return case, worker


def hosts(worker: Worker) -> list[int]:
    """The processes that a worker has started, by number."""
    processes = [int(each.name) for each in Path("/proc").glob("[0-9]*")]
    return [each for each in processes if each != worker.process.pid and _group(each) == worker.process.pid]


def _group(process):
    try:
        return os.getpgid(process)
    except OSError:
        return None


def test_the_process_of_an_original_is_counted_stopped_and_ended_with_its_worker(made, exporter, tmp_path):
    made("mxnet")
    case, worker = cells_worker(exporter, tmp_path)
    try:
        (host,) = hosts(worker)
        facts, kept = contracts.audited(worker, case, 60, 0.2)
        assert contracts.broken(kept, case.runtime) is None
        assert facts["cpus"] > 0.3  # of which this side of the pipe uses almost none
        block = worker.call("block", 60, seconds=0.3, limit=10**6, seed=0)
        assert block["cpu_s"] > 0.3 * sum(block["samples"])
        assert sum(block["samples"]) < block["wall_s"]
        worker.pause()
        end = time.monotonic() + 10
        while state(host) != "T" and time.monotonic() < end:
            time.sleep(0.01)
        assert state(host) == "T"
        os.kill(worker.process.pid, signal.SIGKILL)  # only this one: the other is stopped, and sees no end of a pipe
        end = time.monotonic() + 10
        while state(host) not in (None, "Z") and time.monotonic() < end:
            time.sleep(0.01)
        assert state(host) in (None, "Z")
    finally:
        worker.stop()


def state(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


class Elsewhere:
    """A runtime whose own process computed a quarter of a second on a step with a late answer."""

    remote = True

    def __init__(self):
        self.seconds = 0.0

    def put(self, arrays):
        return tuple(arrays)

    def forward(self, *inputs):
        time.sleep(0.01)
        self.seconds += 0.25
        return inputs

    def wait(self, result):
        pass

    def clock(self):
        return self.seconds


def test_a_step_elsewhere_has_the_time_of_the_clock_there():
    runtime, reference = Elsewhere(), {"input/0": np.zeros(1, np.float32)}
    step = step_of(Cell(None, runtime, "forward", [reference], remote=True), reference)
    assert [step(), step()] == [0.25, 0.25]


RULES = [
    Optimizer(lr=0.1),
    Optimizer(lr=0.1, momentum=0.9, weight_decay=0.01, clip=0.5),
    Optimizer(lr=0.1, momentum=0.9, nesterov=True, schedule=(1.0, 0.5)),
    Optimizer("adam", lr=0.01, weight_decay=0.1),
    Optimizer("adamw", lr=0.01, weight_decay=0.1, clip=0.5, schedule=(0.5, 1.0)),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.name} {rule.clip} {len(rule.schedule)}")
def test_the_update_rules_of_old_pythons_are_those_of_all(rule):
    rule, draw = dataclasses.asdict(rule), np.random.default_rng(0)
    use = optimizer.Functions(np.sum, np.minimum, np.expm1, lambda numbers, count: numbers[int(count) - 1])
    params = {name: draw.normal(size=(3, 2)) for name in "ab"}
    new, again = (params, {s: {n: np.zeros((3, 2)) for n in params} for s in optimizer.slots(rule)}), None
    again = new
    for step in (1, 2, 3):
        grads = {name: draw.normal(size=(3, 2)) for name in "ab"}
        new = optimizer.update(rule, float(step), new[0], grads, new[1], use)
        given = old.numbers(rule, step)
        again = old.update(rule, given, again[0], grads, again[1], np.sum, np.minimum, np.sqrt)
    assert old.slots(rule) == optimizer.slots(rule)
    for name in params:
        np.testing.assert_allclose(new[0][name], again[0][name], rtol=1e-12)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_what_runs_there_is_python_3_6(path):
    ast.parse(path.read_text(), str(path), feature_version=(3, 6))


def test_the_printed_text_is_python_3_6(exporter):
    ast.parse(exporter.artifact(NORMAL).program().source, feature_version=(3, 6))
