"""The content of the report as plain data: tables of text, with the filter values of each line. No HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any

from xbench.converters.printable import visible
from xbench.converters.sweep import without_shapes
from xbench.reports import SHARED, Row, is_ranked
from xbench.reports.break_even import ahead_from, sentence, steps, tuning_rows
from xbench.reports.cost import joules, percent, size
from xbench.reports.distribution import distribution
from xbench.reports.formats import HEADER, cells, conditions, has_machines, label, remark
from xbench.reports.formats import title as full_title
from xbench.reports.html import commands
from xbench.reports.parity_matrix import Matrix, Place, matrix, proof
from xbench.reports.sweeps import AXES, SHAPE, Sweep, sweeps
from xbench.reports.tables import Table
from xbench.reports.winner_sentence import Verdict, verdict
from xbench.stats.quantities import number, seconds
from xbench.store.record import Record

MORE = (
    *("5, 25, 75, 95 % of the times", "ahead from call", "peak memory", "energy", "GFLOP/s", "of attainable"),
    *("worst tensor", "noise floors", "message"),
)
OPTIONAL = {"energy", "message", "peak memory", "GFLOP/s", "of attainable"}  # columns left out if no cell has one

# Beyond these limits the page replaces parts by a sentence: ten thousand cells must stay below 8 MB.
MANY_GROUPS = 2500
MANY_NETWORKS = 200
MANY_SWEEPS = 500
MANY_PLACES = 2000  # of the parity matrix: beyond, they only link to their cells


@dataclass(frozen=True)
class Group:
    """Comparable cells: their rows and records; `first` is the number of the first among all rows."""

    number: int
    rows: tuple[Row, ...]
    records: tuple[Record, ...]
    first: int
    verdict: Verdict

    @property
    def size(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Content:
    """Everything that is shown, computed from the records of a store's files (`reports.html.page`)."""

    pairs: Sequence[tuple[Row, Record]]
    files: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    problems: Sequence[str] = ()

    @cached_property
    def rows(self) -> list[Row]:
        return [row for row, _ in self.pairs]

    @cached_property
    def records(self) -> list[Record]:
        """All records that are shown, including those of the other files."""
        return [record for _, record in self.pairs] + [each for some in self.files.values() for each in some]

    @cached_property
    def several(self) -> bool:
        return has_machines(self.rows)

    @cached_property
    def groups(self) -> list[Group]:
        made: list[Group] = []
        first = 0
        for own in _grouped(self.pairs):
            rows = tuple(row for row, _ in own)
            made.append(Group(len(made), rows, tuple(record for _, record in own), first, verdict(rows)))
            first += len(own)
        return made

    @cached_property
    def is_long(self) -> bool:
        """Whether there are so many groups that those of one cell have no verdict, and none has commands or a line in
        the table of starts."""
        return len(self.groups) > MANY_GROUPS

    @cached_property
    def is_wide(self) -> bool:
        """Whether there are so many networks that all cells are in one table, and the matrix has only networks where
        something did not pass."""
        return len(self.networks) > MANY_NETWORKS

    @cached_property
    def judged(self) -> list[Group]:
        """The groups in the table of verdicts."""
        return [group for group in self.groups if group.size > 1] if self.is_long else self.groups

    @cached_property
    def full_matrix(self) -> Matrix:
        return matrix(self.pairs)

    @cached_property
    def matrix(self) -> Matrix:
        """The parity matrix that is shown."""
        full = self.full_matrix
        if not self.is_wide:
            return full
        keep = [any(place and place.status != "PASS" for place in line) for line in full.lines]
        return Matrix(full.columns, tuple(compress(full.keys, keep)), tuple(compress(full.lines, keep)))

    @cached_property
    def places(self) -> list[Place]:
        return [place for line in self.matrix.lines for place in line if place]

    @cached_property
    def has_many_places(self) -> bool:
        return len(self.places) > MANY_PLACES

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the cells' tables: those of the terminal and more, without those empty in all cells."""
        blank = {
            name
            for at, name in enumerate((*HEADER, *MORE))
            if name in OPTIONAL and all(line[at] in ("", "n/a") for lines in self._lines for line in lines)
        }
        return tuple(name for name in (*HEADER, *MORE) if name not in blank)

    def body(self, group: Group) -> list[list[str]]:
        """The lines of a group under `columns`."""
        keep = [at for at, name in enumerate((*HEADER, *MORE)) if name in self.columns]
        return [[line[at] for at in keep] for line in self._lines[group.number]]

    @cached_property
    def _lines(self) -> list[list[list[str]]]:
        return [
            [_line(row, record, group.rows) for row, record in zip(group.rows, group.records)] for group in self.groups
        ]

    @cached_property
    def networks(self) -> list[tuple[str, list[Group]]]:
        """The groups of each network."""
        by_network: dict[str, list[Group]] = {}
        for group in self.groups:
            by_network.setdefault(group.rows[0]["model"], []).append(group)
        return list(by_network.items())

    @cached_property
    def cell_tables(self) -> list[tuple[str, list[Group]]]:
        """The groups of each table of cells, with its network; empty name if one table has all."""
        return [("", [group for _, some in self.networks for group in some])] if self.is_wide else self.networks

    def heading(self, row: Row) -> str:
        """The heading of a group in its table; names the network if the table does not."""
        title = full_title(row, self.several)
        return title if self.is_wide else title.removeprefix(f"{visible(row['model'])} ")

    @cached_property
    def _sweeps(self) -> dict[str, list[Sweep]]:
        return {axis: sweeps(self.rows, axis) for axis in AXES}

    def sweeps(self, axis: str) -> list[Sweep]:
        return self._sweeps[axis]

    def sweep_tables(self, axis: str) -> list[Table]:
        """A table for each sweep: one line per runtime, one column per number; none if there are too many."""
        made: list[Table] = []
        if len(self.sweeps(axis)) > MANY_SWEEPS:
            return made
        for sweep in self.sweeps(axis):
            lines = [[runtime, *(seconds(line.get(n)) for n in sweep.numbers)] for runtime, line in sweep.lines.items()]
            header = ["runtime", *(f"{axis} {n}" for n in sweep.numbers)]
            made.append(Table(f"Time per sample: {self.sweep_title(sweep)}", header, lines, [sweep.row] * len(lines)))
        return made

    def sweep_title(self, sweep: Sweep) -> str:
        """The fields shared by the cells of a sweep."""
        row, words = sweep.row, conditions(sweep.row, self.several).split(", ")
        rest = [word for word in words if sweep.axis != "threads" or not word.endswith(("thread", "threads"))]
        batch = [] if sweep.axis == "batch" else [f"batch {row['batch']}"]
        by = [f"by {' x '.join(sweep.shapes)}"] if sweep.shapes else []
        model = without_shapes(row["model"])[0] if sweep.axis == SHAPE else row["model"]
        return visible(", ".join([f"{model} {row['mode']}", *batch, *rest, *by]))

    def start_table(self) -> Table:
        """Which runtime is ahead after how many calls, for each group with two timed cells or more; for no group if
        there are very many."""
        groups = [group for group in self.groups if sum(map(is_ranked, group.rows)) > 1 and not self.is_long]
        lines = [[*where(group.rows[0], self.several), sentence(group.rows)] for group in groups]
        header = ("network", "mode", "batch", "where", "ahead, by the number of calls")
        return Table("Who is ahead after how many calls", header, lines, [group.rows[0] for group in groups], 5)

    def tuning_table(self) -> Table | None:
        """The cost and gain of searches for settings, and after how many steps they pay off."""
        tuned = tuning_rows(self.pairs)
        lines = [
            [
                *(visible(label(row)), *where(row, self.several)),
                *(seconds(taken), seconds(other["median_s"]), seconds(row["median_s"]), steps(calls)),
            ]
            for row, taken, other, calls in tuned
        ]
        header = ("runtime", "network", "mode", "batch", "where", "search", "default", "tuned", "paid after steps")
        return Table("What tuning cost and brought", header, lines, [row for row, *_ in tuned], 5) if tuned else None

    def commands(self, group: Group) -> list[tuple[str, str]]:
        """The commands that measure the cells of a group again, with the date and versions of the measurement; if there
        are very many groups, only those not of the usual form."""
        records = [each for each in group.records if not self.is_long or commands.added(each) != self.usual]
        return commands.merged(records, self._many)

    @cached_property
    def usual(self) -> str:
        """The most common addition of commands to the words of their cells."""
        return commands.usual(record for _, record in self.pairs)

    @cached_property
    def form(self) -> str:
        return commands.form(self.usual)

    @cached_property
    def options(self) -> list[str]:
        return commands.options(self.rows)

    @cached_property
    def _many(self) -> set[str]:
        return {name for name, words in self.versions.items() if len(words) > 1}

    @cached_property
    def versions(self) -> dict[str, dict[str, int]]:
        """The versions of each package, and the number of records of each."""
        packages: dict[str, dict[str, int]] = {}
        for record in self.records:
            for name, word in (record.get("versions") or {}).items():
                counts = packages.setdefault(visible(name), {})
                counts[visible(word)] = counts.get(visible(word), 0) + 1
        return dict(sorted(packages.items()))


def _line(row: Row, record: Record, group: Sequence[Row]) -> list[str]:
    """The cells of a row under `HEADER` and `MORE`; no time and no cost unless the proof passed."""
    parity = proof(record)
    remarks = (parity.get("worst_tensor", ""), number(parity.get("ratio")), remark(row))
    if not is_ranked(row):
        return [*cells(row), *[""] * (len(MORE) - len(remarks)), *remarks]
    bound = f"{percent(row['share_of_attainable'])} {row['bound_by']}" if row["bound_by"] else ""
    rate = "" if row["flops"] is None else number(row["flops"] / 1e9)
    memory, energy = size(row["peak_memory_bytes"]), joules(row["energy_j"])
    return [*cells(row), _spread(record), ahead_from(row, group), memory, energy, rate, bound, *remarks]


def where(row: Row, several: bool) -> tuple[str, str, str, str]:
    """The network, the mode, the batch and the other fields a group shares."""
    return visible(row["model"]), visible(row["mode"]), str(row["batch"]), conditions(row, several)


def _grouped(cells_and_records: Sequence[tuple[Row, Record]]) -> list[list[tuple[Row, Record]]]:
    groups: dict[tuple[Any, ...], list[tuple[Row, Record]]] = {}
    for row, record in cells_and_records:
        groups.setdefault(tuple(row[name] for name in SHARED), []).append((row, record))
    return list(groups.values())


def _spread(record: Record) -> str:
    """The quantiles around the median in one unit."""
    quantiles = distribution(record.get("times"))
    if not quantiles:
        return ""
    unit = seconds(quantiles.high).split(" ")[1]
    scale = {"s": 1.0, "ms": 1e3, "µs": 1e6}[unit]
    around = (quantiles.low, quantiles.quarter, quantiles.three_quarters, quantiles.high)
    return " ".join(number(value * scale) for value in around) + f" {unit}"
