"""`wide=...`: nodes that stay in float32 where the network is computed in less."""

import json

import numpy as np
import onnx
import pytest
from fault_kit import records, refused

from xbench.parity import candidate
from xbench.runtimes import Options, Unavailable, load
from xbench.runtimes.support import wide

NARROW = [("onnxruntime", "int8"), ("onnxruntime", "fp16"), ("openvino", "int8")]
NARROW += [("onnxruntime", "int4"), ("openvino", "int4")]
EXACT = 1e-6
# Nodes of LeNet that compute in less: ONNX Runtime's weights of four bits are those of products.
LOW = dict.fromkeys(NARROW, ("conv2d", "conv2d_1", "linear_1")) | {("onnxruntime", "int4"): ("linear", "linear_1")}


class Made:
    """A network in a lower precision, and its outputs for some inputs."""

    def __init__(self, word, artifact, precision):
        self.inputs, labels = candidate.sample(artifact, 4, 0)
        self.runtime = load(word, artifact, Options(precision=precision))
        self.runtime.prepare(self.inputs, labels, dropout=False)

    def outputs(self):
        return self.runtime.get(self.runtime.forward(*self.runtime.put(self.inputs)))[0].copy()

    def off(self, exact):
        return float(np.linalg.norm(self.outputs() - exact) / np.linalg.norm(exact))


@pytest.fixture
def exact(lenet):
    return Made("onnxruntime", lenet, "fp32").outputs()


@pytest.mark.parametrize(
    "names", [["conv1"], ["a b", "c+d", "e,f=g:h"], ["\u202ex%", "/layer1/conv/Conv_output_0", "#"]]
)
def test_any_name_survives_in_a_word(names):
    value = wide.word(names)
    assert wide.wide({"wide": value}) == tuple(names)
    assert not set(value) & set(" ,=\u202e")


@pytest.mark.parametrize(("runtime", "precision"), NARROW)
def test_the_error_is_that_of_the_nodes_that_are_left(lenet, exact, runtime, precision):
    made = Made(runtime, lenet, precision)
    full, nodes = made.off(exact), list(made.runtime.widen(()))
    tensors = {name for node in onnx.load(lenet.folder / "model.onnx").graph.node for name in node.output}
    assert {*LOW[runtime, precision]} <= set(nodes) <= tensors
    assert made.off(exact) == full  # nothing was left in float32
    assert list(made.runtime.widen(nodes)) == nodes
    assert made.off(exact) < EXACT < full
    for each in LOW[runtime, precision]:
        made.runtime.widen([name for name in nodes if name != each])
        assert EXACT < made.off(exact) < full, each


@pytest.mark.parametrize(("runtime", "precision"), NARROW)
def test_the_word_does_what_widen_did(lenet, exact, runtime, precision):
    tried, nodes = Made(runtime, lenet, precision), [*LOW[runtime, precision][1:]]
    full = tried.off(exact)
    tried.runtime.widen(nodes)
    asked = Made(f"{runtime}:wide={wide.word(nodes)}", lenet, precision)
    # NNCF corrects a bias for the errors of the layers before it, and here there are fewer.
    assert asked.off(exact) == pytest.approx(tried.off(exact), rel=0.3 if runtime == "openvino" else 1e-5)
    assert asked.off(exact) != full


@pytest.mark.parametrize(("runtime", "precision"), NARROW)
def test_an_unknown_node_is_named(lenet, runtime, precision):
    near = LOW[runtime, precision][0]
    wrong = f"{near}x"
    with pytest.raises(Unavailable, match=rf"wide={wrong}: no node in \w+ computes it: did you mean {near}\?"):
        Made(f"{runtime}:wide={wrong}", lenet, precision)


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_in_float32_there_is_nothing_to_leave(shell, lenet, runtime):
    answer = shell.run("check", "lenet", "--runtime", f"{runtime}:wide=conv2d", "--mode", "forward")
    assert "wide=... is for --precision int8" in answer.stdout


def test_a_runtime_without_the_option_says_so(shell):
    assert "litert has no option 'wide'" in refused(shell, "check", "lenet", "--runtime", "litert:wide=conv2d")


def test_a_time_is_of_the_nodes_that_were_named(shell, lenet):
    word = "onnxruntime:wide=conv2d+linear"
    words = ("--precision", "int8", "--mode", "forward", "--budget", "0.05")
    answer = shell.run("time", "lenet", "--runtime", f"onnxruntime,{word}", *words)
    assert answer.returncode == 0, answer.stderr
    first, second = records(shell.folder / "xbench-results")
    assert {first["case"]["runtime"], second["case"]["runtime"]} == {"onnxruntime", word}
    assert first["status"] == second["status"] == "PASS"
    rows = json.loads(shell.run("show", "--json").stdout)
    assert {row["runtime"] for row in rows if row["ratio"] is not None} == {"onnxruntime", word}  # in one group
