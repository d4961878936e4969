"""The time that the step thread waits for a CPU between two marks is in no step's time."""

from types import SimpleNamespace

from xbench.host import process_tree
from xbench.workers import marks, pace


def test_waiting_between_steps_is_not_held_against_the_clock(monkeypatch):
    waits = iter((1.0, 1.036))
    monkeypatch.setattr(process_tree, "kept_waiting", lambda: next(waits))
    monkeypatch.setattr(marks, "mark", lambda: None)
    cell = SimpleNamespace(way=0.0)
    with pace.watched(cell) as watch:
        pass
    facts = pace.told(cell, watch, [0.002, 0.0037])
    assert abs(facts["unseen_s"] - 0.036) < 1e-9 and facts["steps"] == 2 and 0 < facts["span_s"] < 1
