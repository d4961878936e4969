"""Malicious and broken files: one line, no traceback, nothing read outside the model's folder, no hang."""

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import mutations
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from fault_kit import only_line
from onnx import TensorProto, helper, numpy_helper

from xbench.converters import build as bench_convert
from xbench.converters import cache, write
from xbench.converters.artifact import Artifact
from xbench.converters.frontends import validity
from xbench.converters.frontends.folding import fold
from xbench.converters.frontends.onnx_file import InvalidModel, canonical, read
from xbench.converters.source import parse
from xbench.errors import XBenchError
from xbench.runtimes import Options, load
from xbench.workers import prepare
from xbench.workers.worker import Worker

MUTATIONS = 2000
PROCESSES = 2
PATIENCE = 20.0  # seconds for one mutation; the slowest of 60,000 took 0.5
STAGE = "XBENCH_TEST_STAGE"


def value(name, shape=("batch", 4), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def node(operator, inputs="x", outputs="y", **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def constant(name, array, kind=np.int64):
    return numpy_helper.from_array(np.asarray(array, kind), name)


def model(nodes, initializers=(), inputs=None, outputs=None, opset=20, functions=(), imports=(), ir_version=10):
    graph = helper.make_graph(
        nodes, "g", inputs or [value("x")], outputs or [value("y", ("rows", "columns"))], initializers
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in imports)]
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=ir_version)


def valid_model():
    """A model in which nothing is wrong: y = relu(x) @ w + b."""
    nodes = [node("Relu", "x", "r"), node("MatMul", "r w", "m"), node("Add", "m b")]
    weights = [constant("w", np.ones((4, 3)), np.float32), constant("b", np.ones(3), np.float32)]
    return model(nodes, weights, outputs=[value("y", ("batch", 3))])


def branch(operator, inputs="x", name="b0"):
    return helper.make_graph([node(operator, inputs, name)], name, [], [value(name)])


def choice(graph, output, both=True):
    """An If on a condition that is given as an initializer."""
    return helper.make_node("If", ["c"], [output], then_branch=graph, **({"else_branch": graph} if both else {}))


def nested(depth, both):
    """An If in an If in an If ...; with two equal branches the file doubles with each level."""
    inner = branch("Identity")
    for level in range(1, depth + 1):
        inner = helper.make_graph([choice(inner, f"y{level}", both)], f"b{level}", [], [value(f"y{level}")])
    return model([*inner.node, node("Identity", f"y{depth}")], [constant("c", True, np.bool_)])


def function(name, nodes, inputs="x", outputs="y"):
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, inputs.split(), outputs.split(), nodes, imports)


def bomb(levels):
    """Functions that each call the next one twice: 2 ** levels nodes in a few lines."""
    functions = [function("f0", [node("Relu")])]
    for n in range(1, levels + 1):
        calls = [node(f"f{n - 1}", "x", "h", domain="own"), node(f"f{n - 1}", "h", "y", domain="own")]
        functions.append(function(f"f{n}", calls))
    return model([node(f"f{levels}", domain="own")], functions=functions, imports=["own"])


def selfish():
    functions = [function("f", [node("g", domain="own")]), function("g", [node("f", domain="own")])]
    return model([node("f", domain="own")], functions=functions, imports=["own"])


def raw(dims, size, kind=TensorProto.FLOAT):
    """A tensor that declares one size and has another."""
    return TensorProto(name="w", data_type=kind, dims=dims, raw_data=bytes(size))


def with_weight(tensor):
    return model([node("MatMul", "x w")], [tensor])


def edited(change):
    made = valid_model()
    change(made)
    return made


HOSTILE = {
    "no nodes": (lambda: model([]), "it has no nodes"),
    "a cycle": (lambda: model([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "a")]), "has a cycle"),
    "its own input": (lambda: model([node("Add", "x y")]), "has a cycle"),
    "a cycle through a branch": (
        lambda: model([choice(branch("Identity", "z"), "y"), node("Relu", "y", "z")], [constant("c", True, np.bool_)]),
        "has a cycle",
    ),
    "an undefined input": (lambda: model([node("Add", "x z")]), "Add reads 'z', which nothing in the graph gives"),
    "an undefined output": (lambda: model([node("Relu", "x", "z")]), "nothing computes the output 'y'"),
    "a result given twice": (lambda: model([node("Relu"), node("Neg")]), "'y' is given twice"),
    "two initializers of one name": (
        lambda: edited(lambda m: m.graph.initializer.append(m.graph.initializer[0])),
        "'w'",
    ),
    "two inputs of one name": (lambda: edited(lambda m: m.graph.input.append(m.graph.input[0])), "'x'"),
    "two outputs of one name": (lambda: edited(lambda m: m.graph.output.append(m.graph.output[0])), "'y'"),
    "a negative dimension": (lambda: with_weight(raw([-4, 3], 48)), "has the negative dimension -4"),
    "a huge dimension": (lambda: with_weight(raw([2**40, 3], 48)), "elements"),
    "dimensions that overflow": (lambda: with_weight(raw([2**32, 2**32], 0)), "elements"),
    "more shape than data": (lambda: with_weight(raw([4, 1 << 20], 48)), "48 bytes of data and the shape [4, 1048576]"),
    "less shape than data": (lambda: with_weight(raw([4, 3], 4800)), "4800 bytes of data"),
    "no data": (lambda: with_weight(raw([4, 3], 0)), "initializer 'w' has the shape [4, 3] and other data"),
    "an unknown element type": (lambda: with_weight(raw([4, 3], 48, kind=99)), "unknown element type 99"),
    "a huge input": (lambda: model([node("Relu")], inputs=[value("x", (2**20, 2**20))]), "'x' has 1099511627776"),
    "a negative input": (lambda: model([node("Relu")], inputs=[value("x", (-4, 4))]), "negative dimension -4"),
    "a huge result": (
        lambda: model([node("Expand", "w s")], [constant("w", [[1]], np.float32), constant("s", [2**30, 2**30])]),
        "elements",
    ),
    "an unknown domain": (
        lambda: model([node("Gelu", outputs="g", domain="evil"), node("Fuse", "g", domain="evil")], imports=["evil"]),
        "operators that ONNX does not define: evil.Fuse (1), evil.Gelu (1)",
    ),
    "an unknown operator": (lambda: model([node("Reluctant")]), "unknown operators: Reluctant (1)"),
    "an operator that came later": (lambda: model([node("Gelu")], opset=13), "unknown operators: Gelu (1)"),
    "an opset from the future": (lambda: model([node("Relu")], opset=99), f"is 99; onnx {onnx.__version__} knows 1 to"),
    "a format from the future": (lambda: model([node("Relu")], ir_version=99), "its IR version is 99"),
    "a domain imported twice": (lambda: model([node("Relu")], imports=["a", "a"]), "'a' is imported twice"),
    "deep subgraphs": (lambda: nested(validity.MAX_DEPTH + 1, both=False), "nested more than 16 deep"),
    "subgraphs as deep as protobuf goes": (lambda: nested(28, both=False), "nested more than 16 deep"),
    "a bomb of functions": (lambda: bomb(40), "more than 50000 nodes"),
    "functions that call each other": (selfish, "calls itself"),
    "a name with escapes": (
        lambda: model([node("Relu", "x", "\x1b[2Jz"), node("Relu", "x")]),
        "has control characters",
    ),
    "an operator that is a program": (
        lambda: model([node("__import__('os').abort() or Relu")]),
        "is not the name of an operator",
    ),
    "an attribute that is a program": (lambda: model([node("Relu", **{"a=1, b": 1})]), "an attribute of Relu"),
    "bytes that are no text": (lambda: model([node("Relu", mode=b"\xff\xfe")]), "no UTF-8"),
    "a constant with two values": (lambda: model([node("Constant", "", value_int=1, value_float=1.0)]), "2 values"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_one_line(tmp_path, kind):
    make, line = HOSTILE[kind]
    path = tmp_path / "model.onnx"
    path.write_bytes(make().SerializeToString())
    start = time.monotonic()
    with pytest.raises(InvalidModel) as error:
        canonical(read(path), tmp_path)
    assert line in str(error.value)
    assert str(error.value).isprintable()
    assert len(str(error.value)) <= 200
    assert time.monotonic() - start < 5


def test_whole_files_are_read(tmp_path):
    for index, made in enumerate(
        (valid_model(), nested(3, both=True), bomb(6), edited(lambda m: m.graph.node.reverse()))
    ):
        path = tmp_path / f"{index}.onnx"
        onnx.save(made, path)
        assert len(canonical(read(path), tmp_path).graph)


def test_nodes_out_of_order_are_sorted(tmp_path):
    onnx.save(edited(lambda m: m.graph.node.reverse()), tmp_path / "model.onnx")
    assert [each.op_type for each in read(tmp_path / "model.onnx").graph.node] == ["Relu", "MatMul", "Add"]


def test_a_bomb_in_the_wire_format_ends_early(tmp_path):
    """Types within types, deeper than any parser should follow."""
    body = b""
    for _ in range(20_000):
        body = b"\x22" + varint(len(body) + len(varint(len(body))) + 1) + b"\x0a" + varint(len(body)) + body
        if len(body) > 1 << 20:
            break
    (tmp_path / "model.onnx").write_bytes(b"\x3a" + varint(len(body)) + body)
    with pytest.raises(InvalidModel):
        read(tmp_path / "model.onnx")


def varint(number):
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


# ***** data outside the file *****


def outside(location, offset=0, length=None, dims=(256, 4)):
    """A model whose weight is in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    facts = {"location": location, "offset": str(offset), "length": length}
    for key, word in facts.items():
        if word is not None:
            tensor.external_data.add(key=key, value=str(word))
    return model([node("MatMul", "x w")], [tensor], inputs=[value("x", ("batch", dims[0]))])


@pytest.fixture
def opened(monkeypatch):
    """The names of files that are opened from now on, by Python's audit event."""
    names = []

    def hook(event, arguments):
        if event == "open" and names is not None:
            names.append(os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else arguments[0])

    sys.addaudithook(hook)
    yield names
    names = None


@pytest.fixture
def folder(tmp_path):
    """A model's folder, and files around it that it must not read."""
    inside = tmp_path / "inside"
    (inside / "deep").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(bytes(1 << 16))
    (inside / "link").symlink_to("../secret")
    (inside / "linked").symlink_to("..")
    (inside / "near").symlink_to("good")
    (inside / "good").write_bytes(np.arange(1024, dtype=np.float32).tobytes())
    (inside / "deep" / "good").write_bytes(bytes(4096))
    os.link(tmp_path / "secret", inside / "hard")
    os.mkfifo(inside / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(inside)
        listener.bind("socket")
    return inside


@pytest.mark.parametrize(
    ("location", "line"),
    [
        ("../secret", "outside the model's folder"),
        ("deep/../../secret", "outside the model's folder"),
        ("/etc/hostname", "outside the model's folder"),
        ("C:\\secret", "outside the model's folder"),
        ("..\\secret", "outside the model's folder"),
        ("", "outside the model's folder"),
        ("link", "reached through a link"),
        ("near", "reached through a link"),
        ("linked/secret", "reached through a link"),
        ("hard", "no file of its own"),
        ("pipe", "no file of its own"),
        ("socket", "no file of its own"),
        ("deep", "no file of its own"),
        ("missing", "is missing"),
        ("good\0", "has control characters"),
        ("a" * 5000, "is missing"),
    ],
)
@pytest.mark.parametrize("dims", [(256, 4), (4, 1)], ids=["large", "small"])
def test_data_outside_the_folder_is_refused_by_its_name(folder, opened, location, line, dims):
    (folder / "model.onnx").write_bytes(outside(location, dims=dims).SerializeToString())
    del opened[:]
    with pytest.raises(InvalidModel) as error:
        read(folder / "model.onnx")
    assert line in str(error.value)
    assert {str(name) for name in opened if isinstance(name, str)} <= {str(folder / "model.onnx")}


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"offset": 1}, "ends behind the end"),
        ({"offset": 2**62}, "ends behind the end"),
        ({"offset": -1}, "no number"),
        ({"offset": "1e9"}, "no number"),
        ({"length": 4000}, "has 4000 bytes; its shape [256, 4] needs 4096"),
        ({"length": 2**40}, "needs 4096"),
        ({"dims": (2**20, 4)}, "ends behind the end"),
    ],
)
def test_data_that_is_not_there_is_not_read(folder, facts, line):
    (folder / "model.onnx").write_bytes(outside("good", **facts).SerializeToString())
    with pytest.raises(InvalidModel, match=line.replace("[", r"\[")):
        read(folder / "model.onnx")


@pytest.mark.parametrize("location", ["good", "deep/good", "./good"])
def test_data_in_the_folder_is_read_and_not_before_it_is_used(folder, opened, location):
    (folder / "model.onnx").write_bytes(outside(location).SerializeToString())
    del opened[:]
    loaded = canonical(read(folder / "model.onnx"), folder)
    assert not [name for name in opened if str(name).endswith("good")]
    weight = loaded.graph.initializers["w"].const_value
    assert isinstance(weight, ir.ExternalTensor)
    expected = np.arange(1024, dtype=np.float32).reshape(256, 4) * (location != "deep/good")
    assert (weight.numpy() == expected).all()


def test_a_small_shape_outside_is_known_to_shape_inference(folder):
    (folder / "shape").write_bytes(np.array([2, -1], np.int64).tobytes())
    tensor = TensorProto(name="s", data_type=TensorProto.INT64, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="shape")
    onnx.save(model([node("Reshape", "x s")], [tensor], inputs=[value("x", (4, 3))]), folder / "model.onnx")
    assert canonical(read(folder / "model.onnx"), folder).graph.outputs[0].shape == [2, 6]


def test_other_data_outside_is_another_model(folder):
    (folder / "model.onnx").write_bytes(outside("good").SerializeToString())
    before = cache.artifact_folder(parse(str(folder / "model.onnx")))
    (folder / "good").write_bytes(bytes(4096))
    assert cache.artifact_folder(parse(str(folder / "model.onnx"))) != before


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino", "tvm", "null"])
def test_weights_too_large_for_protobuf_lie_beside_both_graphs(folder, tmp_path, monkeypatch, runtime):
    """As beyond 1 GiB, but with a limit of 0."""
    pytest.importorskip(runtime if runtime != "null" else "onnx")
    monkeypatch.setattr(write, "EXTERNAL", 0)
    (folder / "model.onnx").write_bytes(outside("good").SerializeToString())
    target = tmp_path / "artifact"
    target.mkdir()
    bench_convert.export_file(parse(str(folder / "model.onnx")), folder / "model.onnx", target)
    assert (target / "weights.bin").stat().st_size == 4096
    assert max((target / each).stat().st_size for each in ("model.onnx", "inference.onnx")) < 2000
    ready = load(runtime, Artifact.read(target), Options("forward", "cpu", 1))
    x = np.linspace(-1, 1, 512, dtype=np.float32).reshape(2, 256)
    ready.prepare([x], np.zeros(2), dropout=False)
    (output,) = ready.get(ready.forward(*ready.put([x])))
    assert np.allclose(output, x @ np.arange(1024, dtype=np.float32).reshape(256, 4), rtol=1e-4, atol=1e-2)


class Asleep(Worker):
    """A worker that never answers."""

    def __init__(self, log, **settings):
        super().__init__(log, **settings)
        self.pause()


def test_a_file_that_takes_for_ever_is_one_line(folder, exporter, monkeypatch):
    monkeypatch.setattr(prepare, "FILE_TIMEOUT", 0.0)
    monkeypatch.setattr(prepare, "Worker", Asleep)
    exporter.close()  # the next one is asleep
    (folder / "model.onnx").write_bytes(outside("good", dims=(128, 8)).SerializeToString())
    with pytest.raises(XBenchError, match=r"^cannot read .*model.onnx: no answer to export within 0 s$"):
        exporter.artifact(str(folder / "model.onnx"))


# ***** bombs hidden in a graph *****


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Expand", "one shape")],
        [node("Tile", "one shape")],
        [node("ConstantOfShape", "shape")],
        [node("Range", "zero end one")],
        [node("Pad", "one pads")],
        [node("OneHot", "one end values")],
        [node("Resize", "image   sizes")],
        [node("Einsum", "many many many", equation="a,b,c->")],
        [node("RegexFullMatch", "words", pattern="(a+)+b")],
    ],
    ids=lambda nodes: nodes[0].op_type,
)
def test_no_constant_is_computed_that_is_huge_or_slow(nodes):
    shapes = {"shape": [2**17, 2**17], "end": 2**34, "zero": 0, "one": [[1]], "pads": [0, 0, 2**17, 2**17]}
    made = {"values": [0, 1], "sizes": [1, 1, 2**17, 2**17], **shapes}
    constants = [node("Constant", "", name, value=constant("", array)) for name, array in made.items()]
    constants += [
        node("Constant", "", "image", value=constant("", np.ones((1, 1, 2, 2)), np.float32)),
        node("Constant", "", "many", value=constant("", np.ones(8000), np.float32)),
        node("Constant", "", "words", value=helper.make_tensor("", TensorProto.STRING, [1], [b"a" * 40])),
    ]
    folded = ir.from_proto(model([*constants, *nodes, node("Relu", "x", "z")]))
    start = time.monotonic()
    fold(folded)
    assert nodes[0].op_type in [each.op_type for each in folded.graph]
    assert time.monotonic() - start < 5


# ***** from the command line *****


@pytest.fixture
def line_of(shell):
    """The one line that `xbench convert` prints for a file."""

    def line(path):
        answer = shell.run("convert", path, "--to", "null")
        assert answer.returncode == 2, answer.stdout + answer.stderr
        assert answer.stdout == ""
        refusal = only_line(answer.stderr)
        assert refusal.isprintable()
        return refusal

    return line


@pytest.mark.parametrize("kind", ["a cycle", "a bomb of functions", "a name with escapes", "an opset from the future"])
def test_the_command_line_says_one_line(shell, line_of, kind):
    make, line = HOSTILE[kind]
    (shell.folder / "hostile.onnx").write_bytes(make().SerializeToString())
    message = line_of("hostile.onnx")
    assert message.startswith("xbench: hostile.onnx is not a valid ONNX file: ")
    assert line in message
    assert not [*Path(os.environ["XBENCH_CACHE"]).glob("models/*hostile-*")]


def test_the_command_line_reads_nothing_outside(shell, folder, line_of):
    (folder / "model.onnx").write_bytes(outside("link").SerializeToString())
    assert "reached through a link" in line_of(folder / "model.onnx")


@pytest.mark.parametrize("name", ["pipe", "socket"])
def test_what_is_no_file_is_not_waited_for(folder, line_of, name):
    assert "is no regular file" in line_of(folder / name)


def test_a_crash_in_the_library_is_one_line(shell, line_of):
    """A Conv that is larger than its input gives a negative size, on which ONNX's Slice aborts (onnx/onnx#8481)."""
    nodes = [node("Conv", "x w", "c"), node("Slice", "c s e a")]
    weights = [
        constant("w", np.ones((1, 1, 7)), np.float32),
        constant("s", [0]),
        constant("e", [1]),
        constant("a", [2]),
    ]
    onnx.save(model(nodes, weights, [value("x", (1, 1, 4))], [value("y", "nab")]), shell.folder / "crash.onnx")
    assert "cannot read crash.onnx" in line_of("crash.onnx")


def test_a_bomb_of_shapes_is_one_line(shell, line_of):
    """Shape inference computes shapes: one that doubles 40 times does not fit, and is stopped before."""
    nodes = [node("Shape", "x", "s0"), *(node("Concat", f"s{n} s{n}", f"s{n + 1}", axis=0) for n in range(40))]
    onnx.save(model([*nodes, node("Reshape", "x s40")]), shell.folder / "shapes.onnx")
    assert "cannot read shapes.onnx: out of memory" in line_of("shapes.onnx")


def test_the_program_in_an_operators_name_is_not_run(shell, line_of):
    evil = choice(branch("open('ran', 'w') and Relu"), "y")
    onnx.save(model([evil], [constant("c", True, np.bool_)]), shell.folder / "model.onnx")
    assert "is not the name of an operator" in line_of("model.onnx")
    assert not (shell.folder / "ran").exists()


# ***** mutations *****


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory, lenet):
    """Real files: a network of the zoo, the one in the `magika` package, and ONNX's own examples of its operators."""
    import warnings
    from importlib.resources import files

    from onnx.backend.test.loader import load_model_tests

    place = tmp_path_factory.mktemp("whole")
    (place / "lenet.onnx").write_bytes((lenet.folder / "model.onnx").read_bytes())
    (place / "magika.onnx").write_bytes((files("magika") / "models/standard_v3_3/model.onnx").read_bytes())
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        known = {test.name.removeprefix("test_"): test.model for test in load_model_tests(kind="node")}
    for name in EXAMPLES.split():
        onnx.save(known[name], place / f"{name}.onnx")
    return place


EXAMPLES = """
    affine_grid_2d attention_4d_expanded averagepool_3d_dilations_small basic_conv_with_padding
    batchnorm_epsilon_training_mode center_crop_pad_crop constantofshape_int_zeros convtranspose_pads dft
    einsum_batch_diagonal expand_dim_changed gather_elements_0 gridsample if
    layer_normalization_4d_axis1_expanded_ver18 loop11 loop13_seq lstm_with_peepholes maxpool_2d_ceil
    nllloss_NCd1d2d3_none_no_weight_negative_ii_expanded onehot_with_axis range_int32_type_negative_delta_expanded
    reflect_pad reshape_extended_dims resize_upsample_sizes_cubic roialign_aligned_true scan9_sum
    sce_mean_weight_expanded slice_negative_axes split_variable_parts_2d_opset18 stft string_split_basic top_k
"""


KNOWN_ANSWERS = ("read", "InvalidModel", "NoOracle", "UnsupportedOps")


def answers(folder, first):
    """The outcome of every PROCESSES-th mutation; a process that hangs is killed."""
    words = [folder, first, MUTATIONS, PROCESSES]
    command = [sys.executable, "-P", mutations.__file__, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_thousand_mutations_are_read_or_refused(whole_files):
    running = {process.stdout: process for process in (answers(whole_files, n) for n in range(PROCESSES))}
    rows, begun = [], {}
    try:
        while running:
            ready, _, _ = select.select(list(running), [], [], PATIENCE)
            assert ready, f"these take longer than {PATIENCE} s: {list(begun.values())}"
            for stream in ready:
                line = stream.readline()
                if line:
                    begun[stream] = json.loads(line)
                    rows += [begun[stream]] if "answer" in begun[stream] else []
                else:
                    process = running.pop(stream)
                    assert process.wait() == 0, f"{begun[stream]}: {process.stderr.read()[-500:]}"
    finally:
        for process in running.values():
            process.kill()
    assert len(rows) == MUTATIONS
    bad = [row for row in rows if row["answer"].partition(":")[0] not in KNOWN_ANSWERS]
    assert not bad
    assert all(row["answer"].isprintable() for row in rows)
    read_anyway = sum(row["answer"] == "read" for row in rows)
    assert MUTATIONS // 10 < read_anyway < MUTATIONS  # if all mutations were refused at once, little would be tested


def test_an_operator_that_the_version_converter_breaks_is_refused():
    from onnx.backend.test.loader import load_model_tests

    model = next(test.model for test in load_model_tests(kind="node") if test.name == "test_scan_sum")
    with pytest.raises(InvalidModel, match="Scan of opset 8"):
        canonical(model)
