"""TorchScript without xbench."""

from collections.abc import Mapping

from xbench.runtimes.scripts import Form
from xbench.runtimes.scripts.torch_export import form, function

TRACE = "call = torch.jit.freeze(torch.jit.trace(Network().eval(), inputs, check_trace=False))"
LOAD = 'torch.jit.load(str(HERE / "$name.pt"))'


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return function("torchscript", TRACE)


def deploy(options: Mapping[str, str]) -> Form:
    return form(LOAD)
