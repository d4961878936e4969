"""A sweep over shapes from the command line: every shape is proved and timed, and shown side by side."""

import json

import pytest
from fault_kit import records, refused, write_two_outputs

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 3)

    def forward(self, x):
        return self.last(torch.relu(self.wide(x)).mean(1))
"""
WORD = ("net.py:Net", "--input", "x:float32:batch,time,8")
QUICK = ("--mode", "forward", "--budget", "0.1")


@pytest.fixture
def net(shell):
    (shell.folder / "net.py").write_text(NET)
    return shell


def size_of(record):
    return record["case"]["model"].rpartition("=")[2]


def test_a_recompiling_runtime_shows_it_in_the_first_call_and_a_wrong_length_fails(net):
    (net.folder / "lengths.csv").write_text("time, weight\n4, 3\n12, 1\n20, 6\n")
    runtimes = ("onnxruntime", "fault_recompiles", "fault_wrong_at_twelve")
    words = [word for runtime in runtimes for word in ("--runtime", runtime)]
    answer = net.run("time", *WORD, "--shapes", "lengths.csv", *words, *QUICK, "--out", "out")
    stored = {(record["case"]["runtime"], size_of(record)): record for record in records(net.folder / "out")}
    assert answer.returncode == 1 and len(stored) == 9, answer.stderr
    for (runtime, size), record in stored.items():
        wrong = (runtime, size) == ("fault_wrong_at_twelve", "12")
        assert record["status"] == ("FAIL" if wrong else "PASS"), record["message"]
        if not wrong:
            assert (record["times"]["first_s"] >= 2) == (runtime == "fault_recompiles")
            assert record["times"]["median_s"] < 1
    table, _, weighted = answer.stdout.partition("all shapes by their weights")
    header, *lines = [line.split() for line in table.splitlines()[1:5]]
    assert header[0] == "time" and [line[0] for line in lines] == ["4", "12", "20"]
    assert "FAIL" in lines[1] and "FAIL" not in lines[0] + lines[2]
    assert "(at time 12)" in table and "fault_wrong_at_twelve has no time at 12" in weighted
    means = [line.split()[0] for line in weighted.splitlines()[2:4]]
    assert sorted(means) == ["fault_recompiles", "onnxruntime"]
    picture = net.folder / "out" / "net_time_forward_1.png"
    assert picture.read_bytes().startswith(b"\x89PNG"), answer.stderr
    drawn = picture.read_bytes()
    words = (*WORD, "--shape", "time=4,20", "--runtime", "onnxruntime", *QUICK, "--plane", "host", "--out", "out")
    assert net.run("time", *words).returncode == 0
    assert (net.folder / "out" / "net_time_forward_1_host.png").exists() and picture.read_bytes() == drawn
    again = net.run("time", *WORD, "--shape", "time=20", "--runtime", "onnxruntime", *QUICK, "--out", "out")
    assert "measured before" in again.stderr


def test_every_size_is_checked(net):
    answer = net.run("check", *WORD, "--shape", "time=4,12", "--runtime", "fault_wrong_at_twelve", *QUICK[:2], "--json")
    rows = {row["model"].rpartition("=")[2]: row["status"] for row in json.loads(answer.stdout)}
    assert rows == {"4": "PASS", "12": "FAIL"}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "write a line of names, such as seq,weight, and under it a line a shape"),
        ("weight\n1\n", "write a line of names"),
        ("time\n", "write a line of names"),
        ("time,time\n1,2\n", "it has the name time twice"),
        ("time\n4,5\n", "shape 1: 2 numbers under 1 names"),
        ("time\n4\n-1\n", "shape 2: time must be a positive whole number, not '-1'"),
        ("time,weight\n4,0\n", "shape 1: weight must be a positive number, not '0'"),
        ("time,weight\n4,nan\n", "shape 1: weight must be a positive number, not 'nan'"),
        ("width\n4\n", "unknown axis 'width'"),
        ("time\n" + "\n".join(map(str, range(1, 1100))), "1099 shapes are too many: 1000 at most"),
        (b"\xff\xfe", "shapes.csv"),
        (None, "No such file"),
    ],
)
def test_a_file_of_shapes_that_cannot_be_read_is_one_line(net, content, line):
    if content is not None:
        (net.folder / "shapes.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert line in refused(net, "time", *WORD, "--shapes", "shapes.csv", "--runtime", "onnxruntime")


def test_sizes_of_an_axis_that_is_not_there_are_refused_once(shell):
    write_two_outputs(shell.folder / "m.onnx")
    line = refused(shell, "check", "m.onnx", "--shape", "length=4,5,6", "--runtime", "onnxruntime")
    assert line == "xbench: m.onnx has no axis or input 'length' of that rank; it has batch, x"


@pytest.mark.parametrize("words", [("time",), ("time", "lenet"), ("check", "all"), ("phases", "lenet")])
def test_networks_of_the_zoo_have_no_other_shapes(shell, words):
    line = refused(shell, *words, "--shape", "length=4", "--runtime", "onnxruntime")
    assert "has shapes of its own: --shape is for files with dynamic axes, and for modules" in line


def test_a_command_of_one_network_takes_one_shape(net):
    line = "load takes one network at a time, of one shape"
    assert line in refused(net, "load", *WORD, "--shape", "time=4,5", "--runtime", "onnxruntime")
