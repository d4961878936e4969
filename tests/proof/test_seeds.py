"""Which seeds decide a verdict: two that can be judged; in training a third if they disagree, and others in place of
those on which float32 itself loses too much."""

from pathlib import Path

import pytest

from xbench.case import Case
from xbench.proof.prove import _counted, _left_out, _verdicts

P, F, U, INFINITE = "PASS", "FAIL", "UNVERIFIED", "infinite"


class Scripted:
    """A worker and an exporter whose verdicts are a script, by seed."""

    def __init__(self, script):
        self.script, self.asked = script, []

    def call(self, job, timeout, index=None, path=None):
        seed = index if job == "check" else int(Path(path).name)
        self.asked.append(seed)
        word = self.script[seed]
        if word == INFINITE:
            return {"status": F, "ratio": None, "message": "y is not finite"}
        message = f"float32 loses too much of {seed}" if word == U else None
        return {"status": word, "ratio": 100.0 if word == F else 1.0 + seed, "message": message}

    def reference(self, artifact, mode, batch, seed, *settings):
        return Path(str(seed))


def decided(script, mode):
    worker = Scripted(script)
    verdicts = _verdicts(Case("net", "torch", mode), None, worker, worker, 1.0, 2, 2)
    return worker.asked, verdicts, _counted(verdicts)


@pytest.mark.parametrize(
    ("script", "drawn", "status"),
    [
        ((P, P), 2, P),
        ((F, F), 2, F),
        ((P, F, P), 3, P),
        ((F, P, F), 3, F),
        ((P, U, P), 3, P),
        ((U, P, U, P), 4, P),
        ((P, U, F, P), 4, P),
        ((P, U, F, F), 4, F),
        ((P, U, F, U, U, U), 6, F),
        ((F, U, F), 3, F),
        ((U, F, U, F), 4, F),
        ((P, U, U, U, U, U), 6, U),
        ((U, U, U), 3, U),
        ((INFINITE, P), 2, F),
        ((U, INFINITE), 2, F),
    ],
)
def test_seeds_that_can_be_judged_decide_in_training(script, drawn, status):
    asked, verdicts, counted = decided(script, "step")
    assert asked == list(range(drawn)) and len(verdicts) == drawn
    worst = max(counted, key=lambda v: (v["status"] != P, v["ratio"] is None, v["ratio"] or 0.0))
    assert worst["status"] == status
    left_out = _left_out(verdicts, counted)
    assert (left_out is not None) == (U in script and status != U and INFINITE not in script)
    if left_out:
        assert left_out.endswith(
            f"of {drawn} draws of the inputs cannot be judged: float32 loses too much of {script.index(U)}"
        )


@pytest.mark.parametrize(("script", "status"), [((P, P), P), ((P, F), F), ((P, U), U), ((U, F), F)])
def test_forward_has_no_kinks_and_two_seeds(script, status):
    asked, _, counted = decided(script, "forward")
    assert asked == [0, 1]
    assert max(counted, key=lambda v: (v["status"] != P, v["ratio"]))["status"] == status
