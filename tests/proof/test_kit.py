"""The fault kit: adapters that cheat are caught and named, every real and third-party one passes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cheats
import numpy as np
import onnx
import pytest
from fault_kit import only_line
from places import ROOT

from xbench.proof import conformance, conformance_cell, contracts, probes
from xbench.runtimes import RUNTIMES, version
from xbench.workers.prepare import Exporter

METHOD = ROOT / "docs" / "method.md"
REWRITE = "XBENCH_REWRITE_GOLDEN"  # set to 1 to rewrite the table of docs/method.md
TABLE = ("<!-- cheats -->\n", "<!-- end -->")
SEEN: dict[str, conformance_cell.Finding] = {}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Make the fixtures that the kit needs to test a runtime; the probes are exported once."""
    folder = tmp_path_factory.mktemp("kit")
    models, exporter = probes.write(folder), Exporter(folder)
    yield lambda word, device="cpu": conformance_cell.Bench(word, device, 1, exporter, models, folder, 120)
    exporter.close()


def examined(bench):
    return list(conformance.examine(bench, lambda words: None))


@pytest.mark.parametrize("kind", cheats.EXPECTED, ids=lambda kind: kind.__name__)
def test_an_adapter_that_cheats_is_caught_and_named(kind, bench, faults):
    """The checks after the one that catches it are not made."""
    device = "cuda" if kind is cheats.Elsewhere else "cpu"
    broken = []
    for each in conformance.examine(bench(f"cheat_{kind.__name__.lower()}", device), lambda words: None):
        if each.held is False:
            broken.append(each)
            if (each.check, each.fault) == cheats.EXPECTED[kind]:
                SEEN[kind.__name__] = each
                return
    pytest.fail(f"not caught: {broken}")


def test_the_table_of_the_documents_is_what_was_seen(faults):
    if len(SEEN) < len(cheats.EXPECTED):
        pytest.skip("not every cheat was tried in this process")
    rows = ["| what the adapter does | check | called | for example |", "|---|---|---|---|"]
    for kind in cheats.EXPECTED:
        seen, does = SEEN[kind.__name__], str(kind.__doc__).strip().rstrip(".")
        rows.append(f"| {does} | `{seen.check}` | `{seen.fault}` | {seen.says} |")
    before, rest = METHOD.read_text().split(TABLE[0])
    known, after = rest.split(TABLE[1])
    if os.environ.get(REWRITE) == "1":
        known = "\n".join(rows) + "\n"
        METHOD.write_text(before + TABLE[0] + known + TABLE[1] + after)
    assert [names(row) for row in known.splitlines()] == [names(row) for row in rows], (
        f"if the change is meant: {REWRITE}=1 python -m pytest {__file__}"
    )


def names(row: str) -> list[str]:
    """A row without its example, which differs from run to run."""
    return row.split(" | ")[:3]


def test_an_honest_adapter_passes(bench, faults):
    checks = examined(bench("cheat_honest"))
    assert {each.check for each in checks} == set(conformance.CHECKS)
    assert not [each for each in checks if not each.held and each.check != "random"]  # it has no dropout in evaluation


@pytest.mark.parametrize("runtime", [name for name, row in RUNTIMES.items() if not (row.hidden or row.named)])
def test_our_adapters_pass_in_every_mode(runtime, bench):
    if not version(RUNTIMES[runtime]):
        pytest.skip(f"{runtime} is not installed")
    findings = examined(bench(runtime))
    assert not [each for each in findings if each.held is False]
    assert {each.mode for each in findings} == set(conformance.modes(runtime))
    assert not silent(findings) or not silent(examined(bench(runtime))), "its networks are too small to be judged"


def silent(findings):
    """Checks that were not measured; may happen once, if others use the machine and steps differ as the clock may."""
    return [each for each in findings if each.held is None and each.check not in ("deterministic", "random")]


def test_a_strangers_package_is_listed_and_passes(shell, tmp_path):
    site, source = tmp_path / "site", ROOT / "examples" / "xbench-onnx-reference"
    lines = (source / "xbench_onnx_reference.py").read_text().splitlines()
    assert len(lines) <= 60
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(site), str(source)], check=True, capture_output=True, timeout=120)
    environment = {"PYTHONPATH": shell.python_path(site)}
    listed = json.loads(shell.run("plugin", "list", "--json", **environment).stdout)
    assert {"runtime": "onnx_reference", "package": "xbench-onnx-reference"}.items() <= next(
        each for each in listed if each["runtime"] == "onnx_reference"
    ).items()
    answer = shell.run("plugin", "test", "onnx_reference", "--json", **environment)
    findings = json.loads(answer.stdout)
    assert answer.returncode == 0, [each for each in findings if each["held"] is False]
    assert {each["check"] for each in findings} == set(conformance.CHECKS)
    timed = shell.run(
        "time", "lenet", "--runtime", "onnx_reference", "--mode", "forward", "--budget", "0.2", **environment
    )
    assert timed.returncode == 0
    assert "onnx_reference" in timed.stdout


def test_a_cheat_is_told_on_the_command_line_and_gets_no_time(shell):
    answer = shell.run("plugin", "test", "cheat_firstonly")
    assert answer.returncode == 1
    assert "gives 1 of 2 outputs" in answer.stdout
    assert "cheat_firstonly: 1 of" in answer.stdout
    timed = shell.run("time", "lenet", "--runtime", "cheat_byvalue", "--mode", "forward", "--json", "--budget", "0.2")
    (row,) = json.loads(timed.stdout)
    assert timed.returncode == 1
    assert (row["status"], row["median_s"]) == ("FAIL", None)
    assert row["message"].startswith("remembers answers by value")


@pytest.mark.parametrize(
    ("runtime", "held", "says"),
    [
        ("fault_lacks", None, "operators missing: Conv (2)"),
        ("fault_raises", False, "ValueError: the kernel is missing"),
        ("fault_killed", False, "the worker was killed (signal SIGKILL), by whom is not known"),
        ("fault_hangs", False, "no answer to open_cell within 15 s"),
    ],
)
def test_an_adapter_that_breaks_down_is_told_in_one_finding(shell, runtime, held, says):
    answer = shell.run("plugin", "test", runtime, "--json", "--timeout", 15)
    (finding,) = json.loads(answer.stdout)
    assert answer.returncode == 1
    assert (finding["check"], finding["held"]) == ("result", held)
    assert says in finding["says"]


def test_a_wrong_word_is_one_line(shell):
    for words in (
        ("plugin", "test", "unheard"),
        ("plugin", "test", "torch,jax"),
        ("plugin", "test", "torch", "--device", "tpu"),
    ):
        answer = shell.inside(*words)
        assert answer.returncode == 2
        assert only_line(answer.stderr).startswith("xbench: ")


GOOD = {
    "put_s": [1e-5], "repeated_s": [1e-2], "fresh_s": [1e-2], "copied_s": [1e-2], "fetch_s": [1e-5],
    "refetch_s": [1e-5], "put_bytes": 10, "put_arrays": 2, "fetched_bytes": 10, "fetched_arrays": 1, "same": 0.0,
    "stale": False, "varies": None, "cpus": 1.0, "open_cpus": 2, "busy_threads": 1, "threads_at_once": 1.0,
    "idle_cpus": 0.0, "placed": {"cpu": 3}, "gpu_open": False, "most_cpus": 1.0,
    "pace": {"steps": 100, "told_s": 1.0, "parent_s": 1.0, "shortest_s": 9e-3, "unseen_s": 0.0},
}  # fmt: skip
CASE = contracts.Case("lenet", "torch", threads=1)
AWAY = {"repeated_s": [2.1e-4], "fresh_s": [2.1e-4], "copied_s": [2.1e-4], "fetch_s": [3.1e-4], "refetch_s": [1.1e-5]}


@pytest.mark.parametrize(
    ("facts", "broken"),
    [
        ({}, []),
        ({"fetch_s": [9e-3], "fetched_bytes": 10**7, "refetch_s": [9e-3]}, []),  # a gigabyte a second is copied
        ({"fetch_s": [9e-3]}, ["complete"]),
        ({"put_s": [9e-3]}, ["begins"]),
        ({"put_s": [9e-3], "put_bytes": 10**7}, []),
        ({"fresh_s": [2e-2, 1.1e-2, 1.1e-2, 1.1e-2]}, []),  # one was disturbed by another process
        ({"fresh_s": [1e-2, 2e-2, 2e-2, 2e-2]}, ["fresh"]),  # honest the first time
        ({"fetch_s": [1e-5] * 3 + [9e-3] * 3}, ["complete"]),  # honest while new
        ({"put_s": [1e-5] * 3 + [9e-3] * 3}, ["begins"]),
        ({"varies": False}, ["random"]),
        ({"varies": True}, []),
        ({"fresh_s": [2e-2, 1.9e-2]}, ["fresh"]),
        ({"repeated_s": [1e-2, 3e-2, 1e-2] * 12, "fresh_s": [1e-2, 3e-2, 3e-2] * 12}, []),  # others interrupt both
        ({"repeated_s": [1e-4, 3e-2, 1e-4] * 12, "fresh_s": [3e-2] * 36}, ["fresh"]),  # two of three remembered
        ({"repeated_s": [1e-6], "fresh_s": [9e-5], "fetch_s": [1e-6], "put_s": [1e-6]}, []),  # too short to tell
        ({"stale": True}, ["fresh"]),
        ({"stale": None, "same": None}, []),
        ({"most_cpus": 1.6}, ["threads"]),
        ({"threads_at_once": 1.7}, []),
        ({"threads_at_once": 1.9}, ["threads"]),
        ({"threads_at_once": None, "most_cpus": 9.0}, []),
        ({"idle_cpus": 0.9}, ["idle"]),
        ({"same": 1e-9}, ["deterministic"]),
        ({"placed": {"cuda": 3}}, ["placement"]),
        ({"placed": {}}, []),  # a network without parameters
        ({"fresh_s": []}, []),
        ({"put_s": [3e-3], "put_arrays": 30}, []),
        ({"fetch_s": [9e-3], "fetched_bytes": 10**7, "refetch_s": [1e-3]}, ["complete"]),  # the second was only copied
        ({"placed": None}, []),
        # JAX on an H100: fetching any array takes 0.3 ms, however long ago it was computed.
        (AWAY, ["complete"]),
        (AWAY | {"transfer_s": {"all": [2.9e-4]}}, []),
        (AWAY | {"transfer_s": {"all": [2.9e-4]}, "fetch_s": [9e-4]}, ["complete"]),
        ({"fetch_s": [9e-3], "transfer_s": {"all": [9e-3]}}, ["complete"]),  # slower than any device
    ],
)
def test_what_breaks_which_promise(facts, broken):
    judged = contracts.judge(CASE, GOOD | facts)
    assert [name for name, each in judged.items() if each.held is False] == broken


def test_what_is_too_short_to_tell_is_not_said_to_hold():
    short = {"repeated_s": [1e-6], "fresh_s": [9e-5], "fetch_s": [9e-5], "put_s": [9e-5]}
    judged = contracts.judge(CASE, GOOD | short)
    assert [name for name, each in judged.items() if each.held is None] == ["begins", "complete", "fresh", "random"]
    assert {judged[name].says for name in ("begins", "complete", "fresh")} == {"its steps are too short to tell"}


def network(path: Path, nodes, inputs, outputs, arrays):
    """A file of float32 inputs and of outputs of any type."""
    value = onnx.helper.make_tensor_value_info
    given = [value(name, onnx.TensorProto.FLOAT, shape) for name, shape in inputs]
    made = [value(name, kind, shape) for name, kind, shape in outputs]
    tensors = [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    graph = onnx.helper.make_graph(nodes, "g", given, made, tensors)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), path)


def unusual(kind: str, path: Path) -> None:
    node, number, truth = onnx.helper.make_node, onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
    weight = {"w": np.random.default_rng(0).standard_normal((8, 8))}
    if kind == "no_parameter":
        network(path, [node("Relu", ["x"], ["y"])], [("x", ["batch", 8])], [("y", number, ["batch", 8])], {})
    if kind == "a_bool_comes_out":
        nodes = [node("MatMul", ["x", "w"], ["y"]), node("Greater", ["y", "x"], ["z"])]
        outputs = [("y", number, ["batch", 8]), ("z", truth, ["batch", 8])]
        network(path, nodes, [("x", ["batch", 8])], outputs, weight)
    if kind == "many_inputs":
        names = [f"x{index}" for index in range(40)]
        nodes = [node("Sum", names, ["s"]), node("MatMul", ["s", "w"], ["y"])]
        network(path, nodes, [(name, ["batch", 8]) for name in names], [("y", number, ["batch", 8])], weight)


@pytest.mark.parametrize("kind", ["no_parameter", "a_bool_comes_out", "many_inputs"])
def test_no_honest_runtime_is_blamed_for_an_unusual_network(kind, shell):
    unusual(kind, shell.folder / f"{kind}.onnx")
    words = [word for each in ("torch", "onnxruntime", "jax", "openvino") for word in ("--runtime", each)]
    answer = shell.run("time", f"{kind}.onnx", *words, "--mode", "forward", "--batch", 16, "--budget", 0.1, "--json")
    assert {row["status"] for row in json.loads(answer.stdout)} == {"PASS"}, answer.stdout


@pytest.mark.parametrize(
    ("facts", "held", "says"),
    [
        ({"placed": {"cuda": 3}, "gpu_open": True}, True, None),
        ({"placed": {"cuda": 3, "cpu": 1}, "gpu_open": True}, True, "cpu (1) beside cuda"),
        ({"placed": {"cuda": 3}, "gpu_open": False}, False, "asked for cuda, but its process has no GPU open"),
        ({"placed": {"cpu": 3}, "gpu_open": True}, False, "asked for cuda, but runs on cpu (3)"),
        ({"placed": None, "gpu_open": True}, None, "it names nothing that is placed"),
    ],
)
def test_a_gpu_that_was_asked_for_must_be_used(facts, held, says):
    case = contracts.Case("lenet", "torch", device="cuda", threads=1)
    assert contracts.judge(case, GOOD | facts)["placement"] == contracts.Contract(held, says)


def test_the_fake_that_our_tests_time_may_compute_before_the_clock_and_no_other():
    judged = contracts.judge(CASE, GOOD | {"put_s": [9e-3]})
    assert contracts.broken(judged, "null:seconds=0.001") is None
    assert contracts.broken(judged, "torch").startswith("works before the clock starts")
    assert contracts.broken(contracts.judge(CASE, GOOD | {"fetch_s": [9e-3]}), "null")
    assert contracts.told(judged) == [contracts.broken(judged, "torch")]
    assert contracts.broken(contracts.judge(CASE, GOOD | {"idle_cpus": 1.0, "same": 1e-3}), "torch") is None


def test_who_copies_inputs_by_its_interface_is_not_said_to_keep_them():
    quick, slow = {"forward_s": 1e-5}, {"forward_s": 1e-3}
    for times, declared, held in ((quick, False, True), (quick, True, True), (slow, False, False), (slow, True, None)):
        assert conformance._resident(times, 1e-3, declared).held is held


@pytest.mark.parametrize(
    ("kept", "kind"), [(24, "float32"), (10, "TF32 or float16"), (7, "bfloat16"), (3, "fewer bits")]
)
def test_the_bits_of_a_number_name_the_arithmetic(kept, kind):
    exact = probes.images()[0]
    cut = (exact.view("uint32") >> (23 - kept) << (23 - kept)).view("float32") if kept < 24 else exact
    assert probes.kind_of(probes.bits(cut, exact)) == kind
