"""The oracle of a file is compared with the file's nodes, computed one by one."""

import dataclasses
import re

import numpy as np
import onnx
import pytest
from cases import CASES
from test_given import FILES, WEIGHTS, graph, node
from test_operators import REFUSED, ROWS

from xbench.converters.artifact import Artifact
from xbench.converters.codegen.program import convert
from xbench.converters.frontends.onnx_file import canonical
from xbench.converters.passes.fusion import ATTENTION
from xbench.parity import candidate, network, node_by_node, oracle
from xbench.parity.oracle import NotExported
from xbench.workers.prepare import Exporter

TWO = graph(
    [node("MatMul", "x w", "h"), node("Relu", "h", "r"), node("Exp", "r", "e"), node("Mul", "r e")],
    ("w", WEIGHTS),
    shape=("n", 4),
)


@pytest.mark.parametrize(("op", "index"), [each for each in ROWS if each.values[0] not in ATTENTION])
def test_a_node_alone_computes_what_it_does_in_its_graph(op, index):
    row = CASES[op][index]
    if row.training or REFUSED["torch"].get(op, lambda _: False)(row):
        pytest.skip("refused by the table, or another computation in training")
    given = [np.array(array) for array in row.given(op)]
    expected = network.values(convert(canonical(row.model(op)), []), given, training=False)
    values = node_by_node.computed(canonical(row.model(op)), given)
    for name, value in expected.items():
        np.testing.assert_allclose(values[name].numpy(), value, rtol=1e-12, atol=1e-12)


@pytest.fixture(scope="module")
def brought(tmp_path_factory):
    """The artifact of each file."""
    folder = tmp_path_factory.mktemp("brought")
    exporter, made = Exporter(folder), {}
    for number, (name, file) in enumerate({**FILES, "two": TWO}.items()):
        path = folder / str(number) / "file.onnx"
        path.parent.mkdir()
        file(path) if callable(file) else onnx.save(file, path)
        made[name] = exporter.artifact(str(path))
    yield made
    exporter.close()


@pytest.fixture
def unseen(monkeypatch):
    monkeypatch.setattr(oracle, "SEEN", set())


def written(artifact, path, mode="forward"):
    oracle.write(artifact, path, mode, [candidate.sample(artifact, 3, 0)])


@pytest.mark.parametrize("name", FILES)
def test_a_right_oracle_is_written(name, brought, unseen, tmp_path):
    written(brought[name], tmp_path / "reference.npz")
    assert brought[name].folder in oracle.SEEN


@pytest.mark.parametrize("mode", ["forward", "gradient"])
def test_an_oracle_in_which_two_tensors_met_is_none(mode, brought, unseen, tmp_path, monkeypatch):
    right = brought["two"].program()
    first, second = re.findall(r"^    (\w+) = (?:Relu|Exp)", right.source, re.MULTILINE)
    wrong = dataclasses.replace(right, source=re.sub(rf"\b{second}\b", first, right.source))
    monkeypatch.setattr(Artifact, "program", lambda self: wrong)
    with pytest.raises(NotExported, match="its nodes, one by one, compute something else"):
        written(brought["two"], tmp_path / "reference.npz", mode)
    assert not oracle.SEEN
