"""Checks whether a user's network is the reference network whose name it has.

First its structure: parameters, their shapes in the order of use, work, dead layers. If those agree, the reference's
weights are copied into it and its outputs are compared with the reference's, both in float64, in units of the float32
noise floor; if they differ, changes of the reference are tried until one gives the same outputs: that is the mistake.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from xbench.converters import Program
from xbench.converters.artifact import Artifact
from xbench.converters.ops.torch import TABLE
from xbench.models._published import reading
from xbench.parity import network, oracle
from xbench.parity.candidate import sample
from xbench.parity.mistakes import Mistake
from xbench.parity.mistakes.operators import of
from xbench.parity.verdict import Verdict, judge
from xbench.runtimes.torch import ProgramModule

Tensors = dict[str, np.ndarray]
SHOWN = 3  # shapes that a sentence lists


def orders(artifact: Artifact) -> list[list[str]]:
    """The parameters and running statistics of a graph in two orders: as its nodes read them, from the inputs on; and
    by the number of layers before them, then by shape, which does not depend on the order of two branches."""
    graph = ir.load(artifact.folder / "model.onnx").graph
    wanted = {*artifact.parameters, *artifact.info["statistics"]}
    depth: dict[ir.Value, int] = {}
    used: dict[str, tuple[int, tuple[Any, ...]]] = {}
    for node in graph:
        layers = max((depth.get(value, 0) for value in node.inputs if value is not None), default=0)
        read = [value for value in node.inputs if value is not None and value.name in wanted]
        for value in read:
            used.setdefault(str(value.name), (layers, tuple(value.shape or ())))
        depth.update(dict.fromkeys(node.outputs, layers + bool(read)))
    return [list(used), sorted(used, key=lambda name: (used[name][0], [str(n) for n in used[name][1]]))]


def architecture(reference: Artifact, port: Artifact) -> list[str]:
    """The structural differences of the port from the reference, in sentences; empty if they agree."""
    name, wanted, actual = reference.name, reference.info, port.info
    sentences = []
    if actual["parameter_count"] != wanted["parameter_count"]:
        sentences.append(_counted(name, "parameters", actual["parameter_count"], wanted["parameter_count"], wanted))
    if actual["macs"] not in (None, wanted["macs"]):
        sentences.append(_counted(name, "multiply-accumulates", actual["macs"], wanted["macs"], wanted))
    if unused := actual["unused"]:
        share = f"{sum(unused.values()):,} of its {sum(unused.values()) + actual['parameter_count']:,} parameters"
        sentences.append(f"{share} are dead, no output depends on them: {_few([*unused])}")
    if actual["dead_nodes"]:
        sentences.append(f"{actual['dead_nodes']} nodes are dead: no output depends on them")
    expected, given = (_shapes(each) for each in (reference, port))
    if Counter(expected[0]) != Counter(given[0]):
        rest = (Counter(expected[0]) - Counter(given[0]), Counter(given[0]) - Counter(expected[0]))
        sentences.append(f"parameters have other shapes: {_listed(rest[1])} where {name} has {_listed(rest[0])}")
    elif all(one != other for one, other in zip(expected, given, strict=True)):
        at = next(i for i, (one, other) in enumerate(zip(expected[0], given[0], strict=True)) if one != other)
        sentences.append(f"layers are in another order: {given[0][at]} comes where {name} has {expected[0][at]}")
    for kind, what in (("inputs", "inputs"), ("outputs", "outputs"), ("statistics", "running statistics")):
        if len(actual[kind]) != len(wanted[kind]):
            sentences.append(f"it has {len(actual[kind])} {what}, {name} has {len(wanted[kind])}")
    return sentences


def _few(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _counted(name: str, what: str, count: int, wanted: int, info: dict[str, Any]) -> str:
    known = reading(name, count, info["parameter_count"])
    return f"{count:,} {what} instead of {wanted:,}" + (f": {known}" if known else "")


def _shapes(artifact: Artifact) -> list[list[tuple[int, ...]]]:
    """The shapes of the parameters in both orders."""
    params = artifact.program().params
    return [[params[name].shape for name in order if name in params] for order in orders(artifact)]


def _listed(shapes: Counter[tuple[int, ...]]) -> str:
    words = [f"{count} of {shape}" if count > 1 else f"{shape}" for shape, count in sorted(shapes.items())]
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more if words else "none"


def filled(port: Artifact, reference: Artifact) -> list[Program]:
    """The port's program with the reference's weights and statistics, paired in each order in which shapes agree."""
    own, other = port.program(), reference.program()
    values, present = {**other.params, **other.state}, {**own.params, **own.state}
    programs = []
    for names, others in zip(orders(port), orders(reference), strict=True):
        new = {name: values[paired] for name, paired in zip(names, others, strict=True)}
        if all(present[name].shape == array.shape for name, array in new.items()):
            pick = lambda arrays, new=new: {name: new.get(name, array) for name, array in arrays.items()}  # noqa: E731
            programs.append(dataclasses.replace(own, params=pick(own.params), state=pick(own.state)))
    return programs


def compared(port: Artifact, reference: Artifact, batch: int) -> tuple[Verdict, list[str]]:
    """The verdict on the port's outputs with the reference's weights, and unless it is PASS the mistakes that give
    them."""
    inputs, labels = sample(reference, batch, 0)
    expected, floors, _ = oracle.measured(reference, "forward", [(inputs, labels)])
    known = {**expected, **{f"floor/{name}": np.array(value) for name, value in floors.items()}}
    tried = [dict(zip(expected, _computed(ProgramModule(p), inputs), strict=True)) for p in filled(port, reference)]
    for outputs in tried:
        if any(outputs[name].shape != expected[name].shape for name in expected):
            shapes = ", ".join(str(value.shape) for value in outputs.values())
            return _rejected(f"its outputs have the shapes {shapes}"), []
        if (verdict := judge(outputs, known)).status == "PASS":
            return verdict, []
    if not tried:
        return _rejected("no order pairs its weights and running statistics with those of the reference"), []
    for stage in (_at_the_borders, _inside):
        under = [(says, made) for says, made in stage(reference, inputs, expected) if _gives(tried, made, known)]
        if under:
            return judge(tried[0], known), [says for says, _ in under]
    return judge(tried[0], known), []


def _rejected(says: str) -> Verdict:
    return Verdict("FAIL", "wrong", None, None, 0, None, says)


def _computed(module: torch.nn.Module, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    with network.default_type(torch.float64), torch.no_grad():
        outputs = module.to(torch.float64).eval()(*network.arrays(inputs, torch.float64))
    return [each.numpy() for each in outputs]


def _gives(tried: Sequence[Tensors], made: Sequence[np.ndarray], known: Tensors) -> bool:
    """Whether a mistake explains the outputs: the changed reference gives them, and differs from the reference."""
    instead = dict(zip(tried[0], made, strict=True))
    if any(instead[name].shape != known[name].shape for name in instead) or judge(instead, known).status == "PASS":
        return False
    return any(judge(outputs, {**known, **instead}).status == "PASS" for outputs in tried)


Tried = Iterator[tuple[str, list[np.ndarray]]]  # a mistake in words, and what the reference gives under it


def _at_the_borders(reference: Artifact, inputs: Sequence[np.ndarray], expected: Tensors) -> Tried:
    for says, change in LAST.items():
        yield says, [change(torch.from_numpy(value)).numpy() for value in expected.values()]
    module = ProgramModule(reference.program())
    for says, turn in FIRST.items():
        turned = [turn(a) if a.ndim == 4 else a for a in inputs]
        if all(a.shape == b.shape for a, b in zip(turned, inputs, strict=True)):
            yield says, _computed(module, turned)
    yield "Relu is missing behind every residual sum", _computed(_unrectified(reference), inputs)


def _inside(reference: Artifact, inputs: Sequence[np.ndarray], expected: Tensors) -> Tried:
    """Mistakes of one operator, made in all its calls."""
    for mistake in _mistakes(reference, inputs):
        try:
            yield f"every {mistake.says}", _computed(ProgramModule(reference.program(), mistake.table(TABLE)), inputs)
        except Exception:  # shapes that no longer fit: not this mistake
            continue


def _unrectified(reference: Artifact) -> ProgramModule:
    """The reference without any Relu on the result of an Add."""
    sums: list[Any] = []

    def add(*given: Any) -> Any:
        sums.append(TABLE["Add"](*given))
        return sums[-1]

    def relu(x: Any) -> Any:
        return x if any(x is each for each in sums) else TABLE["Relu"](x)

    return ProgramModule(reference.program(), {**TABLE, "Add": add, "Relu": relu})


def _mistakes(reference: Artifact, inputs: Sequence[np.ndarray]) -> list[Mistake]:
    """The mistakes possible in any call of the reference."""
    mistakes: dict[str, Mistake] = {}

    def watched(operator: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            mistakes.update({each.says: each for each in of(operator, given, named) if each.says not in mistakes})
            return function(*given, **named)

        return call

    _computed(ProgramModule(reference.program(), {op: watched(op, f) for op, f in TABLE.items()}), inputs)
    return [*mistakes.values()]


LAST: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a ReLU is behind the last layer: no logit is negative": torch.relu,
    "the network ends in a Softmax, which belongs to the loss": lambda y: torch.softmax(y, -1),
    "the network ends in a LogSoftmax, which belongs to the loss": lambda y: torch.log_softmax(y, -1),
    "the network ends in a Sigmoid, which belongs to the loss": torch.sigmoid,
}
FIRST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "height and width of the images are exchanged": lambda x: x.swapaxes(2, 3).copy(),
    "the channels of the images are in reverse order": lambda x: x[:, ::-1].copy(),
    "the images are upside down": lambda x: x[:, :, ::-1].copy(),
    "pixels are divided by 256": lambda x: x / np.float32(256),
}
