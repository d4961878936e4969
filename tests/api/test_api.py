"""The Python functions return what the commands print, and show it as a table that no text can break."""

import copy
import importlib
import inspect
import json
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from torch import nn

import xbench
from xbench.host import machine
from xbench.records import Records, checked, timed

CELL = ("lenet", "--runtime", "onnxruntime", "--mode", "forward", "--threads", "1")
OPTIONS = {"runtimes": ["onnxruntime"], "modes": ["forward"], "threads": 1}


def rows_of(shell, *words):
    answer = shell.run(*words, "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_importing_it_imports_nothing_else():
    code = "import sys; before = set(sys.modules); import xbench; print(sorted(set(sys.modules) - before))"
    answer = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "['xbench']"


def test_too_many_threads_are_a_warning_about_the_line_that_asks_for_them(lenet):
    many = OPTIONS | {"threads": machine.cpus() + 1}
    with pytest.warns(UserWarning, match="will be slow and noisy") as caught:
        xbench.check("lenet", **many)
    with pytest.warns(UserWarning, match="will be slow and noisy") as again, pytest.raises(xbench.XBenchError):
        xbench.evaluate("lenet", samples="no.npz", runtimes=["onnxruntime"], threads=many["threads"])
    lines = [each.filename for each in (*caught, *again) if "slow and noisy" in str(each.message)]
    assert lines == [__file__, __file__]


@pytest.mark.parametrize("name", ["check", "time", "convert", "quality.evaluate"])
def test_a_command_has_the_parameters_of_its_function(name):
    """With the same defaults, except for a few."""
    place, name = importlib.import_module(f"xbench.cli.{name}"), name.rpartition(".")[2]
    function, command = getattr(xbench, name), getattr(place, name)
    mine, typed = (inspect.signature(each).parameters for each in (function, command))
    assert [each for each in mine if each != "progress"] == [each for each in typed if each in mine]
    assert {each for each in typed if each not in mine} <= {"out", "rerun", "as_json", "format_"}
    assert {each for each in mine if each in typed and mine[each].default != typed[each].default} <= {"out"}
    assert all(hasattr(each.annotation, "__metadata__") for each in typed.values()), "an option without its words"


def test_all_that_is_promised_is_there_and_documented():
    from xbench import testing

    for name in xbench.__all__:
        assert getattr(xbench, name).__doc__, name
        assert name in dir(xbench)
    assert "Raises:" in testing.assert_same_network.__doc__
    with pytest.raises(AttributeError, match="has no attribute 'chekc'"):
        xbench.chekc  # noqa: B018


def test_check_returns_what_the_command_prints(shell, lenet):
    lines = []
    records = xbench.check("lenet", **OPTIONS, progress=lines.append)
    assert list(records) == rows_of(shell, "check", *CELL)
    assert len(lines) == 1 and lines[0].startswith("lenet onnxruntime forward: PASS")


def test_time_returns_what_the_command_prints_and_read_finds_it(shell, lenet, tmp_path):
    """The command reads the stored cell, so its rows are equal to the last digit."""
    out = tmp_path / "results"
    records = xbench.time(["lenet"], **OPTIONS, budget=0.05, out=out)
    assert [row["status"] for row in records] == ["PASS"] and records[0]["median_s"] > 0
    assert list(records) == list(xbench.read(out)) == rows_of(shell, "time", *CELL, "--out", out)


def test_evaluate_returns_what_the_command_prints(shell, lenet, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(9, 1, 28, 28)).astype(np.float32))
    np.save(tmp_path / "y.npy", np.arange(9))
    files, out = {"samples": tmp_path / "x.npz", "labels": tmp_path / "y.npy"}, tmp_path / "results"
    options = {"runtimes": ["onnxruntime"], "threads": 1, "precisions": ["fp32"], "max_drop": 0.5}
    lines = []
    records = xbench.evaluate("lenet", **files, **options, out=out, progress=lines.append)
    (record,) = records
    found = record["evaluation"]
    assert (record["status"], found["samples"], found["changed"], found["accepted"]) == ("PASS", 9, 0, 0.5)
    assert lines == [f"lenet onnxruntime: PASS, top1 {found['value']:.6g}"]
    words = ("--inputs", files["samples"], "--labels", files["labels"], "--max-drop", "0.5", "--threads", 1)
    assert list(records) == rows_of(shell, "evaluate", "lenet", "--runtime", "onnxruntime", *words, "--out", out)
    title, header, line = str(records).splitlines()
    assert title == f"lenet, top1 on 9 samples of {files['samples']}"
    assert header.split()[:6] == ["runtime", "status", "error", "/", "noise", "top1"]
    assert line.split()[:2] == ["onnxruntime", "PASS"] and line.count(f"{found['value']:.2%}") == 2


def test_convert_returns_what_the_command_prints(shell, lenet, tmp_path):
    records = xbench.convert("lenet", runtimes=["onnxruntime"])
    assert list(records) == rows_of(shell, "convert", "lenet", "--runtime", "onnxruntime")
    assert records[0]["status"] == "CONVERTED" and "lenet" in str(records)
    written = xbench.convert("lenet", to=["onnxruntime"], output=tmp_path)
    assert any(name.endswith(".onnx") for name in written[0]["files"])


def test_a_cell_that_fails_is_a_row_and_raises_nothing(faults, lenet):
    (row,) = xbench.check("lenet", runtimes=["fault_raises"], modes=["forward"])
    assert row["status"] == "CRASH" and "the kernel is missing" in row["message"]


def test_a_module_is_timed_as_it_is_and_not_stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    network = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    records = xbench.time(network, inputs=torch.rand(3, 6), **OPTIONS, budget=0.05)
    assert [(row["model"], row["batch"], row["status"]) for row in records] == [("Sequential", 3, "PASS")]
    assert records[0]["median_s"] > 0 and not list(tmp_path.iterdir())


ONES = np.ones((2, 6), np.float32)


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda: xbench.check("lenett"), "unknown model 'lenett': did you mean lenet?"),
        (lambda: xbench.check("lenet", runtimes=["onxruntime"]), "unknown runtime 'onxruntime': did you mean"),
        (lambda: xbench.check("lenet", runtimes="onnxruntime", modes=["forwards"]), "unknown mode 'forwards'"),
        (lambda: xbench.check(3), "models must be a word or a list of words, not 3"),
        (lambda: xbench.check("lenet", batch=0), "batch must be at least 1, not 0"),
        (lambda: xbench.check("lenet", threads=0), "--threads must be at least 1"),
        (lambda: xbench.check(nn.ReLU()), "a module needs inputs"),
        (lambda: xbench.check(nn.ReLU(), inputs=[ONES], weights="w.pt"), "weights are for module:factory"),
        (lambda: xbench.check("lenet", weights="w.pt"), "--weights is for modules"),
        (lambda: xbench.check("lenet", precision="bf16", explain=True), "--explain needs --precision fp32"),
        (lambda: xbench.time("lenet", plane="moon"), "--plane must be one of resident, host, device, not 'moon'"),
        (lambda: xbench.time("lenet", batches=[2.5]), "--batch must be a whole number of at least 1, not 2.5"),
        (lambda: xbench.time("lenet", budget=float("inf")), "budget must be finite"),
        (lambda: xbench.check("lenet", timeout=float("inf")), "timeout must be finite"),
        (lambda: xbench.time("lenet", budget=float("nan")), "budget must be at least 0.01, not nan"),
        (lambda: xbench.convert(nn.ReLU()), "convert takes words"),
        (lambda: xbench.evaluate(nn.ReLU(), samples="x.npz"), "evaluate takes a word"),
        (lambda: xbench.evaluate(["lenet"], samples="x.npz"), "model must be a word, not list"),
        (lambda: xbench.evaluate("lenet", samples=ONES), "samples must be a word, not ndarray"),
        (lambda: xbench.evaluate("lenet", samples="no.npz", metric=len), "metric must be a word, not builtin_function"),
        (lambda: xbench.evaluate("lenet", samples="no.npz", limit=2.5), "limit must be a whole number of at least 1"),
        (lambda: xbench.evaluate("lenet", samples="no.npz", batch=0), "batch must be a whole number of at least 1"),
        (lambda: xbench.evaluate("lenet", samples="no.npz", max_drop=-1), "--max-drop must be a number of at least 0"),
        (lambda: xbench.evaluate("lenet", samples="no.npz", timeout=float("inf")), "timeout must be finite"),
        (lambda: xbench.evaluate("lenet", samples="no.npz", precisions="fp17"), "unknown precision 'fp17'"),
        (lambda: xbench.evaluate("lenet", samples="no.npz", runtimes="onnxruntime"), "no file or folder no.npz"),
        (lambda: xbench.convert("no/such.onnx"), "no such file: no/such.onnx"),
        (lambda: xbench.read("no/such/folder"), "no results in no/such/folder"),
    ],
)
def test_bad_input_is_the_sentence_of_the_command(ask, line):
    with pytest.raises(xbench.XBenchError) as raised:
        ask()
    assert line in str(raised.value) and "\n" not in str(raised.value)


# ***** tables *****


class Reader(HTMLParser):
    """The tags and texts of a page, as a browser would take them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append(data)


def row(**more):
    plain = {"model": "net", "runtime": "onnxruntime", "mode": "forward", "status": "PASS", "class": "fp32"}
    rest = {"ratio": 1.25, "worst_tensor": "output/y", "first_wrong": None, "steps": 0, "certificate": None}
    return plain | rest | {"message": None} | more


def test_a_table_in_a_notebook_is_escaped_and_can_be_read_aloud():
    evil = "<script>alert(1)</script>&\"'"
    records = checked([row(model=evil), row(status="FAIL", first_wrong=f"relu{evil}", message=evil)])
    page = Reader(records._repr_html_())
    tags = [tag for tag, _ in page.tags]
    assert "script" not in tags and not page.open
    assert page.texts.count(evil) == 2 and f"relu{evil}" in page.texts
    assert {"PASS", "FAIL", "the same network?", "first wrong tensor"} <= set(page.texts), "the status is a word"
    scopes = [attributes["scope"] for tag, attributes in page.tags if tag == "th"]
    assert scopes.count("row") == 2 and scopes.count("col") == len(scopes) - 2 > 5
    assert tags.count("caption") == 1
    assert "parameters" not in page.texts, "a column that is empty everywhere is left out"
    assert records._repr_mimebundle_() == {"text/plain": str(records), "text/html": records._repr_html_()}


def test_a_table_in_a_terminal_is_one_line_a_row():
    records = checked([row(message="two\nlines\x1b[2J")])
    assert len(str(records).splitlines()) == 3 and "\x1b" not in str(records)
    assert str(records).splitlines()[1].split()[:3] == ["model", "runtime", "mode"]


def test_no_rows_are_a_table_too():
    assert str(checked([])) == "the same network?: none"
    assert Reader(checked([])._repr_html_()).texts == ["the same network?: none"]


def test_records_are_plain_data():
    records = checked([row()])
    assert isinstance(records, Records) and isinstance(records, list) and json.loads(json.dumps(records)) == [row()]
    assert repr(records) == repr([row()])
    assert copy.deepcopy(records).table() == records.table()


def test_a_time_stands_beside_pass_alone():
    from test_reports import record

    from xbench.reports import rows

    passed, failed = record("onnxruntime"), record("jax", status="FAIL")
    table = str(timed(rows([passed, failed])))
    assert sum("ms" in line or "µs" in line for line in table.splitlines()) == 1
