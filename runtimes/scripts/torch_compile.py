"""PyTorch under `torch.compile` without xbench."""

from collections.abc import Mapping

from xbench.converters.printable import python
from xbench.runtimes.scripts import Form
from xbench.runtimes.scripts.torch import form, function

COMPILED = 'model["apply"] = torch.compile(model["apply"], dynamic=False, mode={mode}, backend={backend})\n'


def reproduce(mode: str, options: Mapping[str, str], device: str) -> str:
    return function("torch_compile", mode, "torch.compile")


def deploy(options: Mapping[str, str]) -> Form:
    backend = python(options.get("backend", "inductor"))
    return form(COMPILED.format(mode=python(options.get("mode")), backend=backend))
