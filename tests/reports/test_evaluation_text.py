"""Names of files, samples and answers of an evaluation stay text, on a terminal and in the report."""

import pytest
import stores
from wicked import NAMES

from xbench.reports.html import page
from xbench.reports.quality.evaluation import tables

NUMBERS = dict.fromkeys(("needed", "p_value", "calibration", "post", "output", "limit", "labels"))


def evaluation(name):
    changed = {"sample": name, "label": name, "reference": name, "answer": name}
    found = {"inputs": name, "metric": "top1", "content": "c", "samples": 9, "set_aside": False, "confidence": 0.95}
    found |= {"value": 0.5, "reference": 0.9, "difference": -0.4, "low": -0.5, "high": -0.3, "accepted": 0.01}
    found |= {"constant": 0.1, "changed": 9, "changed_share": 1.0, "gained": 0, "lost": 4, "less": False}
    found |= {"verdict": "worse", "worst": [changed]}
    made = stores.record(name, "torch", status="FAIL", message=name)
    return made | {"times": None, "evaluation": NUMBERS | found}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_an_evaluation_of_wicked_names_is_text(name):
    record = evaluation(name)
    (table,) = tables([record])
    words = [table.caption, *table.header, *table.notes, *(word for line in table.lines for word in line)]
    assert len(table.notes) == 3 and all(word.isprintable() for word in words)
    own = page([], {"evaluate": [record]})
    assert "<script>alert" not in own and own.count("<script") == page([], {"evaluate": [evaluation("x")]}).count(
        "<script"
    )
