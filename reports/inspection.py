"""The result of `xbench inspect` as text: facts, operators, runtimes, layers, remarks."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xbench.converters.printable import visible
from xbench.stats.quantities import number as digits

Facts = dict[str, Any]
LAYERS = 20  # shown by default
COLUMNS = 4  # of operators
UNITS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def show(facts: Facts, console: Console, count: int | None = LAYERS) -> None:
    """Print everything; `count` is the number of layers shown, the heaviest ones; all if it is None."""
    for word, text in about(facts):
        console.print(Text(f"{word:<11}", style="dim") + Text(visible(text)), soft_wrap=True)
    console.print()
    kinds = len(facts["operators"])
    words = f"{facts['nodes']:,} node{'s' * (facts['nodes'] != 1)} of {kinds} operator{'s' * (kinds != 1)}"
    console.print(Text(words, style="dim"), soft_wrap=True)
    console.print(_operators(facts))
    console.print()
    console.print(_runtimes(facts["runtimes"]))
    for row in facts["runtimes"]:
        if row["message"] and row["message"] != "not installed":
            console.print(Text(visible(f"  {row['runtime']}: {row['message']}")), soft_wrap=True)
    rows, left = heaviest(facts["layers"], count)
    if rows:
        console.print()
        console.print(_layers(rows))
        if left:
            words = f"the {len(rows)} heaviest of {len(rows) + left} layers, in the order of the file; --all shows them"
            console.print(Text(words, style="dim"), soft_wrap=True)
    if facts["remarks"]:
        console.print()
    for remark in facts["remarks"]:
        console.print(Text("- " + visible(remark)), soft_wrap=True)


def about(facts: Facts) -> list[tuple[str, str]]:
    """Return the facts of the entire model, a word and a line each."""
    made = f", by {facts['made_by']}" if facts["made_by"] else ""
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts["opsets"].items())
    producer = facts["producer"] or "no producer named"
    lines = [
        ("model", f"{facts['model']} ({size(facts['file_bytes'])}{made})"),
        ("format", f"IR {facts['ir_version']}, opset {opsets}, {producer}"),
        *(("input", _value(value) + _drawn(value)) for value in facts["inputs"]),
        *(("output", _value(value)) for value in facts["outputs"]),
    ]
    parameters, stored, memory = facts["parameters"], facts["stored"], facts["memory"]
    lines.append(("parameters", _arrays(parameters)))
    if stored["tensors"] > parameters["tensors"]:
        lines.append(("stored", f"{_arrays(stored)}, parameters among them"))
    work = "not known: a shape is missing"
    if facts["macs"] is not None:
        work = f"{amount(facts['macs'])} multiply-accumulates of one sample, {amount(facts['flop'])} FLOP"
        work = work if facts["batch"] else work.replace("of one sample", "in the shapes of the file")
    lines.append(("work", work))
    needs = "not known: a shape is missing"
    if memory["bytes"] is not None:
        at = f", at {memory['at']}" if memory["at"] else ""
        needs = f"{size(memory['weight_bytes'])} stored + {size(memory['live_bytes'])} of inputs and results{at}"
        needs = f"about {size(memory['bytes'])} at batch {facts['batch'] or 'of the file'}: {needs}"
    return [*lines, ("memory", needs)]


def heaviest(layers: Sequence[Facts], count: int | None) -> tuple[list[Facts], int]:
    """Return the `count` layers with the most work, ties broken by the most memory, in their own order, and the number
    left out. Unknown counts as large."""
    if count is None or len(layers) <= count:
        return list(layers), 0
    weight = [_weight(layer) for layer in layers]
    chosen = sorted(range(len(layers)), key=lambda place: weight[place], reverse=True)[:count]
    return [layers[place] for place in sorted(chosen)], len(layers) - count


def _weight(layer: Facts) -> tuple[float, ...]:
    return tuple(float("inf") if layer[name] is None else layer[name] for name in ("macs", "bytes"))


def amount(number: int | None) -> str:
    """Return a count: in full if it is short, else with three digits and a letter, or an empty string."""
    return "" if number is None else _scaled(number, UNITS, f"{number:,}", "")


def size(number: int | None) -> str:
    """Return bytes in binary units, or an empty string."""
    return "" if number is None else _scaled(number, BYTES, f"{number} bytes", " ")


def _scaled(number: int, units: Sequence[tuple[int, str]], plain: str, gap: str) -> str:
    for scale, letter in units:
        if number >= scale:
            return f"{digits(number / scale)}{gap}{letter}"
    return plain


def _value(value: Facts) -> str:
    return f"{value['name']} {value['dtype']} {shape(value['shape'])}"


def _drawn(value: Facts) -> str:
    """The range that an input is drawn from, if known."""
    words = value.get("drawn") or ""
    return f", drawn from {words}" if ", " in words else ""


def shape(sizes: Sequence[int | str | None] | None) -> str:
    """Return the sizes of axes, `?` for one without a number and a name."""
    return "of unknown shape" if sizes is None else "[" + ", ".join("?" if n is None else str(n) for n in sizes) + "]"


def _arrays(summary: Facts) -> str:
    if not summary["tensors"]:
        return "none"
    tensors = f"{summary['tensors']} tensor{'s' * (summary['tensors'] != 1)}"
    return f"{summary['count']:,} in {tensors}, {size(summary['bytes'])} ({', '.join(summary['types'])})"


def _operators(facts: Facts) -> Table:
    """Return operators and counts, the most frequent first, in columns."""
    words = [f"{count} {name}" for name, count in facts["operators"].items()]
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    deep = -(-len(words) // COLUMNS)
    for _ in range(COLUMNS):
        table.add_column(overflow="fold")
    for line in range(deep):
        table.add_row(
            *(Text(visible(words[at])) if at < len(words) else "" for at in range(line, deep * COLUMNS, deep))
        )
    return table


def _runtimes(rows: Sequence[Facts]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("runtime", "version", "takes it", "how", "modes", "stopped by"):
        table.add_column(name, overflow="fold", no_wrap=name != "stopped by")
    for row in rows:
        word, style = {True: ("yes", "green"), False: ("no", "bold red")}.get(row["takes"], ("not known", "yellow"))
        stops = ", ".join(f"{name} ({n})" for name, n in row["lacks"].items())
        stops = stops or ("" if row["takes"] is not False else "see below")
        cells = [row["runtime"], row["version"] or "not installed", word, row["how"], ", ".join(row["modes"]), stops]
        texts = [Text(visible(cell)) for cell in cells]
        texts[2].stylize(style)
        table.add_row(*texts)
    return table


def _layers(rows: Sequence[Facts]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(("layer", "operator", "output", "parameters", "MACs", "output bytes")):
        table.add_column(name, justify="left" if place < 3 else "right", no_wrap=True, overflow="ellipsis")
    for row in rows:
        macs = "?" if row["macs"] is None else amount(row["macs"] or None)
        sizes = [f"{row['parameters']:,}" if row["parameters"] else "", macs, size(row["bytes"]) or "?"]
        table.add_row(*(Text(visible(cell)) for cell in [row["name"], row["operator"], shape(row["shape"]), *sizes]))
    return table
