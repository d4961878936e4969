"""`xbench load`: LoadGen's own numbers, only with a proof, and no results lost on failures."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from fault_kit import Shell, only_line
from places import ROOT

from xbench.experiments import load
from xbench.reports.load import cells, header, rows, to_markdown
from xbench.store.schema import VERSION
from xbench.workers.prepare import ORACLE
from xbench.workers.worker import Worker

RESULTS = ROOT / "docs" / "results.md"
HONEST, WRONG = ("onnxruntime", "torch", "null:seconds=0.0005"), "fault_late_wrong"
QUICK = ("--seconds", 0.1, "--threads", 1)


@pytest.fixture(scope="module")
def loaded(fault_folder, lenet, two_outputs, tmp_path_factory):
    """Two commands over every scenario: the second one's answer, the records of both, the folder they ran in.
    Runtimes that use ONNX's reference evaluator have a small network."""
    folder = tmp_path_factory.mktemp("load")
    (folder / "audit.config").write_text("*.*.max_query_count = 3\n")
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(fault_folder), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        for model, runtimes in (("lenet", HONEST[:2]), (two_outputs.info["name"], (HONEST[2], WRONG))):
            words = [word for runtime in runtimes for word in ("--runtime", runtime)]
            words += [*QUICK, "--batch", 2, "--latency-ms", 30, "--percentile", 75, "--json", "--out", "out"]
            answer = Shell(folder).run("load", model, *words)
            assert answer.stdout, answer.stderr
    return answer, lines(folder / "out"), folder


def lines(out):
    return [json.loads(line) for line in (out / "load.jsonl").read_text().splitlines()]


def by_name(records):
    return {(record["case"]["runtime"], record["load"]["scenario"]): record for record in records}


def run(shell, *words, model="lenet", start=None, **more):
    answer = (start or shell.run)("load", model, *words, *QUICK, "--out", "out", **more)
    return answer, by_name(lines(shell.folder / "out"))


# ***** the numbers are LoadGen's *****


def summary(folder):
    """Percentile -> nanoseconds, of LoadGen's own summary; of queries if it has both queries and samples."""
    text = (folder / "mlperf_log_summary.txt").read_text()
    assert "Mode     : PerformanceOnly" in text
    matches = re.findall(r"^([\d.]+) percentile latency \(ns\) +: (\d+)$", text, re.MULTILINE)
    return {float(percent): int(value) for percent, value in matches}


@pytest.fixture
def load_cell(faults, lenet, tmp_path):
    """Run a scenario in its own worker; LoadGen's logs are in `tmp_path`."""
    workers = []

    def run(runtime, scenario, artifact=lenet, **more):
        workers.append(Worker(tmp_path / "worker.log"))
        paths = [str(artifact.folder / f"reference-forward-synthetic-b2-s{seed}-v{ORACLE}.npz") for seed in (0, 1)]
        options = {"mode": "forward", "device": "cpu", "threads": 1, "layout": "nchw"}
        cell = {"artifact": str(artifact.folder), "runtime": runtime, "references": paths, **options}
        workers[-1].call("open_cell", 60, **cell)
        workers[-1].call("arm", 60, plane="host")
        settings = {"seconds": 0.3, "step": 2e-4, "batches": 4, "rate": 200.0, "waiting": 10**6, "cpus": [0]} | more
        return workers[-1].call("load", 60, scenario=scenario, folder=str(tmp_path), **settings)

    yield run
    for worker in workers:
        worker.stop()


@pytest.mark.parametrize("scenario", load.SCENARIOS)
def test_percentiles_are_those_of_loadgens_summary(scenario, load_cell, tmp_path):
    measured, percentiles = load_cell("onnxruntime", scenario), summary(tmp_path)
    assert {50, 90, 95, 97, 99, 99.9} <= set(percentiles)
    assert {
        percent: round(load.percentile(measured["latencies"], percent) * 1e9) for percent in percentiles
    } == percentiles
    text = (tmp_path / "mlperf_log_summary.txt").read_text()
    if scenario == "server":
        (pace,) = re.findall(r"Scheduled samples per second *: ([\d.]+)", text)
        assert measured["scheduled_per_s"] == pytest.approx(float(pace), rel=1e-3)
        assert len(measured["latencies"]) > 30
    if scenario == "offline":
        (pace,) = re.findall(r"Samples per second: ([\d.]+)", text)
        assert len(measured["latencies"]) / measured["done_s"] == pytest.approx(float(pace), rel=1e-4)
    if scenario == "single-stream":
        (pace,) = re.findall(r"QPS w/ loadgen overhead *: ([\d.]+)", text)  # until the last query was issued
        assert measured["scheduled_per_s"] == pytest.approx(float(pace), rel=1e-4)
        span_s = (len(measured["latencies"]) - 1) / measured["scheduled_per_s"]
        assert measured["done_s"] == pytest.approx(
            span_s + measured["latencies"][-1], abs=1e-8
        )  # ours counts to the last answer


def test_a_query_that_waits_is_not_quick(load_cell, two_outputs):
    """Twenty queries a second, each taking a fifth of a second: the queue grows, and so do the latencies."""
    settings = {"artifact": two_outputs, "rate": 20.0, "seconds": 0.4}
    measured = load_cell("fault_slow:seconds=0.2", "server", **settings)
    assert len(measured["latencies"]) >= 10
    assert min(measured["latencies"]) >= 0.2
    assert max(measured["latencies"]) > 1
    assert measured["answered_per_s"] < 5.1 < measured["scheduled_per_s"]
    assert not measured["flooded"]
    flooded = load_cell("fault_slow:seconds=0.2", "server", **settings | {"waiting": 2, "seconds": 2.0})
    assert flooded["flooded"]
    assert len(flooded["latencies"]) < 10
    assert max(flooded["latencies"]) < 2


# ***** records *****


@pytest.mark.parametrize("runtime", HONEST)
@pytest.mark.parametrize("scenario", load.SCENARIOS)
def test_an_honest_runtime_has_its_numbers_beside_its_proof(loaded, runtime, scenario):
    record = by_name(loaded[1])[runtime, scenario]
    numbers, stream = record["load"], scenario != "offline"
    assert (record["status"], record["parity"]["class"], record["case"]["plane"]) == ("PASS", "fp32", "host")
    assert all(record["contracts"][name]["held"] is not False for name in ("complete", "fresh", "threads"))
    assert numbers["samples_per_s"] == pytest.approx(numbers["queries_per_s"] * numbers["samples_per_query"])
    assert numbers["queries"] == (len(numbers["latencies"]) if stream else 1)
    assert numbers["queries"] >= 10 or not stream, "audit.config of the working directory was read"
    assert (numbers["latency_s"] is not None) == stream
    if stream:
        assert list(numbers["latency_s"]) == ["50", "75", "90", "99"]
        assert numbers["latency_s"]["99"] == load.percentile(numbers["latencies"], 99)
    if scenario == "multi-stream":
        assert numbers["samples_per_query"] == 8
        assert numbers["latency_s"]["50"] > 2 * by_name(loaded[1])[runtime, "single-stream"]["load"]["latency_s"]["50"]
    if scenario == "offline":
        assert len(numbers["latencies"]) * 2 == numbers["samples_per_query"]


@pytest.mark.parametrize("runtime", HONEST)
def test_a_server_has_the_highest_rate_that_passed(loaded, runtime):
    numbers = by_name(loaded[1])[runtime, "server"]["load"]
    passed = [trial for trial in numbers["trials"] if trial["passed"]]
    assert numbers["queries_per_s"] == max(trial["rate_per_s"] for trial in passed)
    assert numbers["latency_s"]["75"] <= numbers["bound_s"] == 0.03
    assert all(trial["scheduled_per_s"] == pytest.approx(trial["rate_per_s"], rel=0.5) for trial in passed)


@pytest.mark.parametrize("scenario", load.SCENARIOS)
def test_a_wrong_answer_under_load_is_a_failure_without_numbers(loaded, scenario):
    answer, records, _ = loaded
    record = by_name(records)[WRONG, scenario]
    assert (record["status"], record["times"]) == ("FAIL", None)
    assert record["message"].startswith("while it was timed output/")
    assert (record["load"]["queries_per_s"], record["load"]["latencies"]) == (None, [])
    row = next(r for r in json.loads(answer.stdout) if (r["runtime"], r["scenario"]) == (WRONG, scenario))
    assert [row[name] for name in ("latency_s", "queries_per_s", "samples_per_s", "queries", "bound_s")] == [None] * 5
    assert answer.returncode == 1


def test_nothing_is_written_where_the_command_runs(loaded):
    assert sorted(path.name for path in loaded[2].iterdir()) == ["audit.config", "out"]
    assert [path.name for path in (loaded[2] / "out").iterdir()] == ["load.jsonl"]


def test_records_hold_what_the_documentation_says(loaded):
    text = RESULTS.read_text().partition("## Loads")[2]
    fields, trials = (
        set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", part, re.MULTILINE))))
        for part in text.partition("\n## ")[0].split("| field of a trial |")
    )
    for record in loaded[1]:
        assert set(record["load"]) == fields
        assert all(set(trial) == trials for trial in record["load"]["trials"])
        assert record["schema"] == VERSION
        assert "mlcommons-loadgen" in record["versions"]
    assert len({record["key"] for record in loaded[1]}) == len(loaded[1])


def test_a_record_names_the_command_that_measures_it_again(loaded, shell):
    record = by_name(loaded[1])["onnxruntime", "multi-stream"]
    words = record["command"].split()[1:]
    answer = shell.run(*words, "--out", "again")
    assert answer.returncode == 0, answer.stderr
    (again,) = lines(shell.folder / "again")
    assert (again["key"], again["command"]) == (record["key"], record["command"])
    other = [word for word in words if word != "--rerun"]
    answer = shell.run(*other, "--scenario", "single-stream", "--out", "again")
    assert "1 record was measured before" in answer.stderr
    assert [each["load"]["scenario"] for each in lines(shell.folder / "again")] == ["multi-stream", "single-stream"]


# ***** failures *****


def test_the_runtime_stays_in_its_thread_on_its_cpus(shell, two_outputs):
    answer, records = run(shell, "--runtime", "fault_moved", model=two_outputs.info["name"])
    assert {record["status"] for record in records.values()} == {"PASS"}, answer.stderr


@pytest.mark.parametrize(
    ("runtime", "status", "message"),
    [
        ("fault_late_raises", "CRASH", "ValueError: the kernel is missing"),
        ("fault_late_abort", "CRASH", "the worker ended with signal SIGABRT"),
        ("fault_infinite", "FAIL", "not finite or of another shape"),
        ("fault_lacks", "UNSUPPORTED", "operators missing: Conv (2)"),
    ],
)
def test_a_runtime_that_breaks_down_is_told_of_every_scenario(shell, two_outputs, runtime, status, message):
    words = ("--runtime", runtime, "--scenario", "single-stream", "--scenario", "server")
    answer, records = run(shell, *words, model=two_outputs.info["name"], start=shell.apart)
    assert [record["status"] for record in records.values()] == [status] * 2
    assert all(message in record["message"] for record in records.values())
    assert answer.returncode == int(status != "UNSUPPORTED")
    assert not shell.survivors()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--scenario", "servr"), "unknown scenario 'servr': did you mean server?"),
        (("--scenario", "x"), "unknown scenario 'x': the scenarios are single-stream, multi-stream, offline, server"),
        (("--percentile", 100), "--percentile must be between 0 and 100, not 100"),
        (("--percentile", 0), "--percentile must be between 0 and 100, not 0"),
        (("--percentile", "nan"), "--percentile must be between 0 and 100, not nan"),
        (("--latency-ms", -1), "--latency-ms must be more than 0, not -1"),
        (("--latency-ms", "inf"), "--latency-ms must be more than 0, not inf"),
        (("--seconds", "inf"), "--seconds must be a finite number, not inf"),
        (("--batch", 3), "--batch 3 does not fit into the 8 samples of a multi-stream query"),
        (("--runtime", "onnxruntme"), "unknown runtime 'onnxruntme': did you mean onnxruntime?"),
        (("--threads", 0), "--threads must be at least 1"),
    ],
)
def test_what_the_user_can_mend_is_one_line(shell, words, line):
    answer = shell.inside("load", "lenet", *words)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert line in only_line(answer.stderr)


def test_without_loadgen_one_line_says_what_to_install(shell):
    (shell.folder / "sitecustomize.py").write_text(
        "import importlib.util\nfound = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'mlperf_loadgen' else found(name, *more)\n"
    )
    answer = shell.run("load", "lenet", PYTHONPATH=shell.python_path(shell.folder))
    assert answer.returncode == 2
    line = "xbench: load scenarios need MLCommons LoadGen: pip install 'xbench[load]'"
    assert only_line(answer.stderr) == line
    assert not (shell.folder / "xbench-results").exists()


def test_loadgen_is_imported_by_the_worker_alone():
    modules = "xbench.cli.load, xbench.experiments.load, xbench.workers.jobs.load"
    code = f"import sys, {modules}; print('mlperf_loadgen' in sys.modules)"
    answer = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


# ***** the search, and the verdict on a trial: no clock *****


@pytest.mark.parametrize("start", [3.0, 30.0, 70.0, 120.0])
@pytest.mark.parametrize("bound", [0.011, 0.03, 0.5])
def test_the_search_finds_the_highest_rate_of_a_queue(start, bound):
    """M/D/1: at a load of r = rate s, a query of service time s waits r s / (2 (1 - r)) on average."""
    service, rates = 0.01, []

    def passes(rate):
        rates.append(rate)
        load = rate * service
        return load < 1 and service + load * service / (2 * (1 - load)) <= bound

    waiting = bound / service - 1
    highest = 2 * waiting / (1 + 2 * waiting) / service
    best = load.highest_rate(passes, start)
    assert highest / (1 + load.WIDTH) <= best <= highest
    assert len(rates) <= load.TRIALS
    assert len(set(rates)) == len(rates)


@pytest.mark.parametrize("passes", [True, False])
def test_the_search_ends_where_everything_passes_and_where_nothing_does(passes):
    rates = []
    best = load.highest_rate(lambda rate: rates.append(rate) or passes, 100.0)
    assert (best == max(rates)) if passes else (best is None)
    assert min(rates) >= 100 / load.DEEPEST
    assert len(rates) <= load.TRIALS


def queue(rate, service, queries):
    """The result of a server run with Poisson arrivals and one service time, simulated."""
    arrivals = np.cumsum(np.random.default_rng(0).exponential(1 / rate, queries))
    free, answers = 0.0, []
    for arrival in arrivals:
        free = max(free, arrival) + service
        answers.append(free)
    latencies = [float(each) for each in np.array(answers) - arrivals]
    rates = {"scheduled_per_s": arrivals, "answered_per_s": answers}
    paces = {name: (queries - 1) / (times[-1] - times[0]) if queries > 1 else None for name, times in rates.items()}
    return {"latencies": latencies, "flooded": False} | paces


def test_a_trial_passes_within_its_bound_and_only_where_it_keeps_up():
    def says(rate, bound, queries=2000, **more):
        return load.judged(queue(rate, 0.01, queries) | more, rate, bound, 99.0)["says"]

    assert says(50, 0.1) is None
    assert re.fullmatch(r"p99 is \S+ ms", says(95, 0.02))
    assert re.fullmatch(r"\S+ of \S+ queries/s are answered", says(115, 1e3))
    assert says(50, 0.1, flooded=True) == "more than 4 bounds' worth of queries waited"
    assert says(99, 0.1, queries=1) is None  # one query has no rate


def tail(load):
    """The p99 of latencies in service times, at a load of M/D/1: the probability of waiting longer than t falls as
    (1 - load) / (load exp(d) - 1) exp(-d t), where load (exp(d) - 1) = d."""
    low, high = 1e-6, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if load * (np.exp(middle) - 1) < middle else (low, middle)
    return 1 + np.log((1 - load) / (load * np.exp(low) - 1) / 0.01) / low


def test_the_search_over_simulated_queues_finds_what_queueing_theory_says():
    known = 100 * max(load for load in np.arange(0.3, 0.95, 0.001) if tail(load) <= 5)
    judged = lambda rate: load.judged(queue(rate, 0.01, 20_000), rate, 0.05, 99.0)["passed"]  # noqa: E731
    assert load.highest_rate(judged, 50.0) == pytest.approx(known, rel=2 * load.WIDTH)
    assert load.highest_rate(judged, 200.0) == pytest.approx(known, rel=2 * load.WIDTH)


@pytest.mark.parametrize(("percent", "expected"), [(50, 6), (90, 10), (99, 10), (0.1, 1)])
def test_a_percentile_is_the_sample_that_loadgen_takes(percent, expected):
    assert load.percentile([*range(10, 0, -1)], percent) == expected


# ***** the table *****


def record(runtime, scenario, latency=None, pace=None, status="PASS", bound=None, message=None):
    case = {"model": "m", "runtime": runtime, "batch": 1, "device": "cpu", "threads": 2, "precision": "fp32"}
    numbers = {"scenario": scenario, "samples_per_query": 1, "percentile": 99.0, "bound_s": bound, "queries": 7}
    numbers |= {"latency_s": latency and {"50": latency, "99": latency}, "queries_per_s": pace, "samples_per_s": pace}
    fields = {"status": status, "note": None, "message": message, "time": "now", "parity": {"class": "fp32"}}
    return {"case": case | {"plane": "host"}, "load": numbers | {"step_s": 1.0, "cpus": 1.0}} | fields


@pytest.mark.parametrize(
    ("scenario", "order"),
    [("single-stream", ["quick", "slow"]), ("server", ["slow", "quick"]), ("offline", ["slow", "quick"])],
)
def test_the_best_is_first_and_what_failed_has_no_number(scenario, order):
    broken = record("broken", scenario, 1e-9, 1e9, "FAIL", message="is wrong")
    none = record("none", scenario, message="no rate")
    ranked = rows([broken, none, record("slow", scenario, 2e-3, 9.0), record("quick", scenario, 1e-3, 8.0)])
    assert [row["runtime"] for row in ranked] == [*order, "none", "broken"]
    assert cells(ranked[-1], ranked)[2:] == [""] * (len(header(ranked)) - 2)
    text = to_markdown(ranked)
    assert text.count("| broken | FAIL fp32 |") == 1
    assert "- broken: is wrong" in text
    assert "1e" not in text


def test_servers_whose_bounds_differ_are_said_to():
    same = [record(name, "server", 1e-3, 9.0, bound=0.1) for name in "ab"]
    assert "bounds" not in to_markdown(rows(same))
    assert "--latency-ms gives all of them one" in to_markdown(
        rows([*same, record("c", "server", 1e-3, 9.0, bound=0.2)])
    )
