"""Forms in which a decoder is published, as ONNX Runtime's tools write them: the right file passes, and one with a
wrong scale, zero point, rotary angle or block fails."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
import wrong_uses
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process

from xbench.converters import build
from xbench.converters.artifact import Artifact
from xbench.converters.source import parse
from xbench.parity import candidate, oracle, verdict

LENGTH, WORDS = 8, 40
ANGLES = (1.0, 0.3, 0.1, 0.03)  # of the decoder
NET = f"small_nets:decoder@ids:int64:batch,{LENGTH}"


class Samples(CalibrationDataReader):
    def __init__(self):
        draw = np.random.default_rng(0)
        self.left = [{"ids": draw.integers(0, WORDS, (4, LENGTH))} for _ in range(8)]

    def get_next(self):
        return self.left.pop() if self.left else None


def quantised(form):
    def write(plain, file):
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "reduce_range": True}
        wanted = {"op_types_to_quantize": ["MatMul", "Add", "Mul"], "extra_options": {"MatMulConstBOnly": True}}
        quantize_static(plain, file, Samples(), quant_format=form, **wanted, **kinds)

    return write


def int4(plain, file):
    quantizer = MatMulNBitsQuantizer(onnx.load(plain), block_size=16, is_symmetric=False)
    quantizer.process()
    onnx.save(quantizer.model.model, file)


FORMS = {
    "plain": lambda plain, file: onnx.save(onnx.load(plain), file),
    "qdq": quantised(QuantFormat.QDQ),
    "qlinear": quantised(QuantFormat.QOperator),
    "int4": int4,
}


@pytest.fixture(scope="module")
def judges(tmp_path_factory):
    """For each form a judge of what a runtime answers, and the right file."""
    folder = tmp_path_factory.mktemp("forms")
    (folder / "net").mkdir()
    build.export_module(parse(NET), folder / "net")
    plain = folder / "plain.onnx"
    quant_pre_process(Artifact.read(folder / "net").onnx, plain, skip_symbolic_shape=True)
    return {form: judge(write, plain, folder / form) for form, write in FORMS.items()}


def judge(write, plain, folder):
    folder.mkdir()
    file = folder / "file.onnx"
    write(plain, file)
    build.export_file(parse(str(file)), file, folder)
    artifact, paths = Artifact.read(folder), [folder / f"reference{seed}.npz" for seed in (0, 1)]
    for seed, path in enumerate(paths):
        oracle.write(artifact, path, "forward", [candidate.sample(artifact, 2, seed)])
    return wrong_uses.Judge(artifact, [verdict.read(path) for path in paths]), onnx.load(file)


def changed(model, name, change):
    """The file with another value of a stored array."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    (tensor,) = (each for each in made.graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor)), name))
    return made


def moves(judge, right, wrong):
    """Whether another file gives other numbers: a zero point that both ends share may change none."""
    inputs = {"ids": candidate.inputs_of(judge.references[0])[0]}
    one, other = (onnxruntime.InferenceSession(m.SerializeToString()).run(None, inputs)[0] for m in (right, wrong))
    return bool((one != other).any())


def larger(array):
    return (array * 1.25).astype(array.dtype)


def shifted(array):
    return (array.astype(int) + 9).clip(*np.iinfo(array.dtype).min + np.array([0, 255])).astype(array.dtype)


def turned(model, place):
    """One of the rotary angles a tenth larger, in both of its columns."""
    angles = np.arange(LENGTH)[:, None] * ANGLES[place] * 1.1

    def change(function):
        def put(table):
            table = table.copy()
            table[:, place :: len(ANGLES)] = function(angles)
            return table

        return put

    return changed(changed(model, "cos", change(np.cos)), "sin", change(np.sin))


def merged(array):
    """Two blocks in one: each second block takes the scale of the first."""
    rows = array.reshape(-1, 2).copy()
    rows[:, 1] = rows[:, 0]
    return rows.reshape(array.shape)


def plants(judges):
    """Words, the form, and the wrong file."""
    for form in ("qdq", "qlinear"):
        judge, model = judges[form]
        for end, change in (("_scale", larger), ("_zero_point", shifted)):
            names = [each.name for each in model.graph.initializer if each.name.endswith(end)]
            made = ((f"{form} {name}", form, changed(model, name, change)) for name in names[:: len(names) // 6])
            yield from itertools.islice((each for each in made if moves(judge, model, each[2])), 3)
    plain = judges["plain"][1]
    for place in range(4):
        yield f"angle {place}", "plain", turned(plain, place)
    coded = judges["int4"][1]
    scales = [name for node in coded.graph.node if node.op_type == "MatMulNBits" for name in node.input[2:3]]
    for name in scales[:4]:
        yield f"block {name}", "int4", changed(coded, name, merged)


def test_the_right_file_passes_in_every_form(judges):
    assert {form: judge.verdict(model) for form, (judge, model) in judges.items()} == dict.fromkeys(FORMS, "PASS")


def test_every_wrong_number_fails(judges):
    made = list(plants(judges))
    assert len(made) == 20
    assert [words for words, form, model in made if judges[form][0].verdict(model) != "FAIL"] == []
