"""Temporary folders: those of dead processes are removed, and nothing else."""

import ast
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from places import ROOT
from test_house import MAY_IMPORT

from xbench.converters import temporary

HOLDER = """
import sys, time
from pathlib import Path
from xbench.converters import temporary
with temporary.folder(Path(sys.argv[1])) as place:
    (place / "inside").mkdir()
    (place / "inside" / "file").write_text("x")
    print(place, flush=True)
    time.sleep(300)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process with a temporary folder, and the folder."""
    process = subprocess.Popen([sys.executable, "-P", "-c", HOLDER, tmp_path], stdout=subprocess.PIPE, text=True)
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.wait()


def leftover(parent, word="abcdefgh"):
    """A folder as left by a dead process."""
    made = parent / f"{temporary.PREFIX}{temporary.kernel()}_{word}"
    made.mkdir()
    (made / "file").write_text("x")
    return made


def test_a_folder_is_there_while_it_is_open(tmp_path):
    with temporary.folder(tmp_path) as place:
        assert list(tmp_path.iterdir()) == [place]
        temporary.sweep(tmp_path)
        assert place.is_dir(), "it is held by this very process"
    assert not list(tmp_path.iterdir())


def test_the_folder_of_a_live_process_stays_and_that_of_a_killed_one_goes(tmp_path, holder):
    process, place = holder
    temporary.sweep(tmp_path)
    assert (place / "inside" / "file").exists()
    process.send_signal(signal.SIGSTOP)
    temporary.sweep(tmp_path)
    assert (place / "inside" / "file").exists()
    process.kill()
    process.wait()
    with temporary.folder(tmp_path) as own:
        assert list(tmp_path.iterdir()) == [own]


def test_what_is_not_ours_is_not_touched(tmp_path):
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "file").write_text("x")
    place = tmp_path / "place"
    place.mkdir()
    prefix = f"{temporary.PREFIX}{temporary.kernel()}_"
    (place / f"{prefix}aaaaaaaa").symlink_to(treasure)
    (place / f"{prefix}bbbbbbbb").write_text("a file")
    os.mkfifo(place / f"{prefix}cccccccc")
    for other in (f"{prefix}dddddddd.kept", f"{prefix}ddddddd", f"x{prefix}dddddddd", "xbench-logs-k3x9abcd", "live"):
        (place / other).mkdir()
    before = sorted(place.iterdir())
    temporary.sweep(place)
    assert sorted(place.iterdir()) == before
    assert (treasure / "file").read_text() == "x"


def test_links_inside_a_folder_are_not_followed(tmp_path):
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "file").write_text("x")
    (leftover(tmp_path) / "link").symlink_to(treasure)
    temporary.sweep(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["treasure"]
    assert (treasure / "file").exists()


def test_the_folder_of_another_user_stays(tmp_path, monkeypatch):
    made = leftover(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: made.stat().st_uid + 1)
    temporary.sweep(tmp_path)
    assert made.exists()


def test_a_folder_of_another_kernel_stays_for_a_month(tmp_path, monkeypatch):
    """Its owner may run on another machine with the same file system, whose locks are not visible here."""
    made = leftover(tmp_path)
    monkeypatch.setattr(temporary, "kernel", lambda: "00000000")
    temporary.sweep(tmp_path)
    assert made.exists()
    old = time.time() - temporary.OLD - 60
    os.utime(made, (old, old))
    temporary.sweep(tmp_path)
    assert not made.exists()


def test_a_folder_that_is_taken_for_dead_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    taken, opened = [], temporary._opened

    def swept(place):
        if len(taken) < 2:
            taken.append(place)
            temporary.shutil.rmtree(place) if len(taken) == 1 else opened_by_another(place)
        return opened(place)

    def opened_by_another(place):
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        temporary.fcntl.flock(descriptor, temporary.fcntl.LOCK_EX)

    monkeypatch.setattr(temporary, "_opened", swept)
    monkeypatch.setattr(temporary, "sweep", lambda parent: None)
    with temporary.folder(tmp_path) as place:
        assert place not in taken
        assert place.is_dir()


def test_where_nothing_can_be_locked_a_folder_is_made_and_none_removed(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(9, "Bad file descriptor")

    left = leftover(tmp_path)
    monkeypatch.setattr(temporary.fcntl, "flock", refuse)
    with temporary.folder(tmp_path) as place:
        assert place.is_dir()
    assert left.exists()


def test_a_file_is_seen_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    with temporary.file(path) as new:
        new.write_text("first")
        assert not path.exists()
    assert path.read_text() == "first"
    with pytest.raises(ValueError, match="half way"), temporary.file(path) as new:
        new.write_text("sec")
        raise ValueError("half way")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_for_a_socket_has_a_short_path(monkeypatch, tmp_path):
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert temporary.place() == long
    assert temporary.place(70) == Path("/tmp")
    assert temporary.place(len(str(long))) == long


def test_nobody_else_makes_temporary_folders():
    """A killed process would leave them for ever. Workers have theirs in their parent's."""
    packages = {*MAY_IMPORT} - {"runtimes"}
    offences = []
    for path in (path for package in packages for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("tempfile."):
                inside = ast.unparse(node) == "tempfile.mkdtemp(dir=self.place)"  # in a folder of the command
                offences += [] if inside or path.name == "temporary.py" else [f"{path}:{node.lineno}"]
    assert not offences
