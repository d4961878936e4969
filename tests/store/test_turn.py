"""The turn of a command: one command at a time has a store, and others at work on the machine are named."""

import json
import os
import re
import signal
import subprocess
import sys
import warnings

import pytest
from fault_kit import only_line, records

from xbench.store import merge, turn
from xbench.store.results import StoreError, open_store

HOLDER = """
import sys, time
from pathlib import Path
from xbench.store import turn
sys.argv[:] = ["/some/where/xbench", "time", "lenet", "--out", sys.argv[1]]
with turn.taken(Path(sys.argv[-1]), print) as place:
    print(place, flush=True)
    time.sleep(300)
"""
TIME = ("time", "lenet", "--runtime", "null", "--mode", "forward", "--batch", 2, "--threads", 1, "--budget", 0.05)


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDER, tmp_path / "out"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_a_store_that_is_in_use_says_by_whom(tmp_path, holder):
    with pytest.raises(turn.Occupied) as refused, turn.held(tmp_path / "out"):
        pass
    words = f"`xbench time lenet --out {tmp_path / 'out'}` (pid {holder.pid}, since 20"
    assert str(refused.value).startswith(f"{tmp_path / 'out'} is in use by {words}")
    assert refused.value.exit_code == 2


def test_a_killed_holder_holds_nothing(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / "out" / turn.HELD).exists()
    with turn.held(tmp_path / "out"):
        assert json.loads((tmp_path / "out" / turn.HELD).read_text())["pid"] == os.getpid()
    assert not list((tmp_path / "out").iterdir())


def test_one_process_cannot_hold_a_store_twice(tmp_path):
    with turn.held(tmp_path):
        with pytest.raises(turn.Occupied, match=f"pid {os.getpid()}"), turn.held(tmp_path):
            pass
        assert (tmp_path / turn.HELD).exists()


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'{"pid": "x"}', b'{"pid": 1, "since": 2}', b"\xff\x00" * 2000])
def test_what_a_holder_says_of_itself_is_not_believed_to_be_well_formed(data):
    assert turn._who(data) == "another xbench"


def test_control_characters_of_a_holder_are_left_out():
    data = json.dumps({"pid": 7, "command": "xbench\x1b[2J" + "x" * 900, "since": "now"}).encode()
    assert turn._who(data).isprintable()
    assert len(turn._who(data)) == 300
    assert turn._who(json.dumps({"pid": 7, "command": "x\ny", "since": "now"}).encode()) == "`x"


def test_a_link_or_a_pipe_in_the_place_of_the_lock_is_one_line(tmp_path):
    for name, make in (("link", lambda path: path.symlink_to(tmp_path / "victim")), ("pipe", os.mkfifo)):
        out = tmp_path / name
        out.mkdir()
        make(out / turn.HELD)
        with pytest.raises(StoreError, match="cannot write"), turn.held(out):
            pass
    assert not (tmp_path / "victim").exists()


def test_a_second_command_is_refused_and_those_that_read_are_not(shell, lenet, holder):
    out = shell.folder / "out"
    first = shell.run(*TIME, "--out", shell.folder / "before")
    assert first.returncode == 0, first.stderr
    (out / "results.jsonl").write_bytes((shell.folder / "before" / "results.jsonl").read_bytes())
    second = shell.run(*TIME, "--rerun", "--out", out)
    assert second.returncode == 2
    assert f"(pid {holder.pid}, since" in only_line(second.stderr)
    assert len(records(out)) == 1
    assert shell.run("show", "--out", out).returncode == 0
    assert shell.run("recommend", "lenet", "--batch", 2, "--out", out).returncode == 0
    assert shell.run("compare", shell.folder / "before", out).returncode == 0
    imported = shell.run("import", shell.folder / "before", "--as", "there", "--out", out)
    assert imported.returncode == 2
    assert "is in use by" in only_line(imported.stderr)
    assert len(records(out)) == 1


def test_two_at_once_in_one_folder_measure_it_once(shell, lenet):
    out = shell.folder / "out"
    both = [shell.start(*TIME, "--out", out) for _ in range(2)]
    assert sorted(process.wait(120) for process in both) in ([0, 2], [0, 0])  # 0, 0: one after the other
    assert len(records(out)) == 1
    assert not (out / turn.HELD).exists()


def test_an_import_holds_the_store(tmp_path):
    source, out = open_store(tmp_path / "source"), tmp_path / "out"
    source.path.touch()
    with turn.held(out), pytest.raises(turn.Occupied):
        merge.merge([tmp_path / "source"], out)


def test_others_at_work_are_named(tmp_path, holder, monkeypatch):
    monkeypatch.delenv(turn.SHARED, raising=False)
    line = turn.others()
    assert str(holder.pid) in re.findall(r"\d+", line) or line.count(",") == 4  # five are named
    assert line.startswith("another xbench is at work on this machine (pid ")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert str(holder.pid) not in re.findall(r"\d+", turn.others() or "")
    monkeypatch.setenv(turn.SHARED, "1")
    assert turn.others() is None


@pytest.mark.parametrize(
    ("listing", "pids"),
    [
        ("Num RefCount\n0: 2 0 0 2 01 8 @xbench-at-work-12-ab\n1: 2 0 0 2 01 9 @xbench-at-work-9-cd\n", "9, 12"),
        ("0: 2 0 0 2 01 8447 /tmp/@xbench-at-work-12-ab\n", None),
        ("0: 2 0 0 2 01 8447 @xbench-at-work-x-ab\n0: 2 @xbench-at-work-99999999999-ab\n", None),
        ("0: 2 0 0 2 01 8447 @xbench-at-work-{own}-ab\n", None),
    ],
)
def test_only_what_another_process_has_announced_counts(tmp_path, monkeypatch, listing, pids):
    monkeypatch.delenv(turn.SHARED, raising=False)
    (tmp_path / "unix").write_text(listing.format(own=os.getpid()))
    monkeypatch.setattr(turn, "SOCKETS", tmp_path / "unix")
    words = f"another xbench is at work on this machine (pid {pids}): each disturbs the times of the other"
    assert turn.others() == (words if pids else None)


def test_a_command_says_that_another_is_at_work_and_goes_on(shell, lenet, holder):
    ended = shell.run(*TIME, "--out", shell.folder / "elsewhere", **{turn.SHARED: ""})
    assert ended.returncode == 0
    assert "xbench: another xbench is at work on this machine (pid " in ended.stderr
    assert len(records(shell.folder / "elsewhere")) == 1


def test_a_turn_removes_what_a_killed_command_has_left(tmp_path, monkeypatch):
    monkeypatch.setenv("XBENCH_CACHE", str(tmp_path / "cache"))
    left = []
    for place in ("models", "models/lenet-1", "live", "peaks"):
        (tmp_path / "cache" / place).mkdir(parents=True)
        prefix = turn.temporary.LIVE if place == "live" else turn.temporary.HIDDEN
        left.append(tmp_path / "cache" / place / f"{prefix}{turn.temporary.kernel()}_abcdefgh")
        left[-1].mkdir()
    with warnings.catch_warnings(), turn.taken(None, lambda words: None):
        assert not [each for each in left if each.exists()]
