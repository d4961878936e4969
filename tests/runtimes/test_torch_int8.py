"""int8 of `torch_compile` by torchao: kernels of int8, calibrated on every sample; the same of a module and a file."""

import sys

import numpy as np
import pytest
from test_wide import Made

from xbench.parity import candidate
from xbench.runtimes import Options, Unavailable, load

pytest.importorskip("torchao")
TOOL = "torchao.quantization.pt2e.quantize_pt2e"


def outputs(artifact, inputs, batches):
    (name,) = [each["name"] for each in artifact.info["inputs"]]
    calibration = [{name: each} for each in batches]
    runtime = load("torch_compile", artifact, Options(precision="int8", calibration=calibration))
    runtime.prepare(inputs, np.zeros(len(inputs[0]), np.int64), dropout=False)
    return runtime.get(runtime.forward(*runtime.put(inputs)))[0]


def test_inductor_has_kernels_of_int8_for_it(lenet):
    """Of both convolutions and both linear layers, calibrated on every sample whatever the size of their batches."""
    from torch._dynamo.utils import counters

    inputs, _ = candidate.sample(lenet, 2, 0)
    given = np.random.default_rng(0).normal(size=(8, 1, 28, 28)).astype(np.float32)
    given *= np.linspace(0.2, 3, 8, dtype=np.float32)[:, None, None, None]
    counters["inductor"].clear()
    whole = outputs(lenet, inputs, [given])
    made = counters["inductor"]
    assert (made["qconv_weight_prepack_matcher_count"], made["qlinear_weight_prepack_matcher_count"]) == (2, 2)
    assert np.array_equal(whole, outputs(lenet, inputs, [given[:2], given[2:4], given[4:6], given[6:]]))
    exact = Made("onnxruntime", lenet, "fp32")
    exact.inputs = inputs
    exact = exact.outputs()
    assert 1e-4 < np.linalg.norm(whole - exact) / np.linalg.norm(exact) < 0.2


def test_without_the_tool_it_says_what_to_install(lenet, monkeypatch):
    monkeypatch.setitem(sys.modules, TOOL, None)  # as where it is not installed
    runtime = load("torch_compile", lenet, Options(precision="int8"))
    inputs, labels = candidate.sample(lenet, 1, 0)
    with pytest.raises(Unavailable, match=r"torch_compile needs torchao for int8: pip install 'xbench\[int8\]'"):
        runtime.prepare(inputs, labels, dropout=False)
