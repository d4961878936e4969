"""The question of `xbench widen`, and the cells it is asked of, from the words of the command."""

from dataclasses import replace

from xbench.case import Case
from xbench.errors import XBenchError
from xbench.experiments import choose, of_network
from xbench.experiments.evaluate import Evaluate
from xbench.experiments.request import Asked, at_least
from xbench.experiments.widen.run import Question
from xbench.runtimes import parse, row_of

BATCH = 32  # samples of a batch that is evaluated


def question(asked: Asked) -> tuple[Question, list[Case], str]:
    """The question, a cell for every runtime, and which stored records are measured again.

    Raises:
        XBenchError: as for `evaluate`; a precision or a runtime of which no node can be left in float32.
    """
    precision = choose.choose_precision(asked["precision"])
    if precision == "fp32":
        raise XBenchError("--precision fp32: widen is for a lower one, such as int8")
    at_least(1, evaluations=asked["evaluations"])
    at_least(0, budget=asked["budget"])
    request = of_network.evaluate({**asked, "precisions": ["fp32", precision], "batch": None})
    assert isinstance(request.experiment, Evaluate)
    (name,) = request.models
    cells = [replace(case, precision=precision) for case in request.cases(request.names(asked))]
    cells = list(dict.fromkeys(cells))
    batch = asked["batch"] or choose.batch_of(name, 1)
    ask = Question(request.experiment, asked["evaluations"], float(asked["budget"]), batch, float(asked["timeout"]))
    return ask, _able(cells, precision, bool(asked["runtimes"])), request.again


def _able(cells: list[Case], precision: str, chosen: bool) -> list[Case]:
    """The cells of which nodes can be left in float32.

    Raises:
        XBenchError: one that was chosen cannot, or none can.
    """
    able = []
    for case in cells:
        row, (name, options) = row_of(case.runtime), parse(case.runtime)
        if "wide" in options:
            raise XBenchError(f"{case.runtime}: widen finds these nodes itself: write {name}")
        if (lower := row.lower.get(precision)) and lower.widens:
            able.append(case)
        elif chosen:
            raise XBenchError(f"{name} cannot leave single nodes in float32 if the others are in {precision}")
    if not able:
        raise XBenchError(f"no installed runtime can leave single nodes in float32 if the others are in {precision}")
    return able
