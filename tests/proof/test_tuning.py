"""`--tune`: the same effort for all, in each runtime's own settings; the search result is kept."""

import json

import onnx
import pytest
from fault_kit import only_line, records

from xbench.case import Case
from xbench.proof.tuning import as_opened, settings

QUICK = ("--mode", "forward", "--budget", "0.1", "--batch", "2")


def words_of(artifact, runtime, **fields):
    return [(each.runtime, each.layout) for each in settings(Case("lenet", runtime, **fields), artifact)]


def test_a_tune_is_said_in_the_words_of_the_runtime(lenet):
    assert words_of(lenet, "onnxruntime") == [("onnxruntime", "nchw")]
    assert words_of(lenet, "onnxruntime", tune="off") == [("onnxruntime:level=disable", "nchw")]
    levels = ["onnxruntime:level=all", "onnxruntime:level=extended", "onnxruntime:level=basic"]
    assert [word for word, _ in words_of(lenet, "onnxruntime", tune="max")] == levels
    assert words_of(lenet, "tvm", tune="max", tune_budget=90.0) == [("tvm:tune=90", "nchw")]


FILES = {
    "open": "g (float[n, 4] x) => (float[n, 4] y) { y = Relu (x) }",
    "fixed": "g (float[2, 4] x) => (float[2, 4] y) { y = Neg (x) }",
}


def test_a_file_is_compiled_with_the_axes_that_it_leaves_open(exporter, tmp_path, lenet):
    artifacts = {}
    for name, text in FILES.items():
        model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 17]> {text}')
        onnx.save(model, tmp_path / f"{name}.onnx")
        artifacts[name] = exporter.artifact(str(tmp_path / f"{name}.onnx"))

    def words(artifact, runtime="openvino", **fields):
        return [word for word, _ in words_of(artifact, runtime, **fields)]

    for tune in ("default", "off"):
        assert words(artifacts["open"], tune=tune) == ["openvino:shapes=open"]
        assert words(artifacts["open"], "openvino:shapes=fixed", tune=tune) == ["openvino:shapes=fixed"]
        for artifact in (artifacts["fixed"], lenet):
            assert words(artifact, tune=tune) == ["openvino"]
        for mode in ("gradient", "step"):
            assert words(artifacts["open"], tune=tune, mode=mode) == ["openvino"]
    assert words(artifacts["open"], tune="max") == [
        f"openvino:shapes={shapes},hint={hint}" for shapes in ("open", "fixed") for hint in ("latency", "throughput")
    ]
    assert words(artifacts["open"], "onnxruntime", tune="max")[-1] == "onnxruntime:level=all,shapes=fixed"
    assert words(artifacts["open"], "onnxruntime") == ["onnxruntime"]
    nothing = {"layout": None, "tuning": None}
    case = Case("open.onnx", "openvino")
    assert as_opened(case, artifacts["open"], nothing).runtime == "openvino:shapes=open"
    chosen = {"layout": None, "tuning": {"chosen": "shapes=fixed,hint=latency"}}
    assert as_opened(case, artifacts["open"], chosen).runtime == "openvino:shapes=fixed,hint=latency"


def test_what_the_user_says_is_left_as_it_is(lenet):
    assert words_of(lenet, "onnxruntime:level=basic", tune="max") == [("onnxruntime:level=basic", "nchw")]
    assert words_of(lenet, "torch:python=python3", tune="max") == [("torch:python=python3", "nchw")]
    assert words_of(lenet, "torch:python=python3", tune="max", device="cuda") == [
        ("torch:python=python3,benchmark", "nchw")
    ]


def test_settings_and_layouts_are_tried_together(lenet):
    assert words_of(lenet, "tensorflow", tune="max", layout="auto") == [
        (word, layout) for word in ("tensorflow", "tensorflow:xla") for layout in ("nchw", "nhwc")
    ]


def test_the_fastest_setting_is_timed_and_the_search_is_kept(shell, lenet):
    pytest.importorskip("onnxruntime")
    latest, words = [], ("time", "lenet", "--runtime", "onnxruntime", *QUICK, "--tune", "max", "--rerun")
    for _ in range(2):
        assert shell.run(*words).returncode == 0
        latest.append(records(shell.folder / "xbench-results")[-1])
    first, second = latest
    assert first["tuning"] == second["tuning"]
    tried = first["tuning"]["tried"]
    assert set(tried) == {"level=all", "level=extended", "level=basic"}
    assert first["tuning"]["chosen"] == min(tried, key=lambda name: tried[name])
    assert first["tuning"]["seconds"] > 0
    assert first["note"] == first["tuning"]["chosen"]
    assert "--tune max --tune-budget" not in first["command"]
    assert "--tune max" in first["command"]


def test_off_is_told_and_who_has_nothing_says_so(shell, lenet):
    runtimes = ("--runtime", "onnxruntime", "--runtime", "openvino", "--runtime", "jax", "--runtime", "tensorflow")
    assert shell.run("time", "lenet", *runtimes, *QUICK, "--tune", "off").returncode == 0
    notes = {each["case"]["runtime"]: each["note"] for each in records(shell.folder / "xbench-results")}
    assert notes == {
        "onnxruntime": "level=disable",
        "openvino": "has nothing for --tune off",
        "jax": "optimize=off",
        "tensorflow": "grappler=off",
    }
    rows = json.loads(shell.run("show", "--json").stdout)
    assert {row["tune"] for row in rows} == {"off"}


def test_tvm_is_tuned_by_its_own_tuner_and_still_the_same_network(shell, lenet):
    pytest.importorskip("tvm")
    words = ("time", "lenet", "--runtime", "tvm", *QUICK, "--tune", "max", "--tune-budget", "5")
    answer = shell.run(*words)
    assert answer.returncode == 0, answer.stderr
    (record,) = records(shell.folder / "xbench-results")
    assert (record["status"], record["parity"]["class"]) == ("PASS", "fp32")
    assert "trials in" in record["note"]
    assert "untuned" not in record["note"]
    assert record["tuning"]["seconds"] >= 5
    assert record["command"].endswith("--tune max --tune-budget 5 --budget 0.1 --rerun")


def test_a_wrong_word_is_one_line(shell, lenet):
    for words in (("--tune", "most"), ("--tune", "max", "--tune-budget", "0")):
        assert shell.inside("time", "lenet", *words).returncode == 2
    messages = {
        "onnxruntime:level=most": "its levels are disable, basic, extended, all",
        "onnxruntime:provider=tensorrt": "on cpu its providers are cpu",
        "tvm:tune=long": "tune is a number of seconds",
    }
    runtimes = [word for runtime in messages for word in ("--runtime", runtime)]
    rows = json.loads(shell.run("time", "lenet", *runtimes, *QUICK, "--json").stdout)
    assert {row["runtime"]: (row["status"], row["message"]) for row in rows} == {
        runtime: ("UNSUPPORTED", f"{runtime}: {words}") for runtime, words in messages.items()
    }
    assert only_line(shell.inside("time", "lenet", "--tune", "most").stderr).startswith("xbench: ")


def test_a_failure_is_looked_for_in_what_was_opened(lenet):
    case = Case("lenet", "tensorflow", tune="max", layout="auto")
    record = {"tuning": {"chosen": "xla"}, "layout": {"chosen": "nhwc"}}
    opened = as_opened(case, lenet, record)
    assert (opened.runtime, opened.layout) == ("tensorflow:xla", "nhwc")
    opened = as_opened(case, lenet, {"tuning": None, "layout": None})
    assert (opened.runtime, opened.layout) == ("tensorflow", "nchw")
