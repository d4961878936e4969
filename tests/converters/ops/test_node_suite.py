"""ONNX's own node tests: our tables pass the core row except for exclusions by name, each with its reason."""

import node_suite
import pytest


@pytest.fixture(scope="module")
def names() -> list[str]:
    return [test.name for test in node_suite.core_tests()]


@pytest.mark.parametrize("backend", node_suite.TABLES)
def test_a_table_passes_the_core_row(backend: str, names: list[str]) -> None:
    pytest.importorskip(backend)
    verdicts = node_suite.score(backend, names)
    assert list(verdicts) == names
    failing = {test: verdict for test, verdict in verdicts.items() if verdict != "passed"}
    assert {test: verdict for test, verdict in failing.items() if not node_suite.excluded(test)} == {}
    assert len(failing) <= 0.02 * len(names)


def test_what_is_not_computed_does_not_pass(names: list[str]) -> None:
    tests = {test.name: test for test in node_suite.core_tests()}
    assert node_suite.judge(tests["test_add"], lambda model, inputs: [inputs[0]]).startswith("wrong")
    assert node_suite.judge(tests["test_add"], lambda model, inputs: [(inputs[0] + inputs[1]).astype("f8")]).startswith(
        "wrong: type"
    )
    assert node_suite.judge(tests["test_add"], lambda model, inputs: []).startswith("wrong: 0 outputs")
    assert node_suite.judge(tests["test_add"], lambda model, inputs: 1 / 0).startswith("error: ZeroDivisionError")
