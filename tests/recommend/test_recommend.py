"""`xbench recommend`: agrees with exhaustive search; ties, exclusions, and limits that would admit a cell."""

import itertools
import json
import math
import operator
import random
import statistics

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from xbench.case import Case
from xbench.cli import app
from xbench.errors import XBenchError
from xbench.host import machine
from xbench.recommend import chance
from xbench.recommend.limits import MEMORY, Limit, Relaxation, latency_limit, relaxations
from xbench.recommend.missing import cases as to_measure
from xbench.recommend.missing import seconds as long_enough
from xbench.recommend.question import Question, settled
from xbench.recommend.recommendation import recommend
from xbench.reports import recommendation as report
from xbench.stats.ratio import PROCESS, SESSION
from xbench.store.results import FILE, StoreError, open_store, read
from xbench.store.schema import VERSION

HERE, THERE = machine.label(machine.describe()), {"cpu": "Other", "cpus": 64}
PLAIN = {"model": "lenet", "batch": 8, "threads": 2}


def record(runtime, level=0.01, samples=10, rounds=8, noise=0.0, seed=0, status="PASS", session="s", **fields):
    """A record of a cell whose blocks take about `level` seconds, with `noise`; case and other fields by keyword."""
    draw = random.Random(f"{seed} {runtime}")
    names = ("model", "mode", "batch", "threads", "precision", "layout", "plane", "device")
    case = vars(Case("", "")) | PLAIN | {name: fields.pop(name) for name in names if name in fields}
    blocks = [
        {"round": number, "process": 0, "samples": [level * math.exp(draw.gauss(0, noise)) for _ in range(samples)]}
        for number in range(rounds)
    ]
    every = [value for block in blocks for value in block["samples"]]
    times = {"load_s": 1.0, "compile_s": None, "first_s": 0.5, "anew_s": 0.5, "blocks": blocks, "converged": True}
    times |= {"median_s": statistics.median(every), "low_s": None, "high_s": None, "processes": []}
    times |= fields.pop("times", {})
    memory = fields.pop("memory", 50e6)
    made = {"schema": VERSION, "key": f"{runtime} {sorted(case.items())}", "case": case | {"runtime": runtime}}
    made |= {"status": status, "message": None, "note": None, "parity": {"class": "fp32", "ratio": 1.0}}
    made |= {"times": times if status == "PASS" else None, "cost": {"peak_memory_bytes": memory}, "session": session}
    made |= {
        "artifact": "a",
        "machine": machine.describe(),
        "versions": {},
        "time": "T",
        "layout": None,
        "tuning": None,
    }
    return made | fields


def query(**fields):
    return Question(**(PLAIN | {"machine": HERE} | fields))


def labels(places):
    return [place.cell.label for place in places]


# ***** exhaustive search *****

LEVELS = (1.0, 1.0, 1.6, 2.5, 4.0)  # ties, and what any run distinguishes
PERCENTS = (50.0, 90.0, 99.0)


def random_store(seed):
    """Records of all kinds, and a question about them."""
    draw = random.Random(seed)
    records = []
    for runtime in draw.sample(
        ["jax", "torch", "tvm", "openvino", "onnxruntime", "tensorflow", "keras"], draw.randint(2, 6)
    ):
        for layout in draw.sample(["nchw", "nhwc"], draw.choice([1, 1, 2])):
            for again in range(draw.choice([1, 1, 2])):  # the last one counts
                more = {"layout": layout, "seed": f"{seed}{layout}{again}", "noise": 0.01}
                more["session"] = draw.choice(["one", "one", runtime])
                more["status"] = draw.choice(["PASS"] * 8 + ["FAIL", "UNSUPPORTED"])
                more["precision"] = draw.choice(["fp32"] * 6 + ["bf16"])
                more["batch"] = draw.choice([8] * 6 + [1])
                more["artifact"] = draw.choice(["a"] * 9 + ["older"])
                more["machine"] = draw.choice([machine.describe()] * 7 + [THERE])
                more["memory"] = draw.choice([None, 50e6, 80e6, 120e6, 300e6, 301e6])
                times = {"load_s": draw.uniform(0.05, 6), "compile_s": draw.choice([None, draw.uniform(0.1, 9)])}
                times |= {"first_s": draw.uniform(0.01, 1), "anew_s": draw.choice([None, draw.uniform(1, 30)])}
                level, size = 0.01 * draw.choice(LEVELS), draw.choice([3, 20, 60])
                records.append(record(runtime, level, size, times=times, **more))
    draw.shuffle(records)
    limits = []
    if draw.random() < 0.6:
        limits.append(Limit(f"p{draw.choice(PERCENTS):g}", 0.01 * draw.choice([0.5, 1.05, 2.0, 3.0])))
    if draw.random() < 0.5:
        limits.append(Limit(MEMORY, draw.choice([10e6, 60e6, 100e6, 200e6])))
    calls = draw.choice([None, None, 1, 30, 1000, 100_000])
    precisions = draw.choice([("fp32",), ("fp32", "bf16")])
    return records, query(limits=tuple(limits), calls=calls, precisions=precisions)


def cell_of(measured):
    return measured["case"]["runtime"], measured["case"]["layout"], measured["case"]["precision"]


def searched(store, question):
    """The last record of each matching cell, and for rankable ones their upper bounds."""
    last = {}
    for each in store:
        case = each["case"]
        if case["batch"] == question.batch and machine.label(each["machine"]) == question.machine:
            last[cell_of(each)] = each
            content = each["artifact"]
    fit = {}
    for cell, each in last.items():
        if each["status"] == "PASS" and each["artifact"] == content and cell[2] in question.precisions:
            fit[cell] = [most_of(each, limit) for limit in question.limits]
    return last, fit


def most_of(each, limit):
    """The definition: the smallest order statistic that is above the percentile with 95 % certainty."""
    if limit.name == MEMORY:
        return each["cost"]["peak_memory_bytes"]
    ordered = sorted(value for block in each["times"]["blocks"] for value in block["samples"])
    below = stats.binom.cdf(range(len(ordered)), len(ordered), limit.percent / 100)
    return next((value for value, sure in zip(ordered, below, strict=True) if sure >= 0.95), None)


def cost_of(cell, last, fit, question):
    times = last[cell]["times"]
    if question.calls:
        first = times["first_s"] if times["anew_s"] is None else times["anew_s"]
        return times["load_s"] + (times["compile_s"] or 0) + first + (question.calls - 1) * times["median_s"]
    peers = [o for o in fit if all(last[o][n] == last[cell][n] for n in ["session"]) and o[1:] == cell[1:]]
    fastest = min(peers, key=lambda other: last[other]["times"]["median_s"])
    base = last[fastest]["times"]
    pairs = zip(times["blocks"], base["blocks"], strict=True)
    middle = statistics.median
    return base["median_s"] * math.exp(middle(math.log(middle(a["samples"]) / middle(b["samples"])) for a, b in pairs))


def within(needs, most):
    return all(need is not None and need <= limit for need, limit in zip(needs, most, strict=True))


def least_relaxations(fit, question):
    """Every limit at every value that a cell needs, alone, else all together: the smallest that admit a cell."""
    limits = [limit.most for limit in question.limits]
    values = [sorted({n[i] for n in fit.values() if n[i] is not None}) for i in range(len(limits))]
    relaxed = set()
    for place, known in enumerate(values):
        for value in known:
            widened = [value if place == i else limit for i, limit in enumerate(limits)]
            if value > limits[place] and any(within(needs, widened) for needs in fit.values()):
                relaxed.add(((question.limits[place].name, value),))
                break
    if relaxed:
        return relaxed
    every = itertools.product(*([limit, *known] for limit, known in zip(limits, values, strict=True)))
    admit = [w for w in every if all(map(operator.ge, w, limits)) and any(within(n, w) for n in fit.values())]
    least = [w for w in admit if not any(o != w and all(map(operator.le, o, w)) for o in admit)]
    names = [limit.name for limit in question.limits]
    return {tuple((n, v) for n, v, limit in zip(names, w, limits, strict=True) if v > limit) for w in least}


@pytest.mark.parametrize("seed", range(200))
def test_it_agrees_with_exhaustive_search(seed):
    store, question = random_store(seed)
    last, fit = searched(store, question)
    answer = recommend(store, question, [("onnxruntime", "fp32"), ("mxnet", "fp32")])
    most = [limit.most for limit in question.limits]
    chosen = {cell for cell, needs in fit.items() if within(needs, most)}
    ranked = [cell_of(place.cell.record) for place in answer.ranked]
    costs = {cell: cost_of(cell, last, chosen, question) for cell in chosen}
    assert ranked == sorted(chosen, key=lambda cell: costs[cell])
    assert [place.cost for place in answer.ranked] == pytest.approx([costs[cell] for cell in ranked])
    assert {cell_of(cell.record) for cell in answer.excluded} == last.keys() - chosen
    assert all(cell.why for cell in answer.excluded)
    assert sum(place.chance for place in answer.ranked) == pytest.approx(1 if chosen else 0)
    content = next((each["artifact"] for each in reversed(store) if each in last.values()), None)
    measured = {cell[0] for cell, each in last.items() if each["artifact"] == content and cell[2] == "fp32"}
    assert answer.missing == [(name, "fp32") for name in ("onnxruntime", "mxnet") if name not in measured]
    if chosen:
        assert answer.relaxations == []
    else:
        assert {tuple(each.limits.items()) for each in answer.relaxations} == least_relaxations(fit, question)
        holds_advice(answer, store, question)
    if len(chosen) > 1:
        holds_ties(answer, costs, question)


def holds_ties(answer, costs, question):
    """Equal cells are tied, and cells that differ by half are not; with calls the less certain starts count."""
    first = costs[cell_of(answer.ranked[0].cell.record)]
    tied = {cell_of(place.cell.record) for place in answer.tied} or {cell_of(answer.ranked[0].cell.record)}
    if question.calls is None:
        assert tied == {cell for cell, cost in costs.items() if cost < 1.3 * first}
        equal = [place.chance for place in answer.ranked if cell_of(place.cell.record) in tied]
        assert sum(equal) > 0.9 and min(equal) > 0.3 / len(equal)
    else:
        assert {cell for cell, cost in costs.items() if cost < 1.02 * first} <= tied
        assert tied <= {cell for cell, cost in costs.items() if cost < 5 * first}


def holds_advice(answer, store, question):
    """The advice admits a cell with its numbers as printed."""
    for each in answer.relaxations:
        scales = {name: 1e6 if name == MEMORY else 1e-3 for name in each.limits}
        wide = {n: report.rounded_up(v / scales[n]) * scales[n] for n, v in each.limits.items()}
        limits = tuple(Limit(limit.name, wide.get(limit.name, limit.most)) for limit in question.limits)
        again = recommend(store, query(limits=limits, precisions=question.precisions, calls=question.calls))
        assert each.label in labels(again.ranked)
        assert f"then {each.label} fits" in " ".join(report.verdict(answer))


def test_the_seeds_hold_all_kinds_of_answers():
    """No case above is missing by chance."""
    answers = [(recommend(*case), case[1]) for case in map(random_store, range(200))]
    joint = [a for a, _ in answers if any(len(each.limits) > 1 for each in a.relaxations)]
    alone = [a for a, _ in answers if any(len(each.limits) == 1 for each in a.relaxations)]
    tied = [a for a, _ in answers if a.tied]
    clear = [a for a, _ in answers if len(a.ranked) > 1 and not a.tied]
    assert min(map(len, (joint, alone, tied, clear))) >= 5
    assert sum(bool(a.ranked and q.limits) for a, q in answers) >= 20
    assert sum(bool(a.even) for a, _ in answers) >= 5


# ***** how sure *****


def test_a_percentile_is_at_most_what_it_is_with_95_per_cent():
    generator, hits = np.random.default_rng(0), 0
    for _ in range(400):
        value, most = chance.percentile_of(list(generator.exponential(size=400)), 99)
        hits += most >= -math.log(0.01)
        assert value <= most
    assert 0.93 <= hits / 400 <= 0.99
    assert [chance.samples_needed(percent) for percent in (50, 90, 99, 99.9)] == [5, 29, 299, 2995]
    for percent in (50, 90, 99, 99.9):
        needed = chance.samples_needed(percent)
        assert chance.percentile_of(range(needed), percent)[1] == needed - 1
        assert chance.percentile_of(range(needed - 1), percent)[1] is None


@pytest.mark.parametrize(("same", "prior"), [(True, PROCESS), (False, SESSION)])
@pytest.mark.parametrize("apart", [1.0, 1.02, 1.05, 1.1])
def test_the_probability_of_two_is_that_of_the_ratio_between_them(same, prior, apart):
    store = [record("a", 0.01), record("b", 0.01 * apart, session="s" if same else "other")]
    answer = recommend(store, query())
    expected = stats.t.cdf(math.log(apart) / (prior * math.sqrt(2)), 6)
    assert answer.ranked[0].chance == pytest.approx(expected, abs=0.03)
    assert bool(answer.tied) == (expected < 0.975)


def test_cells_of_two_sessions_are_told_apart_by_what_sessions_differ_by():
    """Whichever other cells ran with them."""
    store = [record("a", 0.01), record("x", 0.03), record("b", 0.0105, session="t"), record("y", 0.03, session="t")]
    answer = recommend(store, query())
    expected = stats.t.cdf(math.log(1.05) / (SESSION * math.sqrt(2)), 6)
    assert labels(answer.ranked)[:2] == ["a", "b"] and answer.ranked[0].chance == pytest.approx(expected, abs=0.04)


def test_one_session_that_was_slow_as_a_whole_says_nothing_of_the_order_in_it():
    """Cells share the effect of their session: its fastest is surely faster than its slowest."""
    store = [record(name, level, session="s") for name, level in (("a", 0.01), ("b", 0.0108))]
    alone = recommend(store, query()).ranked[0].chance
    accompanied = recommend([*store, record("z", 0.05, session="t")], query()).ranked[0].chance
    assert accompanied == pytest.approx(alone, abs=0.02) and alone > 0.96


@pytest.mark.parametrize("seed", range(3))
def test_rounds_that_differ_make_it_as_unsure_as_the_ratio(seed):
    store = [record("a", 0.01, 1, noise=0.2, seed=seed), record("b", 0.012, 1, noise=0.2, seed=seed)]
    answer = recommend(store, query())
    ratio = answer.ranked[1].ratio
    error = math.log(ratio.high / ratio.low) / 2 / 2.447
    expected = stats.t.cdf(math.log(ratio.value) / error, 6)
    assert answer.ranked[0].chance == pytest.approx(expected, abs=0.03) and error > 0.06


def test_processes_make_it_surer():
    def several(runtime, level):
        made = record(runtime, level)
        blocks = [b | {"process": p, "round": 8 * p + b["round"]} for p in range(8) for b in made["times"]["blocks"]]
        made["times"]["blocks"] = blocks
        return made

    one = recommend([record("a", 0.01), record("b", 0.0105)], query())
    eight = recommend([several("a", 0.01), several("b", 0.0105)], query())
    assert one.tied and not eight.tied
    assert one.ranked[0].chance < 0.95 < eight.ranked[0].chance


def test_a_drift_between_blocks_does_not_rank():
    """The first was sampled in all rounds, the second only before the machine became slower."""
    first, second = record("first", 0.01, rounds=12), record("second", 0.0104, rounds=6)
    for block in first["times"]["blocks"][6:]:
        block["samples"] = [2 * value for value in block["samples"]]
    first["times"]["median_s"] = 0.015
    answer = recommend([first, second], query())
    assert labels(answer.ranked) == ["first", "second"] and answer.ranked[1].ratio.value == pytest.approx(1.04)


def test_ties_are_told_as_ties():
    store = [record("a", 0.01), record("b", 0.0101), record("c", 0.03)]
    words = report.verdict(recommend(store, query()))
    assert (
        words[0].startswith("Cannot be told apart: a (")
        and "b (" in words[0]
        and "c" not in words[0].split("each")[0].split()
    )
    clear = report.verdict(recommend(store[1:], query()))
    assert clear[0] == "Take b: 10.1 ms a call." and "probability of > 99 %; c takes 2.97 times (" in clear[1]


def test_starts_that_differ_by_a_tenth_are_not_told_apart():
    """Each was measured once, and a disk's cache changes more than that."""
    starts = (("a", 1.0), ("b", 1.1), ("c", 9.0))
    store = [record(name, times={"load_s": start, "first_s": 0.0, "anew_s": None}) for name, start in starts]
    answer = recommend(store, query(calls=1))
    assert labels(answer.tied) == ["a", "b"] and answer.ranked[0].chance < 0.75


def test_a_start_counts_with_calls_and_the_break_even_is_told():
    quick = record("quick", 0.02, times={"load_s": 0.1, "compile_s": 0.1, "first_s": 0.3, "anew_s": 0.3})
    slow = record("slow", 0.01, times={"load_s": 1.0, "compile_s": None, "first_s": 0.5, "anew_s": 9.5})
    few, many = (recommend([quick, slow], query(calls=calls)) for calls in (10, 10_000))
    assert labels(few.ranked) == ["quick", "slow"] and labels(many.ranked) == ["slow", "quick"]
    assert few.even == many.even == pytest.approx(1001)
    assert few.ranked[0].cost == pytest.approx(0.5 + 9 * 0.02) and few.ranked[1].cost == pytest.approx(10.5 + 9 * 0.01)
    assert "Up to 1001 calls quick costs less than slow" in report.even(few)[0]
    assert "From 1001 calls on slow costs less than quick" in report.even(many)[0]
    always = recommend([quick, record("worse", 0.03)], query(calls=10))
    assert always.even is None and "At any number of calls quick" in report.even(always)[0]
    assert labels(recommend([quick, slow], query()).ranked) == ["slow", "quick"]


# ***** what is excluded *****


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"status": "FAIL", "message": "Relu_3 is off"}, "FAIL: Relu_3 is off"),
        ({"parity": None}, "its record holds no proof"),
        ({"parity": {"class": "wrong"}}, "its record holds no proof"),
        ({"times": {"median_s": None}}, "it has no time"),
        ({"artifact": "older"}, "it was measured on another version of the model"),
        ({"precision": "bf16"}, "it computes in bf16: --precision fp32,bf16 admits it"),
        ({"samples": 5}, "only 40 samples: p99 is not known (that takes 299); measure longer"),
        ({"level": 0.09}, "p99 is 90 ms, over 20"),
        ({"memory": None}, "its memory is not known"),
        ({"memory": 180e6}, "its memory is 180 MB, over 100"),
        ({"level": 0.09, "memory": 180e6}, "p99 is 90 ms, over 20; its memory is 180 MB, over 100"),
        ({"samples": 5, "level": 0.09}, "p99 is 90 ms, over 20"),
    ],
)
def test_whoever_is_excluded_is_told_why(change, why):
    limits = (Limit("p99", 0.02), Limit(MEMORY, 100e6))
    store = [record("bad", **{"samples": 40, **change}), record("good", 0.015, samples=40)]
    answer = recommend(store, query(limits=limits))
    assert labels(answer.ranked) == ["good"]
    (cell,) = answer.excluded
    assert cell.why == why
    assert f"not chosen: {cell.label}: {why}" in report.below(answer)
    assert cell.few == ("not known" in why)


def test_a_percentile_that_may_be_over_is_over():
    made = record("a", 0.01, samples=100)
    made["times"]["blocks"][0]["samples"][:3] = [0.03] * 3
    assert not recommend([made], query(limits=(Limit("p99", 0.02),))).excluded
    made["times"]["blocks"][0]["samples"][:5] = [0.03] * 5  # of 800
    (cell,) = recommend([made], query(limits=(Limit("p99", 0.02),))).excluded
    assert cell.why == "p99 is 10 ms, and may be 30, over 20"


def test_relaxations_of_one_limit_go_before_those_of_several():
    limits = (Limit("p99", 5.0), Limit(MEMORY, 100.0))
    both = ("both", {"p99": 6.0, MEMORY: 110.0})
    slow, large = ("slow", {"p99": 7.0, MEMORY: 90.0}), ("large", {"p99": 4.0, MEMORY: 180.0})
    advice = relaxations([both, slow, large, ("slower", {"p99": 8.0, MEMORY: 90.0})], limits)
    assert advice == [Relaxation({"p99": 7.0}, "slow"), Relaxation({MEMORY: 180.0}, "large")]
    more = [both, ("worse", {"p99": 6.5, MEMORY: 111.0}), ("other", {"p99": 5.5, MEMORY: 300.0})]
    assert {each.label for each in relaxations(more, limits)} == {"both", "other"}
    assert relaxations([("unknown", {"p99": None, MEMORY: 300.0})], limits) == []


def test_what_is_missing_and_what_was_sampled_too_little_is_measured():
    limits = (Limit("p99", 0.02),)
    store = [record("jax", samples=5), record("torch", 0.09, samples=40), record("tvm", status="CRASH")]
    wanted = [(name, "fp32") for name in ("jax", "torch", "tvm", "openvino")]
    answer = recommend(store, query(limits=limits), wanted)
    assert answer.missing == [("openvino", "fp32")]
    assert "not measured: openvino; --measure measures them" in report.below(answer)
    assert [case.runtime for case in to_measure(answer, False)] == ["openvino"]
    (case,) = to_measure(answer, True)
    assert (case.runtime, case.batch, case.threads) == ("jax", 8, 2)
    assert long_enough(answer, 2.0) == pytest.approx(1.3 * 299 * 0.01) and long_enough(answer, 9.0) == 9.0
    unknown = recommend(store[:1], query(limits=limits))
    assert report.verdict(unknown)[1] == "What would admit one is not known: measure longer, with --measure."


# ***** loads *****


def loaded(runtime, scenario, latency=0.01, rate=100.0, **load):
    made = record(runtime, plane="host")
    scenario_fields = {"scenario": scenario, "percentile": 99.0, "bound_s": None, "samples_per_query": 8}
    numbers = {"latencies": [latency] * 500, "queries_per_s": rate, "samples_per_s": 8 * rate, "latency_s": {}}
    return made | {"cost": None, "load": scenario_fields | numbers | load}


def under(scenario, **fields):
    return query(scenario=scenario, plane="host", **fields)


@pytest.mark.parametrize("scenario", ["single-stream", "offline", "server"])
def test_loads_are_ranked_by_what_the_scenario_asks_for(scenario):
    better = loaded("better", scenario, 0.01, 300.0)
    store = [loaded("worse", scenario, 0.02, 100.0), better, loaded("other", "multi-stream", 0.001, 9e9)]
    answer = recommend(store, under(scenario))
    assert labels(answer.ranked) == ["better", "worse"] and answer.ranked[0].chance > 0.9
    assert answer.ranked[1].ratio.value == pytest.approx(2 if scenario == "single-stream" else 3)
    cost = {"single-stream": 0.01, "offline": 1 / 2400, "server": 1 / 300}[scenario]
    assert answer.ranked[0].cost == pytest.approx(cost)


def test_a_server_counts_within_the_bound_that_is_asked_for():
    store = [
        loaded("wide", "server", rate=900.0, bound_s=0.02),
        loaded("right", "server", rate=200.0, bound_s=0.005),
        loaded("narrow", "server", rate=300.0, bound_s=0.004),
        loaded("narrow", "server", rate=100.0, bound_s=0.001),  # the last record, but another fits better
        loaded("narrow", "server", rate=900.0, bound_s=0.02),
        loaded("lax", "server", rate=900.0, bound_s=0.005, percentile=90.0),
    ]
    answer = recommend(store, under("server", limits=(Limit("p99", 0.005),)))
    assert labels(answer.ranked) == ["narrow", "right"]
    why = {cell.label: cell.why for cell in answer.excluded}
    assert why["wide"] == "its rate is for p99 within 20 ms, not p99 within 5"
    assert why["lax"] == "its rate is for p90 within 5 ms, not p99 within 5"
    assert all(cell.few for cell in answer.excluded) and any("bounds" in note for note in answer.notes)
    (only,) = recommend(store[:1], under("server", limits=(Limit("p99", 0.005),))).relaxations
    assert only == Relaxation({"p99": 0.02}, "wide")


def test_the_memory_of_a_load_is_that_of_the_same_cell():
    store, limits = [loaded("a", "offline"), loaded("b", "offline")], (Limit(MEMORY, 100e6),)
    answer = recommend(store, under("offline", limits=limits), timed=[record("a", memory=60e6)])
    assert (
        labels(answer.ranked) == ["a"] and answer.excluded[0].why == "its memory is not known: `xbench time` tells it"
    )


# ***** the question *****


def settle(store, measured=False, more=(), **options):
    return settled(store, "lenet", options, dict(more), measured)


def test_what_nobody_said_is_what_the_store_has():
    question = settle([record("a", batch=4, threads=3)])
    assert (question.batch, question.threads, question.mode, question.machine) == (4, 3, "forward", HERE)
    assert settle([record("a", batch=4), record("a", batch=2)], batch=2).batch == 2


@pytest.mark.parametrize(
    ("store", "said", "words"),
    [
        ([], {}, "lenet was never measured here: there is nothing"),
        ([record("a", model="lenett")], {}, "lenet was never measured here: did you mean lenett?"),
        ([record("a", model="vgg")], {}, "lenet was never measured here: there is vgg"),
        (
            [record("a"), record("a", batch=2)],
            {},
            "lenet forward on cpu, 2 threads was measured with batch 2, 8: say which by --batch",
        ),
        (
            [record("a"), record("a", threads=1)],
            {},
            "lenet forward on cpu was measured with threads 1, 2: say which by --threads",
        ),
        ([record("a")], {"batch": 3}, "was not measured with --batch 3: there is 8 (--measure measures it)"),
        ([record("a")], {"mode": "step"}, "lenet was not measured with --mode step: there is forward"),
        ([record("a")], {"machine": "Sparc"}, "--machine 'Sparc' is none of the store's"),
        (
            [record("a", machine=THERE), record("a", machine={"cpu": "Third", "cpus": 1})],
            {},
            "was measured with machine Other, 64 CPUs; Third, 1 CPU: say which by --machine",
        ),
        (
            [record("a", machine=THERE), record("a", machine={"cpu": "Other", "cpus": 1})],
            {"machine": "other"},
            "--machine 'other' is more than one of the store's: there is Other, 1 CPU; Other, 64 CPUs",
        ),
    ],
)
def test_a_question_that_the_store_leaves_open_is_asked_back(store, said, words):
    with pytest.raises(XBenchError) as error:
        settle(store, **said)
    assert words in str(error.value)


def test_of_several_machines_this_one_is_meant_and_the_others_are_told():
    store = [record("a"), record("b", 0.001, machine=THERE)]
    answer = recommend(store, settle(store))
    assert labels(answer.ranked) == ["a"]
    assert "there are also records of Other, 64 CPUs: --machine" in answer.notes
    there = recommend(store, settle(store, machine="other"))
    assert labels(there.ranked) == ["b"] and any("which is not this machine" in note for note in there.notes)
    only = recommend(store[1:], settle(store[1:]))
    assert labels(only.ranked) == ["b"]


def test_measuring_is_done_here():
    question = settle([record("a", machine=THERE)], measured=True)
    assert question.machine == HERE and settle([], measured=True).batch == 64  # lenet's own
    with pytest.raises(XBenchError, match="--measure measures here"):
        settle([record("a", machine=THERE)], measured=True, machine="Other")


@pytest.mark.parametrize("word", ["p99", "p0=5", "p100=5", "p99=0", "p99=-1", "99=5", "p99=inf", "p99=nan", "x", "="])
def test_a_limit_that_means_nothing_is_refused(word):
    with pytest.raises(XBenchError, match="--max-latency-ms must be milliseconds"):
        latency_limit(word)
    assert latency_limit("p99.9=5") == Limit("p99.9", 0.005) and latency_limit("5") == Limit("p50", 0.005)


# ***** the command *****


def command(*words):
    return CliRunner().invoke(app, ["recommend", *map(str, words)])


@pytest.fixture
def store(tmp_path):
    place = open_store(tmp_path)
    place.append(record("openvino", 0.01, samples=40), record("jax", 0.03, samples=40, memory=200e6))
    return tmp_path


def test_the_command_prints_what_it_found(store):
    answer = command("lenet", "--out", store, "--max-latency-ms", "p99=20", "--max-memory-mb", 100)
    assert answer.exit_code == 0, answer.output
    assert "Take openvino: 10.0 ms a call." in answer.stdout
    assert "not chosen: jax: p99 is 30 ms, over 20; its memory is 200 MB, over 100" in answer.stdout
    assert "not measured: " in answer.stdout and "onnxruntime" in answer.stdout
    output = json.loads(command("lenet", "--out", store, "--json").stdout)
    assert output["best"] == "openvino" and output["tied"] == [] and output["question"]["batch"] == 8
    assert [row["cell"] for row in output["ranked"]] == ["openvino", "jax"]
    assert output["ranked"][1]["ratio"] == pytest.approx(3.0)
    markdown = command("lenet", "--out", store, "--markdown").stdout
    assert "| openvino | PASS fp32 | 10.0 ms | 1.00 |" in markdown


def test_no_cell_that_meets_the_limits_is_exit_code_1_with_the_way_out(store):
    answer = command("lenet", "--out", store, "--max-latency-ms", "p99=5", "--max-memory-mb", 10)
    assert answer.exit_code == 1
    assert "No cell meets the limits." in answer.stdout
    assert "--max-latency-ms p99 from 5 to 10 and --max-memory-mb from 10 to 50, then openvino fits" in answer.stdout


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("lenett",), "lenett was never measured here: did you mean lenet?"),
        (("lenet", "--scenario", "servr"), "unknown scenario 'servr': did you mean server?"),
        (("lenet", "--mode", "forwrad"), "did you mean forward?"),
        (("lenet", "--runtime", "onnxrutime"), "unknown runtime 'onnxrutime': did you mean onnxruntime?"),
        (("lenet", "--precision", "fp33"), "unknown precision 'fp33'"),
        (("lenet", "--device", "gpu"), "--device must be one of cpu, cuda, not 'gpu'"),
        (("lenet", "--layout", "x"), "unknown layout 'x'"),
        (("lenet", "--max-latency-ms", "p99"), "--max-latency-ms must be milliseconds"),
        (("lenet", "--max-latency-ms", "p99=1,p99=2"), "give each percentile once"),
        (("lenet", "--max-memory-mb", "-3"), "--max-memory-mb must be more than 0, not -3"),
        (("lenet", "--scenario", "offline"), "no loads in "),
        (("lenet", "--scenario", "offline", "--calls", "3"), "--calls and --scenario exclude one another"),
        (("lenet", "--scenario", "offline", "--max-latency-ms", "3"), "offline has no latency"),
        (("lenet", "--samples-per-query", "3"), "--samples-per-query is for --scenario multi-stream"),
        (("lenet", "--json", "--markdown"), "exclude one another"),
        (("lenet", "--deploy", "OUT"), "it is no empty folder"),
        (("lenett", "--measure"), "unknown model 'lenett'"),
        (("lenet", "--measure", "--machine", "Cray"), "--machine 'Cray' is none of the store's"),
    ],
)
def test_a_wrong_word_is_one_sentence(store, words, line):
    answer = command(*(store if word == "OUT" else word for word in words), "--out", store)
    assert isinstance(answer.exception, XBenchError) and line in str(answer.exception)
    assert answer.stdout == ""


def test_an_empty_store_and_one_of_a_newer_xbench_are_refused(tmp_path):
    with pytest.raises(StoreError, match="no results in"):
        raise command("lenet", "--out", tmp_path / "none").exception
    open_store(tmp_path)
    assert "lenet was never measured here: there is nothing" in str(command("lenet", "--out", tmp_path).exception)
    (tmp_path / FILE).write_text(json.dumps(record("a") | {"schema": VERSION + 1}) + "\n")
    assert "written by a newer xbench" in str(command("lenet", "--out", tmp_path).exception)


def test_lines_that_are_no_records_are_skipped_counted_and_shown(store):
    with (store / FILE).open("a") as file:
        file.write('{"half": \n{"schema": 5, "key": "k", "status": "PASS", "case": {}}\n')
    answer = command("lenet", "--out", store)
    assert answer.exit_code == 0 and "Take openvino" in answer.stdout
    assert "line 3: not JSON" in answer.stderr and "line 4: not a case" in answer.stderr
    assert "skipped 2 of 4 lines" in answer.stderr


@pytest.mark.parametrize(
    "load",
    [
        5,
        None,
        {"scenario": 3},
        {"scenario": "offline", "samples_per_s": "many"},
        {"scenario": "offline", "latencies": [-1]},
    ],
)
def test_a_load_that_is_none_is_skipped(tmp_path, load):
    open_store(tmp_path, "load.jsonl").append(record("bad", plane="host") | {"load": load}, loaded("good", "offline"))
    answer = command("lenet", "--scenario", "offline", "--out", tmp_path)
    assert answer.exit_code == 0 and "Take good: 800 samples a second." in answer.stdout, answer.exception
    assert "skipped 1 of 2 lines" in answer.stderr and "load" in answer.stderr


def test_records_of_the_first_format_are_ranked(tmp_path):
    old = [record("a", 0.01), record("b", 0.03)]
    for each in old:
        del each["cost"], each["tuning"], each["times"]["anew_s"], each["times"]["processes"]
        each["schema"] = 1
    (tmp_path / FILE).write_text("".join(json.dumps(each) + "\n" for each in old))
    assert "Take a: 10.0 ms a call." in command("lenet", "--out", tmp_path).stdout
    assert "its memory is not known" in command("lenet", "--out", tmp_path, "--max-memory-mb", 9).stdout


def test_what_is_missing_is_measured_here(shell):
    words = ("lenet", "--runtime", "onnxruntime", "--batch", 2, "--threads", 1, "--max-latency-ms", "p90=1000")
    answer = shell.run("recommend", *words, "--measure", "--budget", 0.1, "--out", "out")
    assert answer.returncode == 0, answer.stderr
    assert "Take onnxruntime: " in answer.stdout
    (made,) = read(shell.folder / "out" / FILE)
    assert made["case"]["threads"] == 1 and made["status"] == "PASS"
    again = shell.run("recommend", *words[:-1], "p99=1000", "--measure", "--budget", 0.01, "--out", "out")
    assert again.returncode == 0, again.stderr
    last = read(shell.folder / "out" / FILE)[-1]
    assert sum(len(block["samples"]) for block in last["times"]["blocks"]) >= 299
