"""Something else than a file in the place of a store: reported in one line, never waited for, never written."""

import os
import socket

import pytest
import stores
from fault_kit import only_line

KINDS = {
    "a pipe": os.mkfifo,
    "a device that never ends": lambda path: path.symlink_to("/dev/zero"),
    "a link to a file": lambda path: path.symlink_to("secret"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": lambda path: path.mkdir(),
    "a socket": lambda path: bind(path),
}


def bind(path):
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(path.parent)
        listener.bind(path.name)


@pytest.fixture(params=KINDS)
def strange(request, shell, monkeypatch):
    """A folder in which something that is not a file has the name of the results."""
    monkeypatch.chdir(shell.folder)  # and back after the test
    folder = shell.folder / "strange"
    folder.mkdir()
    (folder / "secret").write_text("secret\n")
    KINDS[request.param](folder / "results.jsonl")
    return folder


COMMANDS = (
    ("show", "--out", "strange"),
    ("import", "strange", "--out", "all"),
    ("compare", "strange", "whole"),
    ("report", "--out", "strange"),
    ("import", "whole", "--out", "strange"),
)


def test_what_is_no_file_is_neither_read_nor_written(shell, strange):
    stores.write(shell.folder / "whole", [stores.record()])
    for words in COMMANDS:
        answer = shell.run(*words)
        line = only_line(answer.stderr)
        assert answer.returncode == 2 and not answer.stdout, words
        assert "results.jsonl" in line and ("no regular file" in line or "is a link" in line), (words, line)
    assert (strange / "secret").read_text() == "secret\n" and not (strange / "nothing").exists()
    assert not (shell.folder / "all").exists() or not list((shell.folder / "all").glob("*.jsonl"))


def test_a_line_that_never_ends_is_refused(shell):
    """A sparse gigabyte is one line of zeros."""
    (shell.folder / "out").mkdir()
    with (shell.folder / "out/results.jsonl").open("wb") as file:
        file.truncate(1 << 30)
    answer = shell.run("show", "--out", "out")
    assert answer.returncode == 2 and "longer than 256 MiB" in only_line(answer.stderr)
