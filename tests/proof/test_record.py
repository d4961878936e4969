"""The key of a record."""

import dataclasses

import pytest

from xbench.case import Case
from xbench.proof import record

CASE = Case("lenet", "torch")
OTHER = {"runtime": "jax", "device": "cuda", "precision": "bf16"}  # a case with another number, or with another word


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Case)])
def test_a_cell_that_differs_in_anything_has_a_key_of_its_own(lenet, name):
    value = getattr(CASE, name)
    other = dataclasses.replace(CASE, **{name: OTHER.get(name, f"{value}2" if isinstance(value, str) else value + 1)})
    assert record.key(other, lenet) != record.key(CASE, lenet) == record.key(Case(*dataclasses.astuple(CASE)), lenet)


def test_another_network_version_or_machine_has_another_key(lenet, two_outputs, monkeypatch):
    keys = [record.key(CASE, lenet), record.key(CASE, two_outputs)]
    for name, value in {"VERSION": "0", "version": lambda row, runtime: "0"}.items():
        with monkeypatch.context() as patch:
            patch.setattr(record, name, value)
            keys.append(record.key(CASE, lenet))
    with monkeypatch.context() as patch:
        patch.setattr(record.machine, "describe", lambda: {"cpu": "another", "cpus": 512})
        keys.append(record.key(CASE, lenet))
    assert len(set(keys)) == 5
