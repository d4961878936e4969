"""tract without xbench."""

from collections.abc import Mapping
from string import Template

from xbench.runtimes.scripts import OF_ONE_SIZE, Form

REPRODUCE = """
def run_tract(given):
    import onnx
    import tract

$fixed
    runnable = tract.onnx().load(str(HERE / "fixed.onnx")).into_model().into_runnable()
    inputs = [tract.Tensor.from_numpy(given[name]) for name in INPUTS]
    return {name: tensor.to_numpy() for name, tensor in zip(OUTPUTS, measured(lambda: runnable.run(inputs)))}
"""
DEPLOY = """runnable = tract.onnx().load(str(HERE / "$name.onnx")).into_model().into_runnable()
outputs = [tensor.to_numpy() for tensor in runnable.run([tract.Tensor.from_numpy(array) for array in inputs])]"""


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return Template(REPRODUCE).substitute(fixed=OF_ONE_SIZE)


def deploy(options: Mapping[str, str]) -> Form:
    return Form((("tract",), ("numpy",)), "import tract", DEPLOY, {}, each=1)
