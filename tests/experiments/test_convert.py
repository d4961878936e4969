"""Conversions are recorded: they resume, are repeated on request, and are shown in the report."""

import json

from fault_kit import only_line

RUNTIMES = ("--runtime", "jax", "--runtime", "openvino")
FIELDS = {"model", "runtime", "status", "operators", "message", "version", "device", "seconds", "folder"}


def stored(shell):
    return [json.loads(line) for line in (shell.folder / "xbench-results/convert.jsonl").read_text().splitlines()]


def test_what_was_converted_is_recorded_and_not_converted_again(shell):
    first = json.loads(shell.run("convert", "lenet", *RUNTIMES, "--json").stdout)
    assert [(row["runtime"], row["status"]) for row in first] == [("jax", "CONVERTED"), ("openvino", "CONVERTED")]
    assert all(set(row) == FIELDS for row in first)
    records = stored(shell)
    assert [record["status"] for record in records] == ["CONVERTED"] * 2
    assert records[0]["command"] == "xbench convert lenet --runtime jax --device cpu --rerun"

    again = shell.run("convert", "lenet", *RUNTIMES, "--json")
    assert json.loads(again.stdout) == first and stored(shell) == records
    assert only_line(again.stderr) == "2 cells were measured before; --rerun measures again"

    cold = json.loads(shell.run("convert", "lenet", *RUNTIMES, "--json", "--rerun").stdout)
    assert len(stored(shell)) == 4 and [row["status"] for row in cold] == ["CONVERTED"] * 2


def test_a_form_is_written_whatever_is_recorded(shell):
    words = ("convert", "lenet", "--to", "jax")
    shell.run(*words)
    (shell.folder / "xbench-models/lenet/jax/lenet.py").unlink()
    assert shell.run(*words).returncode == 0
    assert (shell.folder / "xbench-models/lenet/jax/lenet.py").exists()


def test_an_outcome_that_failed_is_asked_for_again_and_another_is_kept(shell):
    shell.run("convert", "lenet", *RUNTIMES)
    path = shell.folder / "xbench-results/convert.jsonl"
    first, second = stored(shell)
    first |= {"status": "CRASH", "message": "it fell"}
    path.write_text("".join(json.dumps(record) + "\n" for record in (first, second)))
    answer = shell.run("convert", "lenet", *RUNTIMES)
    assert answer.returncode == 0
    assert [record["status"] for record in stored(shell)] == ["CRASH", "CONVERTED", "CONVERTED"]


def test_the_report_shows_them(shell):
    shell.run("convert", "lenet", *RUNTIMES)
    answer = shell.run("report")
    assert answer.returncode == 0, answer.stderr
    page = (shell.folder / "report.html").read_text()
    assert "Whether a runtime takes the network" in page and "Conversions" in page
