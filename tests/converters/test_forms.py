"""`xbench convert --to`: every runtime's own format is written, has the parameters, and runs without xbench."""

import hashlib
import json

import numpy as np
import onnx
import pytest
from fault_kit import refused

from xbench import models
from xbench.converters.artifact import Artifact
from xbench.converters.build import export_zoo
from xbench.parity.certificate import certify

FORMS = {
    "jax": ["lenet.py", "lenet.safetensors"],
    "tensorflow": ["lenet.py", "lenet.safetensors", "saved_model"],
    "torch": ["lenet.py", "lenet.safetensors"],
    "onnxruntime": ["lenet.onnx"],
    "openvino": ["lenet.xml", "lenet.bin"],
    "tvm": ["lenet.so", "lenet.params"],
}
BATCH = 3


@pytest.fixture(scope="module")
def inputs():
    given, _ = models.sample(models.find("lenet"), BATCH)
    return given["x"]


@pytest.fixture(scope="module")
def right(inputs):
    """The output of the module itself."""
    import torch

    with torch.inference_mode():
        return models.build(models.find("lenet")).eval()(torch.from_numpy(inputs)).numpy()


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lenet")
    export_zoo("lenet", 0, folder)
    return Artifact.read(folder)


def run_onnxruntime(folder, x):
    import onnxruntime

    return onnxruntime.InferenceSession(folder / "lenet.onnx").run(None, {"x": x})[0]


def run_openvino(folder, x):
    import openvino

    return openvino.Core().compile_model(folder / "lenet.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]


def run_tensorflow(folder, x):
    import tensorflow as tf

    (output,) = (
        tf.saved_model.load(str(folder / "saved_model")).signatures["serving_default"](x=tf.constant(x)).values()
    )
    return output.numpy()


def run_tvm(folder, x):
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.runtime.load_module(str(folder / "lenet.so")), tvm.cpu())
    params = tvm.runtime.load_param_dict_from_file(str(folder / "lenet.params"))
    given = [tvm.runtime.tensor(x), *(params[f"p{i}"] for i in range(len(params)))]
    result = machine["main"](*given)
    return (result if isinstance(result, tvm.runtime.Tensor) else result[0]).numpy()


RUN = {"onnxruntime": run_onnxruntime, "openvino": run_openvino, "tensorflow": run_tensorflow, "tvm": run_tvm}


@pytest.mark.parametrize("runtime", FORMS)
def test_a_form_is_written_and_runs(shell, runtime, inputs, right):
    pytest.importorskip(runtime)
    answer = shell.run("convert", "lenet", "--to", runtime, "--batch", str(BATCH), "-o", "out", "--json")
    assert answer.returncode == 0, answer.stderr
    (row,) = json.loads(answer.stdout)
    folder = shell.folder / "out" / "lenet" / runtime
    assert row["files"] == [f"out/lenet/{runtime}/{name}" for name in [*FORMS[runtime], "certificate.json"]]
    assert all((shell.folder / file).exists() for file in row["files"])
    certificate = json.loads((folder / "certificate.json").read_text())
    assert (
        certificate["equal"] is True and certificate["parameter_count"] == 431_080 and certificate["macs"] == 2_293_000
    )
    if runtime in RUN:
        np.testing.assert_allclose(RUN[runtime](folder, inputs), right, rtol=1e-4, atol=1e-5)


def test_a_folder_that_cannot_be_written_is_one_line(shell):
    (shell.folder / "out").write_text("a file")
    assert "cannot write to out/lenet" in refused(shell, "convert", "lenet", "--to", "jax", "-o", "out")


@pytest.mark.parametrize(("one", "other"), [("1/net.onnx", "2/net.onnx"), ("a-b.onnx", "a_b.onnx")])
def test_two_models_are_not_written_to_one_folder(shell, one, other):
    for path in (shell.folder / one, shell.folder / other):
        path.parent.mkdir(exist_ok=True)
        path.touch()  # refused before it is read
    line = refused(shell, "convert", one, other, "--to", "onnxruntime", "-o", "out")
    assert line.startswith(f"xbench: {one} and {other} would both be written to out/")
    assert not (shell.folder / "out").exists()


def test_a_certificate_names_what_differs(artifact):
    params = artifact.program().params
    assert certify(artifact, params)["different"] == []
    one = np.nextafter(params["conv1.bias"], np.float32(1))
    for parameters in ({**params, "conv1.bias": one}, {n: a for n, a in params.items() if n != "conv1.bias"}):
        certificate = certify(artifact, parameters)
        assert (certificate["equal"], certificate["different"]) == (False, ["conv1.bias"])
    swapped = {**params, "conv2.weight": params["conv2.weight"].swapaxes(2, 3)}
    assert certify(artifact, swapped)["different"] == ["conv2.weight"]
    assert certify(artifact, None)["equal"] is None
    digest = hashlib.sha256(params["conv1.bias"].tobytes()).hexdigest()
    assert {"name": "conv1.bias", "shape": [20], "sha256": digest} in certify(artifact, params)["parameters"]


def test_a_saved_model_takes_inputs_whatever_they_are_called(shell):
    tensorflow = pytest.importorskip("tensorflow")
    names, types = ["a b", "a/b", "self", "日本"], onnx.TensorProto.FLOAT
    node = onnx.helper.make_node("Sum", names, ["y"])
    given = [onnx.helper.make_tensor_value_info(name, types, ["batch", 3]) for name in names]
    graph = onnx.helper.make_graph([node], "g", given, [onnx.helper.make_tensor_value_info("y", types, ["batch", 3])])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), shell.folder / "odd.onnx"
    )
    answer = shell.run("convert", "odd.onnx", "--to", "tensorflow", "-o", "out")
    assert answer.returncode == 0, answer.stderr
    made = tensorflow.saved_model.load(str(shell.folder / "out" / "odd" / "tensorflow" / "saved_model"))
    call = made.signatures["serving_default"]
    values = dict(zip(["a_b", "a_b_", "v_self", "v___"], (1.0, 2.0, 4.0, 8.0), strict=True))
    (output,) = call(**{name: tensorflow.fill([2, 3], value) for name, value in values.items()}).values()
    assert np.array_equal(output.numpy(), np.full((2, 3), 15.0))
