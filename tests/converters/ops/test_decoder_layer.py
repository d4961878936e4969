"""A layer of a decoder in ONNX Runtime's own operators: right everywhere, and told from what people get wrong."""

import json

import cases_decoder as decoder
import onnx
import onnxruntime
import pytest

from xbench.parity import candidate, verdict

FORMS = {"a prompt": {}, "a step": {"past": 5}, "a prompt turned apart": {"apart": True}}
KNOWING = ("torch", "onnxruntime", "jax")
FAULTS = {
    "angles one position late": (decoder.shifted, "output/keys"),
    "cosines one position late": (decoder.half_shifted, "output/keys"),
    "another scale": (decoder.rescaled, "output/y"),
    "another block size": (decoder.longer_blocks, "output/y"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_layer_passes_on_runtimes_that_know_its_operators_and_that_do_not(form, shell):
    decoder.Layer(**FORMS[form]).save(shell.folder / "m.onnx")
    # OpenVINO's own attention keeps no keys of a prompt, and takes a step of one sample into a buffer alone.
    asked = KNOWING if form == "a step" else (*KNOWING, "openvino")
    runtimes = [word for name in asked for word in ("--runtime", name)]
    answer = shell.run("check", "m.onnx", "--shape", "N=batch", "--mode", "forward", *runtimes, "--json")
    rows = {row["runtime"]: (row["status"], row["message"]) for row in json.loads(answer.stdout)}
    refused = rows.pop("openvino", None)
    assert rows == dict.fromkeys(KNOWING, ("PASS", None))
    if refused:
        assert refused[0] == "UNSUPPORTED" and "com.microsoft.GroupQueryAttention (1)" in refused[1]


@pytest.fixture(scope="module")
def layer(tmp_path_factory, exporter):
    """A file, what it should give, and what its inputs are."""
    path = decoder.Layer().save(tmp_path_factory.mktemp("layer") / "m.onnx")
    artifact = exporter.artifact(f"{path}@N=batch")
    return onnx.load(path), artifact, verdict.read(exporter.reference(artifact, "forward", 2, 0, "synthetic"))


def judged(model, artifact, reference):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {item["name"]: reference[f"input/{at}"] for at, item in enumerate(artifact.info["inputs"])}
    return candidate.judged(candidate.named(artifact, session.run(None, inputs)), reference)


def test_the_layer_itself_passes(layer):
    assert judged(*layer).status == "PASS"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_layer_that_is_wrong_fails(fault, layer):
    model, artifact, reference = layer
    wrong = onnx.ModelProto()
    wrong.CopyFrom(model)
    change, tensor = FAULTS[fault]
    change(wrong)
    result = judged(wrong, artifact, reference)
    assert (result.status, result.worst_tensor) == ("FAIL", tensor)
