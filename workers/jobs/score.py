"""Jobs of the worker that scores answers: it keeps of each file of outputs what a metric needs, and compares a runtime
with the reference sample by sample."""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xbench import metrics
from xbench.converters.printable import one_line
from xbench.data.own.preview import picture
from xbench.errors import XBenchError
from xbench.host.clock import now
from xbench.metrics import Answered, Metric, Misfit
from xbench.models import _factory
from xbench.parity import verdict
from xbench.parity.candidate import inputs_of
from xbench.stats import paired

COUNTS = ("changed", "changed_share", "gained", "lost", "p_value")
LEAST = 200  # times that samples are drawn again
LISTED = 100  # samples whose answers changed, in a record
PICTURED = 12  # of these, with a picture if a sample is an image
LARGEST = 2**32  # bytes of what a metric keeps of all samples


class Joined(Mapping[str, np.ndarray]):
    """What was kept of all samples, file by file; a name is read when it is needed, from `chosen` samples."""

    def __init__(self, paths: list[Path], chosen: np.ndarray | None = None, read: Any = None) -> None:
        self.paths, self.chosen = paths, chosen
        self.read = functools.cache(self._read) if read is None else read

    def __getitem__(self, name: str) -> np.ndarray:
        array: np.ndarray = self.read(name)
        return array if self.chosen is None else array[self.chosen]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @functools.cached_property
    def names(self) -> list[str]:
        return [*verdict.read(self.paths[0])]

    @functools.cached_property
    def count(self) -> int:
        """The number of samples."""
        return sum(len(next(iter(verdict.read(path).values()))) for path in self.paths)

    def at(self, places: np.ndarray) -> "Joined":
        """The same of some samples."""
        return Joined(self.paths, places, self.read)

    def _read(self, name: str) -> np.ndarray:
        arrays = [verdict.read(path, name)[name] for path in self.paths]
        if len({each.shape[1:] for each in arrays}) > 1:
            raise XBenchError(f"the samples differ in shape, and --metric needs the {name} of all in one array")
        if sum(each.nbytes for each in arrays) > LARGEST:
            raise XBenchError(f"--metric needs more than {LARGEST >> 30} GiB of {name}: reduce the outputs with --post")
        return np.concatenate(arrays)


def keep_answers(samples: list[str], outputs: str, metric: str, post: str | None, folder: str) -> None:
    """Reduces the outputs of files of samples to what the metric keeps, in files of the same names in `folder`, and
    removes the outputs.

    Raises:
        XBenchError: outputs, labels or functions of the user that do not fit, with the name of the sample.
    """
    chosen, function = _metric(metric), _factory.function(post) if post else None
    for path in map(Path, samples):
        given, file = verdict.read(path), Path(outputs) / path.name
        made = [*verdict.read(file).values()]
        processed = made[0] if function is None else _processed(str(post), function, made, len(given["names"]))
        try:
            kept = chosen.keep(Answered(processed, given.get("labels"), inputs_of(given)))
        except Misfit as error:
            name = "" if error.place is None else f"{given['names'][error.place]}: "
            raise XBenchError(f"{name}{error}") from error
        verdict.join(Path(folder) / path.name, kept)
        file.unlink()


def _metric(word: str) -> Metric:
    return metrics.load(word, _factory.function(word) if metrics.row_of(word) is metrics.OWN else None)


def _processed(word: str, function: Any, outputs: list[np.ndarray], samples: int) -> Any:
    """What the user's post-processing makes of the outputs of some samples."""
    try:
        made = function(*outputs)
        count = len(made)
        if hasattr(made, "detach"):  # a tensor of PyTorch
            made = np.asarray(made.detach().cpu())
    except (Exception, SystemExit) as error:  # whatever a user's function raises
        raise XBenchError(f"--post {word} raises {type(error).__name__}: {one_line(error)}") from error
    if count != samples:
        raise XBenchError(f"--post {word} gives {count} answers for {samples} samples")
    return made


def score_alone(names: list[str], kept: str, metric: str) -> float:
    """The metric of the answers in a folder.

    Raises:
        XBenchError: it is not a finite number, or a function of the user raises.
    """
    value = _metric(metric).score(Joined([Path(kept) / name for name in names]))
    if not np.isfinite(value):
        raise XBenchError(f"--metric {metric} of the reference is {value}: it needs other samples")
    return value


def score_answers(
    names: list[str],
    samples: str,
    reference: str,
    own: str,
    metric: str,
    less: bool,
    drop: float,
    relative: bool,
    confidence: float,
    seconds: float,
) -> dict[str, Any]:
    """How much worse or better the answers in a folder are than those of the reference, sample by sample: fields of
    `Evaluation` (store/experiments.py). `drop` is the largest that is accepted, `relative` to the reference's score or
    not; `seconds` is how long samples may be drawn again. If the metric is not a number the answers are worse."""
    chosen = _metric(metric)
    first, second = (Joined([Path(folder) / name for name in names]) for folder in (reference, own))
    expected, value = chosen.score(first), chosen.score(second)
    limit = drop * abs(expected) if relative else drop
    facts = dict.fromkeys(("value", "difference", "low", "high", "needed", "constant", *COUNTS)) | {"worst": []}
    facts |= {"reference": expected, "accepted": limit, "verdict": "worse"}
    with contextlib.suppress(XBenchError):  # samples of several shapes
        facts |= {"constant": chosen.constant(first) if chosen.constant else None}
    if np.isfinite(value):
        facts |= _compared(chosen, first, second, limit, -1 if less else 1, confidence, seconds)
        facts |= {"value": value, "difference": value - expected}
    if "hit" in first:
        gained, lost = (int(np.sum(a & ~b)) for a, b in ((second["hit"], first["hit"]), (first["hit"], second["hit"])))
        facts |= {"gained": gained, "lost": lost, "p_value": paired.mcnemar(gained, lost)}
    return facts | (_changes(names, Path(samples), Path(reference), Path(own)) if "answer" in first else {})


def _compared(
    metric: Metric, reference: Joined, own: Joined, limit: float, sign: int, confidence: float, seconds: float
) -> dict[str, Any]:
    """The interval of the difference, the verdict, and how many samples would exclude a larger loss; `sign` is -1 if
    less is better."""
    count = reference.count
    found, scale = _difference(metric, reference, own, sign, confidence, seconds), 1.0
    if found == (0, 0, 0):  # nothing differs, which shows no more than answers that are right or wrong
        scale = 1.0 if metric.row.share else abs(metric.score(reference)) or 1.0
        same = np.zeros(count, bool)
        found = paired.of_hits(same, same, confidence)
    needed = paired.samples_needed(found, count, limit / scale, confidence)
    low, high = sorted((sign * scale * found.low, sign * scale * found.high))
    verdict_ = paired.judged(found, limit / scale)
    return {"low": low + 0.0, "high": high + 0.0, "needed": needed, "verdict": verdict_}  # never -0.0


def _difference(
    metric: Metric, reference: Joined, own: Joined, sign: int, confidence: float, seconds: float
) -> paired.Difference:
    """Own minus reference, negative if it is worse.

    Raises:
        XBenchError: to draw the samples again takes too long.
    """
    if "hit" in reference:
        return paired.of_hits(own["hit"], reference["hit"], confidence)
    one, other = (_scores(metric, each) for each in (own, reference))
    if one is not None and other is not None:
        return paired.of_means(sign * one, sign * other, confidence)

    def statistic(places: np.ndarray) -> float:
        return sign * (metric.score(own.at(places)) - metric.score(reference.at(places)))

    count = reference.count
    start = now()
    statistic(np.arange(count))
    resamples = min(paired.RESAMPLES, int(seconds / max(now() - start, 1e-6)))
    if resamples < LEAST:
        took = LEAST * (now() - start)
        raise XBenchError(
            f"--metric: an interval takes {took:.0f} s: give a larger --timeout, or fewer samples (--limit)"
        )
    try:
        return paired.resampled(count, statistic, np.random.default_rng(0), confidence, resamples)
    except ValueError as error:
        raise XBenchError(f"--metric {metric.word}: {error}") from error


def _scores(metric: Metric, kept: Joined) -> np.ndarray | None:
    """A number for each sample of which the score is the mean; None if there is none."""
    if "score" in kept:
        return kept["score"]
    if metric.row is not metrics.OWN:
        return None
    from xbench.metrics.own import called

    values = called(kept, metric.score.keywords["function"])  # type: ignore[attr-defined]
    return values if len(values) == len(kept["output"]) else None


def _changes(names: list[str], samples: Path, reference: Path, own: Path) -> dict[str, Any]:
    """How many answers are others than the reference's, the share of their parts, and the first such samples."""
    changed, share, listed = 0, 0.0, list[dict[str, Any]]()
    for name in names:
        first, second = (verdict.read(folder / name) for folder in (reference, own))
        differs = (first["answer"] != second["answer"]).reshape(len(first["answer"]), -1)
        share += float(differs.mean(axis=1).sum())
        places = np.flatnonzero(differs.any(axis=1))
        changed += len(places)
        for place in places[: LISTED - len(listed)]:
            sample = str(verdict.read(samples / name, "names")["names"][place])
            values = {"label": first.get("label"), "reference": first["answer"], "answer": second["answer"]}
            words = {what: _word(array, place) for what, array in values.items()}
            image = _picture(samples / name, place) if len(listed) < PICTURED else None
            listed.append({"sample": sample, **words, "image": image})
    count = sum(len(verdict.read(samples / name, "names")["names"]) for name in names)
    return {"changed": changed, "changed_share": share / count, "worst": listed}


def _picture(path: Path, place: int) -> str | None:
    """A sample's first input that is an image, in base64."""
    given = (each[place] for each in inputs_of(verdict.read(path)) if place < len(each))
    return next((made for made in map(picture, given) if made), None)


def _word(array: np.ndarray | None, place: int) -> str | None:
    """A label or an answer in words; None if it is an array."""
    return None if array is None or array.ndim > 1 else one_line(array[place])


JOBS = (keep_answers, score_alone, score_answers)
