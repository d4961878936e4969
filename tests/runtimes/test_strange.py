"""An adapter may return anything, raise anything and write anywhere: its own cell reports it in one clean line, and
all other cells are measured and stored."""

import json

import pytest
from fault_kit import records
from strange_runtimes import FORMS, GRADIENTS, HELD, HONEST, LAYERS, STEPS, STRANGE

from xbench.converters.printable import one_line
from xbench.workers.answers import problem, seconds, text, too_deep
from xbench.workers.protocol import MOST, Reply, WorkerFailure, encoded

SOME = ("versions_set", "get_double", "raises_mute", "pipe_forged")
AT_ONCE = 12  # adapters of one command
PARTS = [list(STRANGE)[start : start + AT_ONCE] for start in range(0, len(STRANGE), AT_ONCE)]
QUICK = ("--budget", "0.1", "--batch", 2, "--timeout", 60, "--out", "out")


def chosen(names):
    return [word for name in (HONEST, *(f"strange_{each}" for each in names)) for word in ("--runtime", name)]


def judged(by_name, table, names):
    """Every adapter has its record, and it says what its row of the table says."""
    assert set(by_name) == {HONEST, *(f"strange_{name}" for name in names)}
    assert by_name[HONEST]["status"] == "PASS", by_name[HONEST]["message"]
    for name in names:
        _, status, words = table[name]
        row = by_name[f"strange_{name}"]
        message = row["message"] or ""
        assert row["status"] == status, (name, message)
        assert message.isprintable() and len(message) < 1000, name
        assert (words or "") in message, (name, message)


@pytest.mark.parametrize("names", PARTS, ids=lambda names: names[0])
def test_each_costs_its_own_cell_alone(shell, lenet, names):
    answer = shell.apart("time", "lenet", *chosen(names), "--mode", "forward", *QUICK)
    assert "Traceback" not in answer.stderr
    by_name = {record["case"]["runtime"]: record for record in records(shell.folder / "out")}
    judged(by_name, STRANGE, names)
    for record in by_name.values():
        assert (record["times"] is None) == (record["status"] != "PASS")
        assert all(each.isprintable() for pair in record["versions"].items() for each in pair)
    assert by_name[HONEST]["times"]["median_s"] > 0
    assert not shell.survivors()


@pytest.mark.parametrize(
    ("mode", "table"),
    [
        ("forward", HELD | {name: STRANGE[name] for name in SOME}),
        ("gradient", GRADIENTS),
        ("step", STEPS),
    ],
)
def test_a_check_goes_on_as_well(shell, lenet, mode, table):
    answer = shell.run("check", "lenet", *chosen(table), "--mode", mode, "--timeout", 60, "--json")
    assert "Traceback" not in answer.stderr
    judged({row["runtime"]: row for row in json.loads(answer.stdout)}, table, list(table))


def test_a_profile_and_what_it_is_told_of_layers(shell, lenet):
    answer = shell.run("profile", "lenet", *chosen(LAYERS), "--batch", 2, "--out", "out")
    assert "Traceback" not in answer.stderr
    lines = [json.loads(line) for line in (shell.folder / "out" / "layers.jsonl").read_text().splitlines()]
    by_name = {line["case"]["runtime"]: line for line in lines}
    judged(by_name, LAYERS, list(LAYERS))
    (layer,) = by_name["strange_layers_words"]["profile"]["layers"]
    assert layer["name"].isprintable() and layer["operator"].isprintable()


def test_a_conversion_to_its_own_form(shell, lenet):
    words = [word for name in (HONEST, *(f"strange_{each}" for each in FORMS)) for word in ("--to", name)]
    answer = shell.run("convert", "lenet", *words, "-o", "made", "--json")
    assert "Traceback" not in answer.stderr
    rows = {row["runtime"]: row for row in json.loads(answer.stdout)}
    assert rows[HONEST]["status"] == "CONVERTED"
    judged(rows | {HONEST: rows[HONEST] | {"status": "PASS"}}, FORMS, list(FORMS))
    assert sorted(path.name for path in (shell.folder / "made" / "lenet").iterdir()) == [HONEST]


TRAINERS = ("weights_none", "pipe_steps", "reset_exit")


@pytest.mark.parametrize(
    ("words", "file", "names"),
    [
        (
            ("train", "lenet", "--data", "digits", "--epochs", 1),
            "training.jsonl",
            ("loss_flag", "weights_none", "pipe_steps"),
        ),
        (("phases", "lenet", "--budget", "0.1", "--batch", 2), "phases.jsonl", TRAINERS),
        (
            ("load", "lenet", "--scenario", "single-stream", "--seconds", "0.2", "--batch", 2),
            "load.jsonl",
            ("versions_set", "placed_words", "get_lists", "pipe_late_byte"),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_other_commands_go_on_as_well(shell, lenet, words, file, names):
    table = STRANGE | STEPS
    answer = shell.run(*words, *chosen(names), "--out", "out")
    assert "Traceback" not in answer.stderr, answer.stderr
    lines = [json.loads(line) for line in (shell.folder / "out" / file).read_text().splitlines()]
    by_name = {line["case"]["runtime"]: line for line in lines}
    assert by_name[HONEST]["status"] == "PASS", by_name[HONEST]["message"]
    for name in names:
        row = by_name[f"strange_{name}"]
        assert row["status"] in ("CRASH", "FAIL") and row["message"].isprintable(), (name, row["message"])
        assert table[name][2] in row["message"], (name, row["message"])


@pytest.mark.parametrize("name", ["versions_set", "get_double", "raises_mute", "pipe_forged", "placed_words"])
def test_the_kit_says_what_is_wrong_with_it(shell, name):
    answer = shell.run("plugin", "test", f"strange_{name}", "--json", "--timeout", 60)
    assert "Traceback" not in answer.stderr
    broken = [each for each in json.loads(answer.stdout) if each["held"] is False]
    assert answer.returncode == 1
    assert broken[0]["check"] == "result" and (STRANGE[name][2] in broken[0]["says"] or name == "get_double")
    assert all(str(each["says"]).isprintable() for each in broken)
    if name == "get_double":
        assert broken[0]["fault"] == "wrong_type"


def test_a_bisection_of_one_ends_in_one_line(shell, lenet):
    answer = shell.run("bisect", "lenet", "strange_get_lists", "torch", "--batch", 2, "--out", "part")
    assert "Traceback" not in answer.stderr
    assert answer.returncode in (1, 2)
    assert "is a list, not an array" in answer.stdout + answer.stderr


# ***** the protocol *****


def reply(data: bytes, job: str = "warm"):
    """The parent's result for a worker's data; NUMBER stands for the number of the request."""
    pending = Reply(job, {})
    pending.add(data.replace(b"NUMBER", pending.number.encode()))
    return pending.result()


def test_an_answer_with_the_number_of_its_request_is_one():
    assert reply(b'{"number": "NUMBER", "result": [0.5]}\n') == [0.5]
    pending = Reply("warm", {})
    pending.add(encoded(pending.number, {"result": [0.25]}))
    assert pending.result() == [0.25]
    assert pending.number.encode() in pending.request


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"x\n",
        b"[]\n",
        b'{"result": [0.5]}\n',
        b'{"number": "0", "result": [0.5]}\n',
        b'{"number": "NUMBER", "result": [0.5]}\n{"number": "NUMBER", "result": [0.5]}\n',
        b'{"number": "NUMBER", "result": [0.5]}\nx',
        b'x{"number": "NUMBER", "result": [0.5]}\n',
        b"[" * 10**5 + b"\n",
        b'{"number": "NUMBER", "result": ' + b"[" * 500 + b"]" * 500 + b"}\n",
        b'{"number": "NUMBER", "result": ' + b"9" * 5000 + b"}\n",
        b"\xff\xfe\n",
        b'{"number": "NUMBER"}\n',
        b'{"number": "NUMBER", "result": [-0.5]}\n',
        b'{"number": "NUMBER", "result": [NaN]}\n',
        b'{"number": "NUMBER", "result": [1e999]}\n',
        b'{"number": "NUMBER", "result": ["0.5"]}\n',
        b'{"number": "NUMBER", "result": [true]}\n',
        b'{"number": "NUMBER", "result": {}}\n',
    ],
)
def test_what_is_no_answer_is_a_crash_in_one_line(data):
    with pytest.raises(WorkerFailure) as failure:
        reply(data)
    assert failure.value.status == "CRASH"
    assert failure.value.message.isprintable()


def test_a_failure_says_no_more_than_a_line():
    data = (
        rb'{"number": "NUMBER", "error": "a\u001b[2J\ud800\nb", "status": "PASS", "operators": {"Conv": "many"}}'
        + b"\n"
    )
    with pytest.raises(WorkerFailure) as failure:
        reply(data)
    assert (failure.value.status, failure.value.message, failure.value.operators) == ("CRASH", "a[2J", None)


def test_an_answer_without_end_is_a_crash():
    pending = Reply("warm", {})
    with pytest.raises(WorkerFailure, match="longer than 128 MiB"):
        for _ in range(MOST // 2**20 + 1):
            pending.add(b"x" * 2**20)


def test_what_is_no_json_is_told_as_such():
    pending = Reply("warm", {})
    pending.add(encoded(pending.number, {"result": {1, 2}}))
    with pytest.raises(WorkerFailure, match="no answer: Object of type set"):
        pending.result()


@pytest.mark.parametrize(("value", "held"), [(0, True), (0.5, True), (-1, False), (float("nan"), False), (True, False)])
def test_a_time_is_a_number_of_seconds(value, held):
    assert (problem(seconds, value) is None) == held


def test_texts_and_depths():
    assert problem(text, "a\x1b") and problem(text, "\ud800") and problem(text, "x" * 1001) and not problem(text, "ä")
    assert not too_deep([[]] * 100)


class Silent(Exception):
    def __str__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("thing", "line"),
    [
        (ValueError("\n  a\tb \x1b[2J\nc"), "ab [2J"),
        (Silent(), "Silent"),
        ("", "str"),
        ("\u202eabc\ud800", "abc"),
        ("x" * 10**6, "x" * 300),
    ],
)
def test_one_line_of_anything(thing, line):
    assert one_line(thing) == line
