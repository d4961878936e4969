"""PyTorch's exported program, compiled ahead of time, without xbench."""

from collections.abc import Mapping
from string import Template

from xbench.runtimes.scripts import Form

REPRODUCE = """
def run_$runtime(given):
    import subgraph_torch as network
    import torch

    class Network(torch.nn.Module):
        def forward(self, *inputs):
            return network.apply(params, state, *inputs)[0]

    torch.set_num_threads(THREADS)
    params, state = network.load()
    inputs = tuple(torch.from_numpy(given[name]) for name in INPUTS)
    with torch.no_grad():
        $export
        found = measured(lambda: call(*inputs))
    return dict(zip(OUTPUTS, found if isinstance(found, (tuple, list)) else [found]))
"""
EXPORT = """exported = torch.export.export(Network(), inputs, strict=False)
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(HERE / "compiled.pt2"))
        call = torch._inductor.aoti_load_package(path)"""
DEPLOY = """torch.set_num_threads($threads)
model = $load
with torch.inference_mode():
    outputs = model(*map(torch.from_numpy, inputs))
outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]"""
LOAD = 'torch._inductor.aoti_load_package(str(HERE / "$name.pt2"))'


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return function("torch_export", EXPORT)


def deploy(options: Mapping[str, str]) -> Form:
    return form(LOAD)


def function(runtime: str, export: str) -> str:
    """The text that runs the part; `export` are the lines that make `call` of a `Network`."""
    return Template(REPRODUCE).substitute(runtime=runtime, export=export)


def form(load: str) -> Form:
    return Form((("torch",), ("numpy",)), "import torch", DEPLOY.replace("$load", load), {}, each=3)
