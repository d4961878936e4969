"""Rows, ranks and formats: rankable cells are ranked, others show no time, and the output is machine-readable."""

import csv
import io
import json

import pytest
import typer
from places import ROOT
from rich.console import Console
from typer.testing import CliRunner

from xbench.cli.show import show
from xbench.errors import XBenchError
from xbench.reports import COLUMNS, formats, rows
from xbench.reports.table import show_table
from xbench.stats.quantities import seconds
from xbench.store.results import FILE, StoreError, open_store

PROMISED = (
    "model runtime mode batch device threads status class autodiff median_s low_s high_s ratio compile_s load_s first_s"
)


def record(runtime: str, median: float = 0.01, status: str = "PASS", **fields: object) -> dict:
    """A record with eight rounds of `median` seconds; case fields and record fields by keyword."""
    places = {name: fields.pop(name) for name in ("model", "mode", "batch", "precision") if name in fields}
    samples = [{"round": number, "samples": [median] * 4} for number in range(8)]
    times = {"load_s": 1.5, "compile_s": None, "first_s": 0.25, "median_s": median, "converged": True, "warmup": []}
    times |= {"low_s": 0.99 * median, "high_s": 1.01 * median, "blocks": samples}
    case = {"model": "lenet", "runtime": runtime, "batch": 8, "threads": 2, **places}
    parity = {"class": "fp32" if status == "PASS" else "wrong"}
    base = {"schema": 1, "key": f"{runtime}-{sorted(places.items())}", "case": case, "session": "s1", "autodiff": None}
    return {**base, "status": status, "message": None, "parity": parity, "times": times, "time": "T", **fields}


def jittered(runtime: str, samples: list[float], **fields: object) -> dict:
    made = record(runtime, sorted(samples)[len(samples) // 2], **fields)
    made["times"]["blocks"] = [{"round": number, "samples": [value]} for number, value in enumerate(samples)]
    return made


def order(table: list) -> list[str]:
    return [row["runtime"] for row in table]


def printed(table: list, width: int = 200, **options: object) -> str:
    console = Console(file=io.StringIO(), width=width, **options)
    show_table(table, console)
    return console.file.getvalue()


STORE = [
    record("torch", 0.012),
    record("tvm", 1.5, note="untuned"),
    record("cheat", 0.000_001, "FAIL", message="Relu_3 is 40 % off | at [0]\nsee log"),
    record("jax", 0.01),
    record("openvino", status="UNSUPPORTED", times=None, parity=None, message="LSTM (2)"),
    record("torch", 0.0345, mode="step", autodiff="native"),
]
STORE[5]["times"] |= {"converged": False, "low_s": 0.0329, "high_s": 0.0361}

GOLDEN = """\
### lenet forward, batch 8, cpu, 2 threads

| runtime | status | median | 95 % interval | ratio | compile | load | first call | samples/s | message |
| --- | --- | --: | --: | --: | --: | --: | --: | --: | --- |
| jax | PASS fp32 | 10.0 ms | ±1.00 % | 1.00 |  | 1.50 s | 250 ms | 800 |  |
| torch | PASS fp32 | 12.0 ms | ±1.00 % | 1.20 |  | 1.50 s | 250 ms | 667 |  |
| tvm (untuned) | PASS fp32 | 1.50 s | ±1.00 % | 150 |  | 1.50 s | 250 ms | 5.33 |  |
| cheat | FAIL wrong |  |  |  |  |  |  |  | Relu_3 is 40 % off \\| at \\[0\\] see log |
| openvino | UNSUPPORTED |  |  |  |  |  |  |  | LSTM (2) |

### lenet step, batch 8, cpu, 2 threads

| runtime | status | median | 95 % interval | ratio | compile | load | first call | samples/s |
| --- | --- | --: | --: | --: | --: | --: | --: | --: |
| torch | PASS fp32 native | 34.5 ms | not converged ±4.64 % | 1.00 |  | 1.50 s | 250 ms | 232 |
"""


def test_the_markdown_report_is_as_it_was():
    assert formats.to_markdown(rows(STORE)) == GOLDEN


def test_rows_hold_what_the_issue_promises_and_the_document_names_every_column():
    for row in rows(STORE):
        assert set(PROMISED.split()) <= set(row) and tuple(row) == COLUMNS
    document = (ROOT / "docs" / "results.md").read_text().partition("## Rows")[2]
    assert [name for name in COLUMNS if f"`{name}`" not in document] == []


@pytest.mark.parametrize("status", ["FAIL", "UNVERIFIED", "UNSUPPORTED", "OOM", "TIMEOUT", "CRASH"])
def test_only_a_pass_is_ranked_even_where_another_is_the_fastest(status):
    table = rows([record("cheat", 1e-6, status), record("slow", 0.03), record("fast", 0.01)])
    assert order(table) == ["fast", "slow", "cheat"]
    assert [row["ratio"] for row in table] == pytest.approx([1.0, 3.0, None])
    times = ("median_s", "low_s", "high_s", "compile_s", "load_s", "first_s", "samples_per_s", "ratio_low", "converged")
    assert {table[2][name] for name in times} == {None}
    assert "µs" not in printed(table) and "µs" not in formats.to_markdown(table)
    assert "1e-06" not in formats.to_csv(table)


def test_a_pass_without_a_time_is_shown_unranked():
    table = rows([record("checked", times=None), record("fast")])
    assert order(table) == ["fast", "checked"] and table[1]["ratio"] is None
    missing = record("nothing")
    missing["times"]["median_s"] = None
    assert rows([missing])[0]["ratio"] is None


def test_the_last_record_of_a_case_counts_also_under_another_key():
    again = {**record("a", 0.02), "key": "newer version"}
    table = rows([record("a", 0.01), record("b", 0.04), again])
    assert [(row["runtime"], row["median_s"]) for row in table] == [("a", 0.02), ("b", 0.04)]
    assert table[1]["ratio"] == pytest.approx(2.0)
    failed = {**record("a", status="CRASH", times=None), "key": "newest"}
    assert [row["status"] for row in rows([again, failed])] == ["CRASH"]


@pytest.mark.parametrize("other", [{"mode": "step"}, {"batch": 1}, {"precision": "fp16"}, {"model": "vit_s16"}])
def test_cells_that_differ_in_more_than_the_runtime_are_not_compared(other):
    assert [row["ratio"] for row in rows([record("a", 0.01), record("a", 5.0, **other)])] == [1.0, 1.0]


def test_models_stand_in_the_order_of_the_store_and_forward_before_step():
    cells = [("z", "step"), ("a", "forward"), ("z", "forward"), ("a", "step")]
    table = rows([record("r", model=model, mode=mode) for model, mode in cells])
    expected = [("z", "forward"), ("z", "step"), ("a", "forward"), ("a", "step")]
    assert [(row["model"], row["mode"]) for row in table] == expected


def test_one_session_is_compared_round_by_round_and_two_are_not():
    drift = [1 + 0.1 * number for number in range(9)]
    fast, slow = jittered("fast", drift), jittered("slow", [1.1 * value for value in drift])
    paired = rows([fast, slow])[1]
    assert paired["paired"] is True
    assert paired["ratio"] == pytest.approx(1.1)
    apart = rows([fast, {**slow, "session": "s2"}])[1]
    assert apart["paired"] is False
    assert apart["ratio_high"] - apart["ratio_low"] > 2 * (paired["ratio_high"] - paired["ratio_low"])


def test_no_ratio_is_below_one_where_rounds_and_medians_disagree():
    """By medians a is faster (1.0 and 1.05); in most rounds b is."""
    a, b = jittered("a", [1.0, 1.0, 1.0, 3.0, 4.0]), jittered("b", [1.05, 0.9, 1.05, 2.0, 3.0])
    table = rows([a, b])
    assert order(table) == ["b", "a"]
    assert table[0]["ratio"] == 1.0 and table[1]["ratio"] > 1


def test_a_ratio_that_cannot_be_told_from_one_is_marked():
    even = [1.0, 1.2, 1.0, 1.2, 1.0, 1.2, 1.0, 1.2]
    table = rows([jittered("a", even), jittered("b", even[::-1]), record("c", 9.0)])
    text = formats.to_markdown(table)
    assert "| ~1.00 |" in text and "not told apart" in text and "not told apart" in printed(table)
    assert "~" not in formats.to_markdown(rows([record("a", 1.0), record("c", 9.0)]))


def test_the_report_of_the_same_store_is_the_same():
    noisy = [jittered("a", [1.0, 1.1, 1.3, 1.2]), jittered("b", [1.4, 1.1, 1.5, 1.2])]
    assert rows(noisy) == rows(noisy)


def test_json_is_strict_and_csv_says_the_same():
    table = rows(STORE)
    back = json.loads(formats.to_json(table), parse_constant=pytest.fail)
    assert back == table
    lines = list(csv.DictReader(io.StringIO(formats.to_csv(table))))
    assert [line["runtime"] for line in lines] == order(table)
    assert [float(line["median_s"]) if line["median_s"] else None for line in lines] == [r["median_s"] for r in table]
    assert lines[-1]["converged"] == "false" and lines[3]["message"] == table[3]["message"]


def test_the_terminal_shows_ranks_labels_flags_and_whole_messages():
    long = record("x", status="CRASH", times=None, message="\x1b[2J [red]worker said " + "y" * 300)
    text = printed(rows([*STORE, long]), width=100)
    assert text.index("jax") < text.index("torch") < text.index("tvm (untuned)") < text.index("cheat")
    assert "not converged ±4.64 %" in text and "openvino: UNSUPPORTED LSTM (2)" in text
    assert "[red]worker said " + "y" * 300 in text and "\x1b" not in text


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_narrow_terminal_drops_columns_and_never_the_time(width):
    text = printed(rows(STORE), width=width)
    assert all(part in text for part in ("10.0 ms", "±1.00 %", "1.20", "not converged ±4.64 %", "FAIL wrong"))
    assert ("not shown for want of width" in text) is (width < 140)


def test_statuses_have_colours_on_a_terminal():
    text = printed(rows(STORE), force_terminal=True, color_system="standard")
    assert "\x1b[1;31mFAIL wrong" in text and "\x1b[32mPASS fp32" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0.0, "0.00 µs"),
        (2.5e-7, "0.25 µs"),
        (9.996e-6, "10.0 µs"),
        (0.000_999_9, "1000 µs"),
        (0.001, "1.00 ms"),
        (0.0123, "12.3 ms"),
        (1.0, "1.00 s"),
        (123.4, "123 s"),
    ],
)
def test_times_carry_three_digits_and_a_unit(value, text):
    assert seconds(value) == text


def test_a_width_that_is_not_known_is_said():
    lone = record("a")
    lone["times"] |= {"low_s": None, "high_s": None, "converged": False}
    assert "not converged width unknown" in formats.to_markdown(rows([lone]))


@pytest.fixture
def run(tmp_path):
    """`xbench show` on STORE."""
    store = open_store(tmp_path)
    for line in STORE:
        store.append(line)
    app = typer.Typer()
    app.command()(show)
    return lambda *words: CliRunner().invoke(app, ["--out", str(tmp_path), *words])


def test_show_prints_each_format(run):
    assert json.loads(run("--json").stdout) == rows(STORE)
    assert run("--csv").stdout == formats.to_csv(rows(STORE))
    assert run("--markdown").stdout == GOLDEN
    done = run()
    assert done.exit_code == 0 and "lenet forward, batch 8, cpu, 2 threads" in done.stdout


def test_show_filters_rows_and_keeps_their_ratios(run):
    table = json.loads(run("--json", "--runtime", "torch", "--mode", "forward").stdout)
    assert [(row["runtime"], row["mode"], round(row["ratio"], 6)) for row in table] == [("torch", "forward", 1.2)]


def test_show_names_a_word_that_no_cell_has(run):
    done = run("--json", "--runtime", "tochr")
    assert done.exit_code == 0 and json.loads(done.stdout) == []
    assert "'tochr'" in done.stderr and "openvino" in done.stderr and done.stderr.count("\n") == 1


def test_show_without_a_store_or_with_two_formats_is_one_line_for_the_user(run, tmp_path):
    for words, kind in ((["--out", str(tmp_path / "none")], StoreError), (["--json", "--csv"], XBenchError)):
        error = run(*words).exception
        assert isinstance(error, kind) and error.exit_code == 2 and "\n" not in str(error)
    assert not (tmp_path / "none").exists()


def test_show_on_a_store_without_records_says_so(tmp_path):
    open_store(tmp_path)
    app = typer.Typer()
    app.command()(show)
    done = CliRunner().invoke(app, ["--out", str(tmp_path)])
    assert done.exit_code == 0 and "nothing to show" in done.stderr
    assert (tmp_path / FILE).read_bytes() == b""
