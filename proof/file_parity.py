"""Compares an ONNX file with the network it was made of: its references, and where it first differs.

The file's graph may differ from the network's, with layers fused or split, so tensors are matched by their values: both
graphs are computed in float64 on the same inputs, and a tensor of the file is right if the network has one with the
same values anywhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xbench.case import GIVEN
from xbench.converters import temporary
from xbench.converters.artifact import Artifact
from xbench.errors import XBenchError
from xbench.parity import verdict
from xbench.parity.verdict import LIMITS, LOWER, REFERENCE, SPREAD, TYPE
from xbench.workers.live import with_values
from xbench.workers.prepare import Exporter, reference_path

Arrays = Mapping[str, np.ndarray]
OUTPUT = "output/"


@dataclass(frozen=True)
class Parting:
    """The first tensor of a file that the network does not compute, and the operator that makes it; the network's
    tensor of that name, or else the first that the file lacks, and the distance of the two in noise floors, infinite
    if their sizes differ."""

    tensor: str
    op_type: str
    expected: str | None
    ratio: float | None


def prepare(exporter: Exporter, network: Artifact, file: Artifact, values: Arrays, batch: int) -> None:
    """Writes the network's float64 outputs for the values as references of the file, mode forward.

    Raises:
        XBenchError: the file's inputs or outputs differ from the network's.
    """
    names = _inputs(file, values)
    if len(file.info["outputs"]) != len(network.info["outputs"]):
        expected, actual = (", ".join(each.info["outputs"]) for each in (network, file))
        raise XBenchError(f"{file.name} has the outputs {actual}, the network has {expected}")
    with_values(file, [values[name] for name in names])
    fixed = any(item["shape"][:1] != ["batch"] for item in file.info["inputs"])
    order = [f"input/{list(values).index(name)}" for name in names]
    for seed, wanted in ((0, batch), (1, batch), (1, batch + 1)):
        own = exporter.reference(network, "forward", batch if fixed else wanted, seed, GIVEN)
        reference = verdict.read(own)
        tensors = {f"input/{index}": reference[name] for index, name in enumerate(order)} | {
            "labels": reference["labels"]
        }
        for expected, actual in zip(network.info["outputs"], file.info["outputs"]):
            tensors |= _about(reference, OUTPUT + expected, OUTPUT + actual)
        verdict.join(reference_path(file, "forward", wanted, seed, GIVEN), tensors)


def _inputs(file: Artifact, values: Arrays) -> list[str]:
    """The names of the values in the order of the file's inputs: by name if the names are the same."""
    inputs = [item["name"] for item in file.info["inputs"]]
    names = inputs if set(inputs) == set(values) else list(values)
    if len(inputs) != len(names):
        raise XBenchError(f"{file.name} has the inputs {', '.join(inputs)}; values are given for {', '.join(values)}")
    for item, name in zip(file.info["inputs"], names):
        array = values[name]
        sizes = [n if size == "batch" else size for n, size in zip(array.shape, item["shape"])]
        if list(array.shape) != sizes or len(sizes) != len(item["shape"]) or array.dtype.name != item["dtype"]:
            wanted = ", ".join(map(str, item["shape"]))
            shape = ", ".join(map(str, array.shape))
            words = f"{item['name']} as {item['dtype']} ({wanted}); {name} is {array.dtype} ({shape})"
            raise XBenchError(f"{file.name} takes {words}")
    return names


def parting(exporter: Exporter, network: Artifact, file: Artifact, batch: int) -> Parting | None:
    """Where a file's graph first computes something else than the network, both in float64; None if nowhere.

    Raises:
        WorkerFailure: one of the graphs cannot be computed with every tensor an output.
    """
    with temporary.folder() as place:
        marked, values = place / "marked", place / "values.npz"
        marked.mkdir()
        reference = str(exporter.reference(network, "forward", batch, 0, GIVEN))
        exporter.call("mark", artifact=str(network.folder), reference=reference, folder=str(marked))
        paths = {"reference": str(reference_path(file, "forward", batch, 0, GIVEN)), "path": str(values)}
        nodes = exporter.call("tensors", artifact=str(file.folder), training=False, **paths)
        known, tensors = verdict.read(marked / REFERENCE), verdict.read(values)
    outputs = dict(zip(file.info["outputs"], network.info["outputs"]))
    return _parting(nodes, tensors, known, outputs)


def _about(reference: Mapping[str, np.ndarray], name: str, other: str) -> dict[str, np.ndarray]:
    """The entries of a tensor in a reference, under another name."""
    kinds = ("", "floor/", TYPE, LOWER, *(f"{SPREAD}{kind}/" for kind in ("low", "high", "far", "outside")))
    return {kind + other: reference[kind + name] for kind in kinds if kind + name in reference}


def _parting(
    nodes: Sequence[Mapping[str, Any]], values: Arrays, known: Arrays, outputs: Mapping[str, str]
) -> Parting | None:
    """`nodes` and their tensors `values` are the file's; `known` is a reference of every tensor of the network, with
    floors; `outputs` maps the file's outputs to the network's."""
    computed = _computed(nodes, values)
    same = {name: _same(values[name], known, (outputs[name],) if name in outputs else None) for name in computed}
    wrong = {name for name, others in same.items() if not others}
    makers = {name: node for node in nodes for name in node["outputs"]}
    sources = _sources([name for name in outputs if name in wrong], wrong, makers)
    first = [name for name in computed if name in sources and not wrong & set(makers[name]["inputs"])]
    if not first:
        return None
    seen = {other for others in same.values() for other in others}
    names = [name.removeprefix(OUTPUT) for name in known if name.startswith(OUTPUT)]
    lacking = next((name for name in names if name not in seen), None)
    # If a layer was split, its first step has no counterpart, right or wrong; a common name says which tensor it is.
    tensor = lacking if lacking in sources else first[0]
    expected = tensor if tensor in names else lacking
    ratio = None if expected is None else _off(values[tensor], expected, known)
    return Parting(tensor, makers[tensor]["op_type"], expected, ratio)


def _computed(nodes: Sequence[Mapping[str, Any]], values: Arrays) -> list[str]:
    """The floating tensors that depend on the values of an input, in the order of the graph: what is made of its shape
    alone, such as a recurrent layer's initial zeros, is written by some exporters and not by others."""
    made = {name for node in nodes for name in node["outputs"]}
    alive = {name for node in nodes for name in node["inputs"] if name in values and name not in made}
    names: list[str] = []
    for node in nodes:
        if alive & set(node["inputs"]) and node["op_type"] not in ("Shape", "Size"):
            alive |= set(node["outputs"])
            names += [name for name in node["outputs"] if name in values and values[name].dtype.kind == "f"]
    return names


def _same(array: np.ndarray, known: Arrays, among: Iterable[str] | None) -> list[str]:
    """The tensors of the network with these values, in this order of elements."""
    names = among or (name.removeprefix(OUTPUT) for name in known if name.startswith(OUTPUT))
    return [name for name in names if _off(array, name, known) <= LIMITS["fp32"]]


def _off(array: np.ndarray, name: str, known: Arrays) -> float:
    """The distance of a tensor from one of the network, in noise floors; infinite if their sizes differ."""
    expected = known[OUTPUT + name]
    if array.size != expected.size:
        return float("inf")
    return verdict.off(array.reshape(expected.shape), OUTPUT + name, known)


def _sources(outputs: Iterable[str], wrong: set[str], makers: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The wrong tensors that wrong outputs depend on through wrong tensors only."""
    pending, seen = list(outputs), set[str]()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += [each for each in makers[name]["inputs"] if each in wrong]
    return seen
