"""A file of one operator that ONNX does not define, ONNX Runtime's answer, and the answer of the body it gets here."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.ops import contrib
from xbench.converters.source import parse
from xbench.runtimes import Options, load

DRAW = np.random.default_rng(0)
TYPES = {
    "tensor(float)": TensorProto.FLOAT,
    "tensor(float16)": TensorProto.FLOAT16,
    "tensor(uint8)": TensorProto.UINT8,
    "tensor(int8)": TensorProto.INT8,
    "tensor(int32)": TensorProto.INT32,
    "tensor(int64)": TensorProto.INT64,
}


def normal(*shape):
    return DRAW.normal(size=shape).astype(np.float32)


def unsigned(*shape):
    return DRAW.integers(0, 256, shape).astype(np.uint8)


def signed(*shape):
    return DRAW.integers(-128, 128, shape).astype(np.int8)


def integers(*rows, kind=np.int64):
    return np.array(rows, kind)


def whole(*rows):
    return np.array(rows, np.int32)


def saved(folder, operator, inputs, words, version=17):
    """A file of one node, as ONNX Runtime types it: all inputs but the one that is `fed` are stored."""
    words, fed = dict(words), words.get("fed", 0)
    words.pop("fed", None)
    outputs, domain = words.pop("outputs", ["y"]), words.pop("domain", contrib.DOMAIN)
    names = ["" if each is None else f"input{index}" for index, each in enumerate(inputs)]
    kind = helper.np_dtype_to_tensor_dtype(inputs[fed].dtype)
    stored = [(name, each) for name, each in zip(names, inputs, strict=True) if name not in ("", names[fed])]
    graph = helper.make_graph(
        [helper.make_node(operator, names, outputs, domain=domain, **words)],
        "g",
        [helper.make_tensor_value_info(names[fed], kind, inputs[fed].shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs if name],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in stored],
    )
    domains = {"": version, contrib.DOMAIN: 1, contrib.LEARNING: 3}
    opsets = [helper.make_opsetid(domain, number) for domain, number in domains.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = bare(model)
    answer = session.run(None, {names[fed]: inputs[fed]})
    for value, known, array in zip(model.graph.output, session.get_outputs(), answer, strict=True):
        value.CopyFrom(helper.make_tensor_value_info(known.name, TYPES[known.type], array.shape))
    onnx.save(model, folder / "m.onnx")
    return answer


def bare(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def computed(folder, first):
    """What the body of the saved operator gives in PyTorch."""
    made = folder / "out"
    made.mkdir()
    build.export_file(parse(str(folder / "m.onnx")), folder / "m.onnx", made)
    artifact = Artifact.read(made)
    assert not [name for name in artifact.info["operators"] if name.startswith((contrib.DOMAIN, contrib.LEARNING))]
    ready = load("torch", artifact, Options())
    ready.prepare([first], np.zeros(1, np.int64), False)
    return ready.get(ready.forward(*ready.put([first])))
