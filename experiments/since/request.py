"""What `xbench since` is asked: words become the releases and the question."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xbench.case import Case
from xbench.errors import XBenchError
from xbench.experiments import choose
from xbench.experiments.experiment import Lab
from xbench.experiments.request import at_least
from xbench.experiments.settings import Protocol
from xbench.experiments.since.questions import Bench, Slower, Wrong
from xbench.runtimes import _configuration
from xbench.store.results import Store, open_store
from xbench.workers import environment
from xbench.workers.building import releases as index
from xbench.workers.building import versions
from xbench.workers.building.installation import numbers

SHARE = re.compile(r"(\d{1,4}(?:\.\d{1,6})?) ?%", re.ASCII)


def share(word: str) -> float:
    """`10%` as 0.1.

    Raises:
        XBenchError: no percentage above zero.
    """
    match = SHARE.fullmatch(word.strip())
    if not match or not float(match[1]):
        raise XBenchError(f"--slower {word}: write how much slower, such as 10%")
    return float(match[1]) / 100


def cell(
    model: str, runtime: str, mode: str, batch: int, threads: int, precision: str, of_model: Mapping[str, Any]
) -> Case:
    """The cell in question, its runtime without a release; `of_model` are the options of `choose.choose_model`.

    Raises:
        XBenchError: PyTorch is not installed; an unknown word.
    """
    choose.need_torch()
    word = choose.choose_model("since", model, **of_model)
    (mode,), precision = choose.choose_modes([mode], ()), choose.choose_precision(precision)
    return Case(word, runtime, mode, batch, threads=threads, precision=precision)


def releases(runtime: str, first: str, last: str | None, given: str | None) -> list[str]:
    """The releases to search, the oldest first: those that are `given`, else those of the package index.

    Raises:
        XBenchError: the runtime has no releases to choose from, one does not exist, or there are fewer than two.
    """
    choose.known_runtime(runtime)
    if _configuration.pinned(runtime) is not None:
        raise XBenchError(f"{runtime}: the releases are those between --from and --to; write the runtime without one")
    name, colon, options = runtime.partition(":")
    recipe = environment.recipe(versions.environment_of(f"{name}==0{colon}{options}"))
    if given is None:
        known = index.released(recipe, environment.interpreter(recipe))
    else:
        known = sorted({each.strip() for each in given.split(",")}, key=numbers)
    return index.between(known, first, last)


@dataclass(frozen=True)
class Ask:
    """A question about a cell: is a release slower by a share, or, if that is None, wrong?"""

    case: Case
    share: float | None
    budget: float
    timeout: float

    def __post_init__(self) -> None:
        at_least(0.01, budget=self.budget)

    def question(self, lab: Lab, out: Path) -> Slower | Wrong:
        """The question, to be answered in the stores of a folder."""

        def prepare(word: str) -> None:
            lab.progress.say(f"{word}: its environment")
            choose.choose_runtimes([word])

        store: Callable[[str], Store] = lambda file: open_store(out, file)  # noqa: E731
        bench = Bench(self.case, lab, store, prepare)
        if self.share is None:
            return Wrong(bench)
        return Slower(bench, Protocol(self.budget, timeout=self.timeout), self.share)
