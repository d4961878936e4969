"""The cache's folders: written in one piece, never taken from under somebody who reads them."""

import pytest

from xbench.bench import cache


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with pytest.raises(RuntimeError), cache.written(tmp_path / "made") as temporary:
        (temporary / "model.json").write_text("{}")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_made_meanwhile_stays(tmp_path):
    """It may hold references already, and be mapped by a worker."""
    folder = tmp_path / "made"
    with cache.written(folder) as temporary:
        (temporary / "model.json").write_text("mine")
        folder.mkdir()
        (folder / "model.json").write_text("theirs")
        (folder / "reference.npz").touch()
    assert (folder / "model.json").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["made"] and (folder / "reference.npz").exists()


def test_a_damaged_folder_is_replaced(tmp_path):
    folder = tmp_path / "made"
    (folder / "rest").mkdir(parents=True)
    with cache.written(folder) as temporary:
        (temporary / "model.json").write_text("mine")
    assert [path.name for path in folder.iterdir()] == ["model.json"]
