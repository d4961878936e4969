"""Rows of other distributions are checked in one place: an invalid row, or one with fields reserved for xbench, is
rejected alone, and nothing in a row exempts a runtime from its audit."""

import json
import os
import subprocess
import sys

import pytest
from fault_kit import Shell, records

from xbench import runtimes
from xbench.proof import conformance
from xbench.runtimes import RUNTIMES, UNCLOCKED, Row, _plugins

ODD = """
import sys
import time
import numpy as np
from xbench.runtimes import Layer, Lower, Row, onnxruntime
from xbench.runtimes.support.row import EngineRow

def row(entry="xbench.runtimes.onnxruntime:make", packages=("onnx",), **more):
    return Row(entry, packages, "odd", **more)

class Raising:
    def __getattr__(self, name):
        raise SystemExit(name)

class Sub(Row):
    @property
    def events(self):
        return ("cpu",)

number, a_class, raising, text, nothing = 5, Row, Raising(), "torch", None
sub = object.__new__(Sub)
empty = object.__new__(Row)
torch = row()
packages = row(packages=None)
packages_list = row(packages=["onnx"])
entry = row(entry="nocolon")
entry_number = row(entry=3)
lower = row(lower=["bf16"])
lower_word = row(lower={"bf16": "autocast"})
lower_name = row(lower={"fp32": Lower("x")})
effort = row(effort={"max": "abc"})
options = row(options={"level": "abc"})
options_list = row(options=["level"])
layouts = row(layouts="nchw")
layouts_unknown = row(layouts=("nchw", "whcn"))
autodiff = row(autodiff="yes")
note = row(note="a\\x1b[2J")
hidden = row(hidden="no")
on_request = row(on_request=("dance",))
operators = row(operators="mine")
engine = row(engine=EngineRow("a:b", "ssh", "by hand"))
scripts, scripts_path = row(scripts=3), row(scripts="../run.py")
events, ours, environment = row(events=("cpu",)), row(ours=("torch",)), row(environment="mxnet")
without, without_path = row(without="torch"), row(without=("torch.nn",))
preload = row(preload=("torch", "xbench.runtimes.torch"))
copies = row(copies=True)
good = row(named=True)
doubled = row(named=True)

class Early(onnxruntime.Inference):
    '''Computes while inputs are put on the device.'''
    def put(self, arrays):
        time.sleep(0.01)
        return (super().forward(*super().put(arrays)),)
    def forward(self, *inputs):
        return inputs[0]

class OwnClock(onnxruntime.Inference):
    remote = True
    def clock(self):
        OwnClock.seconds = getattr(OwnClock, "seconds", 0.0) + 1e-9
        return OwnClock.seconds
    def by_events(self, step):
        step()
        return 1e-9
    def forward(self, *inputs):
        time.sleep(0.003)
        return super().forward(*inputs)

class Renamed(onnxruntime.Inference):
    def versions(self):
        return {"onnx": "99", "own": "1"}

class Bare:
    def __init__(self, artifact, options):
        pass

def no_trainer(artifact, options):
    return onnxruntime.Inference(artifact, options)

early = row("xbench_odd:Early", named=True, hidden=True, on_request=("forward",))
own_clock = row("xbench_odd:OwnClock", named=True)
renamed = row("xbench_odd:Renamed", named=True)
bare = row("xbench_odd:Bare", named=True)
no_module = row("nowhere:Made", named=True)
untrained = row("xbench_odd:no_trainer", autodiff="native", named=True)
claims = row("xbench_odd:Bare", operators="torch", named=True)
print("{}")  # as some modules do
"""
PLAIN = 'from xbench.runtimes import Row\ngood = Row("a:b", ("onnx",), "odd")\n'
REFUSED = {
    "number": "it is a int, not a Row",
    "a_class": "it is a type, not a Row",
    "raising": "it is a Raising, not a Row",
    "text": "it is a str, not a Row",
    "nothing": "it is a NoneType, not a Row",
    "sub": "it is a Sub, not a Row",
    "empty": "its `entry` is None",
    "torch": "xbench has a runtime of this name",
    "packages": "its `packages` is None",
    "packages_list": "its `packages` is ['onnx']",
    "entry": "its `entry` is 'nocolon'",
    "entry_number": "its `entry` is 3",
    "lower": "its `lower` is ['bf16']",
    "lower_word": "its `lower` is",
    "lower_name": "its `lower` is",
    "effort": "its `effort` is",
    "options": "its `options` is",
    "options_list": "its `options` is ['level']",
    "layouts": "its `layouts` is 'nchw'",
    "layouts_unknown": "its `layouts` is",
    "autodiff": "its `autodiff` is 'yes'",
    "note": "its `note` is",
    "hidden": "its `hidden` is 'no'",
    "on_request": "its `on_request` is",
    "operators": "its `operators` is 'mine'",
    "engine": "its `engine` is",
    "scripts": "its `scripts` is 3",
    "without": "its `without` is 'torch'",
    "without_path": "its `without` is ('torch.nn',)",
    "scripts_path": "its `scripts` is '../run.py'",
    "events": "`events` is for runtimes of xbench alone",
    "ours": "`ours` is for runtimes of xbench alone",
    "preload": "`preload` is for runtimes of xbench alone",
    "copies": "`copies` is for runtimes of xbench alone",
    "environment": "`environment` is for runtimes of xbench alone",
    "missing": "has no attribute 'missing'",
    "a\x1b[2Jb": "a name has letters",
    "a b": "a name has letters",
    "\u202ename": "a name has letters",
}
TAKEN = ("good", "early", "own_clock", "renamed", "bare", "no_module", "untrained", "claims")


def install(folder, names, module="xbench_odd", text=ODD):
    (folder / f"{module}.py").write_text(text)
    facts = folder / f"{module}-0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 0\n")
    attributes = ((name, name if name.isidentifier() else "good") for name in names)
    points = "".join(f"{name} = {module}:{attribute}\n" for name, attribute in attributes)
    (facts / "entry_points.txt").write_text(f"[xbench.runtimes]\n{points}", encoding="utf-8")


@pytest.fixture
def odd(tmp_path):
    """A command line with an installed distribution that has every odd row."""
    site = tmp_path / "site"
    site.mkdir()
    install(site, (*REFUSED, *TAKEN))
    paths = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    shell = Shell(tmp_path)
    return lambda *words: shell.run(*words, PYTHONPATH=paths)


def warned(stderr):
    return [line for line in stderr.splitlines() if line.startswith("xbench: warning: runtime ")]


def test_each_costs_itself_alone_in_one_line(odd):
    answer = odd("doctor", "--json")
    assert answer.returncode == 0, answer.stderr
    rows = {row["runtime"]: row for row in json.loads(answer.stdout)["runtimes"]}
    assert set(RUNTIMES) - set(rows) == {"null"}
    assert set(rows) - set(RUNTIMES) == {name for name in TAKEN if name != "early"}
    lines = warned(answer.stderr)
    assert len(lines) == len(REFUSED)
    assert all(line.isprintable() for line in lines)
    for name, words in REFUSED.items():
        shown = "".join(letter for letter in name if letter.isprintable())
        assert any(line.startswith(f"xbench: warning: runtime {shown} of") and words in line for line in lines), name
    assert "Traceback" not in answer.stderr and "\x1b" not in answer.stderr


@pytest.mark.parametrize("words", [("list", "runtimes"), ("plugin", "list"), ("plugin", "list", "--json")])
def test_a_list_is_printed(odd, words):
    answer = odd(*words)
    assert answer.returncode == 0, answer.stderr
    assert "good" in answer.stdout and "\x1b" not in answer.stdout and "\u202e" not in answer.stdout


def test_nothing_in_a_row_or_an_adapter_excuses_it(odd, lenet, tmp_path):
    names = ("good", "early", "own_clock", "renamed", "bare", "no_module")
    words = [word for name in names for word in ("--runtime", name)]
    answer = odd("time", "lenet", *words, "--mode", "forward", "--batch", 2, "--budget", "0.1", "--out", "out")
    assert "Traceback" not in answer.stderr
    stored = {row["case"]["runtime"]: row for row in records(tmp_path / "out")}
    status = {name: row["status"] for name, row in stored.items()}
    assert status == {
        "good": "PASS",
        "early": "FAIL",
        "own_clock": "PASS",
        "renamed": "PASS",
        "bare": "CRASH",
        "no_module": "CRASH",
    }
    assert stored["early"]["message"].startswith("works before the clock starts")
    assert stored["own_clock"]["times"]["median_s"] > 2e-3, "its own clock counted"
    assert stored["renamed"]["versions"]["onnx"] != "99" and stored["renamed"]["versions"]["own"] == "1"
    assert "cannot do forward: it has no `forward`" in stored["bare"]["message"]
    device = odd("time", "lenet", "--runtime", "own_clock", "--mode", "forward", "--plane", "device", "--json")
    (row,) = json.loads(device.stdout)
    assert row["status"] == "UNSUPPORTED" and row["median_s"] is None


def test_one_that_claims_to_train_and_one_that_claims_a_table_of_ours_are_tried(odd, lenet):
    answer = odd("check", "lenet", "--runtime", "untrained", "--mode", "step", "--json")
    (row,) = json.loads(answer.stdout)
    assert row["status"] == "CRASH" and "it is no Trainer" in row["message"]
    answer = odd("convert", "lenet", "--to", "claims", "--json")
    (row,) = json.loads(answer.stdout)
    assert row["status"] == "CRASH" and "it has no `forward`" in row["message"]


def test_of_two_plugins_with_one_name_the_first_stays(tmp_path, monkeypatch):
    for module in ("xbench_first", "xbench_second"):
        install(tmp_path, ["good"], module, PLAIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(_plugins.LeftOut, match="runtime good of a plug-in is left out: another plug-in has a runtime"):
        assert set(_plugins.rows(RUNTIMES)) == {"good"}


def test_the_damaged_facts_of_one_package_cost_no_other_its_runtime(tmp_path, monkeypatch):
    install(
        tmp_path, ["good"], "xbench_first", 'from xbench.runtimes import Row\ngood = Row("a:b", ("onnx",), "odd")\n'
    )
    install(tmp_path, ["good"], "xbench_second")
    (tmp_path / "xbench_second-0.dist-info" / "entry_points.txt").write_bytes(b"[xbench.runtimes]\n\xff = a:b\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert set(_plugins.rows(RUNTIMES)) >= {"good"}


def test_no_field_of_a_row_is_forgotten_at_the_door():
    assert set(_plugins.FIELDS) | set(_plugins.OURS_ALONE) == set(Row.__dataclass_fields__)
    for name, row in RUNTIMES.items():
        own = {each: getattr(row, each) for each in _plugins.FIELDS}
        assert [each for each, value in own.items() if not _plugins.FIELDS[each](value)] == [], name


def test_the_one_licence_is_a_name_of_ours_that_nobody_lists():
    assert UNCLOCKED == ("null",) and all(RUNTIMES[name].hidden for name in UNCLOCKED)


def test_the_kit_asks_a_stranger_for_every_mode(monkeypatch):
    row = Row("a:b", ("onnx",), "odd", "native", on_request=("gradient", "step"))
    monkeypatch.setattr(conformance, "row_of", lambda word: (RUNTIMES | {"odd": row})[word])
    assert conformance.modes("odd") == ["forward", "gradient", "step"]
    assert conformance.modes("tvm") == ["forward"]


def test_a_runtime_of_one_plug_in_imports_no_other(faults):
    """Threads of another module would run during timing, and every worker would wait for its import."""
    code = "import sys; from xbench.runtimes import row_of; row_of('cheat_honest:x=1')\n"
    code += "print(*(name for name in sys.modules if name.startswith('xbench_')))"
    ended = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "xbench_cheats_rows\n"


def test_a_row_is_found_by_its_word_or_is_none(faults):
    assert runtimes.find_row("jax:x64") is runtimes.RUNTIMES["jax"]
    assert runtimes.find_row("nothing:a=1") is None
    with pytest.raises(KeyError, match="nothing"):
        runtimes.row_of("nothing")
    assert runtimes.row_of("cheat_honest") == runtimes.table()["cheat_honest"]
