"""Reads the records that an answer is made of, and measures those that it lacks."""

import difflib
from collections.abc import Callable
from pathlib import Path

from xbench import runtimes
from xbench.converters.printable import shell
from xbench.errors import XBenchError
from xbench.experiments.load import Load
from xbench.recommend.limits import wrong_load
from xbench.recommend.question import Question
from xbench.store.record import Record
from xbench.store.results import FILE, StoreError, salvage

LOADS = Load.file
Tell = Callable[[str], object]


def read(path: Path, tell: Tell | None = None) -> list[Record]:
    """The records of a file; `tell` gets a sentence for each unreadable line. Without it the file may be missing.

    Raises:
        StoreError: the file cannot be read.
    """
    try:
        records, problems = salvage(path)
    except StoreError:
        if tell is None and not path.exists():
            return []
        if not path.exists() and path.name != FILE:
            again = shell("xbench", "load", "--out", path.parent)
            raise StoreError(f"no loads in {path.parent}: run `{again}` first, or --measure") from None
        raise
    if path.name == LOADS:
        wrong = {id(record): problem for record in records if (problem := wrong_load(record))}
        problems += [f"a record of {path}: {problem}" for problem in wrong.values()]
        records = [record for record in records if id(record) not in wrong]
    if tell and problems:
        for problem in problems:
            tell(f"skipped {problem}")
        tell(f"skipped {len(problems)} of {len(problems) + len(records)} lines of {path}")
    return records


def check_runtimes(question: Question, records: list[Record]) -> None:
    """
    Raises:
        XBenchError: a runtime is neither in the table nor in the store.
    """
    stored = {record["case"]["runtime"] for record in records}
    for word in question.runtimes:
        if word not in stored and not runtimes.find_row(word):
            known = [*runtimes.table(), *stored]
            near = difflib.get_close_matches(word, known, n=1)
            raise XBenchError(f"unknown runtime {word!r}{f': did you mean {near[0]}?' if near else ''}")
