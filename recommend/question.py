"""The question to a store: which cells are meant, and the limits that they must meet. Pure functions on records.

A field that is not given takes the store's only value, or the usual one if the store has it; else the user must give
it.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xbench.case import DEVICES, PLANES, Case, data_in_words
from xbench.errors import XBenchError
from xbench.experiments.choose import batch_of, choose_modes
from xbench.experiments.load import SCENARIOS
from xbench.experiments.request import samples
from xbench.host import machine
from xbench.recommend.limits import Limit
from xbench.recommend.quality import Quality
from xbench.runtimes import parse
from xbench.store.record import NOTHING, Record

USUAL: dict[str, Any] = {"mode": "forward", "device": "cpu", "data": "synthetic", "plane": "resident"}


@dataclass(frozen=True)
class Question:
    """The cells of one case, of any runtime, layout and effort, and the requirements on them. `calls` is how often one
    process will be called, `precisions` are the acceptable ones, `stream` the samples of a multi-stream query.
    `runtimes` are those to consider, all if empty. `shapes` are those of the calls with their shares, if they have
    several; `model` is then the model without them. `quality` is what their answers may lose."""

    model: str
    batch: int
    threads: int
    machine: str
    mode: str = "forward"
    device: str = "cpu"
    plane: str = "resident"
    data: str = "synthetic"
    precisions: tuple[str, ...] = ("fp32",)
    layout: str | None = None
    runtimes: tuple[str, ...] = ()
    calls: int | None = None
    scenario: str | None = None
    stream: int | None = None
    limits: tuple[Limit, ...] = ()
    quality: Quality | None = None
    shapes: tuple[tuple[str, float], ...] = ()

    def holds(self, record: Record) -> bool:
        """Whether a record is of this case, on this machine."""
        case = record["case"]
        named = not self.runtimes or {case["runtime"], parse(case["runtime"])[0]} & {*self.runtimes}
        alike = all(getattr(self, name) == read(record) for name, read in fields(self.scenario))
        return bool(named) and case["model"] == self.model and alike

    @property
    def own(self) -> str | None:
        """The word of the user's samples that the cells compute on; None if they have others."""
        return _of(self.data).own

    @property
    def percent(self) -> float:
        """The percentile by which the streams of a load are ranked: the first limited one, else the median."""
        return next((limit.percent for limit in self.limits if limit.percent is not None), 50.0)


def settled(
    records: Sequence[Record], model: str, said: Mapping[str, Any], more: Mapping[str, Any], may_measure: bool = False
) -> Question:
    """The question; fields missing in `said` are taken from the records, `more` are its other fields. If it may be
    measured, the records need not have it.

    Raises:
        XBenchError: the records have no such cell, or several candidates; the message names them.
    """
    scenario = more.get("scenario")
    left = [record for record in records if record["case"]["model"] == model]
    if not left and not may_measure:
        raise XBenchError(never(model, records))
    here, usual = "", USUAL | ({"plane": "host"} if scenario else {})
    resolved: dict[str, Any] = {}
    for name, read in fields(scenario):
        known = sorted({read(record) for record in left})
        word = said.get(name)
        if name == "data":
            word = _as_stored(word, [read(record) for record in left])
        if name == "machine":
            usual["machine"] = here = machine.label(machine.facts(resolved["device"]))
            word = _machine(word, known, here if may_measure else None)
        resolved[name] = _one(name, word, known, usual.get(name), f"{model}{_so_far(resolved)}", may_measure)
        left = [record for record in left if read(record) == resolved[name]]
    if may_measure and resolved["machine"] != here:
        raise XBenchError(f"--measure measures here, on {here}, and not on {resolved['machine']}")
    otherwise: dict[str, Any] = {"batch": batch_of(model, 1), "threads": machine.cpus(), "stream": 8}
    values: dict[str, Any] = {name: otherwise[name] if value is None else value for name, value in resolved.items()}
    return Question(model=model, **values, **{name: value for name, value in more.items() if name not in values})


def fields(scenario: str | None) -> list[tuple[str, Callable[[Record], Any]]]:
    """The fields shared by comparable cells, in the order in which they are resolved, each with its reader."""

    def of_case(name: str) -> tuple[str, Callable[[Record], Any]]:
        return name, lambda record: record["case"].get(name, USUAL.get(name, 1))

    common = [of_case(name) for name in ("mode", "device", "data", "plane")]
    if scenario:
        common.append(("scenario", lambda record: (record.get("load") or NOTHING).get("scenario") or ""))
    if scenario == "multi-stream":
        common.append(("stream", lambda record: (record.get("load") or NOTHING).get("samples_per_query") or 0))
    common.append(("machine", lambda record: machine.label(record.get("machine"))))
    return [*common, of_case("threads"), of_case("batch")]


def never(model: str, records: Sequence[Record]) -> str:
    """The message for a model without any record."""
    known = list(dict.fromkeys(record["case"]["model"] for record in records))
    near = difflib.get_close_matches(model, known, n=1)
    there = f"did you mean {near[0]}?" if near else f"there is {', '.join(known[:8]) or 'nothing'}"
    return f"{model} was never measured here: {there} (--measure measures it)"


def check_options(given: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    """
    Raises:
        XBenchError: an unknown word, or options that exclude one another.
    """
    choose_modes([given["mode"]] if given["mode"] else None, ())
    for option, known in (("device", DEVICES), ("plane", PLANES)):
        if given[option] not in (None, *known):
            raise XBenchError(f"--{option} must be one of {', '.join(known)}, not {given[option]!r}")
    scenario, percents = more["scenario"], [limit for limit in more["limits"] if limit.percent is not None]
    if given["stream"] and scenario != "multi-stream":
        raise XBenchError("--samples-per-query is for --scenario multi-stream")
    if scenario is None:
        return
    if more["calls"]:
        raise XBenchError("--calls and --scenario exclude one another: a load has its own number of queries")
    if given["mode"] not in (None, "forward") or given["plane"] not in (None, "host"):
        raise XBenchError("--scenario is of mode forward on plane host: that is what `xbench load` measures")
    if scenario == "offline" and percents:
        raise XBenchError("--scenario offline has no latency that could be limited")
    if scenario == "server" and len(percents) > 1:
        raise XBenchError("--scenario server has one limit of its latency")


def choose_data(data: str | None, inputs: str | None, quality: Quality | None) -> str | None:
    """What the cells are to be measured on: `--data`, else the user's samples, which are evaluated, too, if a metric is
    of interest.

    Raises:
        XBenchError: both are given, and nothing is evaluated.
    """
    if data and inputs is not None and quality is None:
        raise XBenchError("--inputs and --data exclude one another: give one of them")
    return data or samples({"samples": inputs}).get("data")


def check_one_shape(shapes: int, **options: Any) -> None:
    """
    Raises:
        XBenchError: there are several, and an option is for one shape.
    """
    if shapes > 1 and (named := [name for name, value in options.items() if value]):
        raise XBenchError(f"--{named[0]} is for one shape, and these are {shapes}")


def choose_scenario(word: str | None) -> str | None:
    """
    Raises:
        XBenchError: it is no scenario.
    """
    if word is None or word in SCENARIOS:
        return word
    near = difflib.get_close_matches(word, SCENARIOS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the scenarios are {', '.join(SCENARIOS)}"
    raise XBenchError(f"unknown scenario {word!r}: {hint}")


def _as_stored(word: str | None, stored: Sequence[str]) -> str | None:
    """The word for data as records have it: a user's samples with the digest of the newest ones."""
    own = None if word is None else _of(word).own

    def is_meant(each: str) -> bool:
        return data_in_words(each) == word if own is None else _of(each).own == own

    return next((each for each in reversed(stored) if is_meant(each)), word)


def _of(data: str) -> Case:
    return Case("", "", data=data)


def _one(name: str, word: Any, known: Sequence[Any], usual: Any, what: str, may_measure: bool) -> Any:
    """The value of one field of the case; None if nothing determines it."""
    option = {"stream": "samples-per-query"}.get(name, name)
    listed = ("; " if name == "machine" else ", ").join(dict.fromkeys(data_in_words(str(each)) for each in known))
    if word is not None:
        if word in known or may_measure:
            return word
        shown = word
        if name == "data":
            option, shown = "inputs" if _of(word).own else option, data_in_words(word)
        raise XBenchError(f"{what} was not measured with --{option} {shown}: there is {listed} (--measure measures it)")
    if usual in known or not known:
        return usual
    if len(known) == 1:
        return usual if may_measure and usual is not None else known[0]
    raise XBenchError(f"{what} was measured with {option} {listed}: say which by --{option}")


def _machine(word: str | None, known: Sequence[str], here: str | None) -> str | None:
    """The machine whose name contains the word: one of the store's, or `here` if it may be measured.

    Raises:
        XBenchError: none matches, or several do.
    """
    if word is None:
        return None
    matches = [name for name in known if word.lower() in name.lower()]
    if word in known or (not matches and word == here):
        return word
    if len(matches) != 1:
        there = "; ".join(matches or known) or "none"
        raise XBenchError(
            f"--machine {word!r} is {'more than one' if matches else 'none'} of the store's: there is {there}"
        )
    return matches[0]


def _so_far(resolved: Mapping[str, Any]) -> str:
    """The fields resolved so far, in words."""
    words = [f" {resolved['mode']}"] if "mode" in resolved else []
    words += [f" on {resolved['device']}"] if "device" in resolved else []
    words += [f", {resolved['threads']} thread{'s' * (resolved['threads'] > 1)}"] if resolved.get("threads") else []
    return "".join(words)
