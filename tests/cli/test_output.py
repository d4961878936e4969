"""A command whose output is not read: one line at most, an exit code, no traceback, and its work is done."""

import os
import subprocess

import pytest
import stores
from fault_kit import only_line

NOBODY, FULL, CLOSED = "nobody reads it", "the disk is full", "it is closed"
COMMANDS = (("show", "--out", "out"), ("show", "--out", "out", "--json"), ("list", "models"), ("--help",), ("doctor",))


@pytest.fixture
def out(shell):
    stores.write(shell.folder / "out", [stores.record(f"m{number}") for number in range(399)])
    return shell.folder / "out"


def run(shell, words, stdout="", stderr=""):
    """The command with a shell's redirections."""
    command = ["sh", "-c", f'"$@" {stdout} {stderr}', "sh", *shell.command(*words)]
    options = {"cwd": shell.folder, "env": shell.environment(), "timeout": 100, "text": True}
    return subprocess.run(command, capture_output=True, **options)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_disk_is_one_line(shell, out, words):
    answer = run(shell, words, ">/dev/full")
    assert answer.returncode == 2
    assert only_line(answer.stderr) == "xbench: cannot write to stdout: No space left on device"


@pytest.mark.parametrize("words", COMMANDS[:2], ids=" ".join)
def test_a_closed_stdout_is_one_line(shell, out, words):
    answer = run(shell, words, ">&-")
    assert answer.returncode == 2
    assert only_line(answer.stderr) == "xbench: cannot write to stdout: Bad file descriptor"


@pytest.mark.parametrize("words", COMMANDS[:2], ids=" ".join)
def test_what_nobody_reads_any_more_ends_without_a_word(shell, out, words):
    reader, writer = os.pipe()
    process = subprocess.Popen(
        shell.command(*words), stdout=writer, stderr=subprocess.PIPE, cwd=shell.folder, env=shell.environment()
    )
    os.close(writer)
    os.close(reader)
    _, stderr = process.communicate(timeout=100)
    assert process.returncode == 141 and stderr == b""


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
def test_words_that_nobody_hears_change_nothing(shell, out, stderr):
    expected, answer = run(shell, COMMANDS[1]), run(shell, COMMANDS[1], stderr=stderr)
    assert (answer.returncode, answer.stdout) == (0, expected.stdout)
    assert run(shell, ("show", "--out", "nowhere"), stderr=stderr).returncode == 2


def test_what_is_imported_stays_where_nothing_can_be_printed(shell, out):
    """The file of the store does not get the descriptor of a closed stdout."""
    answer = run(shell, ("import", "out", "--out", "all"), ">&-")
    assert answer.returncode == 2 and only_line(answer.stderr).startswith("xbench: cannot write to stdout")
    assert len((shell.folder / "all/results.jsonl").read_text().splitlines()) == 399
    assert not run(shell, ("show", "--out", "all")).stderr
