"""One search for a release, from the question to the report."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xbench.errors import XBenchError
from xbench.experiments.layers import Layers
from xbench.experiments.since.questions import Bench, Slower, Wrong
from xbench.experiments.since.search import GOOD, Found, Look, search
from xbench.runtimes import row_of

Report = dict[str, Any]


def since(question: Slower | Wrong, releases: Sequence[str], done: Callable[[str], None]) -> Report:
    """Which of the releases, the oldest first, is the first that is slower, or wrong. `done` gets a line per step.

    Raises:
        XBenchError: the first and the last release cannot be judged.
    """
    end = question.ends(releases[0], releases[-1])
    done(f"{releases[-1]}: {end.words}")
    report = _report(question, releases, end)
    if end.state == GOOD:
        return report

    def judge(good: str, release: str, bad: str) -> Look:
        look = question.between(good, release, bad)
        done(f"{release}: {look.state}: {look.words}")
        return look

    found = search(releases, judge)
    report["steps"] += [_step(release, look) for release, look in found.looks.items()]
    report |= {"good": found.good, "bad": found.bad, "certainty": found.certainty * end.certainty}
    report["between"] = _unjudged(found, releases)
    report["ratio"] = question.ratio and question.ratio._asdict()
    if question.name == Slower.name:
        try:
            report["layers"] = layers(question.bench, found)
        except XBenchError as error:  # the answer is there without them
            report["note"] = f"no layers: {error}"
    return report


def _report(question: Slower | Wrong, releases: Sequence[str], end: Look) -> Report:
    """The report of the comparison of the first and the last release, before any other is tried."""
    case = question.bench.case
    return {
        "model": case.model,
        "runtime": case.runtime,
        "mode": case.mode,
        "batch": case.batch,
        "threads": case.threads,
        "precision": case.precision,
        "question": question.name,
        "kind": question.kind,
        "share": question.share,
        "releases": list(releases),
        "found": end.state != GOOD,
        "good": None,
        "bad": None,
        "ratio": None,
        "certainty": end.certainty,
        "overall": question.ratio and question.ratio._asdict(),
        "steps": [_step(releases[-1], end)],
        "between": [],
        "layers": None,
        "files": [],
        "note": None,
    }


def _step(release: str, look: Look) -> dict[str, Any]:
    return {"release": release, **look._asdict()}


def _unjudged(found: Found, releases: Sequence[str]) -> list[str]:
    """The releases between the two that were found, none of which could be judged."""
    return [*releases[releases.index(found.good) + 1 : releases.index(found.bad)]]


def layers(bench: Bench, found: Found) -> list[dict[str, Any]] | None:
    """The layers of the two releases side by side, by name, those that differ most first; None if the runtime reports
    none, or in training."""
    if bench.case.mode != "forward" or row_of(bench.case.runtime).layers is None:
        return None
    resident = replace(bench, case=replace(bench.case, plane="resident"))
    profiles = [record.get("profile") for record in resident.run(Layers(), [found.good, found.bad])]
    if not all(profiles):
        return None
    good, bad = ({each["name"]: each for each in profile["layers"]} for profile in profiles if profile)
    lines = [
        {
            "name": name,
            "operator": (bad.get(name) or good[name])["operator"],
            "good_s": good[name]["median_s"] if name in good else None,
            "bad_s": bad[name]["median_s"] if name in bad else None,
        }
        for name in {**good, **bad}
    ]
    return sorted(lines, key=lambda each: -abs((each["bad_s"] or 0.0) - (each["good_s"] or 0.0)))
