"""The commands that measure cells again: one for all that differ only in the runtime, and the most common form."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from xbench.case import Case
from xbench.converters import printable
from xbench.converters.printable import visible
from xbench.reports import Row
from xbench.store.command import command
from xbench.store.record import Record

END = " --rerun"
NONE = "no command was recorded"
OPTIONS = ("device", "precision", "layout", "plane", "data", "tune", "tune_budget")  # shown in a heading if unusual


def merged(records: Iterable[Record], many: Collection[str]) -> list[tuple[str, str]]:
    """Return commands, each with the date and versions of the measurement, so that every record has one. Those that
    differ only in the runtime are merged into one, which times the cells in interleaved rounds, unless they had
    different versions of a package; `many` are the packages whose versions must be shown."""
    by_command: dict[tuple[str, str], list[tuple[list[Record], dict[str, str]]]] = {}
    for record in records:
        versions = {name: word for name, word in (record.get("versions") or {}).items() if visible(name) in many}
        parts = by_command.setdefault(_without_runtime(record), [])
        for some, known in parts:
            if all(known.get(name, word) == word for name, word in versions.items()):
                some.append(record)
                known |= versions
                break
        else:
            parts.append(([record], versions))
    return [
        (_with_runtimes(before, after, some), printable.shell_comment(", ".join([*_when(some), *_versions(known)])))
        for (before, after), parts in by_command.items()
        for some, known in parts
    ]


def _without_runtime(record: Record) -> tuple[str, str]:
    """The command's text before and after the runtime; all of it is before if it names none."""
    text = printable.command(record.get("command"), NONE)
    before, word, after = text.partition(_runtime(record))
    return (before, after) if word and after.startswith(" ") else (text, "")


def _with_runtimes(before: str, after: str, records: Sequence[Record]) -> str:
    return f"{before}{''.join(dict.fromkeys(map(_runtime, records)))}{after}" if after else before


def _runtime(record: Record) -> str:
    return f" --runtime {printable.shell(record['case']['runtime'])}"


def _when(records: Sequence[Record]) -> list[str]:
    """The minute, or the first and the last one; the date only once if it is the same."""
    times = sorted({str(each.get("time") or "").replace("T", " ").removesuffix("Z")[:16] for each in records} - {""})
    if len(times) < 2:
        return times
    last = times[-1]
    return [f"{times[0]} to {last[11:] if last[:10] == times[0][:10] else last}"]


def _versions(versions: dict[str, str]) -> list[str]:
    return [f"{name} {word}" for name, word in versions.items()]


def added(record: Record) -> str | None:
    """Return what a record's command has beyond the words of its case; None if it is no such command, or if a name must
    be quoted or cannot be printed unchanged."""
    case, given = record["case"], record.get("command")
    names = (str(case["model"]), str(case["runtime"]))
    if not isinstance(given, str) or any(name != printable.shell(name) for name in names):
        return None
    try:
        head = command(Case(**case)).removesuffix(END)
    except (TypeError, ValueError):  # a case of an older or a damaged store
        return None
    more = given.removeprefix(head).removesuffix(END)
    return more if given == f"{head}{more}{END}" and more[:1] in ("", " ") else None


def usual(records: Iterable[Record]) -> str:
    """Return the most common addition of commands to the words of their cases."""
    counts = Counter(more for more in map(added, records) if more is not None)
    return counts.most_common(1)[0][0] if counts else ""


def form(more: str) -> str:
    """Return the command of any cell; parts in capitals are in its heading and its line."""
    words = "--runtime RUNTIME --mode MODE --batch BATCH --threads THREADS"
    return visible(f"xbench time NETWORK {words}{more}{END}")


def options(rows: Iterable[Row]) -> list[str]:
    """Return the options that the headings of some rows stand for."""
    plain = Case(model="", runtime="")
    names = {name for row in rows for name in OPTIONS if row[name] != getattr(plain, name)}
    return [f"--{name.replace('_', '-')}" for name in OPTIONS if name in names]
