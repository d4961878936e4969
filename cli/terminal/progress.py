"""A progress bar that draws only on request: while a worker is measured the parent must sleep."""

import sys
import time
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from xbench.cli.terminal.console import console
from xbench.cli.terminal.lines import say
from xbench.converters.printable import visible


class Bar:
    """On a terminal a bar with the current task; elsewhere a line for every finished task."""

    def __init__(self, total: int, what: str) -> None:
        self.console = console(err=True)
        columns = (
            TextColumn("{task.fields[what]}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self.progress = Progress(
            *columns,
            TextColumn("{task.description}", markup=False),
            console=self.console,
            auto_refresh=False,
            transient=True,
        )
        self.task = self.progress.add_task("", total=total, what=what)
        self.drawn, self.terminal, self.done, self.total = 0.0, sys.stderr.isatty(), 0, total

    def __enter__(self) -> "Bar":
        if self.terminal:
            self.progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.terminal:
            self.progress.stop()

    def say(self, words: str) -> None:
        """Show the current activity; draws at most twice a second."""
        self.progress.update(self.task, description=visible(words))
        if self.terminal and time.monotonic() - self.drawn > 0.5:
            self.progress.refresh()
            self.drawn = time.monotonic()

    def note(self, words: str) -> None:
        """A remark that stays on the screen."""
        say(f"xbench: {words}", err=True)

    def skip(self, number: int = 1) -> None:
        """Subtract tasks that do not exist, or are already done."""
        self.total -= number
        self.progress.update(self.task, total=self.total)

    def finish(self, words: str) -> None:
        """One task is done; `words` stays on the screen or in the log."""
        self.done += 1
        self.progress.advance(self.task)
        if self.terminal:
            self.progress.console.print(words, markup=False, highlight=False)
            self.progress.refresh()
        else:
            say(f"[{self.done}/{self.total}] {visible(words)}", err=True)


class Steps:
    """The progress of what is measured within a step: it is shown while it lasts, and counts nothing."""

    def __init__(self, bar: Bar) -> None:
        self.say, self.note, self.finish = bar.say, bar.note, bar.say

    def skip(self, number: int = 1) -> None:
        """Nothing: a step is a step, if its records exist or not."""
