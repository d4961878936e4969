"""Data read from a store has the types that mypy assumes."""

import copy
import json
import re
import typing
from pathlib import Path

import pytest
import stores
from places import ROOT

from xbench.store import experiments, record, schema
from xbench.store.fits import misfit
from xbench.store.results import FILE, StoreError, read, salvage

FIELDS = [
    (kind.__name__, name)
    for module in (record, experiments)
    for kind in vars(module).values()
    if typing.is_typeddict(kind)
    for name in kind.__annotations__
]


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("cost", "flop"), "many", "cost.flop is not a whole number"),
        (("cost", "flop"), True, "cost.flop is not a whole number"),
        (("cost", "energy_j"), "much", "cost.energy_j is not a number"),
        (("parity", "class"), 3, "parity.class is not text"),
        (("parity", "seeds"), 3, "parity.seeds is not a list"),
        (("versions", "numpy"), [], "versions.numpy is not text"),
        (("contracts",), {"clock": True}, "contracts.clock is not an object"),
        (("times", "processes"), [{"warmup": [0.1, "x"]}], "times.processes.warmup is not a number"),
        (("dropout",), "no", "dropout is not true or false"),
        (("phases",), {"t_f": {"mean": "x"}}, "phases.t_f.mean is not a number"),
        (("training",), {"usage": {}}, "training.usage is not a list"),
    ],
)
def test_a_field_of_another_type_is_named(place, value, says):
    stored = copy.deepcopy(stores.record())
    *folders, last = place
    part = stored
    for name in folders:
        part = part[name]
    part[last] = value
    assert schema.unreadable(stored) == says


def test_what_is_missing_or_unknown_is_no_matter():
    stored = stores.record() | {"more": object()}
    del stored["cost"]["flop"], stored["contracts"]
    assert schema.unreadable(stored) is None


def test_null_and_numbers_of_either_kind_fit():
    assert misfit({"latencies": [0, 0.5], "bound_s": None}, experiments.Load) is None
    assert misfit({"losses": [1.5, None, 2]}, experiments.Training) is None
    assert misfit({"losses": [1.5, "2"]}, experiments.Training) == "losses is not a number"


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=".".join)
def test_every_field_is_documented(kind, name):
    text = (ROOT / "docs" / "results.md").read_text()
    assert re.search(rf'[`" ,{{]{name}[`", }}(]', text), f"docs/results.md says nothing of {kind}.{name}"


def test_a_line_of_another_type_is_named_and_the_others_are_shown(tmp_path):
    good = stores.record()
    bad = json.loads(json.dumps(good))
    bad["parity"]["tensors"] = "all"
    path = tmp_path / FILE
    path.write_text("".join(json.dumps({"schema": schema.VERSION, **each}) + "\n" for each in (good, bad)))
    with pytest.raises(StoreError, match=r"line 2: parity\.tensors is not a whole number"):
        read(path)
    readable, (problem,) = salvage(path)
    assert len(readable) == 1 and "line 2: parity.tensors is not a whole number" in problem


def test_the_stores_of_the_tests_have_these_types(tmp_path: Path):
    folder = stores.write(tmp_path, [stores.record(), stores.training(), stores.phases()])
    assert len(read(next(folder.rglob("*.jsonl")) if folder.is_dir() else folder)) == 3
