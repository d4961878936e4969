"""Keeps a module's parameters and names in the exported graph, and lists those that no output depends on.

Study 1's MXNet had wired its AlexNet so that four layers were dead, and was the fastest (arXiv:1608.07249). A module
may also have parts that its `forward` does not use: a pooler, the other half of an autoencoder.
"""

import json
from collections.abc import Sequence

import onnx_ir as ir
import torch
from torch import nn

from xbench.converters import PARAMETERS, UNUSED

NAMED = 5  # number of names that a message lists


def keep_names(model: ir.Model, module: nn.Module, program: torch.export.ExportedProgram) -> None:
    """Gives a tied weight its name in `named_parameters()`. Records in the graph which parameters are trained, and the
    sizes of trainable ones that no output depends on.

    Raises:
        ValueError: the exporter has lost parameters.
    """
    canonical = {id(p): name for name, p in module.named_parameters()}
    for alias, p in module.named_parameters(remove_duplicate=False):
        name = canonical[id(p)]
        if alias != name and alias in model.graph.initializers and name not in model.graph.initializers:
            value = model.graph.initializers.pop(alias)
            value.name = name
            model.graph.initializers[name] = value
    sizes = {name: p.numel() for name, p in module.named_parameters() if p.requires_grad}
    missing = [name for name in sizes if name not in model.graph.initializers]
    unused = _dead(program)
    if lost := [name for name in missing if name not in unused]:
        raise ValueError(f"the exporter lost {len(lost)} parameters: {_few(lost)}")
    model.metadata_props[PARAMETERS] = json.dumps([name for name in sizes if name not in missing])
    if missing:
        model.metadata_props[UNUSED] = json.dumps({name: sizes[name] for name in missing})


def _dead(program: torch.export.ExportedProgram) -> set[str]:
    """The parameters that the traced module itself does not use."""
    read = {node.name for node in program.graph.nodes if node.op == "placeholder" and node.users}
    parameters = program.graph_signature.inputs_to_parameters
    return {name for place, name in parameters.items() if place not in read}


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
