"""Cells that an answer lacks and that can be measured here: their cases and their experiment."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from xbench.case import CALIBRATED, Case
from xbench.errors import XBenchError
from xbench.experiments import choose, load, of_network
from xbench.experiments.evaluate import Evaluate
from xbench.experiments.experiment import Experiment
from xbench.experiments.request import Request
from xbench.experiments.session import Time
from xbench.experiments.settings import Protocol
from xbench.metrics import OWN, row_of
from xbench.recommend import chance
from xbench.recommend.limits import samples_of
from xbench.recommend.question import Question
from xbench.recommend.recommendation import Answer, Wanted
from xbench.runtimes import parse, table
from xbench.store.record import Record

AGAIN = 1.3  # times the time that this number of samples took


@dataclass(frozen=True)
class Plan:
    """How long a cell is sampled, and how long a job of a worker may take, in seconds."""

    budget: float = 2.0
    timeout: float = 600.0


def measurable(question: Question) -> list[Wanted]:
    """What could be measured here for a question: the installed runtimes, or those it names, in each of its precisions
    that they support.

    Raises:
        XBenchError: it names an unknown runtime, or the settings are invalid.
    """
    rows, installed = table(), choose.installed_versions()
    usual = [name for name, row in rows.items() if not (row.hidden or row.named) and installed[name]]
    kept = []
    for word in question.runtimes or usual:
        row = rows.get(parse(word)[0])
        if row is None or (not question.runtimes and question.mode in row.on_request):
            continue
        for precision in question.precisions:
            lower = row.lower.get(precision)
            supported = lower and question.device in lower.devices and question.mode in lower.modes
            if precision == "fp32" or supported:
                kept.append((word, precision))
    return kept


def cases(answer: Answer, again: bool) -> list[Case]:
    """The cases to measure: first those without a record, then (`again`) those that need more samples. Comparable cells
    are adjacent."""
    question = answer.question
    plain = {n: getattr(question, n) for n in ("model", "mode", "batch", "device", "threads", "plane", "data")}
    new = [Case(runtime=w, precision=p, layout=question.layout or "nchw", **plain) for w, p in answer.missing]
    few = [Case(**cell.record["case"]) for cell in answer.excluded if cell.few]
    return sorted(few if again else new, key=lambda case: [str(value) for value in case.group])


def evaluation(question: Question, wanted: Sequence[Wanted]) -> Request | None:
    """The request to evaluate the answers of what could be chosen; None if the samples are not named.

    Raises:
        XBenchError: an unknown word.
    """
    quality = question.quality
    if quality is None or quality.inputs is None:
        return None
    if quality.metric and row_of(quality.metric) is OWN:
        raise XBenchError("--measure evaluates with a known metric: use `xbench evaluate` for your own")
    percent = "%" if quality.percent else ""
    asked: dict[str, Any] = {"model": question.model, "batch": None, "threads": question.threads}
    asked |= {"device": question.device, "runtimes": list(dict.fromkeys(word for word, _ in wanted))}
    asked |= {"precisions": list(question.precisions), "samples": quality.inputs, "labels": quality.labels}
    asked |= {"metric": quality.metric or "top1", "max_drop": f"{quality.drop * (100 if percent else 1):.12g}{percent}"}
    asked |= dict.fromkeys(("post", "output", "limit", "calibrate")) | {"less_is_better": False, "confidence": 0.95}
    return of_network.evaluate({**asked, "rerun": False, "retry": False, "timeout": Plan.timeout})


def seconds(answer: Answer, least: float) -> float:
    """How long cells are sampled so that their percentiles are known."""
    wanted = [chance.samples_needed(limit.percent) for limit in answer.question.limits if limit.percent is not None]
    steps = [samples_of(cell.record) for cell in answer.excluded if cell.few]
    longest = max((sum(each) / len(each) for each in steps if each), default=0.0)
    return max(least, AGAIN * longest * max(wanted, default=0))


def on_samples(question: Question, evaluated: Sequence[Record]) -> Question:
    """The question about cells that compute on the samples that were evaluated, if one of its precisions is calibrated
    on them: ranges of random inputs are no good."""
    if question.scenario or not {*question.precisions} & {*CALIBRATED}:
        return question
    return next((replace(question, data=each["case"]["data"]) for each in evaluated), question)


def experiment(question: Question, plan: Plan, evaluation: Request | None = None) -> Experiment:
    """How the cells of a question are measured: on the samples of an evaluation they are calibrated as it was."""
    if question.scenario:
        return _load(question, plan)
    few = any(limit.percent is not None for limit in question.limits)
    asked = evaluation.experiment if evaluation else None
    how = (asked, evaluation.batches[0]) if evaluation and isinstance(asked, Evaluate) else None
    # If a percentile is limited, sampling does not stop when the median is known.
    return Time(Protocol(plan.budget, 0.0 if few else 0.02, plan.timeout), evaluation=how)


def _load(question: Question, plan: Plan) -> load.Load:
    """The requested load.

    Raises:
        XBenchError: LoadGen is not installed, or a precision below fp32 is requested.
    """
    load.need_loadgen()
    if {*question.precisions} - {"fp32"}:
        raise XBenchError("xbench load has no --precision: nothing below fp32 is measured under load")
    limit = next((limit for limit in question.limits if limit.percent is not None), None)
    server = question.scenario == "server" and limit is not None
    return load.Load(
        (question.scenario or "",),
        plan.budget,
        (limit.percent if limit else None) or 99.0,
        limit.most if server and limit else None,
        question.stream or load.STREAM,
    )
