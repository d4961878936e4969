"""Results as the summary and the annotations of a GitHub Actions job.

The first line of a page is its verdict. Failures are shown open; long parts without any are folded. Names come from
users' files: Markdown or HTML in them is shown literally. Sources: GitHub's documentation, "Workflow commands for
GitHub Actions" (escaping of commands, 1 MiB per summary, 10 annotations of a kind per step) and "Organizing information
with collapsed sections".
"""

from collections.abc import Sequence

from xbench.converters.printable import annotation, html, markdown, markdown_table
from xbench.reports import Row, changes, grouped
from xbench.reports.formats import TIMES, View, has_machines, label, remark, title
from xbench.stats.quantities import number
from xbench.store.comparison import Change
from xbench.store.schema import FAILED

SIGNS = {"PASS": "✅", "UNSUPPORTED": "➖", "UNVERIFIED": "⚠️"}
FAILURE = "❌"
VERDICTS = {"lost": "❌", "slower": "🔺", "faster": "🟢", "fixed": "✅", "failing": "❌"}
OPEN = 3  # tables of a page that are not folded
LIMIT = 1000 * 1024  # bytes of a page; GitHub shows no summary of more than 1024 KiB
ANNOTATIONS = 10  # of a step that GitHub shows
Lines = list[list[str]]


def annotations(failures: Sequence[tuple[str, str]]) -> list[str]:
    """Return a command for each failure (heading, message); the last gives the number of omitted ones."""
    if len(failures) <= ANNOTATIONS:
        return [annotation(*each) for each in failures]
    left = len(failures) - ANNOTATIONS + 1
    lines = [annotation(*each) for each in failures[: ANNOTATIONS - 1]]
    return [*lines, annotation(f"xbench: {left} more failures", "see the summary of the job")]


def times(found: Sequence[Row], view: View = TIMES, command: str = "xbench show") -> tuple[str, list[str]]:
    """Return the page of timed cells, and the annotations of those that failed."""
    failed = [row for row in found if row["status"] in FAILED]
    several = has_machines(found)
    groups = grouped(found)
    parts = []
    for group in groups:
        remarks = any(remark(row) for row in group)
        header = [*view.header, *(["message"] if remarks else [])]
        body = [[*_marked(row, view), remark(row)][: len(header)] for row in group]
        broken = any(row["status"] in FAILED for row in group)
        table = _table(header, body, 2 if not remarks else 3)
        parts.append(_folded(title(group[0], several), table, broken or len(groups) <= OPEN))
    headings = [(f"{row['model']} {row['mode']} on {label(row)}: {row['status']}", remark(row)) for row in failed]
    return _page(_verdict(command, found, failed), [*parts, *view.notes(found)]), annotations(headings)


def _marked(row: Row, view: View) -> list[str]:
    name, status, *rest = view.cells(row)
    return [name, f"{sign(row['status'])} {status}", *rest]


def _verdict(command: str, rows: Sequence[Row], failed: Sequence[Row]) -> str:
    passed = sum(row["status"] == "PASS" for row in rows)
    others = len(rows) - passed - len(failed)
    rest = f", {others} not supported" if others else ""
    if failed:
        return f"{FAILURE} FAIL: {command}: {_cells(len(failed))} of {len(rows)} failed, {passed} passed{rest}"
    if not passed:
        return f"⚠️ NOTHING: {command}: no cell has a result{rest}"
    return f"✅ PASS: {command}: {_cells(passed)} passed{rest}"


def checks(rows: Sequence[Row], command: str = "xbench check") -> tuple[str, list[str]]:
    """Return the page of cells whose parity was checked, and the annotations of those that failed."""
    failed = [row for row in rows if row["status"] not in ("PASS", "UNSUPPORTED")]
    names = list(dict.fromkeys(row["model"] for row in rows))
    header, parts = ["runtime", "mode", "status", "x noise", "worst tensor", "message"], []
    for name in names:
        own = [row for row in rows if row["model"] == name]
        body = [[row["runtime"], *_judged(row)] for row in own]
        parts.append(_folded(name, _table(header, body, 3), any(r in failed for r in own) or len(names) <= OPEN))
    errors = [(f"{row['model']} {row['mode']} on {row['runtime']}: {row['status']}", row["message"]) for row in failed]
    return _page(_verdict(command, rows, failed), parts), annotations([(head, text or "") for head, text in errors])


def _judged(row: Row) -> list[str]:
    status = " ".join(filter(None, (sign(row["status"]), row["status"], row["class"])))
    mode = f"{row['steps']} steps" if row["steps"] else row["mode"]
    return [mode, status, number(row["ratio"]), row["worst_tensor"] or "", row["message"] or ""]


def compared(found: Sequence[Change], limit: float | None) -> tuple[str, list[str]]:
    """Return the page of a comparison, and the annotations of the cells that break the limit."""
    several = changes.has_machines(found)
    worse = [change for change in found if limit is not None and change.is_worse(limit)]
    changed = [change for change in found if change.verdict != "same"]
    same = [change for change in found if change.verdict == "same"]
    parts = []
    for heading, group, unfolded in (("changed", changed, True), ("not told apart, or not timed", same, False)):
        if group:
            body = [_change(change, several) for change in group]
            table = _table(changes.HEADER, body, 1, len(changes.HEADER) - 1)
            parts.append(_folded(f"{_cells(len(group))} {heading}", table, unfolded))
    versions = {package: pair for change in found for package, pair in change.versions.items()}
    if versions:
        body = [[package, old or "", new or ""] for package, (old, new) in sorted(versions.items())]
        parts.append(_folded("versions that changed", _table(("package", "old", "new"), body, 3), False))
    errors = [(f"{changes.name(change, several)}: {change.verdict}", _why(change)) for change in worse]
    return _page(_outcome(found, worse, limit), parts), annotations(errors)


def _outcome(every: Sequence[Change], worse: Sequence[Change], limit: float | None) -> str:
    both = sum(change.old is not None and change.new is not None for change in every)
    count = lambda verdict: sum(change.verdict == verdict for change in every)  # noqa: E731
    sums = f"{count('slower')} slower, {count('faster')} faster, {count('lost')} no longer pass, {_cells(both)} on both"
    if limit is None:
        return f"xbench compare: {sums} sides"
    what = f"slower by {100 * limit:g} % or no longer passing ({sums} sides)"
    if worse:
        return f"{FAILURE} FAIL: xbench compare: {_cells(len(worse))} {what}"
    return f"✅ PASS: xbench compare: no cell {what}"


def _change(change: Change, several: bool) -> list[str]:
    *rest, verdict = changes.cells(change, several)
    return [*rest, f"{VERDICTS.get(verdict, '')} {verdict}".strip()]


def _why(change: Change) -> str:
    if change.ratio and change.verdict == "slower":
        ratio = change.ratio
        wide = f" ({number(ratio.low)} to {number(ratio.high)})" if ratio.low and ratio.high else ""
        return f"new / old is {number(ratio.value)}{wide}"
    new = change.new or {}
    return f"{new.get('status')} {new.get('message') or ''}".strip()


def sign(status: str) -> str:
    """Return the symbol of a status."""
    return SIGNS.get(status, FAILURE)


def _table(header: Sequence[str], body: Lines, words: int, last: int | None = None) -> str:
    """The table; the first columns, and all from `last` on, are words."""
    ends = len(header) if last is None else last
    numbers = [words <= place < ends and header[place] != "message" for place in range(len(header))]
    align = ["--:" if each else "---" for each in numbers]
    return "".join(f"{line}\n" for line in markdown_table(header, align, body))


def _folded(heading: str, table: str, unfolded: bool) -> str:
    if unfolded:
        return f"#### {markdown(heading)}\n\n{table}"
    return f"<details><summary>{html(heading)}</summary>\n\n{table}\n</details>\n"


def _page(verdict: str, parts: Sequence[str]) -> str:
    """The page, cut between parts if it is larger than GitHub shows."""
    page, left = f"### {markdown(verdict)}\n", 0
    for part in parts:
        if left or len((page + part).encode()) > LIMIT:
            left += 1
        else:
            page += f"\n{part}" if part.endswith("\n") else f"\n{markdown(part)}\n"
    return page + (f"\n{left} tables are left out: a summary may have 1 MiB.\n" if left else "")


def _cells(count: int) -> str:
    return f"{count} cell{'s' * (count != 1)}"
