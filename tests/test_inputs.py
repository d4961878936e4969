"""Inputs are drawn so that they exercise the network: what an input reaches says what it is."""

import functools

import attention_nets as nets
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from xbench import models
from xbench.bench import convert
from xbench.bench.source import parse
from xbench.converters.artifact import Artifact
from xbench.parity import candidate, oracle, verdict

# ***** ten networks, right and wrong *****


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Each network converted, with its references, once."""

    @functools.cache
    def made(name):
        folder = tmp_path_factory.mktemp(name)
        convert.export_module(parse(nets.WORD[name]), folder)
        artifact, references = Artifact.read(folder), []
        for seed in (0, 1):
            path = folder / f"reference{seed}.npz"
            oracle.write(artifact, path, "forward", [candidate.sample(artifact, 2, seed)])
            references.append(verdict.read(path))
        return artifact, references

    return made


def verdict_of(artifact, references, model):
    """What a runtime that runs this graph gets on two seeds."""
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for reference in references:
            given = zip(session.get_inputs(), candidate.inputs_of(reference), strict=True)
            found = session.run(None, {each.name: array for each, array in given})
            if candidate.judged(candidate.named(artifact, found), reference).status != "PASS":
                return "FAIL"
    except Exception as error:  # an index that is out of bounds
        assert "out of" in str(error), error
        return "FAIL"
    return "PASS"


def instead(model, name, operator, *constants):
    """The graph with what `operator` makes of an input, and of constants, wherever the input was read."""
    for node in model.graph.node:
        node.input[:] = [f"{name}_instead" if each == name else each for each in node.input]
    for index, array in enumerate(constants):
        model.graph.initializer.append(numpy_helper.from_array(array, f"{name}_{index}"))
    given = [name, *(f"{name}_{index}" for index in range(len(constants)))]
    model.graph.node.insert(0, helper.make_node(operator, given, [f"{name}_instead"]))


def dropped(model, name, dtype, kept):
    constant = np.full((2, nets.LENGTH), kept, dtype)
    instead(model, name, "Or" if kept and dtype == "bool" else "And" if dtype == "bool" else "Max", constant)


def inverted(model, name, dtype, kept):
    instead(model, name, "Not") if dtype == "bool" else instead(model, name, "Sub", np.array(1, dtype))
    for node in model.graph.node:
        if node.op_type == "Sub" and node.output[0] == f"{name}_instead":
            node.input[:] = node.input[::-1]


def swapped(model, first, second):
    other = {first: second, second: first}
    for node in model.graph.node:
        node.input[:] = [other.get(each, each) for each in node.input]


def shifted(model, table):
    """Every position is taken for the one before."""
    (found,) = (each for each in model.graph.initializer if each.name == f"{table}.weight")
    found.CopyFrom(numpy_helper.from_array(np.roll(numpy_helper.to_array(found), 1, 0), found.name))


def wrong_graphs(artifact, net):
    inputs, masks, tables = nets.NETS[net]

    def changed(change, *told):
        model = onnx.load(artifact.onnx)
        change(model, *told)
        return model

    for name, kept in masks.items():
        yield f"{name} dropped", changed(dropped, name, inputs[name], kept)
        yield f"{name} inverted", changed(inverted, name, inputs[name], kept)
    for table in tables:
        yield f"{table} shifted", changed(shifted, table)
    names = list(inputs)
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            if inputs[first] == inputs[second]:
                yield f"{first} and {second} swapped", changed(swapped, first, second)


@pytest.mark.parametrize("net", nets.NETS, ids=lambda net: net.__name__)
def test_a_wrong_use_of_an_input_fails(networks, net):
    artifact, references = networks(net.__name__)
    assert verdict_of(artifact, references, onnx.load(artifact.onnx)) == "PASS"
    for what, model in wrong_graphs(artifact, net):
        assert verdict_of(artifact, references, model) == "FAIL", what
    for told in artifact.info["inputs"]:
        assert told["why"] or told["dtype"] == "float32", told
        each = models.Input(**told)
        if told["name"] in nets.NETS[net][1]:
            kept = nets.NETS[net][1][told["name"]]
            assert each.mask == (1 if kept else -1), each
