"""Chooses names of what a training step adds to a graph: others than the usual ones if the model has those itself."""

import json

import onnx_ir as ir

from xbench.converters.artifact import GRADIENT, NAMES, NEW, Names


def free(graph: ir.Graph) -> Names:
    """Names that no tensor of a graph has. Results of its nodes that are called as a gradient or as new state are
    called otherwise.

    Raises:
        NotImplementedError: an input or a weight is called so.
    """
    kept = {*graph.inputs, *graph.initializers.values()}
    taken = {value.name for value in kept} | {value.name for node in graph.all_nodes() for value in node.outputs}
    ours = {f"{kind}{name}" for kind in (GRADIENT, NEW) for name in graph.initializers} & taken
    if wrong := sorted(str(value.name) for value in kept if value.name in ours):
        raise NotImplementedError(f"{wrong[0]} is the name of a tensor, and of another one's gradient or new value")
    for value in (value for node in graph.all_nodes() for value in node.outputs if value.name in ours):
        value.name = _free(str(value.name), taken)
    return Names(*(_free(name, taken) for name in Names()))


def _free(name: str, taken: set[str | None]) -> str:
    while name in taken:
        name += "_"
    return name


def keep(model: ir.Model, names: Names) -> ir.Model:
    """The model, which says how its training step is named."""
    if names != Names():
        model.metadata_props[NAMES] = json.dumps(names)
    return model
