"""TVM without xbench."""

from collections.abc import Mapping

from xbench.runtimes.scripts import Form

REPRODUCE = """
def run_tvm(given):
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    model = onnx.load(HERE / GRAPH)
    module = relax.transform.DecomposeOpsForInference()(from_onnx(model))
    main = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())["main"]
    inputs = [tvm.runtime.tensor(given[each.name]) for each in model.graph.input]
    found = measured(lambda: main(*inputs))
    found = [found] if isinstance(found, tvm.runtime.Tensor) else found
    return {each.name: value.numpy() for each, value in zip(model.graph.output, found)}
"""
DEPLOY = """params = tvm.runtime.load_param_dict_from_file(str(HERE / "$name.params"))
main = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(HERE / "$name.so")), tvm.cpu())["main"]
answer = main(*map(tvm.runtime.tensor, inputs), *(params[f"p{place}"] for place in range(len(params))))
outputs = [y.numpy() for y in ([answer] if isinstance(answer, tvm.runtime.Tensor) else answer)]"""


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return REPRODUCE


def deploy(options: Mapping[str, str]) -> Form:
    return Form((("apache-tvm",), ("apache-tvm-ffi",), ("numpy",)), "import tvm, tvm.relax", DEPLOY, {}, each=2)
