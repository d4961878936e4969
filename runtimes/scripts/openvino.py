"""OpenVINO without xbench."""

from collections.abc import Mapping

from xbench.converters.printable import python
from xbench.runtimes.scripts import Form

REPRODUCE = """
def run_openvino(given):
    import openvino

    core = openvino.Core()
    model = core.read_model(HERE / GRAPH)
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": THREADS}
    options["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0  # else activations are quantised where weights are
    request = core.compile_model(model, "CPU", options).create_infer_request()
    inputs = {each.any_name: given[each.any_name] for each in model.inputs}
    found = measured(lambda: request.infer(inputs))
    return {name: value for output, value in found.items() for name in output.get_names()}
"""
RESHAPE = "model.reshape({name: list(array.shape) for name, array in given.items()})"
OPEN = "# compiled for any size of the axes that the file leaves open"
DEPLOY = """core, given = openvino.Core(), dict(zip($inputs, inputs))
model = core.read_model(HERE / "$name.xml")
$reshape
options = {"PERFORMANCE_HINT": $hint, "INFERENCE_PRECISION_HINT": $type, "INFERENCE_NUM_THREADS": $threads}
options["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0  # else activations are quantised where weights are
compiled = core.compile_model(model, "CPU", options)
outputs = [*compiled(dict(zip($inputs, inputs))).values()]"""


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return REPRODUCE


def deploy(options: Mapping[str, str]) -> Form:
    fixed = options.get("shapes", "fixed") == "fixed"
    words = {"hint": python(options.get("hint", "latency").upper()), "reshape": RESHAPE if fixed else OPEN}
    lower = {"bf16": {"type": '"bf16"'}, "fp16": {"type": '"f16"'}, "int8": {}, "int4": {}}
    return Form((("openvino",), ("numpy",)), "import openvino", DEPLOY, words | {"type": '"f32"'}, each=1, lower=lower)
