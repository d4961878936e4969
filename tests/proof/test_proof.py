"""Parallel checks: results in the requested order, each with its own outcome, and none outlives Ctrl-C."""

import json
import signal

from fault_kit import workers

FAULTS = ("fault_raises", "fault_wrong_first", "null:seconds=0.001", "fault_killed", "fault_infinite")


def words(runtimes):
    return [word for runtime in runtimes for word in ("--runtime", runtime)]


def test_rows_stand_in_the_order_asked_for_each_with_its_own_outcome(shell, lenet):
    answer = shell.run("check", "lenet", *words(FAULTS), "--mode", "forward", "--json")
    assert answer.returncode == 1
    rows = json.loads(answer.stdout)
    assert [row["runtime"] for row in rows] == list(FAULTS)
    assert [row["status"] for row in rows] == ["CRASH", "FAIL", "PASS", "CRASH", "FAIL"]
    assert [row["first_wrong"] for row in rows if row["status"] == "FAIL"] != [None, None]


def test_ctrl_c_ends_the_checks_that_run(shell, lenet):
    process = shell.start("check", "lenet", "--runtime", "fault_hangs", "--mode", "forward", "--timeout", "300")
    assert shell.until(lambda: workers(shell.mark)), "nothing to interrupt"
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert (shell.folder / "stderr.log").read_text().splitlines()[-1].startswith("xbench: interrupted")
    assert not shell.survivors()
