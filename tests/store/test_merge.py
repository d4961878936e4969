"""Stores of other machines, of older formats, and with damaged lines: readable records are kept, the rest reported."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from xbench.cli import app
from xbench.reports import COLUMNS, rows
from xbench.store.comparison import compare
from xbench.store.merge import merge
from xbench.store.results import FILE, StoreError, open_store, read, salvage
from xbench.store.schema import VERSION, migrated

HERE, THERE = {"cpu": "Fast & Co", "cpus": 8}, {"cpu": "Old <chip>", "cpus": 1}


def record(runtime: str, median: float = 0.01, when: str = "2026-01-02T00:00:00Z", **fields: object) -> dict:
    blocks = [{"round": number, "process": 0, "samples": [median]} for number in range(6)]
    times = {"median_s": median, "low_s": median, "high_s": median, "converged": True, "blocks": blocks}
    case = {"model": "lenet", "runtime": runtime}
    base = {"key": f"key of {runtime}", "case": case, "status": "PASS", "message": None, "machine": HERE, "time": when}
    return {**base, "times": times, **fields}


def store(folder: Path, *records: dict, file: str = FILE) -> Path:
    open_store(folder, file).append(*records)
    return folder


def shown(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*map(str, words)])
    return result.exit_code, result.stdout, result.stderr


def test_machines_are_never_ranked_together_and_each_can_be_shown_alone(tmp_path):
    store(tmp_path / "here", record("torch", 0.01), record("jax", 0.02))
    there = store(tmp_path / "there", record("torch", 0.001, machine=THERE), record("jax", 0.004, machine=THERE))
    code, output, _ = shown("import", there, "--out", tmp_path / "here", "--as", "laptop")
    assert code == 0 and output.strip() == f"{FILE}: 2 added (laptop)"
    table = rows(read(tmp_path / "here" / FILE))
    ratios = {(row["machine"], row["runtime"]): row["ratio"] for row in table}
    assert ratios == pytest.approx(
        {
            ("Fast & Co, 8 CPUs", "torch"): 1,
            ("Fast & Co, 8 CPUs", "jax"): 2,
            ("laptop", "torch"): 1,
            ("laptop", "jax"): 4,
        }
    )
    titles = [line for line in shown("show", "--out", tmp_path / "here")[1].splitlines() if line.startswith("lenet")]
    assert [title.rpartition("thread, ")[2] for title in titles] == ["Fast & Co, 8 CPUs", "laptop"]
    _, alone, _ = shown("show", "--out", tmp_path / "here", "--machine", "LAP", "--json")
    assert {row["machine"] for row in json.loads(alone)} == {"laptop"}
    _, nothing, complaint = shown("show", "--out", tmp_path / "here", "--machine", "tower")
    assert (
        not nothing.strip() and "no machine 'tower' among the results; there is: Fast & Co, 8 CPUs; laptop" in complaint
    )


def test_one_machine_is_not_named_in_every_title(tmp_path):
    store(tmp_path, record("torch"))
    assert "lenet forward, batch 1, cpu, 1 thread\n" in shown("show", "--out", tmp_path)[1]


def test_the_same_import_again_adds_nothing_and_the_order_of_folders_is_no_matter(tmp_path):
    old = store(tmp_path / "old", record("torch", 0.03, "2026-01-01T00:00:00Z"))
    new = store(tmp_path / "new", record("torch", 0.01, "2026-01-02T00:00:00Z"))
    (merged,) = merge([new, old], tmp_path / "out")
    assert (merged.added, merged.known, merged.older) == (2, 0, 0)
    (row,) = rows(read(tmp_path / "out" / FILE))
    assert row["median_s"] == 0.01
    (merged,) = merge([old, new], tmp_path / "out")
    assert (merged.added, merged.known, merged.older) == (0, 2, 0)
    assert len(read(tmp_path / "out" / FILE)) == 2


def test_an_older_record_of_a_cell_does_not_replace_the_newer_one(tmp_path):
    out = store(tmp_path / "out", record("torch", 0.01, "2026-02-01T00:00:00Z"))
    old = store(tmp_path / "old", record("torch", 0.03, key="older version"), record("jax", 0.02))
    (merged,) = merge([old], out)
    assert (merged.added, merged.older) == (1, 1)
    assert {row["runtime"]: row["median_s"] for row in rows(read(out / FILE))} == {"torch": 0.01, "jax": 0.02}


def test_a_named_machine_has_keys_of_its_own_so_that_its_cells_are_still_measured_here(tmp_path):
    source = store(tmp_path / "source", record("torch"))
    merge([source], tmp_path / "out", "laptop")
    (stored,) = read(tmp_path / "out" / FILE)
    assert stored["key"] != "key of torch" and stored["machine"] == HERE | {"name": "laptop"}


def test_every_kind_of_measurement_is_merged(tmp_path):
    source = store(tmp_path / "source", record("torch"))
    store(source, record("torch", load={}), file="load.jsonl")
    code, output, _ = shown("import", source, "--out", tmp_path / "out", "--json")
    assert code == 0
    assert [(each["file"], each["added"], each["known"], each["older"]) for each in json.loads(output)] == [
        ("load.jsonl", 1, 0, 0),
        (FILE, 1, 0, 0),
    ]


def test_damaged_lines_are_skipped_counted_and_named(tmp_path):
    source = store(tmp_path / "source", record("torch"), record("jax"))
    path = source / FILE
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"{broken", b'{"schema": 5, "key": 7}', lines[1], b""]))
    readable, problems = salvage(path)
    assert len(readable) == 2 and ["line 2" in problems[0], "line 3" in problems[1]] == [True, True]
    code, output, errors = shown("import", source, "--out", tmp_path / "out")
    assert code == 0 and "2 added, 2 not readable" in output and errors.count("xbench: skipped ") == 2
    code, output, errors = shown("show", "--out", source, "--json")
    assert code == 0 and len(json.loads(output)) == 2 and errors.count("xbench: skipped ") == 2


DAMAGE = {
    "a time that is text": {"times": {"median_s": "fast"}},
    "a time below zero": {"times": {"median_s": -1.0}},
    "a time that is true": {"times": {"median_s": True}},
    "samples that are text": {"times": {"median_s": 1.0, "blocks": [{"round": 0, "samples": ["x"]}]}},
    "a block without samples": {"times": {"median_s": 1.0, "blocks": [{"round": 0}]}},
    "blocks that are a number": {"times": {"median_s": 1.0, "blocks": 3}},
    "a machine that is text": {"machine": "mine"},
    "parity that is a list": {"parity": []},
    "a message that is a number": {"message": 3},
    "a batch that is text": {"case": {"model": "lenet", "runtime": "torch", "batch": "big"}},
    "a batch that is true": {"case": {"model": "lenet", "runtime": "torch", "batch": True}},
    "a case with a word too many": {"case": {"model": "lenet", "runtime": "torch", "weather": "fine"}},
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_reports_would_stumble_over_is_no_record(tmp_path, damage):
    line = {"schema": VERSION, **record("torch"), **damage}
    (tmp_path / FILE).write_text(json.dumps(line) + "\n")
    readable, problems = salvage(tmp_path / FILE)
    assert not readable and "line 1" in problems[0] and "\n" not in problems[0]


def test_a_newer_store_is_refused_whole(tmp_path):
    source = store(tmp_path / "source", record("torch"))
    with (source / FILE).open("a") as file:
        file.write(json.dumps({"schema": VERSION + 1, **record("jax")}) + "\n")
    with pytest.raises(StoreError, match="newer xbench"):
        salvage(source / FILE)
    with pytest.raises(StoreError, match="newer xbench"):
        merge([source], tmp_path / "out")
    assert not (tmp_path / "out").exists()


OLD = {
    1: {"key": "k", "case": {"model": "lenet", "runtime": "torch"}, "status": "PASS"},
    2: {"contracts": [], "audit": {}},
    3: {"cost": {}},
    4: {"tuning": {}},
}


@pytest.mark.parametrize("schema", OLD)
def test_older_formats_are_read_as_todays(tmp_path, schema):
    """Each as its xbench wrote it: 1 and 2 had the warm-up in `times`, and blocks of one process."""
    times = {"load_s": 2.0, "compile_s": None, "first_s": 0.5, "median_s": 0.1, "low_s": 0.1, "high_s": 0.1}
    blocks = [{"round": number, "samples": [0.1, 0.1]} for number in range(3)]
    times |= {"warmup": [0.3, 0.2], "converged": True}
    if schema > 2:
        blocks = [each | {"process": 0, "lead": [], "health": {}, "disturbed": None} for each in blocks]
        first = {"load_s": 2.0, "compile_s": None, "first_s": 0.5, "warmup": [0.3, 0.2], "steady_from": None}
        times = {name: value for name, value in times.items() if name != "warmup"} | {"processes": [first]}
    line = {"schema": schema, "times": times | {"blocks": blocks}}
    for version in range(1, schema + 1):
        line |= OLD[version]
    (tmp_path / FILE).write_text(json.dumps(line) + "\n")
    ((upgraded,), problems) = salvage(tmp_path / FILE)
    assert not problems and upgraded["schema"] == VERSION
    assert upgraded["contracts"] == ([] if schema > 1 else None) and upgraded["cost"] == ({} if schema > 2 else None)
    assert upgraded["tuning"] == ({} if schema > 3 else None) and upgraded["times"]["anew_s"] is None
    (process,) = upgraded["times"]["processes"]
    assert process["warmup"] == [0.3, 0.2] and process["proof_s"] is None
    assert all(block["process"] == 0 and block["disturbed"] is None for block in upgraded["times"]["blocks"])
    (row,) = rows([upgraded])
    assert row["median_s"] == 0.1 and row["machine"] == "unknown machine" and tuple(row) == COLUMNS


def test_a_record_of_today_is_not_changed():
    today = {"schema": VERSION, **record("torch")}
    assert migrated(dict(today)) == today


def test_cells_of_several_machines_are_compared_each_with_itself():
    here, there = record("torch", 0.01), record("torch", 0.10, machine=THERE)
    slower = record("torch", 0.05, machine=THERE)
    changes = {change.machine: (change.verdict, change.ratio) for change in compare([here, there], [slower, here])}
    assert changes["Fast & Co, 8 CPUs"][0] == "same" and changes["Fast & Co, 8 CPUs"][1].value == pytest.approx(1)
    assert changes["Old <chip>, 1 CPU"][1].value == pytest.approx(0.5)
    (alone,) = compare([here], [there])
    assert alone.verdict == "other machine" and alone.ratio is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere"], "no results in nowhere"),
        (["."], "is the folder that is written"),
        ([".", "--as", " "], "--as needs a name"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    store(tmp_path, record("torch"))
    result = CliRunner().invoke(app, ["import", *words, "--out", "."])
    assert says in str(result.exception) and "\n" not in str(result.exception)
