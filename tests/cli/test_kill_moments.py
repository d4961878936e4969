"""Killed commands and killed workers: a few of the moments of tools/measure/kill_moments.py."""

import random
import shutil

import kill_moments
import pytest

SECONDS = {"convert": 2.5, "check": 3.5, "time": 3.0, "train": 3.5, "load": 2.0, "phases": 6.0, "scale": 6.0}


@pytest.fixture(scope="module")
def templates(lenet, tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    for kind in ("ready", "converted"):
        shutil.copytree(lenet.folder, folder / kind / "models" / lenet.folder.name)
    return folder


@pytest.mark.parametrize("way", ["kill -9", "kill -9 of a worker"])
@pytest.mark.parametrize("name", SECONDS)
def test_what_is_killed_leaves_a_valid_store_and_nothing_else(name, way, templates, tmp_path):
    place = tmp_path / "moment"
    _, violated = kill_moments.meet(name, way, SECONDS[name], place, templates, random.Random(0))
    assert not violated


def test_a_moment_sees_what_was_left(tmp_path):
    """Leftovers of earlier versions: the test above fails on each."""
    moment = kill_moments.Moment(kill_moments.COMMANDS["time"], "SIGTERM", tmp_path)
    for each in ("tmp/xbench-logs-k3x9", "cache/models/.lenet-1-k3x9", "cache/live/network_1", "out", "cache/models/m"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "cache/models/m/tmpk3x9.npz").write_text("")
    (tmp_path / "cache/models/.lock").write_text("")
    (tmp_path / "out" / ".xbench-in-use").write_text("")
    assert sorted(each.name for each in kill_moments.litter(tmp_path)) == [
        *(".lenet-1-k3x9", ".xbench-in-use", "network_1", "tmpk3x9.npz", "xbench-logs-k3x9"),
    ]
    (tmp_path / "out" / "results.jsonl").write_text("{}\n")
    (tmp_path / "stdout").write_text("")
    (tmp_path / "stderr").write_text("Traceback (most recent call last):\nKeyboardInterrupt\n")
    moment.records()
    kill_moments.judge_end(moment, -15, met=True)
    text = "\n".join(moment.violations)
    for words in ("the store cannot be read", "a traceback", "exit code -15, not 143", "does not say how it ended"):
        assert words in text
