"""The report as one HTML file, which reads nothing from the network and opens from disk.

`content` has its text and tables, `chart_data` and `plots` the pictures, `other_experiments` the tables of trainings
and the like; `report.html.j2`, `report.css` and `report.js` the layout. Every table is in the HTML itself; JavaScript
adds filters, sorting and pictures.
"""

import base64
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xbench.converters.printable import command, lines, script_json, visible
from xbench.errors import XBenchError
from xbench.reports import pairs
from xbench.reports.html import content as limits
from xbench.reports.html.chart_data import Index, values
from xbench.reports.html.commands import NONE
from xbench.reports.html.content import Content, where
from xbench.reports.html.other_experiments import FILES, KINDS, readable, tables
from xbench.reports.quality.changed import pictures
from xbench.reports.sweeps import AXES
from xbench.stats.quantities import seconds
from xbench.store.record import Record, by_name

HERE = Path(__file__).parent
MISSING = "xbench report needs Jinja2 and vl-convert-python: pip install 'xbench[report]'"
NO_NETWORK = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(
    records: Sequence[Record],
    files: Mapping[str, Sequence[Record]] | None = None,
    *,
    title: str = "",
    problems: Sequence[str] = (),
    chosen: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return the report of a store as HTML.

    Args:
        records: those of results.jsonl, oldest first; the last of a case counts.
        files: the records of the files of other sections, by section.
        title: the heading, if it differs from the default.
        problems: a sentence for each line that could not be read.
        chosen: the words to show of the columns model, runtime and mode; all if there are none.

    Raises:
        XBenchError: a library that the report needs is missing.
    """
    try:
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise XBenchError(MISSING) from error
    content = _content(records, files or {}, problems, chosen or {})
    index = Index(content)
    scripts = [(HERE / "report.js").read_text(), _bundle()]
    return str(
        _template().render(
            chosen="; ".join(f"{of} {visible(', '.join(words))}" for of, words in (chosen or {}).items() if words),
            title=visible(title) or "Where does each network run best?",
            content=content,
            axes=AXES,
            index=index,
            others={name: tables(name, some) for name, some in content.files.items() if some},
            data=script_json(values(content, index)),
            scripts=scripts,
            policy=f"{NO_NETWORK}; script-src {' '.join(map(_digest, scripts))}",
            css=(HERE / "report.css").read_text(),
            **_words(content),
        )
    )


def _words(content: Content) -> dict[str, Any]:
    """Return the template's variables."""
    return {
        "where": lambda row: where(row, content.several),
        "seconds": seconds,
        "visible": visible,
        "pictures": pictures,
        "recorded": lambda record: command(record.get("command"), NONE),
        "plural": lambda count, word: f"{count:,} {word}{'' if count == 1 else 's'}",
        "marked": {place.row for line in content.matrix.lines for place in line if place},
        "kinds": KINDS,
        "limits": limits,
        "missing": [(words, command) for name, _, words, command in KINDS if not content.files.get(name)],
        "facts": facts(content),
        "times": max((str(each.get("time") or "") for each in content.records), default=""),
    }


def _content(
    records: Sequence[Record],
    files: Mapping[str, Sequence[Record]],
    problems: Sequence[str],
    chosen: Mapping[str, Sequence[str]],
) -> Content:
    """Ratios are to the fastest of all rows, whatever is chosen."""
    shown = [pair for pair in pairs(records) if all(not words or pair[0][of] in words for of, words in chosen.items())]
    rest, skipped = {}, [*problems]
    for name in FILES:
        rest[name], wrong = readable(name, [each for each in files.get(name, ()) if _is_chosen(each, chosen)])
        skipped += wrong
    return Content(shown, rest, [visible(each) for each in skipped])


def _is_chosen(record: Record, chosen: Mapping[str, Sequence[str]]) -> bool:
    return all(not words or by_name(record["case"])[of] in words for of, words in chosen.items())


def facts(content: Content) -> list[tuple[str, dict[str, Any]]]:
    """Return the facts of each machine, without its current load."""
    machines: dict[str, dict[str, Any]] = {}
    for record in content.records:
        fields = {name: value for name, value in (record.get("machine") or {}).items() if name != "load"}
        words = {visible(name).replace("_", " "): visible(value) for name, value in fields.items() if value is not None}
        machines.setdefault(repr(sorted(words.items())), words)
    return [(str(number), words) for number, words in enumerate(machines.values(), 1)]


@functools.cache
def _template() -> Any:
    import jinja2

    loader = jinja2.FileSystemLoader(HERE)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, finalize=_shown, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2")


def _shown(value: Any) -> Any:
    """Text made safe to show; parts of the page (with `__html__`) and numbers unchanged."""
    return lines(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


@functools.cache
def _bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script."""
    import vl_convert

    return _harmless(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # its annotations make it required


def _harmless(script: str) -> str:
    """Return JavaScript that is safe inside HTML: text that would end it or begin a comment is escaped, and line ends
    are HTML's, because the policy has a digest of the text as the browser reads it."""
    script = re.sub(r"<(?=/script|!--|script)", r"\\x3c", script, flags=re.IGNORECASE)
    return script.replace("\r\n", "\n").replace("\r", "\n")


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
