"""The requests of commands that measure one network: `evaluate`, `load`, `phases`, `profile`, `scale`,
`train`.

`asked` are the given arguments, by the names of the parameters that these commands share
(`cli/terminal/declared.py:of_network`) and of their own.
"""

import difflib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xbench.errors import XBenchError
from xbench.experiments import choose
from xbench.experiments.experiment import Experiment
from xbench.experiments.request import Asked, Request, at_least, listed, model_options, samples, whole_numbers


def load(asked: Asked) -> Request:
    """
    Raises:
        XBenchError: as `check`; LoadGen is not installed.
    """
    from xbench.experiments.load import SCENARIOS, Load, need_loadgen

    bound = None if asked["latency_ms"] is None else asked["latency_ms"] / 1e3
    scenarios = _scenarios(asked["scenario"], SCENARIOS)
    experiment = Load(tuple(scenarios), asked["seconds"], asked["percentile"], bound, asked["samples_per_query"])
    _sensible(experiment, asked["batch"])
    request = _request(asked, experiment, "forward", plane="host")
    need_loadgen()
    return request


def phases(asked: Asked) -> Request:
    """
    Raises:
        XBenchError: as `check`.
    """
    from xbench.experiments.phases import Phases
    from xbench.experiments.settings import Protocol

    experiment = Phases(Protocol(budget=asked["budget"], timeout=asked["timeout"]))
    return replace(_request(asked, experiment, "step"), strict=bool(asked["runtimes"]))


def profile(asked: Asked) -> Request:
    """
    Raises:
        XBenchError: as `check`.
    """
    from xbench.experiments.layers import Layers
    from xbench.runtimes import row_of

    request = _request(asked, Layers(), "forward")
    with_layers = [each for each in request.runtimes if asked["runtimes"] or row_of(each).layers is not None]
    return replace(request, runtimes=with_layers)


def scale(asked: Asked) -> Request:
    """
    Raises:
        XBenchError: as `check`.
    """
    from xbench.experiments.scaling.record import Plan
    from xbench.experiments.scaling.run import KINDS, Scale, sensible
    from xbench.runtimes.distributed import missing

    if (kind := asked["scaling"]) not in KINDS:
        raise XBenchError(f"unknown scaling {kind!r}: it is weak or strong")
    plan = Plan(_numbers(asked["workers"]), kind, asked["budget"], timeout=asked["timeout"])
    request = _request(asked, Scale(plan), "step", 32, plane="host")
    sensible(plan, request.batches[0], asked["device"])
    able = [each for each in request.runtimes if asked["runtimes"] or not missing(each)]
    return replace(request, runtimes=able)


def train(asked: Asked) -> Request:
    """
    Raises:
        XBenchError: as `check`; an unknown data set.
    """
    from xbench.data import SETS
    from xbench.experiments.train import Train
    from xbench.workers.samples import parse

    name, _ = parse(asked["data"])
    experiment = Train(asked["epochs"] or SETS[name].epochs, asked["seed"], asked["dropout"])
    request = _request(asked, experiment, "step", 32, data=asked["data"])
    return replace(request, strict=bool(asked["runtimes"]))


def evaluate(asked: Asked) -> Request:
    """
    Raises:
        XBenchError: as `check`; an unknown metric, or a loss that cannot be parsed.
    """
    from xbench.experiments.evaluate import Evaluate
    from xbench.metrics import OWN, row_of

    whole_numbers(asked, "limit", "batch")
    at_least(0, timeout=asked["timeout"])
    row, precisions = row_of(asked["metric"]), choose.split(listed(asked, "precisions")) or ["fp32"]
    for each in precisions:
        choose.choose_precision(each)
    if asked["less_is_better"] and row is not OWN:
        raise XBenchError(f"--less-is-better is for a metric of your own: {asked['metric']} is known")
    if not 0.5 <= asked["confidence"] < 1:
        raise XBenchError(f"--confidence must be from 0.5 to below 1, not {asked['confidence']:g}")
    if row.share and acceptable(asked["max_drop"]) >= 1:
        raise XBenchError(f"--max-drop {asked['max_drop']} of a share accepts anything: write {asked['max_drop']}%")
    experiment = Evaluate(
        asked["samples"],
        asked["labels"],
        asked["metric"],
        acceptable(asked["max_drop"]),
        relative=asked["max_drop"].endswith("%") and not row.share,
        less=row.less or asked["less_is_better"],
        **{name: asked[name] for name in ("confidence", "post", "output", "limit")},
        calibration=asked["calibrate"],
        precisions=tuple(precisions),
        like=_original(asked),
    )
    request = _request(asked, experiment, "forward", 32)
    return replace(request, strict=True, precisions=precisions)


def _original(asked: Asked) -> str | None:
    """The word of the network that the model was made of, in the same shapes and ranges.

    Raises:
        XBenchError: an unknown word, or one that means several networks.
    """
    if asked.get("like") is None:
        return None
    options = {name: value for name, value in model_options(asked).items() if name in ("shapes", "ranges")}
    return choose.choose_model("--like", asked["like"], **options)


def acceptable(word: str) -> float:
    """The largest acceptable loss of a metric, 0.005 for `0.5%`.

    Raises:
        XBenchError: not a number of at least 0.
    """
    try:
        number = float(word.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise XBenchError(f"--max-drop must be a number of at least 0, such as 0.5% or 0.005, not {word!r}")
    return number / 100 if word.endswith("%") else number


def _request(asked: Asked, experiment: Experiment, mode: str, batch: int = 1, **cell: Any) -> Request:
    """The request of a command that takes one network; `batch` is the default size of a model that has none.

    Raises:
        XBenchError: an unknown word, or one that means several networks.
    """
    name = choose.choose_model(experiment.name, asked["model"], **model_options(asked))
    return Request(
        experiment,
        [name],
        choose.choose_runtimes(listed(asked, "runtimes")),
        [mode],
        [asked["batch"] or choose.batch_of(name, batch)],
        {
            "device": choose.choose_device(asked["device"]),
            "threads": choose.choose_threads(asked["threads"]),
            **cell,
            **samples(asked),
        },
        choose.again(asked["rerun"], asked["retry"]),
        keep_going=False,
    )


def _scenarios(words: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The scenarios by name, in the requested order; all if none is given.

    Raises:
        XBenchError: an unknown scenario.
    """
    for word in choose.split(words):
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the scenarios are {', '.join(known)}"
            raise XBenchError(f"unknown scenario {word!r}: {hint}")
    return choose.split(words) or list(known)


def _sensible(plan: Any, batch: int) -> None:
    """
    Raises:
        XBenchError: a number that is invalid for a run.
    """
    if not plan.seconds < math.inf:
        raise XBenchError(f"--seconds must be a finite number, not {plan.seconds:g}")
    if not 0 < plan.percentile < 100:
        raise XBenchError(f"--percentile must be between 0 and 100, not {plan.percentile:g}")
    if plan.bound is not None and not 0 < plan.bound < math.inf:
        raise XBenchError(f"--latency-ms must be more than 0, not {plan.bound * 1e3:g}")
    if "multi-stream" in plan.scenarios and plan.stream % batch:
        words = f"--batch {batch} does not fit into the {plan.stream} samples of a multi-stream query"
        raise XBenchError(f"{words}: --samples-per-query must be a multiple of it")


def _numbers(words: str) -> tuple[int, ...]:
    """
    Raises:
        XBenchError: not integers of at least 1.
    """
    parts = [part.strip() for part in words.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and 0 < int(part) <= 64 for part in parts):
        raise XBenchError(f"--workers must be numbers from 1 to 64, such as 1,2,4, not {words!r}")
    return tuple(sorted({int(part) for part in parts}))
