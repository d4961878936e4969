"""ONNX Runtime without xbench."""

from collections.abc import Mapping
from string import Template

from xbench.errors import XBenchError
from xbench.runtimes.scripts import Form

PROVIDERS = {"cpu": '["CPUExecutionProvider"]', "cuda": '[("CUDAExecutionProvider", {"use_tf32": "0"})]'}
REPRODUCE = """
def run_onnxruntime(given):
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = THREADS, 1
    settings.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # float32
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_$level
    session = onnxruntime.InferenceSession(str(HERE / GRAPH), settings, providers=$providers)
    names = [each.name for each in session.get_outputs()]
    inputs = {each.name: given[each.name] for each in session.get_inputs()}
    return dict(zip(names, measured(lambda: session.run(names, inputs))))
"""
DEPLOY = """options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads = $threads, 1
options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # float32
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_$level
$fixed
session = onnxruntime.InferenceSession(HERE / "$name.onnx", options, providers=["CPUExecutionProvider"])
outputs = session.run($outputs, dict(zip($inputs, inputs)))"""
FIXED = """for each, array in zip(onnxruntime.InferenceSession(HERE / "$name.onnx").get_inputs(), inputs):
    for axis, size in zip(each.shape, array.shape):
        isinstance(axis, str) and options.add_free_dimension_override_by_name(axis, size)"""
OPEN = "# compiled for any size of the axes that the file leaves open"
LOWER = ("fp16", "int8", "int4")  # the file is in that precision, and the lines are the same
LEVELS = {"disable": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    level = LEVELS.get(options.get("level", "all"), "ENABLE_ALL")
    return Template(REPRODUCE).substitute(providers=PROVIDERS[device], level=level)


def deploy(options: Mapping[str, str]) -> Form:
    level = options.get("level", "all")
    if level not in LEVELS:
        raise XBenchError(f"onnxruntime is not deployed: it has no level {level!r}, but {', '.join(LEVELS)}")
    lines = DEPLOY.replace("$fixed", FIXED if options.get("shapes") == "fixed" else OPEN)
    packages, words = (("onnxruntime",), ("numpy",)), {"level": LEVELS[level]}
    return Form(packages, "import onnxruntime", lines, words, each=1, lower={name: {} for name in LOWER})
