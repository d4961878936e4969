"""PyTorch without xbench, eager or compiled."""

from collections.abc import Mapping
from string import Template

from xbench.runtimes.scripts import Form

FORWARD = """
def run_$runtime(given):
    import subgraph_torch as network
    import torch

    torch.set_num_threads(THREADS)
    params, state = network.load()
    call = $wrap(lambda *inputs: network.apply(params, state, *inputs)[0])
    inputs = [torch.from_numpy(given[name]) for name in INPUTS]
    with torch.no_grad():
        found = measured(lambda: call(*inputs))
    return dict(zip(OUTPUTS, found))
"""
GRADIENT = """
def run_$runtime(given):
    import subgraph_torch as network
    import torch

    torch.set_num_threads(THREADS)
    params, state = network.load()
    call = $wrap(lambda *inputs: network.apply(params, state, *inputs, training=True)[0])
    outputs = call(*(torch.from_numpy(given[name]) for name in INPUTS))
    loss = network.loss(outputs, torch.from_numpy(given[LABELS]))
    loss.backward()
    return {"loss": [loss.item()]} | {name: p.grad for name, p in params.items() if p.grad is not None}
"""
DEPLOY = """torch.set_num_threads($threads)
model = runpy.run_path(str(HERE / "$name.py"))
params, state = model["load"]()
${compiled}with torch.inference_mode():
    outputs = model["apply"](params, state, *map(torch.from_numpy, inputs))[0]"""


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return function("torch", mode)


def deploy(options: Mapping[str, str]) -> Form:
    return form()


def function(runtime: str, mode: str, wrap: str = "") -> str:
    """The text that runs the part, its function wrapped by `torch.compile` or nothing."""
    return Template(GRADIENT if mode == "gradient" else FORWARD).substitute(runtime=runtime, wrap=wrap)


def form(compiled: str = "") -> Form:
    """The form; `compiled` is the line that compiles it."""
    packages = (("torch",), ("numpy",), ("safetensors",))
    return Form(packages, "import runpy, torch", DEPLOY, {"compiled": compiled}, each=2)
