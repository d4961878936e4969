"""The commands that the pages show: every `console` block is run, and must print what its page says.

    python docs/shown.py                     run the blocks of every page; exit code 1 where one fails or has changed
    python docs/shown.py --write PAGE...     put what they print now into the pages

A page is a story: its blocks run in order in one new folder, which has the repository's `examples/` in it. A code
block with a caption is a file of that name. Lines behind `$ ` are given to bash; what follows is their standard output.
A command fails where its exit code is not 0: one that is meant to ends with `; echo $?`. A block marked `measured` has
times in it: numbers count for nothing there, nor the order of lines, nor what is said of the moment, as of an interval
that did not converge. In no block does it count whether this is the machine that a stored result was measured on.

Blocks without a language that name `xbench` commands are not run, because they take hours or have words to be filled
in: their options are checked against the command line.
"""

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
FENCE = re.compile(r"^(?P<ticks>```+)(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=ticks)(?:\n|\Z)", re.MULTILINE | re.DOTALL)
MOMENT = ("was not steady", "~ the interval", "disturbed", "while it was timed", "found on disk what")
PLACE = "which is not this machine"
# What a measured block is compared without: the words and numbers that differ from run to run.
VARYING = (
    (r"\b(output|loss|gradient|weight|optimizer)/\S+", "TENSOR"),  # which of many that are right is the worst
    (r"not converged ", ""),
    (r"~(?=\d)|[<>] (?=\d+ %)", ""),  # a probability of > 99 %
    (r"\d[\d.,]*(e[+-]?\d+)?( (µs|ms|s|min|h|KiB|MiB|GiB|B))?\b", "N"),
    (r"[\s│─-]+", " "),
)
SECONDS = 600  # that one command may take
# What tells a program that it runs where nobody looks: pytest says more then.
ELSEWHERE = ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "PYTEST_ADDOPTS", "FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS")


@dataclass(frozen=True)
class Shown:
    """A command, what the page says it prints, and where both stand in the page's text, from `start` to `end`."""

    command: str
    output: str
    measured: bool
    start: int
    end: int


def pages() -> list[Path]:
    """The README, and the pages of the site but docs/commands.md, which typer writes: it shows forms of commands."""
    found = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("guide/*.md"))]
    return [page for page in found if page != DOCS / "commands.md"]


def files(text: str) -> Iterator[tuple[int, str, str]]:
    """The place, the name and the content of each file that a page shows."""
    for fence in FENCE.finditer(text):
        caption = re.match(r":caption: (\S+)\n+", fence["body"])
        if fence["info"].startswith("{code-block}") and caption:
            yield fence.start(), caption[1], fence["body"][caption.end() :]


def commands(text: str) -> Iterator[Shown]:
    """The commands of the page's console blocks, in order."""
    for fence in FENCE.finditer(text):
        if fence["info"].split()[:1] != ["console"]:
            continue
        place = fence.start("body")
        for part in re.split(r"^(?=\$ )", fence["body"], flags=re.MULTILINE):
            if part.startswith("$ "):
                head = re.match(r"\$ ((?:[^\n]*\\\n)*[^\n]*\n)", part)
                assert head
                shown = head[1], part[head.end() :]
                yield Shown(*shown, "measured" in fence["info"], place + head.end(), place + len(part))
            place += len(part)


def told_only(text: str) -> Iterator[list[str]]:
    """The words of the `xbench` commands in blocks that are not run."""
    for fence in FENCE.finditer(text):
        if fence["info"].strip() in ("", "sh"):
            for line in fence["body"].replace("\\\n", " ").splitlines():
                if re.match(r"\s*xbench ", line):
                    yield from parts(line)


def parts(line: str) -> Iterator[list[str]]:
    """The words of each `xbench` command of a line of the shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word.strip("();<>|&"):
            words.append(word)
            continue
        if words[:1] == ["xbench"]:
            yield words
        words = []


def run(text: str, say: str) -> Iterator[tuple[Shown, str, str | None]]:
    """Each command, what it prints now, and why it failed, if it did; those behind it are not run then."""
    with tempfile.TemporaryDirectory(prefix="xbench-docs-") as folder:
        place = Path(folder)
        shutil.copytree(
            ROOT / "examples", place / "examples", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        told = list(files(text))
        for shown in commands(text):
            for name, content in [(name, content) for start, name, content in told if start < shown.start]:
                (place / name).write_text(content)
            print(f"{say}: {shown.command.strip()}", file=sys.stderr, flush=True)
            output, failure = answer(shown.command, place)
            yield shown, output, failure
            if failure:
                return


def answer(command: str, place: Path) -> tuple[str, str | None]:
    """What a command prints in a folder, and why it failed, if it did."""
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = {name: word for name, word in os.environ.items() if name not in ELSEWHERE}
    told |= {"PATH": beside, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    words = ["bash", "-o", "pipefail", "-c", command]
    try:
        done = subprocess.run(words, cwd=place, env=told, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "", f"it ran for more than {SECONDS} s"
    output = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
    if done.returncode:
        return output, f"exit code {done.returncode}: {done.stderr.strip()[-2000:] or output[-2000:]}"
    return output.strip("\n") + "\n" * bool(output.strip()), None


def comparable(output: str, measured: bool) -> list[str]:
    """What must be equal of an output."""
    lines = [line.rstrip() for line in output.strip("\n").splitlines() if PLACE not in line]
    if not measured:
        return lines
    kept = [line for line in lines if not any(words in line for words in MOMENT)]
    for pattern, stands in VARYING:
        kept = [re.sub(pattern, stands, line).strip() for line in kept]
    return sorted(filter(None, kept))


def differences(shown: Shown, output: str) -> list[str]:
    """What an output has that the page has not, and the other way round; nothing where they are equal."""
    both = comparable(shown.output, shown.measured), comparable(output, shown.measured)
    return list(difflib.unified_diff(*both, "the page", "now", lineterm="")) if both[0] != both[1] else []


def misread(words: list[str]) -> str | None:
    """Why the command line would not take a command, or None; nothing is run."""
    import typer

    from xbench.cli import app

    command: Any = typer.main.get_command(app)
    context, words = command.context_class(command, info_name="xbench"), words[1:]
    try:
        while hasattr(command, "resolve_command"):
            if not words or words[0].startswith("-"):
                return None
            _, command, words = command.resolve_command(context, words)
            context = command.context_class(command, parent=context, info_name=command.name)
        command.make_context(command.name, words, parent=context.parent)
    except typer.Exit:  # --help
        return None
    except Exception as error:
        if not hasattr(error, "format_message"):  # a wrong word; typer keeps the class to itself
            raise
        return str(error.format_message())
    return None


def main(words: list[str]) -> int:
    """Runs what pages show; the exit code."""
    write, chosen = "--write" in words, [Path(word).resolve() for word in words if word != "--write"]
    failed = 0
    for page in chosen or pages():
        text, name = page.read_text(), str(page.relative_to(ROOT) if page.is_relative_to(ROOT) else page)
        for words in told_only(text):
            if reason := misread(words):
                failed += 1
                print(f"{name}: {shlex.join(words)}: {reason}")
        new, moved = text, 0
        for shown, output, failure in run(text, name):
            if failure:
                failed += 1
                print(f"{name}: {shown.command.strip()}: {failure}")
            elif found := differences(shown, output):
                failed += not write
                print(f"{name}: {shown.command.strip()}: prints something else", *found, sep="\n")
                if write:
                    new = new[: shown.start + moved] + output + new[shown.end + moved :]
                    moved = len(new) - len(text)
        if write and new != text:
            page.write_text(new)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
