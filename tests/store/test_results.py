"""The store survives damage to files: cuts at any byte, a full disk, two writers, a path that is not a folder."""

import errno
import fcntl
import json
import math
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from xbench.errors import XBenchError
from xbench.store.results import FILE, StoreError, encode, latest, open_store, read
from xbench.store.schema import VERSION


def record(number: int, **fields: object) -> dict:
    case = {"model": "lenet", "runtime": f"r{number}"}
    times = {"median_s": 0.5, "blocks": [{"round": 0, "samples": [0.1] * (number % 40)}]}
    return {"key": f"k{number}", "case": case, "status": "PASS", "times": times, **fields}


def keys(path: Path) -> list[str]:
    return [line["key"] for line in read(path)]


def test_records_come_back_in_order_with_their_schema(tmp_path):
    store = open_store(tmp_path / "deep" / "folder")
    for number in range(5):
        store.append(record(number))
    lines = store.read()
    assert [line["key"] for line in lines] == [f"k{number}" for number in range(5)]
    assert lines[3] == {"schema": VERSION, **record(3)}


def test_a_new_store_is_empty_and_opening_it_again_keeps_its_lines(tmp_path):
    assert open_store(tmp_path).read() == []
    open_store(tmp_path).append(record(1))
    assert len(open_store(tmp_path).read()) == 1


def test_the_last_line_of_a_key_counts():
    first, other, last = record(1, message="old"), record(2), record(1, message="new")
    assert latest([first, other, last]) == {"k1": last, "k2": other}


def test_every_complete_record_survives_200_random_cuts_and_the_next_append(tmp_path):
    store = open_store(tmp_path)
    for number in range(30):
        store.append(record(number, message="µ \n | \0"))
    content = store.path.read_bytes()
    ends = [place for place, letter in enumerate(content) if letter == 10]
    generator = random.Random(1)
    cuts = [generator.randrange(len(content) + 1) for _ in range(180)] + ends[:10] + [end + 1 for end in ends[:10]]
    for cut in cuts:
        store.path.write_bytes(content[:cut])
        complete = [f"k{number}" for number, end in enumerate(ends) if end <= cut]
        assert keys(store.path) == complete, cut
        store.append(record(99))
        assert keys(store.path) == [*complete, "k99"], cut
        assert store.path.read_bytes().endswith(b"\n")


def test_a_long_torn_line_is_cut_where_it_starts(tmp_path):
    store = open_store(tmp_path)
    store.append(record(1))
    with store.path.open("ab") as file:
        file.write(b'{"samples":[' + b"0.125," * 50_000)
    store.append(record(2))
    assert keys(store.path) == ["k1", "k2"]
    assert store.path.stat().st_size < 2000


def test_zeros_that_a_power_cut_left_at_the_end_are_cut_off(tmp_path):
    store = open_store(tmp_path)
    store.append(record(1))
    with store.path.open("ab") as file:
        file.write(bytes(5000))
    assert keys(store.path) == ["k1"]
    store.append(record(2))
    assert keys(store.path) == ["k1", "k2"]


@pytest.mark.parametrize("damage", [b"garbage", b"[1,2]", b'{"schema":1}', b'{"a":', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_line_in_the_middle_is_named_by_its_number(tmp_path, damage):
    lines = [encode({"schema": 1, **record(number)}) for number in range(3)]
    path = tmp_path / FILE
    path.write_bytes(lines[0] + lines[1] + damage + b"\n" + lines[2])
    with pytest.raises(StoreError, match="line 3") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_case_of_unknown_shape_is_named_by_its_line(tmp_path):
    line = {"schema": 1, **record(1)}
    line["case"] = {"model": ["a"], "runtime": "b"}
    (tmp_path / FILE).write_text(json.dumps(line) + "\n")
    with pytest.raises(StoreError, match="line 1: not a case"):
        read(tmp_path / FILE)


def test_a_newer_schema_asks_for_a_newer_xbench(tmp_path):
    line = json.dumps({**record(1), "schema": VERSION + 1})
    (tmp_path / FILE).write_text(line + "\n")
    with pytest.raises(StoreError, match="newer xbench"):
        read(tmp_path / FILE)


def test_what_is_not_finite_is_written_as_null(tmp_path):
    store = open_store(tmp_path)
    values = [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf"), np.float32(0.5), np.int64(7), True]
    store.append(record(1, machine={"values": values, "deep": ({"x": math.nan},)}))

    def refuse(word: str) -> None:
        raise AssertionError(word)

    line = json.loads(store.path.read_text(), parse_constant=refuse)
    assert line["machine"] == {"values": [None, None, None, None, None, 0.5, 7, True], "deep": [{"x": None}]}


def test_what_is_not_a_record_is_refused_before_anything_is_written(tmp_path):
    store = open_store(tmp_path)
    with pytest.raises(ValueError, match="no key"):
        store.append({"case": {"model": "a", "runtime": "b"}})
    with pytest.raises(TypeError):
        store.append(record(1, machine={"path": object()}))
    assert store.path.read_bytes() == b""


WRITER = """
import sys
from pathlib import Path
from xbench.store.results import open_store
store = open_store(Path(sys.argv[1]))
for number in range(50):
    store.append({"key": f"{sys.argv[2]}-{number}", "case": {"model": "m", "runtime": "r"}, "status": "PASS",
                  "message": sys.argv[2] * 3000})
"""


def test_four_processes_append_200_whole_lines(tmp_path):
    workers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(name)]) for name in range(4)]
    assert [worker.wait(60) for worker in workers] == [0] * 4
    stored = keys(tmp_path / FILE)
    assert sorted(stored) == sorted(f"{name}-{number}" for name in range(4) for number in range(50))
    for name in range(4):
        assert [key for key in stored if key[0] == str(name)] == [f"{name}-{number}" for number in range(50)]


def test_a_line_that_another_process_is_writing_is_waited_for_and_not_cut_off(tmp_path):
    store = open_store(tmp_path)
    line = encode({"schema": 1, **record(1)})
    with store.path.open("ab", buffering=0) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(line[:40])
        thread = threading.Thread(target=store.append, args=[record(2)])
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        other.write(line[40:])
    thread.join(10)
    assert keys(store.path) == ["k1", "k2"]


FULL = """
import resource, sys
from pathlib import Path
from xbench.store.results import StoreError, open_store
store = open_store(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
for number in range(100):
    try:
        store.append({"key": f"k{number}", "case": {"model": "m", "runtime": "r"}, "status": "x" * 300})
    except StoreError as error:
        print(number, error)
        break
"""


def test_a_file_that_may_not_grow_stays_valid(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    number, _, message = done.stdout.strip().partition(" ")
    assert 10 < int(number) < 40
    assert "free some space" in message and "\n" not in message
    assert keys(tmp_path / FILE) == [f"k{index}" for index in range(int(number))]
    assert (tmp_path / FILE).read_bytes().endswith(b"\n")


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_a_full_disk_loses_only_the_new_record(tmp_path, monkeypatch, failing):
    store = open_store(tmp_path)
    store.append(record(1))
    before = store.path.read_bytes()
    write = os.write
    calls = []

    def part(file: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: len(data) // 2])

    def refuse(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, part if failing == "write" else refuse)
        with pytest.raises(StoreError, match=r"No space left on device.*free some space"):
            store.append(record(2))
    assert store.path.read_bytes() == before
    store.append(record(3))
    assert keys(store.path) == ["k1", "k3"]


def test_a_record_is_one_write(tmp_path, monkeypatch):
    store = open_store(tmp_path)
    write, sizes = os.write, []
    monkeypatch.setattr(os, "write", lambda file, data: sizes.append(len(data)) or write(file, data))
    store.append(record(39, message="x" * 200_000))
    assert sizes == [store.path.stat().st_size]


def test_a_folder_that_cannot_be_made_fails_at_once_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/xbench")):
        with pytest.raises(StoreError, match="choose another --out") as caught:
            open_store(folder)
        assert str(folder) in str(caught.value) and "\n" not in str(caught.value)
    (tmp_path / "taken" / FILE).mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot write"):
        open_store(tmp_path / "taken")


def test_a_store_that_is_not_there_names_the_command_that_makes_it(tmp_path):
    with pytest.raises(StoreError, match="xbench time --out"):
        read(tmp_path / "nothing" / FILE)
    assert issubclass(StoreError, XBenchError) and StoreError.exit_code == 2
