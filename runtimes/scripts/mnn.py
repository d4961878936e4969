"""MNN without xbench."""

from collections.abc import Mapping
from string import Template

from xbench.runtimes.scripts import OF_ONE_SIZE, Form

REPRODUCE = """
def run_mnn(given):
    import _tools
    import numpy as np
    import onnx
    from MNN import expr, nn

$fixed
    words = ["mnnconvert", "-f", "ONNX", "--modelFile", str(HERE / "fixed.onnx"), "--bizCode", "x"]
    _tools.mnnconvert([*words, "--MNNModel", str(HERE / "graph.mnn"), "--useOriginRNNImpl"])
    manager = nn.create_runtime_manager(({"backend": 0, "numThread": THREADS, "precision": "high"},))
    manager.set_hint(3, $winograd)  # WINOGRAD_MEMORY_LEVEL
    module = nn.load_module_from_file(str(HERE / "graph.mnn"), INPUTS, OUTPUTS, runtime_manager=manager)

    def variable(array):
        if array.dtype.kind == "f":
            return expr.const(array.astype(np.float32), list(array.shape), expr.NCHW, expr.float)
        return expr.const(array.astype(np.int32), list(array.shape), expr.NCHW, expr.int)

    inputs = [variable(given[name]) for name in INPUTS]
    outputs = measured(lambda: module.forward(inputs))
    return {name: np.array(expr.convert(value, expr.NCHW).read()) for name, value in zip(OUTPUTS, outputs)}
"""
DEPLOY = """manager = nn.create_runtime_manager(({"backend": 0, "numThread": $threads, "precision": "high"},))
manager.set_hint(3, $winograd)  # WINOGRAD_MEMORY_LEVEL
module = nn.load_module_from_file(str(HERE / "$name.mnn"), $inputs, $outputs, runtime_manager=manager)


def variable(array):
    if array.dtype.kind == "f":
        return expr.const(array.astype(np.float32), list(array.shape), expr.NCHW, expr.float)
    return expr.const(array.astype(np.int32), list(array.shape), expr.NCHW, expr.int)


made = module.forward([variable(array) for array in inputs])
outputs = [np.array(expr.convert(value, expr.NCHW).read()) for value in made]"""


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return Template(REPRODUCE).substitute(fixed=OF_ONE_SIZE, winograd=options.get("winograd", "3"))


def deploy(options: Mapping[str, str]) -> Form:
    words = {"winograd": options.get("winograd", "3")}
    return Form((("MNN",), ("numpy",)), "from MNN import expr, nn", DEPLOY, words, each=2)
