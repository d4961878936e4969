"""The largest acceptable loss of a metric, and whether the evaluations of a store (`xbench evaluate`) exclude a larger
one. Pure functions on records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xbench.errors import XBenchError
from xbench.experiments.of_network import acceptable
from xbench.metrics import row_of
from xbench.stats.quantities import of_metric
from xbench.store.experiments import Evaluation
from xbench.store.record import Record

SAME = ("model", "runtime", "precision", "device")  # fields of a cell on which its answers depend


def choose_quality(drop: str | None, metric: str | None, inputs: str | None, labels: str | None) -> "Quality | None":
    """
    Raises:
        XBenchError: a loss that cannot be parsed, an unknown metric, or options without a loss.
    """
    if metric:
        row_of(metric)
    if drop is None:
        if given := next((n for n, v in (("metric", metric), ("labels", labels)) if v), None):
            raise XBenchError(f"--{given} is for --max-drop: what may the answers lose?")
        return None
    return Quality(acceptable(drop), drop.endswith("%"), metric, inputs, labels)


@dataclass(frozen=True)
class Quality:
    """The acceptable `drop` of a metric on samples; of the reference's value if it is a percentage (`percent`) and the
    metric is no share. A `metric` or `inputs` that is None is the store's only one. New evaluations use `labels`."""

    drop: float
    percent: bool
    metric: str | None = None
    inputs: str | None = None
    labels: str | None = None

    def of(self, evaluated: Sequence[Record], model: str) -> list[Record]:
        """The evaluations of a model that count.

        Raises:
            XBenchError: there are several metrics or sets of samples, and none is named.
        """
        own = [each for each in evaluated if each["case"]["model"] == model and self._is_meant(each["evaluation"])]
        for name, option in (("metric", "--metric"), ("inputs", "--inputs")):
            known = sorted({str(each["evaluation"][name]) for each in own})  # type: ignore[literal-required]
            if len(known) > 1:
                raise XBenchError(f"{model} was evaluated with {option} {' and '.join(known)}: say which")
        return own

    def _is_meant(self, found: Evaluation) -> bool:
        return self.metric in (None, found["metric"]) and self.inputs in (None, found["inputs"])

    def lacks(self, record: Record, evaluated: Sequence[Record]) -> str:
        """Why a cell is not known to be good enough; empty if it is. `evaluated` are those that count."""
        own = [each for each in evaluated if same(each, record)]
        if not own:
            return "its answers were not evaluated: `xbench evaluate` does that"
        found, message = own[-1]["evaluation"], own[-1]["message"]
        if found["verdict"] is None or found["low"] is None or found["high"] is None:
            return f"its {found['metric']} is not known: {message}"
        if own[-1]["case"]["precision"] == "fp32" and found["verdict"] != "same" and own[-1]["status"] == "FAIL":
            return f"its {found['metric']} does not count: {message}"
        loss, most = max(found["high"] if found["less"] else -found["low"], 0.0), self._most(found)
        share = row_of(found["metric"]).share
        if found["verdict"] == "same" or loss <= most:
            return ""
        return f"{found['metric']} may be {of_metric(loss, share)} worse than in float64, over {of_metric(most, share)}"

    def _most(self, found: Evaluation) -> float:
        relative = self.percent and not row_of(found["metric"]).share
        return self.drop * abs(found["reference"] or 0.0) if relative else self.drop


def same(evaluated: Record, record: Record) -> bool:
    """Whether an evaluation is of a cell, and of the same version of its model."""
    one: Mapping[str, object] = dict(evaluated["case"])
    other: Mapping[str, object] = dict(record["case"])
    alike = all(one.get(name) == other.get(name) for name in SAME)
    return alike and evaluated.get("artifact") == record.get("artifact")
