"""Pictures as data: Vega-Lite specifications without values, which `report.js` inserts according to the filters.

Runtimes have the same colours and signs in every picture: all use the domain of all runtimes. Times are in µs, so that
logarithmic axes have integers; axes show s, ms and µs (`TIME`). A `step` height is that of one line: the script
multiplies it, because Vega-Lite warns if it is combined with a width that fits its container.
"""

from collections.abc import Sequence
from typing import Any

from xbench.reports.sweeps import AXES, SHAPE

Spec = dict[str, Any]
TIME = "datum.value < 1e3 ? format(datum.value, '.3~r') + ' µs' : datum.value < 1e6 ? "
TIME += "format(datum.value / 1e3, '.3~r') + ' ms' : format(datum.value / 1e6, ',.3~r') + ' s'"
TIME_AXIS = {"labelExpr": TIME, "tickCount": 5, "labelOverlap": True}
LOG = {"type": "log"}
WIDTH = {"field": "width", "type": "quantitative", "scale": None, "legend": None}  # of overlapping curves


def specs(runtimes: Sequence[str]) -> dict[str, Spec]:
    """Return the specification of every picture by its name."""
    by_runtime = _Colours(runtimes)
    return {
        "ratios": _ratios(by_runtime),
        "spread": _spread(by_runtime),
        **{axis: _sweep(by_runtime, axis) for axis in AXES},
        "start": _start(by_runtime),
        "memory": _memory(by_runtime),
        "roofline": _roofline(by_runtime),
        "phases": _phases(),
        "loss": _training(by_runtime, "step", "loss", "mean loss of a batch", LOG),
        "accuracy": _training(by_runtime, "epoch", "accuracy", "test accuracy, %", {"zero": False}),
        "held": _training(by_runtime, "second", "memory", "host memory, MiB", {"zero": False}),
        "power": _training(by_runtime, "second", "power", "power, W", {"zero": False}),
        "scaling": _scaling(by_runtime),
        "widen": _widen(by_runtime),
    }


class _Colours:
    """The channels that distinguish runtimes: colour and sign, each with all runtimes as its domain."""

    def __init__(self, runtimes: Sequence[str]) -> None:
        self.domain = list(runtimes)

    def channel(self, legend: bool = True, **more: Any) -> Spec:
        options = {"title": None, "orient": "top", "columns": 4, "symbolLimit": 0} if legend else None
        return {"field": "runtime", "type": "nominal", "scale": {"domain": self.domain}, "legend": options, **more}

    def both(self, legend: bool = True) -> Spec:
        return {"color": self.channel(legend), "shape": self.channel(legend)}


def _quantity(field: str, title: str, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **more}


def _time(field: str, title: str, **more: Any) -> Spec:
    return _quantity(field, title, axis=TIME_AXIS, **more)


def _hover(*fields: str) -> list[Spec]:
    return [{"field": field} for field in fields]


def _rows(title: None = None) -> Spec:
    axis = {"labelLimit": 300, "grid": True, "ticks": False, "domain": False}
    return {"field": "title", "type": "nominal", "sort": None, "title": title, "axis": axis}


def _strip(description: str, layers: Sequence[Spec]) -> Spec:
    """One line per group, with one sign per runtime."""
    return {
        "description": description,
        "width": "container",
        "height": {"step": 20},
        "encoding": {"y": _rows()},
        "layer": list(layers),
    }


def _ratios(by_runtime: _Colours) -> Spec:
    x = _quantity("ratio", "time over that of the fastest", scale=LOG, axis={"format": "~g"})
    ends = {"x": x | {"field": "low"}, "x2": {"field": "high"}, "color": by_runtime.channel()}
    points = {"x": x, **by_runtime.both(), "tooltip": _hover("title", "runtime", "median", "ratio", "interval")}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "strokeWidth": 1.5, "aria": False}, "encoding": ends},
        {"mark": {"type": "point", "filled": True, "size": 60, "opacity": 1}, "encoding": points},
    ]
    return _strip("How many times as long as the fastest each runtime takes, group by group", layers)


def _memory(by_runtime: _Colours) -> Spec:
    x = _quantity("memory", "peak host memory, MiB", scale={"zero": True})
    tooltip = _hover("title", "runtime", "memory")
    mark = {"type": "point", "filled": True, "size": 60, "opacity": 1}
    layers = [{"mark": mark, "encoding": {"x": x, **by_runtime.both(), "tooltip": tooltip}}]
    return _strip("Peak host memory of each runtime while it was timed, group by group", layers)


def _spread(by_runtime: _Colours) -> Spec:
    x = _time("q5", "time of a step: 5 to 95 %, 25 to 75 %, median", scale=LOG)
    y = {"field": "runtime", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 140}}
    tooltip = _hover("runtime", "median", "5 to 95 %", "25 to 75 %", "samples")
    return {
        "description": "Distribution of the times of a step by runtime",
        "width": "container",
        "height": {"step": 22},
        "encoding": {"y": y, "color": by_runtime.channel(False), "tooltip": tooltip},
        "layer": [
            {"mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": {"x": x, "x2": {"field": "q95"}}},
            {"mark": {"type": "bar", "height": 9}, "encoding": {"x": x | {"field": "q25"}, "x2": {"field": "q75"}}},
            {
                "mark": {"type": "tick", "thickness": 2, "size": 17},
                "encoding": {"x": x | {"field": "q50"}},
            },
        ],
    }


def _lines(
    by_runtime: _Colours, description: str, x: Spec, y: Spec, tooltip: Sequence[Spec], signs: bool = True, **more: Spec
) -> Spec:
    """Lines by runtime, with `signs` at the measured points; `more` are channels of the lines."""
    layers: list[Spec] = [
        {"mark": {"type": "line", "strokeWidth": 1.8}, "encoding": {"color": by_runtime.channel(), **more}}
    ]
    mark = {"type": "point", "filled": True, "size": 45 if signs else 120, "opacity": 1 if signs else 0}
    layers.append({"mark": mark, "encoding": by_runtime.both() if signs else {}})
    return {
        "description": description,
        "width": "container",
        "height": 220,
        "encoding": {"x": x, "y": y, "tooltip": list(tooltip)},
        "layer": layers,
    }


def _sweep(by_runtime: _Colours, axis: str) -> Spec:
    title = "product of the sizes" if axis == SHAPE else axis
    x = _quantity("number", title, scale={"type": "log", "base": 2}, axis={"format": "~d", "tickMinStep": 1})
    y = _time("time", "time per sample", scale=LOG)
    return _lines(by_runtime, f"Time per sample against {axis}", x, y, _hover("runtime", "number", "told"))


def _start(by_runtime: _Colours) -> Spec:
    x = _quantity("calls", "calls", scale=LOG, axis={"format": "~s", "tickCount": 8})
    y = _time("time", "total time", scale=LOG)
    words = "Time until so many calls are done, loading and compiling included"
    return _lines(by_runtime, words, x, y, _hover("runtime", "calls", "told"), signs=False)


def _training(by_runtime: _Colours, over: str, field: str, title: str, scale: Spec) -> Spec:
    x = _quantity(over, over, scale=LOG if over == "step" else {}, axis={"format": "~d", "tickMinStep": 1})
    y = _quantity(field, title, scale=scale)
    words, tooltip = f"{title} against {over}", _hover("runtime", over, field)
    return _lines(by_runtime, words, x, y, tooltip, over == "epoch", strokeDash=by_runtime.channel(), strokeWidth=WIDTH)


def _scaling(by_runtime: _Colours) -> Spec:
    x = _quantity("workers", "workers", axis={"format": "~d", "tickMinStep": 1})
    y = _quantity("speed", "speed-up, samples a second", scale={"zero": True})
    return _lines(by_runtime, "Speed-up against workers", x, y, _hover("runtime", "workers", "speed"))


def _widen(by_runtime: _Colours) -> Spec:
    """The interval of the metric at each number of nodes: that of its difference to the reference, added to that."""
    x = _quantity("nodes", "nodes in float32", axis={"format": "~d", "tickMinStep": 1})
    y = _quantity("value", "metric", scale={"zero": False})
    spec = _lines(by_runtime, "Metric against nodes in float32", x, y, _hover("runtime", "nodes", "value", "told"))
    ends = {"y": y | {"field": "low"}, "y2": {"field": "high"}, "color": by_runtime.channel()}
    spec["layer"].append({"mark": {"type": "rule", "strokeWidth": 1, "aria": False}, "encoding": ends})
    return spec


def _phases() -> Spec:
    y = {"field": "title", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 220}}
    colour = {"field": "phase", "type": "nominal", "sort": None, "legend": {"title": None, "orient": "top"}}
    x = _quantity("ms", "ms of an iteration", stack="zero")
    encoding = {"y": y, "x": x, "color": colour, "order": {"field": "order"}, "tooltip": _hover("title", "phase", "ms")}
    return {
        "description": "Phases of a training iteration, stacked, by runtime",
        "width": "container",
        "height": {"step": 24},
        "mark": {"type": "bar", "height": 14},
        "encoding": encoding,
    }


def _roofline(by_runtime: _Colours) -> Spec:
    x = _quantity("intensity", "FLOP a byte, at most", scale=LOG, axis={"format": "~g"})
    y = _quantity("rate", "GFLOP/s", scale=LOG, axis={"format": "~g"})
    tooltip = _hover("title", "runtime", "rate", "intensity", "attainable")
    mark = {"type": "point", "filled": True, "size": 55, "opacity": 0.9}
    return {
        "description": "Arithmetic rate of each cell under the roof of its machine",
        "width": "container",
        "height": 320,
        "layer": [
            {
                "data": {"name": "roofs"},
                "mark": {"type": "line", "strokeWidth": 1.2, "aria": False},
                "encoding": {"x": x, "y": y, "detail": {"field": "roof"}},
            },
            {"mark": mark, "encoding": {"x": x, "y": y, **by_runtime.both(), "tooltip": tooltip}},
        ],
    }
