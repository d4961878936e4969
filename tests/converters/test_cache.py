"""The cache's folders: written atomically, never removed while a reader uses them."""

import subprocess
import sys

import pytest

from xbench.converters import cache


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with pytest.raises(RuntimeError), cache.written(tmp_path / "made") as temporary:
        (temporary / "model.json").write_text("{}")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_made_meanwhile_stays(tmp_path):
    """It may already hold references, and be mapped by a worker."""
    folder = tmp_path / "made"
    with cache.written(folder) as temporary:
        (temporary / "model.json").write_text("mine")
        with cache.written(folder) as other:
            (other / "model.json").write_text("theirs")
        (folder / "reference.npz").touch()
    assert (folder / "model.json").read_text() == "theirs"
    assert {path.name for path in tmp_path.iterdir()} == {cache.LOCK, "made"}
    assert {path.name for path in folder.iterdir()} == {cache.ENTRY, "model.json", "reference.npz"}


def test_a_damaged_folder_is_replaced(tmp_path):
    folder = tmp_path / "made"
    (folder / "rest").mkdir(parents=True)
    with cache.written(folder) as temporary:
        (temporary / "model.json").write_text("mine")
    assert {path.name for path in folder.iterdir()} == {cache.ENTRY, "model.json"}


def test_many_processes_may_finish_one_folder_at_once(tmp_path):
    """Each sees it missing or broken before the others have renamed theirs (CI, November 2026)."""
    script = """
import sys, time
from pathlib import Path
from xbench.converters import cache
folder = Path(sys.argv[1])
for turn in range(200):
    with cache.written(folder / str(turn)) as temporary:
        (temporary / "model.json").write_text(sys.argv[2])
        (temporary / "weights").touch()
    found = sorted(path.name for path in (folder / str(turn)).iterdir())
    assert found == [cache.ENTRY, "model.json", "weights"], found
"""
    for turn in range(0, 200, 2):
        (tmp_path / str(turn) / "rest").mkdir(parents=True)
    processes = [subprocess.Popen([sys.executable, "-c", script, tmp_path, str(n)]) for n in range(6)]
    assert [process.wait(120) for process in processes] == [0] * 6
    assert {path.name for path in tmp_path.iterdir()} == {cache.LOCK, *map(str, range(200))}
