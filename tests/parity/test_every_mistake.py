"""Every entry of the list of mistakes is planted in an adapter, and named.

The list is walked itself: whatever `parity/mistakes/` yields for the calls of `cases.py`, and for the networks and
update rules here. A line of it that nothing reaches, or that no network shows, fails unless it says why.
"""

import ast
import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from cases import CASES, Row, real, row
from test_explain import MISTAKES

from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.ops.torch import TABLE
from xbench.converters.source import parse
from xbench.parity import candidate, mistakes, network, oracle, verdict
from xbench.parity.explain.forward import forward
from xbench.parity.explain.step import Step
from xbench.parity.explain.training import trained
from xbench.parity.mistakes import operators, training
from xbench.runtimes import Options
from xbench.runtimes.torch import ProgramModule, Torch, named_tensors, optimizer_of, trainable, update

FOLDER = Path(mistakes.__file__).parent
SMALL = "planted_net:make@x:float32:batch,3,12,16"


def deepest(generator):
    """Each item of a generator, with the line that yields it."""
    for item in generator:
        inner = generator
        while getattr(inner, "gi_yieldfrom", None) is not None:
            inner = inner.gi_yieldfrom
        yield item, (Path(inner.gi_code.co_filename).name, inner.gi_frame.f_lineno)


def lines(*files):
    """Every line of the list: the yields of these files, without `yield from`."""
    yields = {}
    for name in files:
        for node in ast.walk(ast.parse((FOLDER / name).read_text())):
            if isinstance(node, ast.Yield) and not (name == "operators.py" and isinstance(node.value, ast.Call)):
                yields |= {(name, line): (name, node.lineno) for line in range(node.lineno, node.end_lineno + 1)}
    return yields


class Mistaken(Torch):
    """PyTorch's adapter with a mistake in its operators, its loss or its update rule; in float32."""

    def __init__(self, artifact, options, mistake):
        rule = {**artifact.info["optimizer"], **mistake.rule}
        super().__init__(dataclasses.replace(artifact, info={**artifact.info, "optimizer": rule}), options)
        self.module = ProgramModule(artifact.program(), mistake.table(TABLE)).train(options.trains)
        self.initial = {name: value.detach().clone() for name, value in named_tensors(self.module).items()}
        self.named, self.mistake = trainable(self.module), mistake
        self.parameters = list(self.named.values())
        if options.mode == "step":
            self.optimizer = optimizer_of(self.rule, self.parameters)
        if options.trains and mistake.loss:
            self.loss = mistake.loss(self.loss)

    def step(self, inputs, labels):
        loss, _ = self.gradients(inputs, labels)
        self.count += 1
        (self.mistake.update or update)(self.optimizer, self.rule, self.count)
        return (loss,)


def answer(artifact, mode, reference, mistake):
    """The adapter's answer, and the verdict; None if the mistake cannot be made."""
    runtime = Mistaken(artifact, Options(mode), mistake)
    try:
        runtime.prepare(candidate.inputs_of(reference), reference["labels"], dropout=False)
        given = candidate.run(runtime, artifact, mode, reference)
    except Exception:
        return None, None
    return given, verdict.judge(given, reference)


# ***** mistakes of an operator *****


def watching(keep, program, inputs):
    """Run a program in float64; `keep` gets each call, its operator and arguments."""

    def watched(operator, function):
        def call(*given, **named):
            keep(operator, given, named)
            return function(*given, **named)

        return call

    table = {operator: watched(operator, function) for operator, function in TABLE.items()}
    with network.default_type(torch.float64), torch.no_grad():
        return ProgramModule(program, table).to(torch.float64).eval()(*network.arrays(inputs, torch.float64))


def entries(artifact, inputs, operator):
    """The entries of the list for the calls of an operator: their line and name, and the mistakes as `of` makes them.
    None if a result is computed in NumPy, as shapes are."""
    result = []

    def keep(name, given, named):
        if name == operator:
            places = [
                (line, slug) for kind in operators.KINDS for (slug, *_), line in deepest(kind(name, given, named))
            ]
            for (line, slug), mistake in zip(places, operators.of(name, given, named), strict=True):
                result.append(((line, "missing" if slug == f"missing_{name.lower()}" else slug), mistake))

    outputs = watching(keep, artifact.program(), inputs)
    return result if all(isinstance(each, torch.Tensor) for each in outputs) else []


# Rows that are not files that xbench reads.
NO_FILE = {("ImageDecoder", 0), ("MaxUnpool", 1)}


def exported(op, row, folder):
    """A graph of one node as an artifact."""
    folder.mkdir()
    model = row.model(op)
    for value in model.graph.output:
        if not value.type.WhichOneof("value"):  # ONNX infers none for GroupNormalization
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, row.inputs[0].shape))
    onnx.save(model, folder / "model.onnx")
    build.export_file(parse(str(folder / "model.onnx")), folder / "model.onnx", folder)
    return Artifact.read(folder)


def known(artifact, inputs):
    """A reference of the outputs, as `oracle.write` makes it, for given inputs."""
    labels = np.zeros(1, np.int64)
    expected, floors, _ = oracle.measured(artifact, "forward", [(inputs, labels)])
    given = {f"input/{i}": a for i, a in enumerate(inputs)}
    return {**given, "labels": labels, **expected, **{f"floor/{n}": np.array(f) for n, f in floors.items()}}


# Rows that `cases.py` lacks: square matrices, numbers above 6, a vector as long as two axes.
SQUARE = real(4, 4)
MORE = {
    "Gemm": [row(SQUARE, real(4, 4, seed=1), real(4))],
    "Relu": [row(8 * real(3, 4))],
    "Flatten": [row(real(2, 3, 4, 5))],
    "Mul": [row(real(2, 4, 3, 4), real(4))],
}
# Not shown by any adapter in a graph of one node: name -> why.
UNSEEN = {
    "allowzero": "a shape with a zero in it fits no other tensor without it",
    "saturate": "no float8 here is too large, and what is infinite is not judged",
}


def test_every_mistake_of_an_operator_is_named(tmp_path):
    """Each in a graph of one node; rows of `cases.py` without a new entry are skipped."""
    rows = [(op, each) for op, rows in MORE.items() for each in rows]
    rows += [(op, each) for op, rows in CASES.items() for i, each in enumerate(rows) if (op, i) not in NO_FILE]
    seen, all_of_them, unnamed = set(), set(), []
    for number, (op, each) in enumerate(rows):
        if not isinstance(each, Row):  # a graph with a body
            continue
        artifact = exported(op, each, tmp_path / str(number))
        inputs = [np.array(array) for array in each.given(op)]
        new = [(key, mistake) for key, mistake in entries(artifact, inputs, op) if key not in seen]
        all_of_them |= {key for key, _ in new}
        reference = known(artifact, inputs) if new else {}
        for key, mistake in new:
            given, result = answer(artifact, "forward", reference, mistake)
            if result is None or result.status == "PASS":
                continue
            seen.add(key)
            findings = forward(artifact, reference, given, result.first_wrong.removeprefix("output/"))
            if mistake.says not in [finding.says for finding in findings]:
                unnamed.append(mistake.says)
    assert not unnamed
    assert {name for _, name in all_of_them - seen} == set(UNSEEN)
    reached = {lines("layers.py", "operators.py").get(line) for line, _ in seen}
    assert set(lines("layers.py", "operators.py").values()) - reached == set(), "no row makes what these lines yield"


# ***** mistakes of a training step *****

SEQUENCE = "mistaken:tokens@x:float32:batch,7,5"
SGD = "sgd,lr=0.01,momentum=0.9,weight_decay=0.01"
# network, update rule: together they reach every line
TRAINED = (
    (SMALL, SGD),
    (SMALL, "sgd,lr=0.01,momentum=0.8,nesterov=1,clip=0.1"),
    (SMALL, "sgd,lr=0.01,momentum=0.9,schedule=1/0.5"),
    (SMALL, "adamw,lr=0.001,weight_decay=0.1,eps=0.00001"),
    (SMALL, "adam,lr=0.001,weight_decay=0.1,eps=0.00001,beta1=0.8,beta2=0.98"),
    (SEQUENCE, "sgd,lr=0.01"),
)


def listed(info):
    """Every entry for a network and its update rule, with its line."""
    kinds = (training.losses(info), training.norms(info["program_operators"]))
    kinds += (training.statistics(info["program_operators"]), training.updates(info["optimizer"]))
    return [each for kind in kinds for each in deepest(kind)]


@pytest.fixture
def computed_once(monkeypatch):
    """The result of a step under a mistake does not depend on the runtime: it is computed once for all."""
    compute, made = Step.compute, {}

    def once(self, mistake, *more, **rest):
        key = repr((self.artifact.info["optimizer"], self.artifact.folder, self.mode, mistake, more, rest))
        if key not in made:
            made[key] = compute(self, mistake, *more, **rest)
        return made[key]

    monkeypatch.setattr(Step, "compute", once)


# Not shown by any of these networks: the end of its message -> why.
QUIET = {
    "it uses the statistics of the batch, not the running ones": "as training does",
    "epsilon is 1e-05 (PyTorch's default)": "the network's own",
    "its momentum is 0.9 (PyTorch's default)": "the network's own",
    "clipped to a global norm of 5": "the gradients are smaller",
    "clipped to a global norm of 10": "the gradients are smaller",
}


def test_every_mistake_of_a_training_step_is_named(tmp_path, computed_once):
    places, shown, unnamed = set(), set(), []
    for number, (model, rule) in enumerate(TRAINED):
        folder = tmp_path / str(number)
        folder.mkdir()
        build.export_module(parse(f"{model};optimizer={rule}"), folder)
        artifact = Artifact.read(folder)
        oracle.write(artifact, folder / "step.npz", "step", [candidate.sample(artifact, 3, 0)] * 2)
        reference = verdict.read(folder / "step.npz")
        for mistake, line in listed(artifact.info):
            places.add((line, mistake.says))
            if (line, mistake.says) in shown:
                continue
            given, result = answer(artifact, "step", reference, mistake)
            if result is not None and result.status == "FAIL":
                shown.add((line, mistake.says))
                findings = [each.says for each in trained(artifact, "step", reference, given)]
                unnamed += [] if mistake.says in findings else [(rule, mistake.says, findings)]
    assert not unnamed
    silent = {says for _, says in places - shown}
    assert {end for end in QUIET if any(says.endswith(end) for says in silent)} == set(QUIET)
    assert not [says for says in silent if not says.endswith(tuple(QUIET))]
    known_lines = lines("training.py", "frameworks.py")
    reached = {known_lines.get(line) for line, _ in shown}
    assert set(known_lines.values()) - reached == set(), "no network makes what these lines yield"


def test_every_mistake_that_is_looked_for_in_a_result_is_made():
    """Mistakes of `parity/explain/`, with numbers or tensors from the result, are rows of test_explain.py."""
    made = {name for *_, name in MISTAKES.values()}
    for path in (FOLDER.parent / "explain").glob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = [node.args[0] for node in calls if isinstance(node.func, ast.Name) and node.func.id == "Mistake"]
        named = {name.value for name in names if isinstance(name, ast.Constant)} - {""}
        assert named <= made, path.name
