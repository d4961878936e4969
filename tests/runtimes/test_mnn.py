"""MNN as a runtime: what it computes otherwise, and what ends it (docs/found.md)."""

import json

import onnx
import pytest
from fault_kit import refused

pytest.importorskip("MNN", exc_type=ImportError)
OPSET = '<ir_version: 9, opset_import: ["": 20]> '
GELU = (
    "g (float[batch, 640] x) => (float[batch, 640] y) <float[1] four = {4.0}>"
    '{ z = Mul(x, four) y = Gelu <approximate = "%s"> (z) }'
)
POOLED = "g (float[batch, 1, 4, 4] x) => (float[batch, 1, 3, 3] y) { y = LpPool <kernel_shape = [2, 2]> (x) }"


def checked(shell, *words):
    """The row of a check, in this process."""
    answer = shell.inside("check", *words, "--mode", "forward", "--json")
    assert answer.stdout, answer.stderr
    return json.loads(answer.stdout)[0]


def of(shell, text):
    onnx.save(onnx.parser.parse_model(OPSET + text), shell.folder / "file.onnx")
    return checked(shell, "file.onnx", "--runtime", "mnn")


def test_its_large_winograd_tiles_lose_bits_and_small_ones_do_not(shell, lenet):
    row = checked(shell, "lenet", "--runtime", "mnn")
    assert (row["status"], row["first_wrong"]) == ("FAIL", "conv2d_1")
    assert checked(shell, "lenet", "--runtime", "mnn:winograd=0")["status"] == "PASS"


def test_a_wrong_value_of_an_option_is_one_line(shell):
    line = refused(shell, "check", "lenet", "--runtime", "mnn:winograd=9")
    assert line == "xbench: mnn:winograd=9: write winograd=0 or winograd=1 or winograd=2 or winograd=3"


@pytest.mark.parametrize("kind", ["none", "tanh"])
def test_its_gelu_is_neither(kind, shell):
    row = of(shell, GELU % kind)
    assert row["status"] == "FAIL" and row["first_wrong"] == "y"


@pytest.mark.parametrize("operator", ["GRU", "LSTM"])
def test_its_recurrent_operators_give_the_first_output_for_the_last_state_alone(operator, shell):
    """If the file leaves out the first output."""
    gates = {"GRU": 12, "LSTM": 16}[operator]
    text = f"""g (float[batch, 5, 3] x) => (float[1, batch, 4] h) <float[1] low = {{-0.3}}, float[1] high = {{0.3}}> {{
        t = Transpose <perm = [1, 0, 2]> (x)
        ws = Constant <value_ints = [1, {gates}, 3]> ()
        rs = Constant <value_ints = [1, {gates}, 4]> ()
        w = Expand(high, ws)
        r = Expand(low, rs)
        all, h = {operator} <hidden_size = 4> (t, w, r)
    }}"""
    assert of(shell, text)["status"] == "PASS"
    row = of(shell, text.replace("all, h", ", h"))
    assert row["status"] == "FAIL" and "of another shape" in row["message"]


def test_a_pooling_that_it_converts_ends_its_process(shell):
    row = of(shell, POOLED)
    assert row["status"] == "CRASH" and "SIGFPE" in row["message"]
