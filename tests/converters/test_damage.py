"""A damaged cache is never a runtime's fault: it is rebuilt with a message, and no changed text is run."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import damages
import pytest
from damages import CANARY, EVERY, HARMLESS, HIDDEN, OF_SEALS, OF_TEXTS, SEEN, write_model

from xbench.converters import cache, damage, seals
from xbench.errors import XBenchError

# The in-process test covers every kind; these run the real command, where each costs a worker.
JUDGED = HIDDEN | OF_TEXTS | {kind: EVERY[kind] for kind in (*list(SEEN)[::2], *list(OF_SEALS)[::2])}


@pytest.fixture(scope="module")
def whole(exporter, tmp_path_factory):
    """An intact cache with a model per kind of damage, and one more: word -> folder. Read only."""
    place, folders = tmp_path_factory.mktemp("whole"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XBENCH_CACHE", str(place / "cache"))
        for number in range(len(EVERY) + 1):
            word = str(write_model(place / f"m{number}.onnx"))
            artifact = exporter.artifact(word)
            for seed in (0, 1):
                exporter.reference(artifact, "forward", 2 + seed, seed, "synthetic")
            folders[word] = artifact.folder
    return folders


@pytest.fixture
def damaged(whole, tmp_path, monkeypatch):
    """Make a cache of models with these kinds of damage: kind -> word, folder."""
    monkeypatch.setenv("XBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(CANARY, str(tmp_path / "canary"))

    def make(*kinds: str) -> dict[str, tuple[str, Path]]:
        *words, other = whole
        copies = {kind: (word, tmp_path / "cache/models" / whole[word].name) for kind, word in zip(EVERY, words)}
        for kind in kinds:
            word, folder = copies[kind]
            shutil.copytree(whole[word], folder)
            EVERY[kind](folder, whole[other])
        return {kind: copies[kind] for kind in kinds}

    return make


def checked(shell, damaged, runtime):
    """The rows of one `xbench check`, by the kind of damage, and its standard error."""
    words = [word for word, _ in damaged.values()]
    answer = shell.run("check", *words, "--runtime", runtime, "--mode", "forward", "--json")
    rows = {row["model"]: row for row in json.loads(answer.stdout)}
    assert {kind: rows[word]["status"] for kind, (word, _) in damaged.items()} == dict.fromkeys(damaged, "PASS")
    assert answer.returncode == 0 and "Traceback" not in answer.stderr
    return {kind: rows[word] for kind, (word, _) in damaged.items()}, answer.stderr


def test_no_damage_is_a_fault_of_a_runtime(shell, damaged, tmp_path):
    """Even if sizes and times do not show it: then the cell is measured again, and its row says so."""
    assert len(JUDGED) > 20
    made = damaged(*JUDGED)
    rows, stderr = checked(shell, made, "onnxruntime")
    assert ".onnx has another content" in rows["a bit of the graph"]["message"]
    unsaid = {kind for kind, (_, folder) in made.items() if str(folder) not in stderr}
    assert unsaid <= HARMLESS | {"a bit of the weights"}, "which ONNX Runtime does not read"
    assert not (tmp_path / "canary").exists()


def test_no_changed_text_is_run(shell, damaged, tmp_path):
    rows, stderr = checked(shell, damaged("a bit of the weights", *OF_TEXTS), "torch")
    message = rows["a bit of the weights"]["message"]
    assert "measured again" in message and "weights.bin has another content" in message
    assert stderr.count("it is made again") == len(OF_TEXTS), "all but the harmless one, and the weights"
    assert not (tmp_path / "canary").exists()


def test_a_text_that_changes_behind_the_look_is_not_run(damaged, exporter):
    word, folder = damaged("a second text")["a second text"]
    artifact = exporter.artifact(word)
    assert artifact.layouts == ("nchw",) and artifact.program("nhwc").source == artifact.program().source
    damages.malicious(folder, folder)
    with pytest.raises(seals.Broken, match=r"program\.py was changed, and is not executed"):
        artifact.program()
    with pytest.warns(seals.Damaged, match=r"program\.py has another"):
        assert exporter.renewed(artifact) is not None
    assert CANARY not in artifact.program().source


def test_what_is_damaged_is_made_again(damaged, whole, exporter):
    """It is restored byte by byte, except for the seconds of the export."""
    for kind, (word, folder) in damaged(*EVERY.keys() - HARMLESS).items():
        with pytest.warns(seals.Damaged, match=str(folder)):
            artifact = exporter.artifact(word)
            for seed in (0, 1):
                exporter.reference(artifact, "forward", 2 + seed, seed, "synthetic")
            exporter.renewed(artifact)
        for seed in (0, 1):
            exporter.reference(artifact, "forward", 2 + seed, seed, "synthetic")
        assert damage.look(artifact) == {} and not cache.broken(folder), kind
        rebuilt, sound = (contents(each) for each in (folder, whole[word]))
        assert rebuilt.keys() == sound.keys() | {cache.LOCK}, kind
        changes = {name for name in sound if not name.endswith(seals.SUFFIX) and rebuilt[name] != sound[name]}
        assert changes <= {"model.json"}, kind


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_two_processes_mend_the_same_at_once(damaged, tmp_path):
    script = """
import sys, warnings
from pathlib import Path
from xbench.converters import damage
from xbench.workers.prepare import Exporter
warnings.simplefilter("ignore")
exporter = Exporter(Path(sys.argv[1]))
for word in sys.argv[2:]:
    artifact = exporter.artifact(word)
    exporter.reference(artifact, "forward", 2, 0, "synthetic")
    exporter.renewed(artifact)
    exporter.reference(artifact, "forward", 2, 0, "synthetic")
    assert not damage.look(artifact), damage.look(artifact)
exporter.close()
"""
    kinds = ("a bit of the weights", "weights cut short", "a folder for a graph", "all of another model", "no seal")
    made = damaged(*kinds, "a bit of a reference", "a folder for a reference")
    logs = [tmp_path / "a", tmp_path / "b"]
    for log in logs:
        log.mkdir()
    command = [sys.executable, "-P", "-c", script]
    processes = [subprocess.Popen([*command, log, *(word for word, _ in made.values())]) for log in logs]
    assert [process.wait(240) for process in processes] == [0, 0]


def read_only(place: Path) -> list[str]:
    """A command prefix that makes a folder read-only for the command that follows."""
    if os.geteuid():
        for folder in (place, *place.rglob("*/")):
            folder.chmod(0o555)
        return []
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("root can write everywhere here")
    bound = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    return ["unshare", "-m", "sh", "-c", bound, str(place)]


def test_a_cache_that_cannot_be_written_is_said_and_no_runtimes_fault(shell, damaged, tmp_path):
    *words, short = (w for w, _ in damaged("a bit of the graph", "a reference cut short", "weights cut short").values())
    before, options = read_only(tmp_path / "cache"), ("--runtime", "onnxruntime", "--mode", "forward", "--json")

    def check(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*before, *shell.command("check", *words, *options)]
        return subprocess.run(
            command, capture_output=True, text=True, env=shell.environment(), cwd=shell.folder, timeout=300
        )

    answer = check(*words)
    rows = {row["model"]: row for row in json.loads(answer.stdout)}
    assert answer.returncode == 1 and "Traceback" not in answer.stderr
    assert {row["status"] for row in rows.values()} == {"UNVERIFIED"} and set(rows) == set(words)
    assert all("cannot write the cache" in row["message"] for row in rows.values())
    refused = check(short)
    assert refused.returncode == 2 and not refused.stdout
    assert "cannot write the cache" in refused.stderr.splitlines()[-1] and "Traceback" not in refused.stderr


def test_a_folder_of_another_user_is_not_used(damaged, monkeypatch):
    _, folder = damaged("a second text")["a second text"]
    assert cache.broken(folder) is None
    if folder.stat().st_uid == 0:
        os.chown(folder, 23456, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "belongs to another user" in (cache.broken(folder) or "")


# ***** what is kept as JSON *****

KEPT = {
    "garbage": lambda path, text: path.write_bytes(b"\xff\xfe"),
    "empty": lambda path, text: path.write_text(""),
    "cut short": lambda path, text: path.write_text(text[:-3]),
    "another value": lambda path, text: path.write_text(text.replace("1.5", "2.5")),
    "of something else": lambda path, text: seals.keep(path, "other", 1.5),
    "deep": lambda path, text: path.write_text("[" * 100_000),
    "a folder": lambda path, text: (path.unlink(), path.mkdir()),
    "a pipe": lambda path, text: (path.unlink(), os.mkfifo(path)),
    "a link": lambda path, text: (path.rename(path.with_suffix(".x")), path.symlink_to(path.with_suffix(".x"))),
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_is_kept_is_not_believed_when_it_is_damaged(kind, tmp_path):
    path = tmp_path / "kept.json"
    with warnings.catch_warnings(action="error"):
        assert seals.kept(path, "this") is None
        seals.keep(path, "this", 1.5)
        assert seals.kept(path, "this") == 1.5
    KEPT[kind](path, path.read_text())
    with pytest.warns(seals.Damaged, match="was damaged: it is made again"):
        assert seals.kept(path, "this") is None


def test_a_model_that_is_damaged_again_and_again_is_not_measured_for_ever(exporter, damaged):
    from xbench.experiments import blame

    word, folder = damaged("a bit of the weights")["a bit of the weights"]
    artifact, turns = exporter.artifact(word), []

    def run(done):
        turns.append(done)
        if len(turns) > 1:
            damages.quietly(folder / "weights.bin", damages.flipped)
        yield {"key": "k", "status": "CRASH", "message": "no", "parity": None, "times": None}

    with pytest.warns(seals.Damaged):
        (record,) = blame.sound(run, artifact, exporter)
    assert len(turns) == blame.TURNS and record["status"] == "UNVERIFIED"
    assert "damaged again and again: weights.bin" in record["message"]


def test_a_model_that_cannot_be_made_again_is_unverified(damaged, exporter):
    from xbench.experiments import blame
    from xbench.workers.prepare import Exporter

    word, _ = damaged("a bit of the weights")["a bit of the weights"]
    artifact = exporter.artifact(word)
    stranger = Exporter(Path("nowhere"))  # which does not know the file it was made from
    given = {"key": "k", "status": "FAIL", "message": "no", "parity": None, "times": None}
    (record,) = blame.sound(lambda done: [given], artifact, stranger)
    assert record["status"] == "UNVERIFIED" and "weights.bin has another content): delete it" in record["message"]
    with pytest.raises(XBenchError, match="delete it"):
        stranger.renewed(artifact)
