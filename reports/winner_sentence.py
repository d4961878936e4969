"""The verdict on a group of comparable rows, in a sentence: which is the fastest and by how much, or that it is a tie.

Rows are ranked by ratio, with the 95 % interval of `stats/ratio.py`: the second row's ratio to the first is how far the
first is ahead. If that interval contains 1, none is ahead.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from xbench.converters.printable import visible
from xbench.reports import Row, grouped, is_ranked
from xbench.reports.formats import is_tie, label
from xbench.stats.quantities import number, seconds

Kind = Literal["faster", "unsure", "tie", "alone", "none"]
CLASSES = {"fp32": "equal to PyTorch in fp32 class"}  # any other class is named with its loss of precision
SCATTER = 2.0  # the upper end of a ratio's interval over its lower one, beyond which nothing can be concluded


class Verdict(NamedTuple):
    """The verdict on one group: `winners` are the row ahead of all, or all that cannot be distinguished from the
    fastest; none if nothing passed. `kind` says which of these it is; `unsure`: too few rounds to know."""

    kind: Kind
    winners: tuple[Row, ...]
    name: str
    words: str

    @property
    def sentence(self) -> str:
        return f"{self.name}{self.words}"


def verdicts(found: Iterable[Row]) -> list[Verdict]:
    """Return the verdict on each group of rows, in order."""
    return [verdict(rows) for rows in grouped(found)]


def verdict(rows: Sequence[Row]) -> Verdict:
    """Return the verdict on the rows of one group, the fastest first (`reports.rows`)."""
    ranked = [row for row in rows if is_ranked(row)]
    if not ranked:
        return Verdict("none", (), "none passed", _others(rows, ": "))
    # Among rows that are equally fast to the last digit, the one that the others were compared with is first.
    first = next((row for row in ranked if row["ratio_low"] == 1 == row["ratio_high"]), ranked[0])
    ranked = [first, *(row for row in ranked if row is not first)]
    if len(ranked) == 1:
        words = f" alone passed, {seconds(first['median_s'])}; {equal([first])}{_others(rows[1:], '; ')}"
        return Verdict("alone", (first,), visible(label(first)), words)
    ties = [row for row in ranked[1:] if is_tie(row)]
    if ties:
        return _tie(first, ties)
    words = f", {_by(ranked[1])} faster than the next, {visible(label(ranked[1]))}; {equal([first])}"
    if ranked[1]["ratio_low"] is None:
        words += "; of too few rounds to be sure"
        return Verdict("unsure", (first,), visible(label(first)), words)
    return Verdict("faster", (first,), visible(label(first)), words)


def _tie(first: Row, ties: Sequence[Row]) -> Verdict:
    """Return the verdict if rows cannot be distinguished from the first: because they are close, or because their times
    scatter too much."""
    close = [row for row in ties if row["ratio_high"] <= SCATTER * row["ratio_low"]]
    vague = [row for row in ties if row not in close]
    winners = (first, *ties)
    scattered = f"{_listed(vague)}, whose times scatter" if vague else ""
    if close:
        words = f" cannot be told apart ({_by(close[-1])}): a tie{f', nor can {scattered}' if vague else ''}"
        return Verdict("tie", winners, _listed((first, *close)), f"{words}; {equal(winners)}")
    words = f" leads by its median, but cannot be told apart from {scattered}: a tie; {equal(winners)}"
    return Verdict("tie", winners, visible(label(first)), words)


def equal(rows: Sequence[Row]) -> str:
    """Return the result of the rows' proof: in which class of precision they equal PyTorch's network in float64."""
    classes = list(dict.fromkeys(str(row["class"]) for row in rows))
    words = [CLASSES.get(each, f"equal to PyTorch only in {each} class") for each in classes]
    return " and ".join(words)


def _by(row: Row) -> str:
    """Return the row's time as a multiple of the first's, with half the width of the 95 % interval.

    >>> _by({"ratio": 1.27, "ratio_low": 1.25, "ratio_high": 1.29})
    '1.27× ±0.02'
    """
    if row["ratio_low"] is None or row["ratio_high"] is None:
        return f"{number(row['ratio'])}×"
    if row["ratio_high"] > SCATTER * row["ratio_low"]:
        return f"{number(row['ratio'])}× ({number(row['ratio_low'])} to {number(row['ratio_high'])})"
    return f"{number(row['ratio'])}× ±{number((row['ratio_high'] - row['ratio_low']) / 2)}"


def _listed(rows: Sequence[Row]) -> str:
    *names, last = (visible(label(row)) for row in rows)
    return f"{', '.join(names)} and {last}" if names else last


def _others(rows: Sequence[Row], before: str) -> str:
    """Return the other rows, and why each has no time."""
    words = [f"{visible(label(row))} {_why(row)}" for row in rows]
    return before + ", ".join(words) if words else ""


def _why(row: Row) -> str:
    return "passed, but was not timed" if row["status"] == "PASS" else visible(row["status"])
