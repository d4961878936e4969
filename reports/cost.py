"""The tables of the full cost of cells, and of their place under this machine's roofline."""

from collections.abc import Sequence

from xbench.reports import Row, is_ranked
from xbench.reports.formats import View, first_call, with_name
from xbench.stats.quantities import number, seconds

ENERGY = "n/a: no energy counter could be read"
PROBES = "the peaks are probes, which a better kernel may exceed; bytes are the least that a step must move"
PROCESS_PEAK = "(process): the peak of the whole process, its proof included, as this system cannot begin it anew"


def size(value: float | None) -> str:
    """Return bytes with three digits and their unit, or an empty string."""
    if value is None:
        return ""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{number(value / (1 << power))} {unit}"
    return f"{value:.0f} B"


def joules(value: float | None) -> str:
    """Return the energy of a step with three digits and its unit; `n/a` if it was not counted, never 0."""
    if value is None:
        return "n/a"
    return (
        f"{number(value)} J"
        if value >= 1
        else f"{number(value * 1e3)} mJ"
        if value >= 1e-3
        else f"{value * 1e6:.3g} µJ"
    )


def percent(share: float | None) -> str:
    return "" if share is None else f"{number(100 * share)} %"


def _memory(row: Row) -> str:
    """Return the peak of the host, and of the device if it has its own memory."""
    host, device = size(row["peak_memory_bytes"]), row["device_memory_bytes"]
    if host and row["peak_memory_of"] != "steps":
        host += " (process)"
    return host if device is None else f"{host}, device {size(device)}".removeprefix(", ")


def _cost_cells(row: Row) -> list[str]:
    times = [seconds(row[name]) for name in ("median_s", "convert_s", "compile_s", "load_s")]
    rest = (first_call(row), _memory(row), joules(row["energy_j"]), size(row["artifact_bytes"]))
    return with_name(row, [*times, *rest])


def _cost_notes(rows: Sequence[Row]) -> list[str]:
    ranked = [row for row in rows if is_ranked(row)]
    notes = [ENERGY] if any(row["energy_j"] is None for row in ranked) else []
    return notes + ([PROCESS_PEAK] if any("(process)" in _memory(row) for row in ranked) else [])


def _roofline_cells(row: Row) -> list[str]:
    rates = [_giga(row["flops"]), percent(row["share_of_peak"]), _giga(row["bytes_per_s"])]
    place = [number(row["intensity"]), percent(row["share_of_attainable"]), row["bound_by"] or ""]
    return with_name(row, [*rates, *place])


def _giga(value: float | None) -> str:
    return number(None if value is None else value / 1e9)


def _roofs(rows: Sequence[Row]) -> str:
    """Return the peaks that a group was compared with: several, if they were probed again in between."""
    known = sorted({(row["peak_flops"], row["bandwidth"]) for row in rows if row["peak_flops"] and row["bandwidth"]})
    return " or ".join(f"peak {_giga(peak)} GFLOP/s, copy {_giga(bandwidth)} GB/s" for peak, bandwidth in known)


COST = View(
    (
        *("runtime", "status", "median", "convert", "compile", "load", "first call"),
        *("peak memory", "energy a step", "artifact"),
    ),
    _cost_cells,
    dispensable=("artifact", "convert", "first call", "compile", "load"),
    about=lambda found: "",
    notes=_cost_notes,
)
ROOFLINE = View(
    ("runtime", "status", "GFLOP/s", "of peak", "GB/s at least", "FLOP a byte", "of attainable", "bound by"),
    _roofline_cells,
    dispensable=("GB/s at least", "FLOP a byte"),
    about=_roofs,
    notes=lambda found: [PROBES] if any(row["flops"] for row in found) else [],
)
