"""`xbench since`: the release of a runtime since which a network is slower, or wrong."""

import contextlib
import json
import math
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fault_kit import only_line
from planted_releases import plant

from xbench.case import Case
from xbench.errors import XBenchError
from xbench.experiments.settings import Protocol
from xbench.experiments.since import request
from xbench.experiments.since.questions import SESSIONS, Bench, Session, Slower
from xbench.experiments.since.search import BAD, GOOD, SKIPPED, UNCLEAR, Look, most_steps, search
from xbench.reports import since as reports
from xbench.runtimes._environments import Recipe
from xbench.stats.ratio import above, beyond_middle, paired_estimate
from xbench.workers.building import releases

RELEASES = [f"9.{number}.0" for number in range(8)]
COMMAND = ("since", "lenet", "onnxruntime", "--versions", ",".join(RELEASES), "--threads", 1)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9, 33])
def test_the_first_bad_release_is_found_in_few_steps(count):
    names = [str(number) for number in range(count)]
    for first_bad in range(1, count):
        asked = []

        def judge(good, release, bad, asked=asked, first_bad=first_bad):
            assert int(good) < int(release) < int(bad) and int(good) < first_bad <= int(bad)
            asked.append(release)
            return Look(BAD if int(release) >= first_bad else GOOD, "", 0.99)

        found = search(names, judge)
        assert (found.good, found.bad) == (str(first_bad - 1), str(first_bad))
        assert list(found.looks) == asked and len(asked) <= most_steps(count)
        assert 1 + len(asked) <= math.log2(count) + 1 or count == 2
        assert found.certainty == pytest.approx(0.99 ** len(asked))


def test_releases_that_cannot_be_judged_are_left_out():
    draw = random.Random(0)
    for _ in range(300):
        count = draw.randint(2, 20)
        first_bad, names = draw.randrange(1, count), [str(number) for number in range(count)]
        skipped = {name for name in names[1:-1] if draw.random() < 0.4}

        def judge(good, release, bad, skipped=skipped, first_bad=first_bad):
            assert good not in skipped and bad not in skipped
            unknown = UNCLEAR if int(release) % 2 else SKIPPED
            return Look(unknown if release in skipped else BAD if int(release) >= first_bad else GOOD, "", 0.9)

        found = search(names, judge)
        assert int(found.good) < first_bad <= int(found.bad)
        assert {*names[int(found.good) + 1 : int(found.bad)]} <= skipped
        answers = [look for look in found.looks.values() if look.state in (GOOD, BAD)]
        assert found.certainty == pytest.approx(0.9 ** len(answers))


KNOWN = ["1.9.0", "1.20.0", "1.20.1", "1.21.0", "1.21.1", "1.100.0"]


@pytest.mark.parametrize(
    ("first", "last", "chosen"),
    [
        ("1.9.0", None, KNOWN),
        ("1.20", "1.21", KNOWN[1:5]),
        ("1.20.1", "1.21.0", KNOWN[2:4]),
        ("1", "1.100", KNOWN),
        ("1.2", None, "there is no release 1.2: the nearest is 1.9.0"),
        ("1.20", "1.30", "there is no release 1.30: the nearest is 1.21.1 or 1.100.0"),
        ("1.21", "1.20", "1.21 is not before 1.20.1: there is nothing between them"),
        ("1.100.0", None, "1.100.0 is not before 1.100.0"),
        ("../x", None, "there is no release ../x"),
    ],
)
def test_a_range_of_releases(first, last, chosen):
    if isinstance(chosen, list):
        assert releases.between(KNOWN, first, last) == chosen
    else:
        with pytest.raises(XBenchError, match=chosen.replace(".", r"\.")):
            releases.between(KNOWN, first, last)


def test_releases_are_those_of_the_index(tmp_path, monkeypatch):
    """By pip itself, from a folder of wheels: in order, none for another Python, no release candidate."""
    for name in ("1.9.0-py3", "1.10.0-py3", "1.11.0rc1-py3", "1.12.0-cp27"):
        version, tag = name.split("-")
        with zipfile.ZipFile(tmp_path / f"planted-{version}-{tag}-none-any.whl", "w") as wheel:
            wheel.writestr(f"planted-{version}.dist-info/METADATA", f"Name: planted\nVersion: {version}\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    recipe = Recipe("planted", ("3.11",), (), "planted", "")
    assert releases.released(recipe, sys.executable) == ["1.9.0", "1.10.0"]
    with pytest.raises(XBenchError, match=r"the package index lists no releases of nothing_there: .*name them with"):
        releases.released(Recipe("", ("3.11",), (), "nothing_there", ""), sys.executable)


def blocks(rng, seconds, processes=1, rounds=6):
    """Blocks of processes that differ by 2 %, as on a quiet machine."""
    made = []
    for process in range(processes):
        own = seconds * math.exp(rng.normal(0, 0.02))
        made += [
            {"round": n, "process": process, "samples": list(own * np.exp(rng.normal(0, 0.01, 9)))}
            for n in range(rounds)
        ]
    return made


def test_a_release_is_what_it_is_nearer_to():
    rng = np.random.default_rng(0)
    for middle, expected in ((1.0, False), (1.15, True), (1.3, True)):
        fast, third, slow = (blocks(rng, seconds, 3) for seconds in (1.0, middle, 1.15))
        assert (above(beyond_middle(fast, third, slow, rng)) > 0.95) == expected
    assert beyond_middle(blocks(rng, 1.0, rounds=2), blocks(rng, 1.0), blocks(rng, 1.0), rng) is None


def test_what_is_called_certain_is_right():
    """Of 400 answers called 99.5 % certain at most 1 % are wrong, and the certainty of all is no larger than their
    share of right ones, within what chance explains."""
    rng = np.random.default_rng(1)
    answers = []
    for _ in range(400):
        times = rng.uniform(0.95, 1.45)
        share = above(paired_estimate(blocks(rng, times), blocks(rng, 1.0), rng), math.log(1.2))
        answers.append((max(share, 1 - share), (share > 0.5) == (times > 1.2)))
    certain = [right for share, right in answers if share >= 0.995]
    assert len(certain) > 100 and np.mean(certain) >= 0.99
    claimed, right = np.mean(answers, axis=0)
    assert claimed <= right + 0.05


class Scripted(Bench):
    """Releases whose times are known, by how much a session disturbs them; one has no environment, one is wrong."""

    def __init__(self, seconds, noise=0.0):
        super().__init__(Case("lenet", "onnxruntime:level=all"), None, None, self.missing)
        self.seconds, self.noise, self.rng, self.sessions = seconds, noise, np.random.default_rng(0), []

    def missing(self, word):
        if "==0." in word:
            raise XBenchError(f"{word}: no wheel")

    def run(self, experiment, names, again="failed"):
        self.sessions.append(names)
        made = []
        for name in names:
            slow = self.seconds[name] * math.exp(self.rng.normal(0, self.noise))
            times = {"blocks": [{**each, "process": 0} for each in blocks(self.rng, slow)]}
            status = "FAIL" if self.seconds[name] < 0 else "PASS"
            made.append({"case": {"runtime": name}, "status": status, "message": "off", "session": "s", "times": times})
        return made


SECONDS = {"1.0": 1.0, "1.1": 1.01, "1.2": 1.3, "1.3": 1.3, "0.5": 1.0, "1.9": -1.0, "2.0": 2.0}


def test_a_release_is_slower_if_its_time_is_nearer_to_the_slow_one():
    bench = Scripted(SECONDS)
    question = Slower(bench, Protocol(), 0.1)
    assert question.ends("1.0", "1.3").state == BAD and question.ends("1.0", "1.1").state == GOOD
    assert bench.word("1.0") == "onnxruntime==1.0:level=all"
    assert question.between("1.0", "1.1", "1.3").state == GOOD
    assert question.ratio.low < 1.3 / 1.01 < question.ratio.high  # of the two that are the neighbours now
    look = question.between("1.0", "1.2", "1.3")
    assert look.state == BAD and look.certainty >= 0.995 and question.ratio.low < 1.3 < question.ratio.high
    assert question.between("1.0", "1.2", "2.0").state == GOOD
    assert question.ratio.low < 2.0 / 1.3 < question.ratio.high
    assert question.between("1.0", "0.5", "1.3") == Look(SKIPPED, "onnxruntime==0.5:level=all: no wheel")
    assert question.between("1.0", "1.9", "1.3") == Look(SKIPPED, "1.9 is FAIL: off")
    for ends, says in ((("1.9", "1.0"), "begin with a release that is right"), (("1.0", "1.9"), "--wrong asks since")):
        with pytest.raises(XBenchError, match=says):
            question.ends(*ends)


def test_what_is_not_certain_is_no_answer():
    seconds = {"a": 1.0, "b": 1.14, "c": 1.3}
    bench = Scripted(seconds, noise=0.05)
    with pytest.raises(XBenchError, match=r"whether b is 17% slower cannot be said: 1\..* give it a larger --budget"):
        Slower(bench, Protocol(), 0.17).ends("a", "b")
    assert len(bench.sessions) == SESSIONS
    bench = Scripted(seconds, noise=0.1)
    look = Slower(bench, Protocol(), 0.17).between("a", "b", "c")
    assert look.state == UNCLEAR and look.certainty < 0.9 and len(bench.sessions) == SESSIONS


def test_sessions_are_processes_and_one_of_two_is_measured_again():
    class Ended(Scripted):
        """A session that was ended before its last record was stored."""

        def run(self, experiment, names, again="failed"):
            records = super().run(experiment, names, again)
            if again != "all":
                records[-1]["session"] = "earlier"
            return records

    bench = Ended({"a": 1.0, "b": 1.17}, noise=0.05)
    question = Slower(bench, Protocol(), 0.17)
    with contextlib.suppress(XBenchError):
        question.ends("a", "b")
    assert len(bench.sessions) == 2 * SESSIONS
    processes = [each["process"] for each in question._blocks["a", "b"]["b"]]
    assert processes == [number for number in range(SESSIONS) for _ in range(6)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("onnxrunt", "--from", "1"), "unknown runtime 'onnxrunt': did you mean onnxruntime?"),
        (("mxnet", "--from", "1"), "mxnet has no versions to choose from"),
        (("onnxruntime==1.20.1", "--from", "1"), "write the runtime without one"),
        (("onnxruntime:levl=all", "--from", "1"), "onnxruntime has no option 'levl'"),
        (("onnxruntime", "--from", "1", "--slower", "0%"), "--slower 0%: write how much slower, such as 10%"),
        (("onnxruntime", "--from", "1", "--slower=-5%"), "--slower -5%: write how much slower"),
        (("onnxruntime", "--from", "1", "--slower", "ten"), "--slower ten: write how much slower"),
        (("onnxruntime", "--from", "1", "--versions", "1,../x"), "'../x' is no final release, such as 1.20.1"),
        (("onnxruntime", "--from", "1", "--versions", "1.0,,1.1"), "'' is no final release, such as 1.20.1"),
        (("onnxruntime", "--from", "1", "--versions", "1.0,1.1rc1"), "'1.1rc1' is no final release"),
        (("onnxruntime", "--from", "", "--versions", "1.0,1.1"), "there is no release : the nearest is 1.0"),
        (("onnxruntime", "--from", "1.0", "--output", ".", "--versions", "1.0,1.1"), "--output .: name a new folder"),
        (("onnxruntime", "--from", "1.2", "--versions", "1.0,1.1"), "there is no release 1.2: the nearest is 1.1"),
        (("onnxruntime", "--from", "1.1", "--versions", "1.0,1.1"), "1.1 is not before 1.1"),
        (("onnxruntime", "--from", "1", "--mode", "backward", "--versions", "1.0,1.1"), "unknown mode 'backward'"),
    ],
)
def test_a_wrong_command_is_one_line(words, says, shell):
    answer = shell.inside("since", "lenet", *words)
    assert answer.returncode == 2 and says in only_line(answer.stderr)


@pytest.mark.parametrize(("word", "value"), [("10%", 0.1), ("2.5 %", 0.025), ("200%", 2.0)])
def test_a_share(word, value):
    assert request.share(word) == pytest.approx(value)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("XBENCH_ENVIRONMENTS", str(tmp_path / "environments"))
    return tmp_path / "environments"


def test_the_release_that_is_wrong_first_is_named(root, shell, lenet):
    """One between cannot be imported. The search goes on where it was ended, and its script needs no xbench."""
    plant(root, RELEASES, wrong=RELEASES[3:], broken=[RELEASES[6]])
    answer = shell.run(*COMMAND, "--from", "9.0", "--wrong", "--out", "out", "--output", "found", "--json")
    assert answer.returncode == 1, answer.stderr
    report = json.loads(answer.stdout)
    assert (report["good"], report["bad"], report["between"]) == ("9.2.0", "9.3.0", [])
    assert [each["release"] for each in report["steps"]] == ["9.7.0", "9.3.0", "9.1.0", "9.2.0"]
    assert "onnxruntime==9.3.0 is FAIL: " in report["steps"][1]["words"]
    assert reports.sentence(report) == "wrong since 9.3.0; 9.2.0 is the last good release; 100.0% certain"
    settings = "--mode forward --batch 1 --threads 1"
    assert reports.then(report) == f"xbench bisect lenet onnxruntime==9.3.0 onnxruntime==9.2.0 {settings}"
    known = len(check_records(shell))
    again = shell.run(*COMMAND, "--from", "9.0", "--wrong", "--out", "out", "--output", "again", "--json")
    assert {**json.loads(again.stdout), "files": report["files"]} == report
    assert len(check_records(shell)) == known + 2  # those that failed, which may have been mended
    for release, code in (("9.2.0", 0), ("9.3.0", 1)):
        python = root / f"onnxruntime=={release}" / "bin" / "python"
        ran = subprocess.run([python, shell.folder / "found" / "reproduce.py"], capture_output=True, text=True)
        assert ran.returncode == code, ran.stdout + ran.stderr


def sessions(shell):
    return [json.loads(line) for line in (shell.folder / "out" / "since.jsonl").read_text().splitlines()]


def check_records(shell):
    return (shell.folder / "out" / "check.jsonl").read_text().splitlines()


def test_nothing_is_found_where_nothing_is_wrong(root, shell, lenet):
    plant(root, RELEASES[:2], wrong=RELEASES[:1])
    ends = ("--versions", "9.0.0,9.1.0", "--from", "9.0", "--wrong", "--out", "out")
    answer = shell.inside("since", "lenet", "onnxruntime", *ends)
    assert answer.returncode == 2
    assert "onnxruntime==9.0.0 is FAIL: " in answer.stderr and "begin with a release that is right" in answer.stderr
    plant(root, ["9.2.0", "9.3.0"])
    ends = ("--versions", "9.2.0,9.3.0", "--from", "9.2", "--wrong", "--out", "out")
    answer = shell.inside("since", "lenet", "onnxruntime", *ends)
    assert answer.returncode == 0 and "9.3.0 is right" in answer.stdout
    assert not (shell.folder / "xbench-since").exists()


def test_the_release_that_crashes_first_is_named(root, shell, lenet):
    """A wrong one before it is something else, and is left out."""
    plant(root, RELEASES[:4], wrong=[RELEASES[1]], broken=RELEASES[2:4])
    words = ("--versions", ",".join(RELEASES[:4]), "--from", "9.0", "--wrong", "--out", "out")
    answer = shell.run("since", "lenet", "onnxruntime", *words)
    assert answer.returncode == 1
    assert "crashes since 9.2.0; 9.0.0 is the last good release that could be judged (9.1.0 could not)" in answer.stdout
    assert "bisect" not in answer.stderr


def test_a_damaged_store_ends_the_search(root, shell, lenet):
    plant(root, RELEASES[:3], wrong=RELEASES[2:3])
    (shell.folder / "out").mkdir()
    words = ("--versions", ",".join(RELEASES[:3]), "--from", "9.0", "--wrong", "--out", "out")
    assert shell.run("since", "lenet", "onnxruntime", *words).returncode == 1
    with (shell.folder / "out" / "check.jsonl").open("a") as file:
        file.write("{bad\n")
    answer = shell.inside("since", "lenet", "onnxruntime", *words)
    assert answer.returncode == 2 and "not JSON" in answer.stderr and not answer.stdout


def test_a_record_without_samples_is_measured_again():
    session = Session(Protocol(), ("a", "b"))
    case = {"model": "lenet", "runtime": "a", "mode": "forward"}
    block = {"round": 0, "samples": [0.1]}
    times = {"blocks": [block], "median_s": 0.1, "converged": True}
    assert session.line({"status": "PASS", "case": case, "times": times})
    for broken in (None, {**times, "blocks": [{"round": 0, "samples": []}]}, {**times, "blocks": [[]]}):
        with pytest.raises((LookupError, TypeError)):
            session.line({"status": "PASS", "case": case, "times": broken})


def test_what_is_in_the_folder_stays(root, shell, lenet):
    """Only what was written is named, and an ended search has said so before it measures."""
    plant(root, RELEASES[:2], wrong=RELEASES[1:2])
    (shell.folder / "full").mkdir()
    (shell.folder / "full" / "reproduce.py").write_text("mine")
    words = ("--versions", "9.0.0,9.1.0", "--from", "9.0", "--wrong", "--out", "out")
    answer = shell.inside("since", "lenet", "onnxruntime", *words, "--output", "full")
    assert answer.returncode == 2 and "--output full: it is no empty folder" in only_line(answer.stderr)
    assert not (shell.folder / "out" / "check.jsonl").exists()
    place = shell.folder / "xbench-since" / "lenet-onnxruntime-wrong-batch_1-threads_1-9_0_0-9_1_0"
    place.mkdir(parents=True)
    (place / "notes.txt").write_text("mine")
    report = json.loads(shell.run("since", "lenet", "onnxruntime", *words, "--threads", 1, "--json").stdout)
    names = ["expected.npz", "inputs.npz", "reproduce.py", "subgraph.onnx"]
    assert report["files"] == [f"xbench-since/{place.name}/{name}" for name in names]
    assert {path.name for path in place.iterdir()} == {*names, "notes.txt"}


def test_there_is_no_script_for_what_it_would_not_show(root, shell, lenet):
    plant(root, RELEASES[:2], wrong=RELEASES[1:2])
    words = ("--versions", "9.0.0,9.1.0", "--from", "9.0", "--wrong", "--precision", "fp16", "--json")
    report = json.loads(shell.run("since", "lenet", "onnxruntime", *words).stdout)
    if report["found"]:
        assert report["note"] == "there is no script without xbench for forward in fp16" and not report["files"]
        assert reports.then(report) is None


def test_the_release_that_is_slower_first_is_named(root, shell, lenet):
    """Three times as long, which no noise hides; a release that is wrong has no time, and is left out."""
    plant(root, RELEASES, slower=dict.fromkeys(RELEASES[5:], 2.0), wrong=[RELEASES[3]])
    words = (*COMMAND, "--batch", 16, "--from", "9.0", "--budget", 0.3, "--out", "out", "--json")
    answer = shell.run(*words)
    assert answer.returncode == 1, answer.stderr
    report = json.loads(answer.stdout)
    assert (report["good"], report["bad"]) == ("9.4.0", "9.5.0")
    assert report["ratio"]["value"] > 2
    states = {each["release"]: each["state"] for each in report["steps"]}
    assert states["9.3.0"] == "skipped" and states["9.7.0"] == "bad" and len(states) <= 5
    assert {each["operator"] for each in report["layers"]} >= {"Conv"}
    stored = sessions(shell)
    again = json.loads(shell.run(*words).stdout)
    assert {name: again[name] for name in ("good", "bad", "ratio")} == {n: report[n] for n in ("good", "bad", "ratio")}
    new = sessions(shell)[len(stored) :]  # of what failed, and of the releases that were timed with it
    assert {each["case"]["runtime"] for each in new} == {f"onnxruntime=={n}" for n in ("9.0.0", "9.3.0", "9.7.0")}
    script = next(path for path in report["files"] if path.endswith("reproduce.py"))
    pythons = [root / f"onnxruntime=={release}" / "bin" / "python" for release in ("9.4.0", "9.5.0")]
    ran = subprocess.run([sys.executable, script, *pythons], cwd=shell.folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout.splitlines()[-1].split()[0]) > 2
    assert Path(shell.folder, script).read_text().count("xbench") == 1  # in its first sentence


def test_the_result_in_words():
    """A release that explains a part alone, and one after which some could not be judged."""
    steps = [{"release": "1.3", "state": BAD, "words": "1.5 x", "certainty": 0.99}]
    ratio, overall = ({"value": v, "low": v - 0.05, "high": v + 0.05, "paired": True} for v in (1.1, 1.5))
    found = {"good": "1.0", "bad": "1.2", "between": ["1.1"], "ratio": ratio, "overall": overall, "certainty": 0.98}
    cell = {"model": "m", "runtime": "r", "mode": "forward", "batch": 1, "question": "slower", "kind": "slower"}
    report = {**cell, **found, "releases": ["1.0", "1.1", "1.2", "1.3"], "found": True, "steps": steps, "share": 0.1}
    layer = {"name": "conv", "operator": "Conv", "good_s": None, "bad_s": 2e-3}
    releases_, layers = reports.tables({**report, "layers": [layer]})
    assert releases_.notes == [
        "1.100 x as long (1.050 to 1.150) since 1.2; 1.0 is the last good release that could be judged "
        "(1.1 could not); 98.0% certain",
        "1.3 takes 1.500 x as long (1.450 to 1.550) as 1.0: other releases between them are slower, too",
    ]
    assert layers.lines == [["conv", "Conv", "", "2.00 ms", "+2.00 ms"]]
    assert len(reports.tables({**report, "layers": None, "ratio": overall})[0].notes) == 1
    words = reports.sentence({**report, "found": False, "ratio": None})
    assert words == "1.3 is not 10% slower than 1.0: 1.5 x; 98.0% certain"
