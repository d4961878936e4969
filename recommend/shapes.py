"""Which cell to deploy where calls have several shapes: by the mean time of a call, each shape with its share of all.

A cell is ranked if it is ranked at every shape, so that a limit is met at every shape. Shapes are measured one after
the other: their errors are independent.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from xbench.case import Case
from xbench.converters.sweep import read_shapes, without_shapes
from xbench.experiments.choose import choose_models
from xbench.recommend import chance
from xbench.recommend.limits import relaxations
from xbench.recommend.recommendation import Answer, Cell, Place
from xbench.stats.ratio import Ratio


def shared_words(model: str, shapes: Sequence[str], file: Path | None) -> dict[str, float]:
    """The words of a model at several shapes, each with its share of all calls. `shapes` are those of `--shape`, all
    of one share; `file` is that of `--shapes`. The word itself if there are none.

    Raises:
        XBenchError: as `choose_models` and `read_shapes`.
    """
    if not shapes and not file:
        return {model: 1.0}
    shares: dict[str, float] = {}
    for options, share in [(each.options, each.share) for each in read_shapes(file)] if file else [([], 1.0)]:
        words = choose_models([model], (), shapes=[*shapes, *options])
        for word in words:
            shares[word] = shares.get(word, 0.0) + share / len(words)
    return shares


def shape_of(word: str) -> str:
    """The sizes of a word: "seq=16"."""
    return ", ".join(f"{name}={size}" for name, size in without_shapes(word)[1].items())


def over_shapes(answers: Mapping[str, Answer], shares: Mapping[str, float]) -> Answer:
    """The answer for calls of several shapes. `answers` are those for each shape alone, `shares` its share of all
    calls, both by the word of the model at that shape."""
    at = {word: _cells(answer) for word, answer in answers.items()}
    cases = dict.fromkeys(case for cells in at.values() for case in cells)
    cells = {case: _over({word: of.get(case) for word, of in at.items()}) for case in cases}
    ranked = _rank([case for case in cases if not cells[case].why], cells, answers, shares)
    excluded = sorted((cell for cell in cells.values() if cell.why), key=lambda cell: cell.label)
    first = next(iter(answers.values()))
    limited = [(cell.label, cell.known) for cell in excluded if cell.limited]
    relaxed = [] if ranked else relaxations(limited, first.question.limits)
    weights = tuple((shape_of(word), shares[word]) for word in answers)
    question = dataclasses.replace(first.question, model=without_shapes(first.question.model)[0], shapes=weights)
    missing = list(dict.fromkeys(wanted for answer in answers.values() for wanted in answer.missing))
    notes = list(dict.fromkeys(note for answer in answers.values() for note in answer.notes))
    return Answer(question, ranked, excluded, relaxed, missing, [*notes, *_others(ranked, answers)])


def _key(cell: Cell) -> Case:
    """The cell whatever its shape is."""
    return dataclasses.replace(Case(**cell.record["case"]), model="")


def _cells(answer: Answer) -> dict[Case, Cell]:
    return {_key(cell): cell for cell in (*(place.cell for place in answer.ranked), *answer.excluded)}


def _over(at: Mapping[str, Cell | None]) -> Cell:
    """One cell at all shapes: its first problem, the largest bounds of what is limited."""
    found = [cell for cell in at.values() if cell]
    labels = " / ".join(dict.fromkeys(cell.label for cell in found))
    whys = {word: cell.why if cell else "it was not measured" for word, cell in at.items()}
    limited = len(found) == len(at) and all(cell.limited for cell in found if cell.why)
    bounds: dict[str, float | None] = {}
    for name in found[0].known:
        values = [cell.known.get(name) for cell in found]
        known = [value for value in values if value is not None]
        bounds[name] = max(known) if len(known) == len(values) else None
    why = next((f"at {shape_of(word)}: {each}" for word, each in whys.items() if each), "")
    few = limited and all(cell.few for cell in found if cell.why)
    return Cell(found[-1].record, labels, why, bounds, bool(why) and limited, bool(why) and few)


def _rank(
    cases: Sequence[Case], cells: Mapping[Case, Cell], answers: Mapping[str, Answer], shares: Mapping[str, float]
) -> list[Place]:
    """The cells that are ranked at every shape, the lowest mean first."""
    if not cases:
        return []
    costs, steps = np.zeros(len(cases)), np.zeros(len(cases))
    draws = np.zeros((len(cases), chance.DRAWS))
    for seed, (word, answer) in enumerate(answers.items()):
        places = {_key(place.cell): place for place in answer.ranked}
        own = [places[case] for case in cases]
        costs += shares[word] * np.array([place.cost for place in own])
        steps += shares[word] * np.array([place.step for place in own])
        records, centres = [place.cell.record for place in own], [place.cost for place in own]
        draws += shares[word] * chance.drawn_steps(records, centres, seed)
    order, likely = np.argsort(costs, kind="stable"), chance.chances(draws)
    first = order[0]
    ratios = [chance.drawn_ratio(costs[each] / costs[first], draws[each], draws[first]) for each in range(len(cases))]
    ratios[first] = Ratio(1.0, 1.0, 1.0, True)
    return [Place(cells[cases[n]], float(costs[n]), float(steps[n]), ratios[n], likely[n]) for n in order]


def _others(ranked: Sequence[Place], answers: Mapping[str, Answer]) -> list[str]:
    """The shapes at which another cell is faster than the first, beyond doubt."""
    if not ranked:
        return []
    best: dict[str, list[str]] = {}
    for word, answer in answers.items():
        fastest = answer.ranked[0]
        own = next(place for place in answer.ranked if _key(place.cell) == _key(ranked[0].cell))
        if own.ratio.low is not None and own.ratio.low > 1 and not math.isclose(own.ratio.value, 1):
            best.setdefault(fastest.cell.label, []).append(shape_of(word))
    return [f"{label} is faster than {ranked[0].cell.label} at {'; '.join(at)}" for label, at in best.items()]
