"""An answer of `recommend/recommendation.py` in words, as a table, as Markdown and as JSON (docs/results.md)."""

import math
from typing import Any

from rich.console import Console

from xbench.case import data_in_words
from xbench.converters.printable import json, visible
from xbench.recommend import chance
from xbench.recommend.limits import MB, MEMORY, Limit, Relaxation
from xbench.recommend.quality import Quality
from xbench.recommend.question import Question
from xbench.recommend.recommendation import Answer, Cell, Place
from xbench.reports.tables import COLOURS, Table
from xbench.reports.tables import show as printed
from xbench.reports.tables import to_markdown as as_markdown
from xbench.stats.quantities import number, seconds
from xbench.store.record import NOTHING, known

FASTER = {"offline": "samples/s", "server": "queries/s"}


def to_json(answer: Answer, deployed: str | None = None) -> str:
    """The answer as a JSON object."""
    wanted = answer.question
    question: dict[str, Any] = {
        name: getattr(wanted, name)
        for name in ("model", "mode", "batch", "device", "threads", "machine", "plane", "layout", "calls", "scenario")
    }
    question["data"] = data_in_words(wanted.data)
    question |= {"samples_per_query": wanted.stream, "precisions": list(wanted.precisions)}
    question["limits"] = {limit.name: limit.most for limit in wanted.limits}
    question["max_drop"] = wanted.quality.drop if wanted.quality else None
    question["shapes"] = [{"shape": shape, "share": share} for shape, share in wanted.shapes]
    report = {
        "question": question,
        "best": answer.ranked[0].cell.label if answer.ranked else None,
        "tied": [place.cell.label for place in answer.tied],
        "ranked": [_ranked(place, wanted) for place in answer.ranked],
        "excluded": [_cell(cell) | {"why": cell.why} for cell in answer.excluded],
        "relaxations": [{"cell": each.label, "limits": each.limits} for each in answer.relaxations],
        "break_even_calls": answer.even,
        "not_measured": [{"runtime": runtime, "precision": precision} for runtime, precision in answer.missing],
        "notes": answer.notes,
        "deployed": deployed,
    }
    return json(report) + "\n"


def _ranked(place: Place, question: Question) -> dict[str, Any]:
    times = NOTHING if question.shapes else place.cell.record["times"] or NOTHING
    ratio = place.ratio
    return _cell(place.cell) | {
        "cost_s": place.cost,
        "median_s": None if question.scenario else place.step,
        "start_s": chance.start(times) if times.get("first_s") is not None else None,
        "probability": place.chance,
        "ratio": ratio.value,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
        "tied": place.tied,
        "command": place.cell.record.get("command"),
    }


def _cell(cell: Cell) -> dict[str, Any]:
    record = cell.record
    return {
        "cell": cell.label,
        "runtime": record["case"]["runtime"],
        "status": record["status"],
        "class": (record.get("parity") or NOTHING).get("class"),
        "at_most": cell.known,
    }


def title(question: Question) -> str:
    """The question in words."""
    threads = "1 thread" if question.threads == 1 else f"{question.threads} threads"
    what = question.scenario or question.mode
    parts = [f"{question.model} {what}", f"batch {question.batch}", question.device, threads, question.machine]
    parts += [f"{len(question.shapes)} shapes"] if question.shapes else []
    parts += [f"{question.calls} calls"] if question.calls else []
    parts += [f"{question.stream} samples a query"] if question.stream else []
    parts += [f"{limit.name} up to {_amount(limit.name, limit.most)}" for limit in question.limits]
    parts += [f"on {question.own}"] if question.own else []
    parts += [f"answers within {wanted(question.quality)}"] if question.quality else []
    return visible(", ".join(parts))


def wanted(quality: Quality) -> str:
    """What answers may lose, in words."""
    drop = f"{quality.drop:.4g}" if not quality.percent else f"{quality.drop * 100:.4g} %"
    return drop + (f" of {quality.metric}" if quality.metric else "")


def verdict(answer: Answer) -> list[str]:
    """The answer in sentences: what to take and how sure that is, or why nothing can be chosen."""
    if not answer.ranked:
        return _nothing(answer)
    first, tied = answer.ranked[0], answer.tied
    if tied:
        names = ", ".join(f"{place.cell.label} ({_percent(place.chance)})" for place in tied)
        sentences = [f"Cannot be told apart: {names}, each with its probability of being the best."]
        sentences += [f"The first, {first.cell.label}: {_cost(first, answer.question)}."]
    else:
        sentences = [f"Take {first.cell.label}: {_cost(first, answer.question)}."]
        if len(answer.ranked) > 1:
            second = answer.ranked[1]
            many = f"{number(second.ratio.value)} times ({_interval(second)})"
            comparison = f"{second.cell.label} takes {many} as long"
            if answer.question.scenario in FASTER:
                comparison = f"its rate is {many} that of {second.cell.label}"
            sentences += [f"It is the best with a probability of {_percent(first.chance)}; {comparison}."]
        else:
            sentences += ["No other cell may be ranked beside it."]
    return sentences + even(answer)


def even(answer: Answer) -> list[str]:
    """After how many calls the second costs as little as the first."""
    if not answer.question.calls or len(answer.ranked) < 2:
        return []
    first, second = (place.cell.label for place in answer.ranked[:2])
    if answer.even is None:
        return [f"At any number of calls {first} costs less than {second}."]
    if answer.question.calls > answer.even:
        return [f"From {math.ceil(answer.even)} calls on {first} costs less than {second}, below that more."]
    return [f"Up to {math.floor(answer.even)} calls {first} costs less than {second}, from there on more."]


def _nothing(answer: Answer) -> list[str]:
    limited = any(cell.limited for cell in answer.excluded)
    sentences = ["No cell meets the limits."] if limited else ["There is no cell that may be chosen."]
    limits = {limit.name: limit for limit in answer.question.limits}
    if answer.relaxations:
        sentences.append(f"Relax {'; or '.join(_relaxed(each, limits) for each in answer.relaxations)}.")
    elif limited:
        again = any(cell.few for cell in answer.excluded)
        sentences.append(f"What would admit one is not known{': measure longer, with --measure' if again else ''}.")
    return sentences


def _relaxed(relaxation: Relaxation, limits: dict[str, Limit]) -> str:
    words = []
    for name, most in relaxation.limits.items():
        scale, option = (MB, "--max-memory-mb") if name == MEMORY else (1e-3, f"--max-latency-ms {name}")
        words.append(f"{option} from {limits[name].most / scale:.6g} to {rounded_up(most / scale):.6g}")
    return f"{' and '.join(words)}, then {relaxation.label} fits"


def rounded_up(value: float) -> float:
    """The value rounded up to four digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return math.ceil(value / unit - 1e-9) * unit


def header(question: Question) -> list[str]:
    """The columns of the table."""
    if question.scenario:
        cost = [FASTER.get(question.scenario, f"p{question.percent:g}")]
    else:
        plain = "weighted mean" if question.shapes else "median"
        cost = [f"{question.calls} calls", "start", plain] if question.calls else [plain]
    limits = ["memory" if each.name == MEMORY else f"{each.name} at most" for each in question.limits]
    return ["runtime", "status", *cost, "ratio", "95 % interval", "best", *limits]


def cells(place: Place, question: Question) -> list[str]:
    """The cells of a ranked row under `header`."""
    record = place.cell.record
    if question.scenario in FASTER:
        cost = [number(1 / place.cost)]
    elif question.calls:
        cost = [seconds(place.cost), seconds(chance.start(known(record["times"]))), seconds(place.step)]
    else:
        cost = [seconds(place.step)]
    limits = [place.cell.known.get(limit.name) for limit in question.limits]
    shown = ["" if v is None else _amount(n.name, v) for n, v in zip(question.limits, limits, strict=True)]
    ratio = f"{'~' if place.tied and place.ratio.low != place.ratio.high else ''}{number(place.ratio.value)}"
    status = f"{record['status']} {known(record['parity'])['class']}"
    return [visible(place.cell.label), status, *cost, ratio, _interval(place), _percent(place.chance), *shown]


def below(answer: Answer) -> list[str]:
    """The lines below the table: excluded cells and why, what has no record, notes."""
    lines = [f"not chosen: {visible(cell.label)}: {visible(cell.why)}" for cell in answer.excluded]
    if answer.missing:
        names = (word if precision == "fp32" else f"{word} ({precision})" for word, precision in answer.missing)
        lines.append(f"not measured: {', '.join(names)}; --measure measures them")
    return lines + [f"note: {visible(note)}" for note in answer.notes]


def table(answer: Answer) -> Table:
    """The answer: its sentences above the ranked cells, the others below."""
    body, styles = [cells(place, answer.question) for place in answer.ranked], [COLOURS["PASS"]] * len(answer.ranked)
    about, notes = verdict(answer), below(answer)
    heading = title(answer.question)
    return Table(heading, header(answer.question), body, words=2, about=about, notes=notes, styles=styles)


def to_markdown(answer: Answer) -> str:
    """The answer as Markdown."""
    return as_markdown([table(answer)])


def show(answer: Answer, console: Console) -> None:
    """Print the answer."""
    printed([table(answer)], console)


def _cost(place: Place, question: Question) -> str:
    """The cost of a cell, in words."""
    if question.scenario in FASTER:
        return f"{number(1 / place.cost)} {'samples' if question.scenario == 'offline' else 'queries'} a second"
    if question.scenario:
        return f"p{question.percent:g} is {seconds(place.cost)}"
    if question.calls:
        return f"{seconds(place.cost)} for {question.calls} calls in a new process"
    over = ", the weighted mean of all shapes" if question.shapes else ""
    return f"{seconds(place.step)} a {'call' if question.mode == 'forward' else question.mode}{over}"


def _interval(place: Place) -> str:
    low, high = place.ratio.low, place.ratio.high
    if low is None or high is None:
        return "unknown"
    return "" if low == high else f"{number(low)} to {number(high)}"


def _percent(share: float) -> str:
    """A probability in per cent, never more certain than its draws allow."""
    return "> 99 %" if share > 0.995 else "< 1 %" if share < 0.005 else f"{share * 100:.0f} %"


def _amount(name: str, value: float) -> str:
    return f"{value / MB:.4g} MB" if name == MEMORY else f"{value * 1e3:.4g} ms"
