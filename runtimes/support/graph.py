"""Training without autodiff: a runtime that runs ONNX graphs runs the graph of the training step.

Its state (parameters, statistics, the optimizer's arrays) is on the device in two sets of buffers. A step reads one and
writes the other, and the next step the other way around: nothing is copied, and nothing passes through the host.
"""

from abc import abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data

from xbench.converters.artifact import GRADIENT, NEW, PARTS, Artifact, names_of
from xbench.runtimes import Options, Trainer

Arrays = dict[str, Any]  # by the names of the graph, on the device
Call = Callable[[Mapping[str, Any]], None]  # runs the graph on the inputs of the call


class GraphTrainer(Trainer):
    """The graph of a mode; a subclass defines how to compile it and how to run it on buffers."""

    def __init__(self, artifact: Artifact, options: Options) -> None:
        self.options, self.artifact = options, artifact
        self.model = onnx.load(artifact.folder / PARTS[options.mode])
        self.names, self.own = [item["name"] for item in artifact.info["inputs"]], names_of(self.model)
        program = artifact.program()
        known = {**program.params, **program.state}
        own = {*self.names, self.own.labels}
        shapes = {v.name: _shape(v) for v in self.model.graph.input if v.name not in own}
        self.initial = {n: known[n] if n in known else np.zeros(shape, np.float32) for n, shape in shapes.items()}
        self.unread = {n: array for n, array in known.items() if n not in shapes}  # the loss does not depend on it
        made = self.model.graph.output
        self.kept = [v.name.removeprefix(NEW) for v in made if v.name.startswith(NEW)]
        self.grads = {v.name: _shape(v) for v in made if v.name.startswith(GRADIENT)}
        self.sides: list[Arrays] = []  # a step reads one side and writes the other
        self.idle: Arrays = {}  # read and written by no step
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.side = 0
        self.evaluation: Any = None  # the graph of evaluation, compiled on first use
        self.answer: tuple[Call, Arrays] | None = None  # the same bound to the current weights, and its outputs

    @abstractmethod
    def compile(self, model: onnx.ModelProto) -> Any:
        """Compiles a graph whose shapes are all known."""

    @abstractmethod
    def buffer(self, array: np.ndarray) -> Any:
        """An array of the device's own, a copy."""

    @abstractmethod
    def fill(self, buffer: Any, array: np.ndarray) -> None:
        """Overwrites a buffer."""

    @abstractmethod
    def bind(self, compiled: Any, given: Arrays, made: Arrays) -> Call:
        """A compiled graph reading its inputs from `given` and writing its outputs to `made`."""

    @abstractmethod
    def host(self, buffer: Any) -> np.ndarray:
        """A copy of a buffer."""

    def prepare(self, inputs: Sequence[np.ndarray], labels: np.ndarray, dropout: bool) -> bool:
        if not self.sides:
            self._allocate()
        if self.own.dropout in self.initial:
            self.initial[self.own.dropout] = np.array(dropout, np.float32)
            for side in self.sides:
                self.fill(side[self.own.dropout], self.initial[self.own.dropout])
        given = dict(zip(self.names, inputs, strict=True)) | {self.own.labels: labels}
        shapes = {name: array.shape for name, array in given.items()}
        if shapes == self.shapes:
            return False
        self.shapes = shapes
        compiled = self.compile(fixed(self.model, shapes))
        self.calls = [self.bind(compiled, given, made) for given, made in zip(self.sides, self.made, strict=True)]
        self.evaluation = self.answer = None
        return True

    def _allocate(self) -> None:
        sides = range(2 if self.kept else 1)
        self.sides = [{name: self.buffer(array) for name, array in self.initial.items()} for _ in sides]
        self.idle = {name: self.buffer(array) for name, array in self.unread.items()}
        self.made = [
            {self.own.loss: self.buffer(np.zeros((), np.float32))}
            | {NEW + name: self.sides[1 - side][name] for name in self.kept}
            | {name: self.buffer(np.zeros(shape, np.float32)) for name, shape in self.grads.items()}
            for side in sides
        ]

    def reset(self) -> None:
        for name, buffer in self.sides[self.side].items():
            self.fill(buffer, self.initial[name])

    def forward(self, *inputs: Any) -> Any:
        """By the graph of evaluation, which reads the weights in the buffers that the step writes."""
        call, made = self.answer = self.answer or self._answering()
        call(dict(zip(self.names, inputs, strict=True)))
        return list(made.values())

    def _answering(self) -> tuple[Call, Arrays]:
        model, state = weights_as_inputs(self.artifact.inference, self.initial), self.sides[self.side]
        self.evaluation = self.evaluation or self.compile(fixed(model, self.shapes))
        given = {v.name: state[v.name] for v in model.graph.input if v.name not in self.names}
        made, batch = {}, self.shapes[self.own.labels][0]
        for value in model.graph.output:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            made[value.name] = self.buffer(np.zeros(_shape(value, batch), dtype))
        return self.bind(self.evaluation, given, made), made

    def _run(self, inputs: Sequence[Any], labels: Any) -> Arrays:
        self.calls[self.side](dict(zip(self.names, inputs, strict=True)) | {self.own.labels: labels})
        return self.made[self.side]

    def gradients(self, inputs: Sequence[Any], labels: Any) -> tuple[Any, Any]:
        made = self._run(inputs, labels)
        return made[self.own.loss], made

    def step(self, inputs: Sequence[Any], labels: Any) -> Any:
        made = self._run(inputs, labels)
        self.side, self.answer = 1 - self.side, None
        return (made[self.own.loss],)

    def get(self, outputs: Any) -> list[np.ndarray]:
        return [self.host(value) for value in outputs]

    def fetch(self, result: Any) -> tuple[float, dict[str, np.ndarray]]:
        loss, made = result
        return float(self.host(loss)), {name.removeprefix(GRADIENT): self.host(made[name]) for name in self.grads}

    def optimizer_state(self) -> dict[str, np.ndarray]:
        program, made = self.artifact.program(), {NEW + name for name in self.kept}
        own = {self.own.step, *program.params, *program.state}
        return {n: self.host(v) for n, v in self.sides[self.side].items() if NEW + n in made and n not in own}

    def weights(self) -> dict[str, np.ndarray]:
        program = self.artifact.program()
        arrays = self.sides[self.side] | self.idle
        return {n: self.host(v) for n, v in arrays.items() if n in program.params or n in program.state}


def _shape(value: onnx.ValueInfoProto, unknown: int = 0) -> list[int]:
    return [dim.dim_value or unknown for dim in value.type.tensor_type.shape.dim]


def weights_as_inputs(path: Path, names: Container[str]) -> onnx.ModelProto:
    """The graph of a file with the initializers of these names as inputs: evaluation with the current weights."""
    model = onnx.load(path, load_external_data=False)
    tensors = list(model.graph.initializer)
    del model.graph.initializer[:]
    for tensor in tensors:
        if tensor.name in names:
            model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            continue
        if uses_external_data(tensor):
            load_external_data_for_tensor(tensor, str(path.parent))
        model.graph.initializer.append(tensor)
    return model


def fixed(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """A copy of the graph with the shapes of some inputs set; dependent shapes are left to be inferred."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model)
    for value in proto.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.dim_value = size
    del proto.graph.value_info[:]
    return proto


def drop_unread_inputs(graph: onnx.GraphProto) -> None:
    """Removes the inputs that nothing reads: a session of ONNX Runtime refuses to bind them."""
    read = _names_read(graph)
    kept = [value for value in graph.input if value.name in read]
    del graph.input[:]
    graph.input.extend(kept)


def _names_read(graph: onnx.GraphProto) -> set[str]:
    """The names that a graph and its bodies read."""
    names = {value.name for value in graph.output}
    for node in graph.node:
        names.update(node.input)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                names |= _names_read(body)
    return names
