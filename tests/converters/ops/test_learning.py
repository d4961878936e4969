"""Trees, linear models and scalers of `ai.onnx.ml`: each body computes what ONNX Runtime's kernel does."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from bodies import computed
from bodies import saved as saved_with
from cases_learning import CASES_LEARNING, UNKNOWN_LEARNING
from onnx import TensorProto, helper

from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.ops import contrib
from xbench.converters.source import parse
from xbench.runtimes import Options, load

FEATURES, SAMPLES = 5, 200
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")


class Forest:
    """Attributes of an ensemble of random trees, some with early leaves."""

    def __init__(self, kind, columns, trees=7, depth=4, mode="BRANCH_LEQ"):
        self.draw, self.kind, self.columns, self.depth, self.mode = np.random.default_rng(1), kind, columns, depth, mode
        words = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
        self.nodes = {word: [] for word in (*words, "missing_value_tracks_true")}
        self.leaves = {word: [] for word in ("treeids", "nodeids", "ids", "weights")}
        for tree in range(trees):
            self.size = 0
            self.grow(tree, 0)

    def grow(self, tree, level):
        own, place = self.size, len(self.nodes["modes"])
        self.size += 1
        leaf = level == self.depth or (level > 0 and self.draw.random() < 0.2)
        feature, value = (0, 0.0) if leaf else (int(self.draw.integers(FEATURES)), float(self.draw.normal()))
        row = (tree, own, feature, value, "LEAF" if leaf else self.mode, 0, 0, int(self.draw.integers(2)))
        for column, each in zip(self.nodes.values(), row, strict=True):
            column.append(each)
        if leaf:
            for column in range(self.columns):
                for to, each in zip(self.leaves.values(), (tree, own, column, float(self.draw.normal())), strict=True):
                    to.append(each)
        else:
            self.nodes["truenodeids"][place] = self.grow(tree, level + 1)
            self.nodes["falsenodeids"][place] = self.grow(tree, level + 1)
        return own

    def attributes(self):
        nodes = {f"nodes_{word}": each for word, each in self.nodes.items()}
        return nodes | {f"{self.kind}_{word}": each for word, each in self.leaves.items()}


def regressor(**words):
    columns = words.pop("n_targets", 1)
    mode, depth = words.pop("mode", "BRANCH_LEQ"), words.pop("depth", 4)
    return Forest("target", columns, depth=depth, mode=mode).attributes() | {"n_targets": columns} | words


def classifier(transform, classes=3):
    words = {"classlabels_int64s": list(range(3, 3 + classes)), "post_transform": transform}
    return Forest("class", classes).attributes() | words


CASES = [
    *[("TreeEnsembleRegressor", regressor(mode=mode)) for mode in MODES],
    ("TreeEnsembleRegressor", regressor(n_targets=3, base_values=[0.1, 0.2, 0.3])),
    ("TreeEnsembleRegressor", regressor(depth=0)),
    *[("TreeEnsembleClassifier", classifier(transform)) for transform in ("NONE", "SOFTMAX", "LOGISTIC")],
    ("Scaler", {"offset": [0.1, -0.2, 0.3, 0.4, 0.5], "scale": [1.5, 2.0, 0.5, 1.0, -1.0]}),
    ("Scaler", {"offset": [0.1], "scale": [2.0]}),
    ("Binarizer", {"threshold": 0.3}),
    ("Normalizer", {"norm": "L1"}),
    ("Normalizer", {"norm": "L2"}),
    ("LinearRegressor", {"coefficients": [0.1, -0.2, 0.3, 0.4, 0.5], "intercepts": [0.7]}),
    ("LinearRegressor", {"coefficients": [0.1 * n for n in range(10)], "intercepts": [0.7, 0.1], "targets": 2}),
]
TREES = ("TreeEnsembleRegressor", "TreeEnsembleClassifier")


def saved(path, operator, words, version=17):
    labelled = operator == "TreeEnsembleClassifier"
    outputs = [helper.make_tensor_value_info("label", TensorProto.INT64, ["N"])] if labelled else []
    outputs.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "M"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", FEATURES])
    node = helper.make_node(operator, ["x"], [each.name for each in outputs], domain=contrib.LEARNING, **words)
    opsets = [helper.make_opsetid("", version), helper.make_opsetid(contrib.LEARNING, 3)]
    graph = helper.make_graph([node], "g", [x], outputs)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[f"{name}-{index}" for index, (name, _) in enumerate(CASES)])
@pytest.mark.parametrize("version", [13, 18])
def test_a_body_computes_what_the_kernel_of_onnx_runtime_does(tmp_path, index, version):
    operator, words = CASES[index]
    saved(tmp_path / "m.onnx", operator, words, version)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    x[0] = 0
    if operator in TREES:
        x[draw.random(x.shape) < 0.1] = np.nan  # which go where a tree says
    wanted = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})
    folder = tmp_path / "out"
    folder.mkdir()
    build.export_file(parse(f"{tmp_path / 'm.onnx'}@N=batch"), tmp_path / "m.onnx", folder)
    ready = load("torch", Artifact.read(folder), Options())
    ready.prepare([x], np.zeros(1, np.int64), False)
    for actual, expected in zip(ready.get(ready.forward(*ready.put([x]))), wanted, strict=True):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-6)


NAMES = [f"{name}-{index}" for index, (name, *_) in enumerate(CASES_LEARNING)]


@pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
@pytest.mark.parametrize("version", [13, 18])
def test_a_body_of_features_computes_what_the_kernel_of_onnx_runtime_does(tmp_path, index, version):
    operator, inputs, words = CASES_LEARNING[index]
    wanted = saved_with(tmp_path, operator, inputs, {**words, "domain": contrib.LEARNING}, version)
    for actual, expected in zip(computed(tmp_path, inputs[0]), wanted, strict=True):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6 * float(np.nanmax(np.abs(expected))))


@pytest.mark.parametrize("kind", UNKNOWN_LEARNING)
def test_features_without_a_body_have_no_oracle(kind):
    operator, inputs, words = UNKNOWN_LEARNING[kind]
    names = [f"x{index}" for index, _ in enumerate(inputs)]
    outputs = ["label", "y"] if operator.endswith("Classifier") else ["y"]
    node = helper.make_node(operator, names, outputs, domain=contrib.LEARNING, **words)
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in zip(names, inputs, strict=True)
    ]
    y = onnx.ValueInfoProto(name="y")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(contrib.LEARNING, 3)]
    model = helper.make_model(helper.make_graph([node], "g", given, [y]), opset_imports=opsets, ir_version=8)
    contrib.define(model)
    assert not model.functions and model.graph.node[0].op_type == operator


def test_every_operator_has_a_case():
    known = {name for domain, name in contrib.OPERATORS if domain == contrib.LEARNING}
    assert known == {name for name, *_ in (*CASES, *CASES_LEARNING)}


def circle():
    words = regressor()
    at = next(i for i, mode in enumerate(words["nodes_modes"]) if mode == "LEAF")
    words["nodes_modes"][at] = "BRANCH_LEQ"  # both of whose sides are the root
    return words


def huge():
    return regressor() | {"n_targets": 2**40}


def mixed():
    words = regressor()
    words["nodes_modes"][0] = "BRANCH_GT"
    return words


@pytest.mark.parametrize(
    "words",
    [
        circle(),
        mixed(),
        regressor(aggregate_function="MIN"),
        regressor(nodes_values=[0.0]),
        regressor() | {"n_targets": 2**40},
    ],
)
def test_trees_without_a_body_have_no_oracle(tmp_path, words):
    saved(tmp_path / "m.onnx", "TreeEnsembleRegressor", words)
    model = onnx.load(tmp_path / "m.onnx")
    contrib.define(model)
    assert not model.functions and model.graph.node[0].op_type == "TreeEnsembleRegressor"


def test_a_forest_passes_on_runtimes_that_know_trees_and_that_do_not(shell):
    saved(shell.folder / "m.onnx", "TreeEnsembleClassifier", classifier("SOFTMAX"))
    runtimes = [word for name in ("torch", "onnxruntime", "openvino", "jax") for word in ("--runtime", name)]
    answer = shell.run("check", "m.onnx", "--shape", "N=batch", "--mode", "forward", *runtimes, "--json")
    verdicts = {row["runtime"]: (row["status"], row["message"]) for row in json.loads(answer.stdout)}
    assert {name: verdicts[name] for name in ("torch", "onnxruntime", "jax")} == dict.fromkeys(
        ("torch", "onnxruntime", "jax"), ("PASS", None)
    )
    assert verdicts["openvino"][0] in ("PASS", "UNSUPPORTED")  # it runs the file as it is
