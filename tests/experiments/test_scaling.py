"""`xbench scale`: the average over workers is the oracle's gradient, a wrong one is caught, no process is left."""

import json
import os
import shutil
import signal
import time

import numpy as np
import pytest
from fault_engines import FILE as FAULT
from fault_kit import Shell, only_line, workers
from places import SUPPORT

from xbench.errors import XBenchError
from xbench.experiments.scaling import run as scaling
from xbench.experiments.scaling.proof import apart, kind_of, mean, prove, reference
from xbench.experiments.scaling.record import Plan
from xbench.parity import verdict
from xbench.reports.scaling import HEADER, cells, rows, to_markdown
from xbench.reports.study import grids_of
from xbench.reports.study_page import to_markdown as page_markdown
from xbench.runtimes import distributed
from xbench.studies import COMMUNICATION, Part, Quote
from xbench.workers.prepare import Exporter
from xbench.workers.worker import WorkerFailure
from xbench.workers.worker_group import Group, cpus_of

TESTS = SUPPORT
QUICK = ("--workers", "1,2", "--batch", 8, "--budget", 0.4)


@pytest.fixture(scope="module")
def scaled(lenet, tmp_path_factory):
    """One command over the engines and a runtime without one: its answer, the records, the folder."""
    folder = tmp_path_factory.mktemp("scale")
    words = [word for name in ("torch", "jax", "tensorflow", "onnxruntime") for word in ("--runtime", name)]
    answer = Shell(folder).run("scale", "lenet", *words, *QUICK, "--json", "--out", "out")
    assert answer.stdout, answer.stderr
    return answer, lines(folder / "out"), folder


def lines(out):
    return [json.loads(line) for line in (out / "scaling.jsonl").read_text().splitlines()]


def of(records, runtime, count):
    (record,) = (r for r in records if r["case"]["runtime"] == runtime and r["scaling"]["workers"] == count)
    return record


# ***** the engines *****


@pytest.mark.parametrize("runtime", ["torch", "jax", "tensorflow"])
def test_two_workers_average_what_the_oracle_has_of_the_whole_batch(scaled, runtime):
    for count in (1, 2):
        record = of(scaled[1], runtime, count)
        assert record["status"] == "PASS", record["message"]
        assert record["parity"]["class"] == "fp32"
        assert record["parity"]["tensors"] > 8
    proof = record["scaling"]["proof"]
    assert proof["reference"] == "whole batch"
    assert proof["alike"]
    assert proof["beside_one"] < 64


@pytest.mark.parametrize("runtime", ["torch", "jax", "tensorflow"])
def test_a_record_has_the_times_and_what_the_model_says(scaled, runtime):
    one, two = (of(scaled[1], runtime, count)["scaling"] for count in (1, 2))
    assert one["speed_up"]["median"] == pytest.approx(1)
    assert two["speed_up"]["median"] > 0
    assert two["efficiency"] == pytest.approx(two["speed_up"]["median"] / 2)
    assert (two["shard"], two["total"]) == (8, 16)
    assert two["samples_per_s"] == pytest.approx(16 / two["iteration_s"]["median"])
    assert two["comm_s"]["median"] > 0
    assert set(two["blocks"]) == {"together", "apart", "reduction"}
    assert two["hidden"] in (True, False, None)
    bytes_of_gradients = 431_080 * 4  # study 1's LeNet
    assert sum(two["messages"]) == pytest.approx(bytes_of_gradients, abs=4)
    assert two["early"] == (runtime == "torch")
    prediction = two["prediction"]
    assert prediction["iteration_s"] == pytest.approx(
        two["prediction"]["visible_s"] + sum(phases(prediction)) * prediction["slower"]
    )
    assert one["prediction"]["comm_s"] is None
    assert sum(phases(one["prediction"])) == pytest.approx(one["prediction"]["iteration_s"])


def phases(prediction):
    return [prediction[name] for name in ("io", "h2d", "forward", "backward", "update")]


def test_a_runtime_without_an_engine_says_what_it_lacks(scaled):
    answer, records, _ = scaled
    record = of(records, "onnxruntime", 2)
    assert record["status"] == "UNSUPPORTED"
    assert "no collective" in record["message"]
    assert answer.returncode == 0


def test_rows_tables_and_pictures(scaled):
    answer, records, folder = scaled
    ranked = rows(records)
    assert json.loads(answer.stdout) == json.loads(json.dumps(ranked))
    assert [row["workers"] for row in ranked] == [1, 2] * 4
    assert "| torch | PASS fp32 | 2 |" in to_markdown(ranked)
    assert cells(ranked[-1])[3:] == [""] * 11
    for ending in ("png", "svg"):
        assert (folder / "out" / f"lenet-weak-scaling.{ending}").stat().st_size > 10_000


def test_a_study_shows_them_by_workers_with_the_published_ones_beside_them(scaled):
    """Speed-ups measured and as modelled, the communication time, and the complete table."""
    quotes = (
        Quote({"2": {"Old": 1.5}, "16": {"Old": 9.0}}, "a machine", "a paper", "lenet"),
        Quote({"2": {"Old": 0.1}}, "a machine", "a paper", "lenet", COMMUNICATION),
    )
    part = Part("workers", "Weak scaling", "scaling", {}, quotes)
    speed, communication, overview = grids_of(part, scaled[1])
    assert speed.rows == ("1", "2", "16")
    assert speed.theirs == {"Old": {"2": 1.5, "16": 9.0}}
    two = of(scaled[1], "jax", 2)["scaling"]
    assert speed.ours["jax"]["2"]["value"] == two["speed_up"]["median"]
    assert speed.ours["jax, model"]["2"]["value"] == two["prediction"]["speed_up"]
    assert speed.ours["onnxruntime"]["2"]["value"] is None
    assert communication.rows == ("2",)
    assert communication.ours["torch"]["2"]["value"] == of(scaled[1], "torch", 2)["scaling"]["comm_s"]["median"]
    assert overview.header == HEADER
    assert [row[0] for row in overview.cells] == ["torch"] * 2 + ["jax"] * 2 + ["tensorflow"] * 2 + ["onnxruntime"] * 2
    assert "| torch | PASS fp32 | 2 |" in page_markdown(overview)


def test_what_is_recorded_is_not_measured_again(scaled):
    _, records, folder = scaled
    words = ["--runtime", "torch", "--runtime", "jax", *QUICK, "--json", "--out", "out"]
    begin = time.monotonic()
    answer = Shell(folder).run("scale", "lenet", *words)
    assert time.monotonic() - begin < 20
    assert "4 records were measured before" in answer.stderr
    assert len(json.loads(answer.stdout)) == 4
    assert len(lines(folder / "out")) == len(records)


# ***** impossible requests *****


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--scaling", "strong", "--batch", 6, "--workers", "1,4"], "cannot be divided among 4 workers"),
        (["--scaling", "wide"], "weak or strong"),
        (["--workers", "two"], "numbers from 1 to 64"),
        (["--workers", "0"], "numbers from 1 to 64"),
        (["--runtime", "jxa"], "did you mean jax"),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path, words, says):
    answer = Shell(tmp_path).inside("scale", "lenet", *words)
    assert answer.returncode == 2
    assert says in only_line(answer.stderr)


def test_more_workers_than_gpus_is_refused():
    with pytest.raises(XBenchError, match="each worker needs its own"):
        scaling.sensible(Plan((1, 64), "weak"), 8, "cuda")


def test_who_has_no_engine_is_asked_for_nothing():
    for name in ("onnxruntime", "openvino", "tvm", "torch_compile"):
        assert name in distributed.missing(name)
    assert distributed.missing("torch") is None
    assert "takes no options: xla" in distributed.missing("tensorflow:xla")


def test_cpus_are_dealt_out_and_shared_where_there_are_too_few():
    assert [cpus_of(rank, 1, [4, 5]) for rank in range(4)] == [{4}, {5}, {4}, {5}]
    assert [cpus_of(rank, 2, [0, 1, 2, 3]) for rank in range(2)] == [{0, 1}, {2, 3}]
    assert cpus_of(1, 3, [0, 1]) == {0, 1}


# ***** the mean of shards *****


def test_a_mean_of_references_has_floors_that_its_errors_keep():
    generator = np.random.default_rng(0)
    parts = [{"gradient/w": generator.normal(size=9), "labels": np.zeros(2)} for _ in range(3)]
    errors = [1e-3 * generator.normal(size=9) for _ in parts]
    for part, error in zip(parts, errors):
        part["floor/gradient/w"] = np.array([np.linalg.norm(error), np.abs(error).max()])
    average = mean(parts)
    assert set(average) == {"gradient/w", "floor/gradient/w"}
    off = average["gradient/w"] + np.mean(errors, axis=0)
    assert verdict.floors_off(off, average["gradient/w"], average["floor/gradient/w"]) <= 1
    assert apart({"gradient/w": off}, {"gradient/w": off}, average) == 0


@pytest.mark.parametrize("runtime", ["torch", "jax", "tensorflow"])
def test_with_batch_normalization_the_reference_is_the_mean_of_shards(tmp_path, monkeypatch, runtime):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    exporter = Exporter(tmp_path)
    artifact = exporter.artifact("small_nets:normed@x:float32:batch,3,8,8")
    group = Group(runtime, 2, tmp_path / "group.log", "cpu", 1, 120)
    try:
        joined(group, artifact, runtime)
        result = prove(group, None, artifact, exporter, 4, 120)
        parts = reference(artifact, exporter, "gradient", 4, 2, 0)
    finally:
        group.stop()
        exporter.close()
    assert result["status"] == "PASS", result["message"]
    assert result["proof"] == {"reference": "mean of shards", "alike": True, "beside_one": None}
    assert parts.judged["gradient/conv.weight"].shape == (6, 3, 3, 3)


@pytest.mark.parametrize(("model", "kind"), [("contrastive", "mean of shards"), ("lenet", "whole batch")])
def test_where_samples_have_to_do_with_one_another_the_reference_is_the_mean_of_shards(
    tmp_path, monkeypatch, model, kind
):
    (tmp_path / "pairs.py").write_text(PAIRS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    own = Exporter(tmp_path)
    try:
        artifact = own.artifact("pairs:Pairs@x:float32:batch,6" if model == "contrastive" else model)
        assert kind_of(artifact, own, 2) == kind
        assert kind_of(artifact, own, 1) == "whole batch"
    finally:
        own.close()


PAIRS = """
import torch

class Pairs(torch.nn.Linear):
    def __init__(self):
        super().__init__(6, 4)

    def forward(self, x):
        h = super().forward(x)
        return torch.nn.functional.cross_entropy(h @ x[:, :4].t(), torch.arange(x.shape[0]))
"""


def joined(group, artifact, runtime):
    group.call("join_workers", 120, artifact=str(artifact.folder), runtime=runtime, device="cpu", threads=1)


# ***** planted faults *****


@pytest.fixture(scope="module")
def faulty(lenet, tmp_path_factory):
    """Two workers with the engine of `fault_engines`, and the file naming their fault; restarted if it ended them."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("faulty")
    shutil.copy(TESTS / "fault_engines.py", site / "xbench_fault_engines.py")
    facts = site / "xbench_fault_engines-0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: xbench-fault-engines\nVersion: 0\n")
    (facts / "entry_points.txt").write_text("[xbench.runtimes]\nfault_engine = xbench_fault_engines:fault_engine\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")])))
        patch.setenv(FAULT, str(folder / "fault"))
        yield folder
    assert not [path for path in folder.glob("*.npz")]


@pytest.fixture(scope="module")
def honest(faulty, lenet):
    group = begun(faulty, lenet)
    yield group
    group.stop()


def begun(folder, artifact):
    (folder / "fault").write_text("none")
    group = Group("fault_engine", 2, folder / "group.log", "cpu", 1, 120)
    joined(group, artifact, "fault_engine")
    return group


@pytest.mark.parametrize(
    ("fault", "alike"),
    [
        ("none", True),
        ("sums", True),
        ("never averages", False),
        ("one keeps its own", False),
        ("first layer forgotten", False),
    ],
)
def test_a_wrong_average_is_caught(faulty, honest, lenet, exporter, fault, alike):
    (faulty / "fault").write_text(fault)
    result = prove(honest, None, lenet, exporter, 4, 120)
    assert result["status"] == ("PASS" if fault == "none" else "FAIL"), result["message"]
    assert result["proof"]["alike"] == alike


def test_who_averages_in_the_proof_alone_is_caught_while_timed(faulty, honest, lenet, exporter):
    (faulty / "fault").write_text("apart when timed")
    assert prove(honest, None, lenet, exporter, 4, 120)["status"] == "PASS"
    path = reference(lenet, exporter, "gradient", 4, 2, 0).paths[0]
    honest.call("take_shard", 120, references=[str(path)], batch=4)
    team = scaling.Team(2, honest, 4, {}, {"alike": True}, {})
    with pytest.raises(WorkerFailure, match="became different"):
        scaling._times(team, "together", 2, Plan((2,), "weak"))


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        ("dies", "CRASH", "worker 1 of 2 ended"),
        ("raises", "CRASH", "worker 1 of 2: RuntimeError: of its own"),
        ("hangs", "TIMEOUT", "no answer to work_together within 6 s"),
    ],
)
def test_a_worker_that_ends_or_hangs_is_one_line_and_ends_all(faulty, lenet, exporter, fault, status, says):
    group = begun(faulty, lenet)
    (faulty / "fault").write_text(fault)
    links = list(group._links)
    with pytest.raises(WorkerFailure) as caught:
        prove(group, None, lenet, exporter, 4, 6)
    assert caught.value.status == status
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert links and all(process.poll() is not None for process in group._processes)
    (faulty / "fault").write_text("none")


@pytest.mark.parametrize(("runtime", "sent"), [("torch", signal.SIGKILL), ("jax", signal.SIGINT)])
def test_an_end_at_any_moment_leaves_no_process(tmp_path, lenet, runtime, sent):
    shell = Shell(tmp_path)
    process = shell.start("scale", "lenet", "--runtime", runtime, *QUICK, "--budget", 60, "--out", "out")
    groups = 3 if runtime == "jax" else 5  # the workers of both groups, and the launchers of torchrun
    assert shell.until(lambda: len(workers(shell.mark)) >= groups)
    process.send_signal(sent)
    assert process.wait(30) == (130 if sent == signal.SIGINT else -sent)
    assert not shell.survivors()
    if sent == signal.SIGINT:
        assert "interrupted" in (tmp_path / "stderr.log").read_text()
