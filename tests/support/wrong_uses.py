"""Networks that read masks, positions and token types, and graphs that use each of these wrongly."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.source import parse
from xbench.parity import candidate, oracle, verdict


@dataclass(frozen=True)
class Judge:
    """A converted network, with its references of two seeds."""

    artifact: Artifact
    references: list[dict[str, np.ndarray]]

    def verdict(self, model: onnx.ModelProto) -> str:
        """The verdict on a runtime that runs this graph."""
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            return "PASS" if all(self.passes(session, each) for each in self.references) else "FAIL"
        except Exception as error:  # an index that is out of bounds
            assert "out of" in str(error), error
            return "FAIL"

    def passes(self, session: onnxruntime.InferenceSession, reference: dict[str, np.ndarray]) -> bool:
        given = zip(session.get_inputs(), candidate.inputs_of(reference), strict=True)
        outputs = session.run(None, {each.name: array for each, array in given})
        return candidate.judged(candidate.named(self.artifact, outputs), reference).status == "PASS"


def judge(word: str, folder: Path) -> Judge:
    build.export_module(parse(word), folder)
    artifact = Artifact.read(folder)
    paths = [folder / f"reference{seed}.npz" for seed in (0, 1)]
    for seed, path in enumerate(paths):
        oracle.write(artifact, path, "forward", [candidate.sample(artifact, 2, seed)])
    return Judge(artifact, [verdict.read(path) for path in paths])


def instead(model: onnx.ModelProto, name: str, operator: str, *constants: np.ndarray) -> None:
    """Replace each use of an input by `operator` of the input and constants."""
    for node in model.graph.node:
        node.input[:] = [f"{name}_instead" if each == name else each for each in node.input]
    for index, array in enumerate(constants):
        model.graph.initializer.append(numpy_helper.from_array(array, f"{name}_{index}"))
    given = [name, *(f"{name}_{index}" for index in range(len(constants)))]
    model.graph.node.insert(0, helper.make_node(operator, given, [f"{name}_instead"]))


def dropped(model: onnx.ModelProto, name: str, dtype: str, kept: int, length: int) -> None:
    constant = np.full((2, length), kept, dtype)
    instead(model, name, "Or" if kept and dtype == "bool" else "And" if dtype == "bool" else "Max", constant)


def inverted(model: onnx.ModelProto, name: str, dtype: str) -> None:
    instead(model, name, "Not") if dtype == "bool" else instead(model, name, "Sub", np.array(1, dtype))
    for node in model.graph.node:
        if node.op_type == "Sub" and node.output[0] == f"{name}_instead":
            node.input[:] = node.input[::-1]


def swapped(model: onnx.ModelProto, first: str, second: str) -> None:
    other = {first: second, second: first}
    for node in model.graph.node:
        node.input[:] = [other.get(each, each) for each in node.input]


def shifted(model: onnx.ModelProto, table: str) -> None:
    """Every position is taken for the one before."""
    (weight,) = (each for each in model.graph.initializer if each.name == f"{table}.weight")
    weight.CopyFrom(numpy_helper.from_array(np.roll(numpy_helper.to_array(weight), 1, 0), weight.name))


def wrong_graphs(
    artifact: Artifact, inputs: dict[str, str], masks: dict[str, int], tables: list[str], length: int
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The graph with one mistake at a time, and its name. `inputs` are dtypes by name, `masks` the values of masks that
    keep everything, `tables` those whose rows are positions."""

    def changed(change: Callable[..., None], *given: object) -> onnx.ModelProto:
        model = onnx.load(artifact.onnx)
        change(model, *given)
        return model

    for name, kept in masks.items():
        yield f"{name} dropped", changed(dropped, name, inputs[name], kept, length)
        yield f"{name} inverted", changed(inverted, name, inputs[name])
    for table in tables:
        yield f"{table} shifted", changed(shifted, table)
    names = list(inputs)
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            if inputs[first] == inputs[second]:
                yield f"{first} and {second} swapped", changed(swapped, first, second)
