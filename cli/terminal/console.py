"""The console for tables and colours, which prints text as is: Rich would interpret `[bold]` or a link in a name."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from xbench.converters.printable import lines


class Terminal(Console):
    """Rich's console without markup, and without control characters that a terminal would obey."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render(self, *what: Any) -> Iterable[Segment]:
        for segment in super().render(*what):
            yield segment if segment.control else Segment(lines(segment.text), segment.style)


def console(width: int | None = None, err: bool = False) -> Terminal:
    """The console of stdout, or of stderr; `width` characters wide if that is no terminal."""
    stream = sys.stderr if err else sys.stdout
    return Terminal(stderr=err, width=None if stream.isatty() else width)
