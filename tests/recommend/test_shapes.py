"""Recommendations for calls of several shapes, by their shares."""

import json

import onnx
import pytest
from test_recommend import command, record

from xbench.errors import XBenchError
from xbench.store.results import open_store

NET = """<ir_version: 9, opset_import: ["": 19]>
g (float[n,seq] x) => (float[n,seq] y) { y = Relu(x) }"""
SHORT, LONG = "net.onnx@seq=16", "net.onnx@seq=512"


def cell(runtime, word, level, **fields):
    return record(runtime, level, samples=40, model=word, session=word, **fields)


@pytest.fixture(autouse=True)
def net(tmp_path, monkeypatch):
    onnx.save(onnx.parser.parse_model(NET), tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store(tmp_path):
    """Short calls are faster on ONNX Runtime, long ones on OpenVINO. JAX is wrong at one, torch has no such record."""
    times = {"onnxruntime": (0.010, 0.100), "openvino": (0.020, 0.060), "jax": (0.001, 0.001), "torch": (0.001, None)}
    for runtime, (short, long) in times.items():
        open_store(tmp_path).append(cell(runtime, SHORT, short))
        if long:
            status = {"status": "FAIL", "message": "y is off"} if runtime == "jax" else {}
            open_store(tmp_path).append(cell(runtime, LONG, long, **status))
    (tmp_path / "lengths.csv").write_text("seq,weight\n16,9\n512,1\n")
    return tmp_path


def asked(store, *words):
    answer = command("net.onnx", "--out", store, *words)
    if isinstance(answer.exception, XBenchError):
        raise answer.exception
    return answer


def test_the_best_is_that_of_the_mean_by_the_weights(store):
    output = json.loads(asked(store, "--shapes", store / "lengths.csv", "--json").stdout)
    assert output["question"]["shapes"] == [{"shape": "seq=16", "share": 0.9}, {"shape": "seq=512", "share": 0.1}]
    assert output["question"]["model"] == "net.onnx"
    assert [row["cell"] for row in output["ranked"]] == ["onnxruntime", "openvino"]
    costs = [row["cost_s"] for row in output["ranked"]]
    assert costs == pytest.approx([0.9 * 0.010 + 0.1 * 0.100, 0.9 * 0.020 + 0.1 * 0.060])
    assert output["ranked"][1]["ratio"] == pytest.approx(0.024 / 0.019)
    assert "openvino is faster than onnxruntime at seq=512" in output["notes"]
    alike = asked(store, "--shape", "seq=16,512")
    assert "Take openvino: 40.0 ms a call, the weighted mean of all shapes." in alike.stdout
    assert "net.onnx forward, batch 8, cpu, 2 threads" in alike.stdout and "2 shapes" in alike.stdout


def test_what_is_excluded_at_one_shape_is_excluded(store):
    output = json.loads(asked(store, "--shapes", store / "lengths.csv", "--json").stdout)
    whys = {row["cell"]: row["why"] for row in output["excluded"]}
    assert whys == {"jax": "at seq=512: FAIL: y is off", "torch": "at seq=512: it was not measured"}


def test_a_limit_holds_at_every_shape(store):
    answer = asked(store, "--shapes", store / "lengths.csv", "--max-latency-ms", "p99=50")
    assert answer.exit_code == 1
    assert "not chosen: onnxruntime: at seq=512: p99 is 100 ms, over 50" in answer.stdout
    assert "--max-latency-ms p99 from 50 to 60, then openvino fits" in answer.stdout
    wider = json.loads(asked(store, "--shapes", store / "lengths.csv", "--max-latency-ms", "p99=70", "--json").stdout)
    assert [row["cell"] for row in wider["ranked"]] == ["openvino"]
    assert wider["ranked"][0]["at_most"] == {"p99": pytest.approx(0.060)}


def test_errors_of_shapes_are_independent_and_near_means_are_tied(tmp_path):
    for word in (SHORT, LONG):
        for runtime in ("onnxruntime", "openvino"):
            open_store(tmp_path).append(cell(runtime, word, 0.01, noise=0.2, seed=word))
    both = json.loads(asked(tmp_path, "--shape", "seq=16,512", "--json").stdout)
    assert both["tied"] == [row["cell"] for row in both["ranked"]]
    for option in ("seq=16", "seq=512"):
        alone = json.loads(asked(tmp_path, "--shape", option, "--json").stdout)
        assert alone["question"]["model"] == f"net.onnx@{option}" and alone["question"]["shapes"] == []
        width = [row["ratio_high"] - row["ratio_low"] for each in (both, alone) for row in each["ranked"][1:]]
        assert width[0] < width[1]


def test_the_same_cells_are_meant_at_every_shape(tmp_path):
    for word, threads in ((SHORT, 1), (LONG, 2)):
        open_store(tmp_path).append(cell("onnxruntime", word, 0.01, threads=threads))
    with pytest.raises(XBenchError, match=r"net\.onnx@seq=512 .* was not measured with --threads 1: there is 2"):
        raise command("net.onnx", "--out", tmp_path, "--shape", "seq=16,512").exception


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--deploy", "new"), "--deploy is for one shape, and these are 2"),
        (("--calls", "3"), "--calls is for one shape"),
        (("--scenario", "offline"), "--scenario is for one shape"),
        (("--shape", "seq"), "--shape seq: write name=128"),
        (("--shapes", "none.csv"), "--shapes none.csv"),
        (("--shape", "seq=16,32"), "net.onnx@seq=32 was never measured here"),
    ],
)
def test_a_wrong_word_of_shapes_is_one_sentence(store, words, line):
    shapes = () if {"--shape", "--shapes"} & {*words} else ("--shape", "seq=16,512")
    answer = command("net.onnx", "--out", store, *shapes, *words)
    assert isinstance(answer.exception, XBenchError) and line in str(answer.exception)
    assert answer.stdout == ""
