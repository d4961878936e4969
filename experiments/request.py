"""The request of a command, or of the package's function of that name: words become an experiment and cells.

`asked` are the given arguments, by the names of the function's parameters (`api/__init__.py`). Commands that measure
one network are in `of_network.py`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xbench.case import OWN, SYNTHETIC, Case
from xbench.errors import XBenchError
from xbench.experiments import choose
from xbench.experiments.experiment import Experiment

Asked = Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """An experiment, and the fields of its cells without the models: `models` are the default ones. The rest is as in
    `experiment.run` and `Case`; `keep_going`: a model that cannot be exported does not stop the others. `precisions`
    are several of them, if the cells have no single one."""

    experiment: Experiment
    models: Sequence[str]
    runtimes: Sequence[str]
    modes: Sequence[str]
    batches: Sequence[int]
    cell: Mapping[str, Any]
    again: str
    strict: bool = True
    keep_going: bool = True
    precisions: Sequence[str] = ()

    def names(self, asked: Asked) -> list[str]:
        """The models of the words, each with its own options.

        Raises:
            XBenchError: an unknown word.
        """
        if "models" not in asked:
            return list(self.models)
        return choose.choose_models(listed(asked, "models"), self.models, **model_options(asked))

    def cases(self, names: Sequence[str], batches: Sequence[int] | None = None, **fields: Any) -> list[Case]:
        """The cells of models by their names; `fields` are set on every cell."""
        sizes = self.batches if batches is None else batches
        made = choose.cells(names, self.runtimes, self.modes, sizes, {**self.cell, **fields})
        return [replace(case, precision=each) for case in made for each in self.precisions] or made


def check(asked: Asked) -> Request:
    """
    Raises:
        XBenchError: an unknown word, or a number that is too small.
    """
    from xbench.experiments.check import Check
    from xbench.models import MODELS

    choose.choose_precision(asked["precision"], asked["explain"])
    batch = 2 if asked["batch"] is None else asked["batch"]
    at_least(1, batch=batch, steps=asked["steps"])
    at_least(0, timeout=asked["timeout"])
    return Request(
        Check(asked["explain"]),
        tuple(MODELS),
        choose.choose_runtimes(listed(asked, "runtimes")),
        choose.choose_modes(listed(asked, "modes"), ("forward", "gradient")),
        [batch],
        {**_place(asked), **_arithmetic(asked), **samples(asked), "steps": asked["steps"]},
        "all" if asked.get("rerun") else "failed",  # the user may have fixed what failed
        strict=bool(asked["modes"]),
    )


def time(asked: Asked) -> Request:
    """
    Raises:
        XBenchError: as `check`.
    """
    from xbench.experiments.session import Time
    from xbench.experiments.settings import Protocol
    from xbench.models import DEFAULT_SUITE

    at_least(0.01, budget=asked["budget"])
    at_least(0, timeout=asked["timeout"])
    at_least(1, processes=asked["processes"])
    words = choose.choose_words(asked["plane"], asked["data"], asked["tune"])
    search = {"tune_budget": asked["tune_budget"] if asked["tune"] == "max" else 0.0}
    return Request(
        Time(Protocol(asked["budget"], asked["target_ci"], float(asked["timeout"]), asked["processes"])),
        DEFAULT_SUITE,
        choose.choose_runtimes(listed(asked, "runtimes")),
        choose.choose_modes(listed(asked, "modes"), ("forward", "step")),
        choose.choose_batches([str(size) for size in asked["batches"] or ()]),
        {**_place(asked), **_arithmetic(asked), **words, **search, **samples(asked)},
        choose.again(asked["rerun"], asked["retry"]),
        strict=bool(asked["modes"]),
    )


def convert(asked: Asked) -> Request:
    """
    Raises:
        XBenchError: as `check`.
    """
    from xbench.experiments.convert import Convert
    from xbench.models import DEFAULT_SUITE

    at_least(1, batch=asked["batch"])
    forms = choose.choose_runtimes(listed(asked, "to")) if asked["to"] else []
    runtimes = choose.choose_runtimes(listed(asked, "runtimes") or forms)
    cold = asked.get("rerun", False)
    experiment = Convert(tuple(forms), Path(asked["output"]), asked["oracle"], asked["compile"], cold)
    return Request(
        experiment,
        DEFAULT_SUITE,
        [*dict.fromkeys([*runtimes, *forms])],
        ["forward"],
        [asked["batch"]],
        _place(asked),
        experiment.again,
    )


def model_options(asked: Asked) -> dict[str, Any]:
    """What goes into the word of every model."""
    options = {name: listed(asked, name) for name in ("shapes", "inputs", "ranges") if name in asked}
    options |= {name: asked[name] for name in ("optimizer", "weights", "loss") if name in asked}
    return options | ({"shape_file": Path(asked["shape_file"])} if asked.get("shape_file") else {})


def samples(asked: Asked) -> dict[str, str]:
    """The field of cells that names the user's samples, if there are any.

    Raises:
        XBenchError: there is a data set, too, or an empty word.
    """
    if (word := asked.get("samples")) is None:
        return {}
    if not word:
        raise XBenchError("--inputs is empty: name a file, a folder, module:function or a data set")
    if asked.get("data", SYNTHETIC) != SYNTHETIC:
        raise XBenchError("--inputs and --data exclude one another: give one of them")
    return {"data": f"{OWN}{word}#"}


def listed(asked: Asked, name: str) -> list[str] | None:
    """One word or several as a list.

    Raises:
        XBenchError: not words.
    """
    words = [asked[name]] if isinstance(asked[name], str) else asked[name]
    if words is None or (isinstance(words, Sequence) and all(isinstance(word, str) for word in words)):
        return None if words is None else list(words)
    raise XBenchError(f"{name} must be a word or a list of words, not {words!r:.80}")


def _place(asked: Asked) -> dict[str, str]:
    return {"device": choose.choose_device(asked["device"]), "layout": choose.choose_layout(asked["layout"])}


def _arithmetic(asked: Asked) -> dict[str, Any]:
    precision = choose.choose_precision(asked["precision"])
    return {"threads": choose.choose_threads(asked["threads"]), "precision": precision}


def at_least(least: float, **numbers: float) -> None:
    """
    Raises:
        XBenchError: a number that is less, infinite or NaN.
    """
    for name, value in numbers.items():
        if not value >= least:
            raise XBenchError(f"{name} must be at least {least:g}, not {value!r}")
        if value == math.inf:
            raise XBenchError(f"{name} must be finite")


def whole_numbers(asked: Asked, *names: str) -> None:
    """
    Raises:
        XBenchError: one that is given is no whole number of at least 1.
    """
    for name in names:
        value = asked[name]
        if value is not None and (type(value) is not int or value < 1):
            raise XBenchError(f"{name} must be a whole number of at least 1, not {value!r:.80}")
