"""The format in which a command prints its results: one option for scripts and pipelines, in every command."""

import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from xbench.cli.terminal.lines import say
from xbench.errors import XBenchError

TABLE, JSON, CSV, MARKDOWN, GITHUB, PARQUET = FORMATS = ("table", "json", "csv", "markdown", "github", "parquet")
SUMMARY = "GITHUB_STEP_SUMMARY"  # names the file of the job summary in GitHub Actions
FormatWord = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="table, json, csv, markdown, parquet (as far as the command has it), or github: a summary of the job, "
        f"appended to the file that ${SUMMARY} names, and an annotation for each failure.",
        autocompletion=lambda incomplete: [name for name in FORMATS if name.startswith(incomplete)],
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to this file, not to stdout; parquet needs it."),
]


def choose_format(word: str | None, flags: Mapping[str, bool], known: Sequence[str] = FORMATS) -> str:
    """The format requested by `--format` or a short flag (`json` for `--json`); a table by default.

    Raises:
        XBenchError: not a format of this command, or two that contradict each other.
    """
    given = [name for name, on in flags.items() if on]
    if len(given) > 1:
        words = [f"--{name}" for name in flags]
        raise XBenchError(f"{', '.join(words[:-1])} and {words[-1]} exclude one another: give one of them")
    if word is not None and word not in known:
        near = difflib.get_close_matches(word, known, n=1)
        raise XBenchError(
            f"unknown format {word!r}: " + (f"did you mean {near[0]}?" if near else f"it is one of {', '.join(known)}")
        )
    if word and given and word != given[0]:
        raise XBenchError(f"--format {word} and --{given[0]} contradict each other: give one of them")
    return word or next(iter(given), TABLE)


def check_output(form: str, output: Path | None) -> None:
    """Raises XBenchError if a format needs a file and has none, or is for a terminal and has one."""
    if form == PARQUET and output is None:
        raise XBenchError("--format parquet is no text: say where it goes with --output FILE")
    if output is not None and form in (TABLE, GITHUB):
        raise XBenchError(f"--output is for json, csv, markdown and parquet, not for {form}")


def give(text: str, output: Path | None = None) -> None:
    """Write a text to the file, or to stdout if there is none.

    Raises:
        XBenchError: the file cannot be written.
    """
    if output is None:
        say(text, nl=False)
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise XBenchError(f"cannot write {output}: {error.strerror}") from error
    say(f"written to {output}", err=True)


def summarise(page: str, annotations: Sequence[str]) -> None:
    """Append a page to the job summary, or print it if there is none, after the annotations: GitHub reads those from
    lines of their own on stdout.

    Raises:
        XBenchError: the file cannot be written.
    """
    for line in annotations:
        say(line)
    place = os.environ.get(SUMMARY)
    if not place:
        say(page, nl=False)
        return
    sys.stdout.flush()
    try:
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise XBenchError(f"cannot write {place}, which ${SUMMARY} names: {error.strerror}") from error
