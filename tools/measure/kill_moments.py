"""Ends commands, and workers of theirs, at random moments, and looks at what is left.

    python tools/measure/kill_moments.py --folder EMPTY [--moments 20] [--seed 0] [--command time ...] [--log FILE]

Every command gets `kill -9` of itself, `kill -9` of one of its workers, SIGTERM and SIGINT in turn, each at a random
moment of its undisturbed duration. Checked after each: the exit code and the word for it, the store, no process left,
no traceback; then the same command again, which must succeed, and leave no temporary folder. Prints a table and the
violations; exit code 1 if there are any.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from xbench.errors import XBenchError
from xbench.store import results
from xbench.store.turn import HELD

MARK = "XBENCH_MOMENTS_MARK"
PATIENCE = 300.0  # seconds for a command that takes a few
GONE = 10.0  # seconds in which processes must be gone
WAYS = ("kill -9", "kill -9 of a worker", "SIGTERM", "SIGINT")
SIGNALS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
DONE = re.compile(r"saved in|\[(\d+)/\1\]")  # the last line of a command: only Python's own exit follows
# The record after a worker was killed: of its own cell, or of the one whose reference it computed.
KILLED = re.compile(r"(CRASH|UNVERIFIED): .*(SIGKILL|worker \d+ of \d+ ended)")
ENDS = {
    "kill -9": (-9, ""),
    "SIGTERM": (143, "xbench: ended by SIGTERM; what was measured is kept"),
    "SIGINT": (130, "xbench: interrupted; what was measured is kept"),
}


@dataclass(frozen=True)
class Command:
    """The command line; the file of its records, if any; the option that measures a failed record again; the state of
    its cache (`ready`: all, `converted`: the model, `empty`)."""

    words: tuple[str, ...]
    store: str | None = None
    again: tuple[str, ...] = ()
    cache: str = "ready"


LENET = ("lenet", "--runtime", "onnxruntime")
COMMANDS = {
    "convert": Command(("convert", *LENET, "--runtime", "torch"), cache="empty"),
    "check": Command(("check", *LENET, "--threads", "1"), "check.jsonl", cache="converted"),
    "time": Command(
        ("time", *LENET, "--runtime", "null", "--mode", "forward", "--batch", "1", "--threads", "1", "--budget", "0.1"),
        "results.jsonl",
        ("--retry",),
    ),
    "train": Command(
        ("train", "lenet", "--data", "digits", *LENET[1:], "--epochs", "1", "--threads", "1"),
        "training.jsonl",
        ("--retry",),
    ),
    "load": Command(
        ("load", *LENET, "--scenario", "single-stream,offline", "--seconds", "0.1", "--threads", "1"),
        "load.jsonl",
        ("--retry",),
    ),
    "phases": Command(
        ("phases", *LENET, "--budget", "0.1", "--threads", "1"),
        "phases.jsonl",
        ("--retry",),
    ),
    "scale": Command(
        ("scale", "lenet", "--runtime", "torch", "--batch", "4", "--budget", "0.1"), "scaling.jsonl", ("--rerun",)
    ),
}


@dataclass
class Moment:
    """One command that is ended: its folder, and its violations."""

    command: Command
    way: str
    folder: Path
    violations: list[str] = field(default_factory=list)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def process(self, *more: str) -> "subprocess.Popen[str]":
        places = {"XBENCH_CACHE": str(self.folder / "cache"), "TMPDIR": str(self.folder / "tmp")}
        out = ("--out", "out") if self.command.store else ()
        return subprocess.Popen(
            [sys.executable, "-P", "-c", "from xbench.cli import main; main()", *self.command.words, *out, *more],
            stdin=subprocess.DEVNULL,
            stdout=(self.folder / "stdout").open("w"),
            stderr=(self.folder / "stderr").open("w"),
            cwd=self.folder,
            env={**os.environ, **places, MARK: self.mark, "XBENCH_SHARED": "1"},
            start_new_session=True,
        )

    def output(self) -> str:
        return (self.folder / "stdout").read_text(errors="replace") + (self.folder / "stderr").read_text(
            errors="replace"
        )

    def expect(self, true: object, otherwise: str) -> None:
        if not true:
            self.violations.append(f"{self.command.words[0]}, {self.way}: {otherwise}")

    def store(self) -> bytes:
        path = self.folder / "out" / (self.command.store or "")
        return path.read_bytes() if self.command.store and path.is_file() else b""

    def records(self) -> list[dict[str, object]]:
        """The records that count; a store that cannot be read is a violation."""
        if not self.command.store or not (self.folder / "out" / self.command.store).exists():
            return []
        try:
            return list(results.latest(results.read(self.folder / "out" / self.command.store)).values())
        except XBenchError as error:
            self.expect(False, f"the store cannot be read: {error}")
            return []


def marked(mark: str, worker: bool = False) -> list[int]:
    """Living processes with a mark in their environment; with `worker` only workers."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            about = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        is_worker = b"xbench.workers." in about[1] or not worker
        if f"{MARK}={mark}".encode() in about[0] and is_worker and state not in ("Z", "X"):
            pids.append(int(folder.name))
    return sorted(pids)


def end(moment: Moment, seconds: float, chance: random.Random) -> bool:
    """Start the command and end it, or a worker of it, after some seconds; return whether it was still running."""
    process, begin = moment.process(), time.monotonic()
    time.sleep(seconds)
    if moment.way in SIGNALS:
        met = process.poll() is None
        process.send_signal(SIGNALS[moment.way])
    else:
        while not (workers := marked(moment.mark, worker=True)) and process.poll() is None:
            time.sleep(0.02)
        met = bool(workers)
        if met:
            os.kill(chance.choice(workers), signal.SIGKILL)
    try:
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
        moment.expect(False, f"it goes on for {time.monotonic() - begin:.0f} s")
    judge_end(moment, code, met)
    return met


def judge_end(moment: Moment, code: int, met: bool) -> None:
    """Check how a command ended, and which processes are alive."""
    output = moment.output()
    last = output.strip().splitlines()[-1] if output.strip() else ""
    moment.expect("Traceback" not in output, f"a traceback: {last}")
    if moment.way not in ENDS:
        moment.expect(code in (0, 1, 2), f"exit code {code}: {last}")
        named = any(words in output for words in ("SIGKILL", "CRASH"))
        moment.expect(code == 0 or named, f"the death of the worker is called otherwise: {last}")
        moment.expect("out of memory" not in output, f"a killed worker is called out of memory: {last}")
    elif (
        met and code != 0 and not (code == -SIGNALS[moment.way] and DONE.match(last))
    ):  # it may have been at its very end
        expected, word = ENDS[moment.way]
        moment.expect(code == expected, f"exit code {code}, not {expected}: {last}")
        moment.expect(not word or last == word, f"it does not say how it ended: {last!r}")
    until = time.monotonic() + GONE
    while marked(moment.mark) and time.monotonic() < until:
        time.sleep(0.05)
    moment.expect(not marked(moment.mark), f"processes are left: {[command_of(pid) for pid in marked(moment.mark)]}")


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:100]
    except OSError:
        return "?"


def go_on(moment: Moment, before: bytes) -> None:
    """Run the same command to its end, and check its records and what it leaves."""
    failed = any(record["status"] != "PASS" for record in moment.records())
    final = {record["key"] for record in moment.records() if record["status"] == "PASS"}
    for record in (each for each in moment.records() if each["status"] != "PASS"):
        outcome = f"{record['status']}: {record['message']}"
        moment.expect(moment.way not in ENDS and KILLED.match(outcome), f"recorded is {outcome}")
    process = moment.process(*(moment.command.again if failed else ()))
    try:
        code = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    output = moment.output().strip()
    moment.expect(code == 0, f"run again it ends with {code}: {output.splitlines()[-1] if output else ''}")
    kept = before[: before.rfind(b"\n") + 1]
    moment.expect(moment.store().startswith(kept), "what was recorded is lost")
    made = {json.loads(line)["key"] for line in moment.store()[len(kept) :].splitlines()}
    again = final & made and not (failed and "--rerun" in moment.command.again)
    moment.expect(not again, "what was final is measured again")
    statuses = [record["status"] for record in moment.records()]
    moment.expect(not moment.command.store or set(statuses[-1:]) == {"PASS"}, f"run again it records {statuses}")
    left = sorted(str(each.relative_to(moment.folder)) for each in litter(moment.folder))
    moment.expect(not left, f"it leaves {left}")


def litter(folder: Path) -> Iterator[Path]:
    """What no command may leave, independent of xbench's own names: anything in the system's temporary folder except
    ONNX Runtime's mark of a session, hidden or half-written files in the cache, the lock of a store."""
    yield from (each for each in (folder / "tmp").iterdir() if each.name != ".ses")
    cache = folder / "cache"
    for place in ("models", "models/*", "peaks", "live"):
        yield from (each for each in cache.glob(f"{place}/.*") if each.name != ".lock")
        yield from cache.glob(f"{place}/*tmp*")
    yield from cache.glob("live/*")
    yield from (each for each in (folder / "out").glob(".*") if each.name == HELD or "xbench" in each.name)


def prepared(place: Path, command: Command, way: str, templates: Path) -> Moment:
    """An empty folder for a command, with its cache."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "tmp").mkdir(parents=True)
    if command.cache == "empty":
        (place / "cache").mkdir()
    else:
        shutil.copytree(templates / command.cache, place / "cache", symlinks=True)
    return Moment(command, way, place)


def make_templates(folder: Path, names: list[str]) -> dict[str, float]:
    """Make the caches of the commands; return the undisturbed seconds of each command with its cache."""
    for kind in ("ready", "converted"):
        (folder / kind).mkdir(parents=True)
    runs = [("converted", Command(("convert", *LENET))), *(("ready", COMMANDS[name]) for name in names)]
    for kind, command in runs:
        moment = Moment(command, "first", folder / kind)
        run_undisturbed(moment, folder / kind)
    seconds = {}
    for name in names:
        moment = prepared(folder / "whole", COMMANDS[name], "undisturbed", folder)
        seconds[name] = run_undisturbed(moment, moment.folder / "cache")
    return seconds


def run_undisturbed(moment: Moment, cache: Path) -> float:
    place = moment.folder.parent / "first"
    shutil.rmtree(place, ignore_errors=True)
    (place / "tmp").mkdir(parents=True)
    (place / "cache").symlink_to(cache.absolute())
    begin = time.monotonic()
    first = Moment(moment.command, moment.way, place)
    code = first.process().wait(PATIENCE)
    if code:
        raise SystemExit(f"{' '.join(moment.command.words)} ends with {code} undisturbed: {first.output()[-500:]}")
    return time.monotonic() - begin


def meet(name: str, way: str, seconds: float, place: Path, templates: Path, chance: random.Random) -> tuple[bool, list]:
    """One complete moment: whether the command was still running, and the violations."""
    moment = prepared(place, COMMANDS[name], way, templates)
    met = end(moment, seconds, chance)
    moment.records()
    go_on(moment, moment.store())
    return met, [f"{each} (after {seconds:.2f} s)" for each in moment.violations]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--moments", type=int, default=20, help="of each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", action="append", choices=list(COMMANDS))
    parser.add_argument("--log", type=Path, help="where each moment is written; those that are in it are not run again")
    parser.add_argument("--folder", type=Path, required=True, help="an empty one, to work in")
    given = parser.parse_args()
    names = given.command or list(COMMANDS)
    outcomes = (
        [json.loads(line) for line in given.log.read_text().splitlines()] if given.log and given.log.exists() else []
    )
    known = Counter(row[0] for row in outcomes)
    durations = make_templates(given.folder, names)
    for name in names:
        for number in range(known[name], given.moments):
            way, chance = WAYS[number % len(WAYS)], random.Random(f"{given.seed} {name} {number}")
            seconds = chance.uniform(0.02, 1.0) * durations[name]
            met, violated = meet(name, way, seconds, given.folder / "moment", given.folder, chance)
            outcomes.append([name, way, round(seconds, 2), met, violated])
            print(json.dumps(outcomes[-1]), file=sys.stderr, flush=True)
            if given.log:
                with given.log.open("a") as file:
                    file.write(json.dumps(outcomes[-1]) + "\n")
    print(f"{given.moments} moments of each command, seed {given.seed}\n")
    show([row for row in outcomes if row[0] in names], durations)
    sys.exit(any(row[-1] for row in outcomes))


def show(outcomes: list[list], durations: dict[str, float]) -> None:
    """Print the table: how many moments hit each command while running, and after how many something was wrong."""
    print(f"{'command':<10}{'whole':>8}" + "".join(f"{way:>22}" for way in WAYS))
    for name, seconds in durations.items():
        words = []
        for way in WAYS:
            rows = [row for row in outcomes if row[:2] == [name, way]]
            words.append(f"{sum(row[3] for row in rows)} of {len(rows)} met, {sum(bool(row[4]) for row in rows)} wrong")
        print(f"{name:<10}{seconds:>6.1f} s" + "".join(f"{word:>22}" for word in words))
    print("\n" + ("\n".join(line for row in outcomes for line in row[4]) or "nothing was violated"))


if __name__ == "__main__":
    main()
