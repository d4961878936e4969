"""The report without a browser: verdicts in words, break-even, distributions, the matrix, and the HTML's contents."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import stores
import typer
from typer.testing import CliRunner

from xbench.cli.report import report
from xbench.converters.printable import script_json
from xbench.errors import XBenchError
from xbench.reports import break_even, formats, grouped, pairs, rows, sweeps
from xbench.reports.distribution import distribution
from xbench.reports.html import commands, content, page
from xbench.reports.html.other_experiments import FILES
from xbench.reports.parity_matrix import matrix
from xbench.reports.winner_sentence import verdict, verdicts
from xbench.stats.quantities import seconds
from xbench.store.results import VERSION, StoreError, encode
from xbench.store.schema import problem

EVIL = "</script><img src=x onerror=alert(1)>\u2028&\"'<!--"


def sentence_of(*records: dict) -> str:
    (only,) = verdicts(rows(records))
    return only.sentence


def scattered(runtime: str, medians: list[float]) -> dict:
    """A cell with these medians of its rounds."""
    made = stores.record(runtime=runtime, median=float(np.median(medians)))
    made["times"]["blocks"] = [{"round": at, "process": 0, "samples": [value]} for at, value in enumerate(medians)]
    return made


def measures(command: str, record: dict) -> bool:
    """Whether a command measures a record: alone, or with other runtimes."""
    runtime = f" --runtime {record['case']['runtime']}"
    others = re.sub(r" --runtime \S+", "", command)
    return f"{runtime} " in command and others == record["command"].replace(runtime, "")


class Reader(HTMLParser):
    """The tables of a page as lists of lines of cells, and its tags and attributes."""

    VOID = {"meta", "img", "br", "input", "link"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.scripts: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words, self.inside, self.open = "", "", False
        self.feed(text)
        assert self.tags.isdisjoint({"link", "iframe", "object", "embed", "base"})

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.inside = tag if tag in ("script", "style") else ""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        if tag == "table":
            self.tables.append([])
            self.open = True
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""
        self.open = self.open and tag != "table"

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.words += data
            if self.open and self.tables[-1] and self.tables[-1][-1]:
                self.tables[-1][-1][-1] += data.rstrip("\n")

    @property
    def commands(self) -> list[str]:
        """The commands in lines of their own, without the remarks after them."""
        return re.findall(r"^(?:Measure again)?(xbench time .*?)(?:  # .*)?$", self.words, re.MULTILINE)

    @property
    def data(self) -> dict:
        return json.loads(self.scripts[0])


def test_the_fastest_is_named_with_the_interval_of_its_lead():
    first, second = (scattered(name, [t * f for f in (1, 1.01, 0.99, 1, 1.01, 0.99, 1, 1)]) for name, t in TWO)
    row = rows([first, second])[1]
    half = f"{(row['ratio_high'] - row['ratio_low']) / 2:.2f}"
    assert sentence_of(first, second) == (
        f"openvino, 1.27× ±{half} faster than the next, torch; equal to PyTorch in fp32 class"
    )
    assert verdicts(rows([first, second]))[0].kind == "faster"


TWO = (("openvino", 0.01), ("torch", 0.0127))


def test_a_tie_names_all_that_cannot_be_told_apart():
    tie = verdicts(rows([scattered(name, [0.01, 0.0101, 0.0099] * 3) for name in ("a", "b")]))[0]
    assert tie.kind == "tie" and len(tie.winners) == 2
    assert re.fullmatch(r"[ab] and [ab] cannot be told apart \(1.00× ±0.\d\d\): a tie; equal.*", tie.sentence)


def test_one_whose_times_scatter_is_named_apart():
    wild = scattered("wild", [0.001, 5.0, 0.0001, 2.0, 0.05, 3.0, 0.002, 4.0])
    calm = [scattered(name, [0.01, 0.0101, 0.0099] * 3) for name in ("a", "b")]
    assert sentence_of(calm[0], wild).startswith(
        "a leads by its median, but cannot be told apart from wild, whose times"
    )
    assert "a tie, nor can wild, whose times scatter" in sentence_of(*calm, wild)


@pytest.mark.parametrize(
    ("records", "kind", "sentence"),
    [
        ([stores.record(status="FAIL"), stores.record(runtime="jax", status="CRASH")], "none", "none passed: "),
        ([stores.record(median=0.5), stores.record(runtime="jax", status="FAIL")], "alone", "torch alone passed, "),
        ([stores.record(blocks=1), stores.record(runtime="jax", median=1.0, blocks=1)], "unsure", "torch, 100×"),
    ],
)
def test_what_nobody_can_be_compared_with_is_said(records, kind, sentence):
    (alone,) = verdicts(rows(records))
    assert alone.kind == kind and alone.sentence.startswith(sentence)
    if kind != "unsure":
        assert "jax FAIL" in alone.sentence or "jax CRASH" in alone.sentence


def test_a_lower_class_is_not_called_equal_in_fp32():
    half = stores.record(runtime="openvino", precision="bf16", parity={"class": "half"})
    assert "equal to PyTorch only in half class" in sentence_of(half)


def line(runtime: str, start: float, step: float) -> dict:
    made = stores.record(runtime=runtime, median=step)
    made["times"] |= {"load_s": start / 2, "compile_s": start / 4, "first_s": start / 4, "anew_s": None}
    made["times"] |= {"median_s": step}
    return made


def test_break_even_is_the_first_call_that_is_done_sooner():
    slow, quick = rows([line("quick", 10.0, 0.1), line("slow", 1.0, 0.5)])[::-1]
    calls = break_even.break_even(quick, slow)
    assert calls == 24
    assert break_even.total(quick, calls) < break_even.total(slow, calls)
    assert break_even.total(quick, calls - 1) >= break_even.total(slow, calls - 1)
    assert break_even.break_even(slow, quick) == 1
    assert break_even.break_even(*rows([line("a", 1, 0.1), line("b", 2, 0.2)])[::-1]) == break_even.NEVER


def test_the_leaders_are_those_that_lead_at_some_number_of_calls():
    table = rows([line("a", 1.0, 0.5), line("b", 10.0, 0.1), line("c", 5.0, 0.45), line("d", 100.05, 0.01)])
    leaders = [(row["runtime"], calls) for row, calls in break_even.leaders(table)]
    for calls in (1, 2, 23, 24, 25, 500, 1000, 1001, 1002, 1003, 1100, 10**6):
        best = min(table, key=lambda row: break_even.total(row, calls))["runtime"]
        leader = [name for name, first in leaders if first <= calls][-1]
        assert leader == best, (calls, leaders)
    assert break_even.sentence(table) == "a first; b from call 24; d from call 1,002"


def test_anew_is_the_start_of_one_that_found_its_kernels_on_disk():
    warm = line("torch", 1.0, 0.1)
    warm["times"]["anew_s"] = 17.0
    assert break_even.start_up(rows([warm])[0]) == pytest.approx(0.75 + 17.0)
    assert break_even.start_up(rows([stores.record(status="FAIL")])[0]) is None


def test_a_search_pays_after_as_many_steps_as_it_saves():
    default = stores.record(runtime="tvm", median=0.010)
    tuned = stores.record(runtime="tvm", median=0.005, tune="max", tune_budget=60.0, tuning={"seconds": 60.0})
    ((_, taken, _, steps),) = break_even.tuning_rows(pairs([default, tuned]))
    saved = default["times"]["median_s"] - tuned["times"]["median_s"]
    assert taken == 60 and saved * (steps - 1) < 60 <= saved * steps


def test_a_distribution_counts_every_block_alike():
    blocks = [{"samples": [1.0] * 10}, {"samples": [3.0] * 1000}]
    spread = distribution({"blocks": blocks})
    assert (spread.low, spread.quarter, spread.three_quarters, spread.high) == (1.0, 1.0, 3.0, 3.0)
    values = np.random.default_rng(1).random(4000)
    spread = distribution({"blocks": [{"samples": part.tolist()} for part in values.reshape(40, 100)]})
    assert spread[:5] == pytest.approx(np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95), method="hazen"))
    assert distribution(None) is None and distribution({"blocks": [{"samples": []}]}) is None


def test_a_place_of_the_matrix_is_the_worst_of_its_batches():
    bad = stores.record(batch=8, status="FAIL")
    grid = matrix(pairs([stores.record(batch=1), bad, stores.record(runtime="jax", status="UNSUPPORTED")]))
    torch = grid.lines[0][grid.columns.index("torch")]
    assert torch.status == "FAIL" and torch.cells == 2 and torch.words.startswith("FAIL ") and torch.shade == "bad"
    assert grid.lines[0][grid.columns.index("jax")].words == "n/a"


def test_a_sweep_has_the_time_of_a_sample():
    made = [stores.record(batch=batch, median=0.01 * batch) for batch in (1, 4)]
    made += [stores.record(model="other"), stores.record(batch=2, status="FAIL", runtime="jax")]
    (sweep,) = sweeps.sweeps(rows(made), "batch")
    assert sweep.numbers == (1, 4)
    assert sweep.lines["torch"] == pytest.approx({n: made[at]["times"]["median_s"] / n for at, n in ((0, 1), (1, 4))})


def test_a_sweep_over_shapes_is_a_curve_and_a_table_with_what_failed():
    made = [stores.record(model=f"m.onnx@ids=0:9;seq={size};h=3", median=0.01 * size) for size in (64, 8)]
    made += [
        stores.record(model="m.onnx@ids=0:9;seq=8;h=3", runtime="jax", status="FAIL"),
        stores.record(model="m.onnx"),
    ]
    found = rows(made)
    (sweep,) = sweeps.sweeps(found, "shape")
    assert (sweep.numbers, sweep.shapes, sorted(sweep.lines)) == ((8, 64), ("seq",), ["torch"])
    (shapes,) = sweeps.shape_sweeps(found)
    assert shapes.title.startswith("m.onnx@ids=0:9, h 3 forward, batch 1, ") and shapes.title.endswith(": by seq")
    table = sweeps.shape_table(shapes)
    assert [(line[0], line[-1]) for line in table.lines] == [("8", "torch"), ("64", "torch")]
    assert "FAIL" in table.lines[0] and len(table.notes) == bool(made[2]["message"])
    html = page(made)
    assert "Time per sample against shape" in html and "m.onnx@ids=0:9;seq=8;h=3" in html


def test_means_are_weighted_by_the_shares_of_shapes():
    made = [
        stores.record(model=f"m.onnx@seq={size}", runtime=runtime, median=scale * size)
        for runtime, scale in (("jax", 0.001), ("torch", 0.002))
        for size in (1, 2, 4)
    ]
    (sweep,) = sweeps.shape_sweeps(rows(made))
    shares = [sweeps.Weighted({"seq": size}, share) for size, share in ((1, 0.5), (2, 0.485), (4, 0.015))]
    medians = {line: {shape[0]: row["median_s"] for shape, row in cells.items()} for line, cells in sweep.cells.items()}
    table = sweeps.weighted_table(sweep, shares)
    assert [line[0] for line in table.lines] == ["jax", "torch"] and table.lines[0][-1] == "1.00"
    for name, mean, _, high, _ in table.lines:
        assert mean == seconds(sum(each.share * medians[name][str(each.sizes["seq"])] for each in shares))
        assert high == seconds(medians[name]["4"])
    shares[2] = sweeps.Weighted({"seq": 8}, 0.015)
    lacking = sweeps.weighted_table(sweep, shares)
    assert not lacking.lines and lacking.notes == ["jax has no time at 8", "torch has no time at 8"]
    assert sweeps.weighted_table(sweep, [sweeps.Weighted({"other": 1}, 1.0)]) is None


# ---- the page


@pytest.fixture(scope="module")
def suite() -> list[dict]:
    return stores.suite(runtimes=(*stores.SPEED, "tvm"), blocks=4)


@pytest.fixture(scope="module")
def others() -> dict[str, list[dict]]:
    return {
        "training": [stores.training(), stores.training(runtime="jax")],
        "phases": [stores.phases(), stores.phases(runtime="jax", status="FAIL")],
    }


@pytest.fixture(scope="module")
def html(suite, others) -> str:
    return page(suite, others)


def test_without_javascript_every_cell_is_in_a_table(suite, html):
    read = Reader(html)
    lines = [tuple(line) for table in read.tables for line in table]
    cells = rows(suite)
    for own in grouped(cells):
        assert any(verdict(own).sentence == line[-1] for line in lines if line)
    named = [line for line in lines if line and line[0] in {"tvm (untuned)", *stores.SPEED} and len(line) > 9]
    assert len(named) == len(cells)
    for row in cells:
        assert any(formats.cells(row) == list(line[: len(formats.HEADER)]) for line in named)
    for record in suite:
        assert any(measures(command, record) for command in read.commands)


def test_a_time_is_never_shown_without_a_pass(suite):
    cheat = stores.record("lenet", "cheat", batch=1, median=1e-9) | {"status": "FAIL", "message": "wrong"}
    read = Reader(page([*suite, cheat]))
    (line,) = [line for table in read.tables for line in table if line[0] == "cheat" and len(line) > 9]
    assert line[1].startswith("FAIL") and len(line) > 12 and set(line[2:-3]) == {""}
    at = read.data["runtimes"].index("cheat")
    assert [cell for cell in read.data["cells"] if cell[0] == at] == [[at]]


def test_names_with_html_in_them_are_text():
    made = stores.record(EVIL, EVIL, message=EVIL, note=EVIL, command=EVIL, versions={EVIL: EVIL}, data=EVIL)
    made["parity"]["worst_tensor"] = EVIL
    made["machine"]["cpu"] = EVIL
    trained = stores.training(EVIL, EVIL)
    read = Reader(page([made], {"training": [trained]}, title=EVIL, problems=[EVIL]))
    assert "img" not in read.tags and "onerror" not in read.attributes
    assert read.data["models"] == [EVIL.replace("\u2028", " ")]
    assert read.words.count("<img src=x onerror=alert(1)>") > 10
    assert len(read.scripts) == 3  # the data, our code and Vega's: none was ended early


def test_data_cannot_end_its_script():
    text = script_json({"a": EVIL})
    assert not set(text) & set("<>&\u2028") and json.loads(text) == {"a": EVIL}


def test_the_policy_forbids_every_request_and_names_the_scripts(html):
    policy = re.search(r'Content-Security-Policy content="([^"]+)"', html)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'") and "unsafe-eval" not in policy
    assert re.search(r"script-src 'sha256-[^']+' 'sha256-[^']+'$", policy)
    read = Reader(html)
    assert "img" not in read.tags and "src" not in read.attributes


def test_every_section_is_there_and_what_is_missing_is_said(html):
    read = Reader(html)
    for place in (
        "verdicts",
        "parity",
        "cells",
        "batch",
        "start",
        "roofline",
        "memory",
        "phases",
        "training",
        "machine",
    ):
        assert f"<section id={place} " in html
    assert "xbench load MODEL" in read.words and "xbench phases MODEL" not in read.words
    assert "AMD EPYC" in read.words and ["xbench", "0.1.0"] in [line[:2] for t in read.tables for line in t]
    assert "t_b: backward, loss" in read.words and "test accuracy" in read.words


def test_specifications_are_valid_vega_lite(html):
    import vl_convert

    for name, spec in Reader(html).data["specs"].items():
        given = {**spec, "data": {"name": "cells", "values": []}}
        assert vl_convert.vegalite_to_vega(given)["marks"], name


def test_tables_say_what_they_are_to_a_screen_reader(html):
    html = html.partition("<script")[0]
    assert 10 < len(re.findall(r"<table\b", html)) == len(re.findall(r"<caption\b", html))
    assert "<html lang=en>" in html and not re.search(r"<th(?![^>]* scope=)[ >]", html)


def test_an_empty_store_is_a_page_that_says_so():
    assert "This store holds no cell yet" in page([])


def test_two_machines_are_never_ranked_together():
    there = stores.record(median=0.001, machine={"cpu": "Xeon"})
    read = Reader(page([stores.record(runtime="jax"), there]))
    assert read.data["machines"] == ["AMD EPYC, 2 CPUs", "Xeon, 2 CPUs"]
    assert len([line for line in read.tables[0][1:] if "alone passed" in line[-1]]) == 2


# ---- the command


@pytest.fixture
def run(tmp_path):
    app = typer.Typer()
    app.command()(report)

    def run(*words: object) -> tuple[str, str]:
        answer = CliRunner().invoke(
            app, [*map(str, words), "--output", str(tmp_path / "r.html")], catch_exceptions=False
        )
        assert answer.exit_code == 0, answer.output
        return (tmp_path / "r.html").read_text(), answer.stderr

    return run


def test_the_command_reads_all_files_of_a_folder_and_names_its_own(run, tmp_path, others):
    stores.write(tmp_path / "out", stores.suite(blocks=3))
    for name, records in others.items():
        stores.write(tmp_path / "out", records, FILES[name])
    text, _ = run("--out", tmp_path / "out", "--title", "Of today")
    assert "<h1>Of today</h1>" in text and "<section id=training " in text and "<section id=phases " in text


@pytest.mark.parametrize("name", ["training", "phases"])
def test_a_folder_without_results_is_shown_by_what_it_has(run, tmp_path, others, name):
    stores.write(tmp_path / "out", others[name], FILES[name])
    text, error = run("--out", tmp_path / "out")
    assert f"<section id={name} " in text and not error


def test_folders_are_read_together_and_the_newest_counts(run, tmp_path):
    stores.write(tmp_path / "new", [stores.record(median=0.5, time="2026-11-24T00:00:00Z")])
    stores.write(tmp_path / "old", [stores.record(median=0.7, time="2026-11-01T00:00:00Z")])
    text, _ = run(tmp_path / "new", tmp_path / "old")
    assert len(Reader(text).data["cells"]) == 1 and round(Reader(text).data["cells"][0][1], -5) == 5e5


def test_filters_leave_out_rows_but_ratios_stay(run, tmp_path):
    stores.write(tmp_path, [stores.record(median=0.02), stores.record(runtime="jax", median=0.01)])
    text, _ = run("--out", tmp_path, "--runtime", "torch")
    (cell,) = Reader(text).data["cells"]
    assert cell[2] == pytest.approx(2, rel=0.05)


def test_lines_that_cannot_be_read_are_skipped_counted_and_shown(run, tmp_path):
    stores.write(tmp_path, [stores.record()])
    with (tmp_path / "results.jsonl").open("ab") as file:
        file.write(b"garbage <b>\n" + encode(stores.record(runtime="jax")) + b'{"schema": 1}\n')
    text, error = run("--out", tmp_path)
    assert "2 lines of the store could not be read" in text and "line 2" in text
    assert error.count("xbench: skipped") == 2
    assert len(Reader(text).data["cells"]) == 2


def test_a_word_that_no_record_has_is_named(run, tmp_path):
    stores.write(tmp_path, [stores.record()])
    text, error = run("--out", tmp_path, "--model", "lenett")
    assert (
        "no model 'lenett' among the results; there is: lenet" in error and "No cell of this store was chosen" in text
    )


DAMAGE = [None, "x", -1, 1e999, [], [{}], {"a": [None]}]


@pytest.mark.parametrize("name", ["parity", "cost", "tuning", "versions", "machine", "training", "phases"])
def test_records_that_are_damaged_within_do_not_stop_the_report(name):
    """Every field of a record in turn has another type, as far as the store's reader accepts it."""
    made = {"training": stores.training, "phases": stores.phases}.get(name, stores.record)
    sound = made(tune="max", tuning={"seconds": 1.0}) if name == "tuning" else made()
    for field in [None, *(sound[name] or {})]:
        for value in DAMAGE:
            broken = {**sound, name: value if field is None else {**sound[name], field: value}}
            if problem(broken):
                continue
            if name in FILES:
                assert page([stores.record()], {name: [broken, made(runtime="jax")]})
            else:
                assert page([broken, stores.record(runtime="jax")])


def test_older_formats_are_shown_and_newer_ones_refused(run, tmp_path):
    old = stores.record()
    old = {name: old[name] for name in ("key", "case", "status", "message", "parity", "times", "session")} | {
        "schema": 1
    }
    old["times"] = {name: old["times"][name] for name in ("median_s", "load_s", "first_s", "converged")}
    old["times"]["blocks"] = [{"round": 0, "samples": [0.01]}]
    (tmp_path / "results.jsonl").write_text(json.dumps(old) + "\n")
    assert "torch alone passed" in Reader(run("--out", tmp_path)[0]).words
    (tmp_path / "results.jsonl").write_text(json.dumps({**stores.record(), "schema": VERSION + 1}) + "\n")
    with pytest.raises(StoreError, match="newer xbench"):
        run("--out", tmp_path)


def test_no_store_and_no_place_to_write_are_one_line(run, tmp_path):
    with pytest.raises(StoreError, match="no results in"):
        run("--out", tmp_path / "none")
    stores.write(tmp_path, [stores.record()])
    (tmp_path / "r.html").mkdir()
    with pytest.raises(XBenchError, match="cannot write"):
        run("--out", tmp_path)


def test_a_missing_library_is_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    with pytest.raises(XBenchError, match=re.escape("pip install 'xbench[report]'")):
        page([])


def test_ten_thousand_records_are_below_eight_megabytes():
    assert len(page(stores.ten_thousand()).encode()) < 8e6


# ---- very many records


@pytest.fixture
def a_fifth(monkeypatch):
    """The limits for ten thousand records, scaled to two thousand."""
    for name in ("GROUPS", "NETWORKS", "SWEEPS", "PLACES"):
        monkeypatch.setattr(content, f"MANY_{name}", getattr(content, f"MANY_{name}") // 5)


SHAPES = {  # networks, and cells of a group, of two thousand records
    "groups of four": (8, 4, {}),
    "groups of two": (8, 2, {}),
    "groups of one": (8, 1, {}),
    "a network a record": (2000, 1, {}),
    "a network a record that failed": (2000, 1, {"status": "FAIL"}),
    "a network two records": (1000, 2, {}),
    "a network four records": (500, 4, {}),
    "modes, batches and threads of some networks": (40, 6, {}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_records_of_any_shape_are_below_eight_megabytes(a_fifth, shape):
    networks, cells, fields = SHAPES[shape]
    bare = len(page([]).encode())
    size = bare + 5 * (len(page(stores.spread_out(2000, networks, cells, **fields)).encode()) - bare)
    assert size < 8e6, f"ten thousand records have {size / 1e6:.2f} MB"


def test_what_very_many_groups_leave_out_is_said(a_fifth):
    made = stores.spread_out(1100, 8, 2)[:-1]  # a single cell at the end
    made[0]["command"] += " --out elsewhere"
    made[7] |= stores.record("a b", "jax", command="xbench time 'a b' --runtime jax --rerun")
    made += [stores.record("lenet", "jax", precision="bf16", command="xbench by 'hand <b>'")]
    read = Reader(page(made))
    assert len(read.tables[0]) - 1 == len(grouped(rows(made))) - 4  # of one cell: the last, lenet, a b, whom it left
    assert "4 groups of a single cell, which has nothing to be compared with, are not in this table" in read.words
    usual = "xbench time NETWORK --runtime RUNTIME --mode MODE --batch BATCH --threads THREADS --rerun"
    assert usual in read.words and "as an option (--precision)" in read.words
    assert sorted(read.commands) == sorted([made[0]["command"], made[7]["command"]])
    assert "xbench by 'hand <b>'" in read.words and "results.jsonl" in read.words
    lines = {tuple(line[: len(formats.HEADER)]) for table in read.tables for line in table}
    assert {tuple(formats.cells(row)) for row in rows(made)} < lines
    assert "many groups for a table of their own: the number stands among the cells" in read.words


def test_very_many_networks_have_one_table(a_fifth):
    made = [*stores.spread_out(45, 45, 1), stores.record(EVIL, EVIL, status="FAIL", command=EVIL)]
    read = Reader(page(made))
    (cells,) = [table for table in read.tables if "status" in table[0]]
    headings = [line[0] for line in cells[1:] if len(line) == 1 and not line[0].startswith("Measure")]
    assert headings == [formats.title(own[0]) for own in grouped(rows(made))]
    assert "img" not in read.tags and "onerror" not in read.attributes and len(read.scripts) == 3
    matrix_lines = [line for table in read.tables for line in table[1:] if table[0][:2] == ["network", "mode"]][46:]
    assert len(matrix_lines) == len([each for each in made if each["status"] != "PASS"])
    match = re.search(r"(\d+) of 46 are left out", read.words)
    assert int(match[1]) == 46 - len(matrix_lines) > 0
    assert len(read.data["proofs"]) == len(matrix_lines)


def test_cells_that_differ_in_the_runtime_alone_have_one_command(suite):
    three = [stores.record(runtime=name, time=f"2026-11-23T18:5{at}:00Z") for at, name in enumerate(("a", "b", "c"))]
    (merged,) = commands.merged(three, {"torch"})
    assert merged == (
        "xbench time lenet --runtime a --runtime b --runtime c --mode forward --batch 1 --threads 2 --rerun",
        "2026-11-23 18:50 to 18:52",
    )
    three[2]["versions"], three[0]["versions"] = {"torch": "2"}, {"torch": "1"}
    assert [label.partition(", ")[2] for _, label in commands.merged(three, {"torch"})] == ["torch 1", "torch 2"]
    three[1]["command"] = "xbench by hand"
    assert [command for command, _ in commands.merged(three, set())][1] == "xbench by hand"


def test_the_form_of_a_command_is_that_of_most():
    made = [stores.record(runtime=name) for name in ("jax", "torch")]
    for each in made:
        each["command"] = each["command"].replace(" --rerun", " --budget 9 --rerun")
    made += [stores.record(threads=2, command=stores.record(threads=21)["command"]), stores.record("a b")]
    assert [commands.added(each) for each in made] == [" --budget 9", " --budget 9", None, None]
    assert commands.form(commands.usual(made)).endswith("--threads THREADS --budget 9 --rerun")
