"""The full cost of a cell: arithmetic and traffic, counters that wrap around, tables; and all in one real run."""

import csv
import io
import json
import math
import subprocess
import sys

import numpy as np
import onnx_ir as ir
import pytest
from fault_kit import records
from rich.console import Console

from xbench.converters import seals
from xbench.converters.write import _looked_up
from xbench.host import energy, machine, memory, usage
from xbench.reports import COLUMNS, cost, formats, roofline_plot, rows
from xbench.reports.table import show_table
from xbench.stats import roofline
from xbench.workers import machine_peaks
from xbench.workers.variables import environment

NUMBERS = {
    "peak_memory_bytes": 300 << 20,
    "peak_memory_of": "steps",
    "references_bytes": 5,
    "device_memory_bytes": None,
    "energy_j": 0.025,
    "artifact_bytes": 1_700_000,
    "parameter_bytes": 1_600_000,
    "convert_s": 2.5,
    "flop": 2e9,
    "bytes": 1e8,
    "peak_flops": 1e12,
    "bandwidth": 2e10,
}


def record(runtime: str, median: float = 0.01, status: str = "PASS", numbers: dict | None = None, **fields) -> dict:
    times = {"load_s": 1.5, "compile_s": None, "first_s": 0.25, "median_s": median, "converged": True}
    case = {"model": "lenet", "runtime": runtime, "batch": 8, "threads": 2}
    base = {"schema": 1, "key": runtime, "case": case, "status": status, "message": None, "times": times, "time": "T"}
    return {**base, "cost": numbers, **fields}


def printed(table, view, width=200):
    console = Console(file=io.StringIO(), width=width)
    show_table(table, console, view)
    return console.file.getvalue()


# ***** what a step computes and moves *****


def test_two_operations_a_multiply_accumulate_and_three_forward_passes_a_gradient():
    assert roofline.flop(1000, "forward", 4) == 8000
    assert roofline.flop(1000, "gradient", 4) == roofline.flop(1000, "step", 4) == 24000
    assert roofline.flop(None, "step", 4) is None
    assert roofline.flop(0, "forward", 4) == 0


@pytest.mark.parametrize(
    ("mode", "slots", "expected"),
    [
        ("forward", 0, (100 - 40) + 8 + 16 + 2),  # only rows of the table are read
        ("gradient", 0, (100 - 40) + 16 + 100 + 4),  # the gradient of a table is a full one
        ("step", 0, 2 * (100 - 40) + 2 * 8 + 16 + 4),
        ("step", 2, 2 * 100 + 2 * 2 * 100 + 2 * 8 + 16 + 4),  # a moment that decays is updated everywhere
    ],
)
def test_traffic_is_what_no_step_can_do_without(mode, slots, expected):
    assert roofline.traffic(mode, 100, 40, 8, slots, given=16, outputs=2) == expected


@pytest.mark.parametrize(
    ("intensity", "limit", "bound"), [(10, 200, "memory"), (50, 1000, "compute"), (500, 1000, "compute")]
)
def test_the_roof_is_the_lower_of_two(intensity, limit, bound):
    assert roofline.attainable(intensity, peak=1000, bandwidth=20) == (limit, bound)


def test_a_parameter_of_which_only_rows_are_read_is_known():
    def weight(name):
        return ir.Value(name=name, const_value=ir.tensor(np.ones((4, 3), np.float32), name=name))

    rows_only, tied, plain, index = weight("rows_only"), weight("tied"), weight("plain"), ir.Input("index")
    first = ir.node("Gather", [rows_only, index])
    second = ir.node("Gather", [tied, index])
    third = ir.node("MatMul", [second.outputs[0], tied])
    fourth = ir.node("Mul", [first.outputs[0], plain])
    graph = ir.Graph(
        [index],
        [third.outputs[0], fourth.outputs[0]],
        nodes=[first, second, third, fourth],
        initializers=[rows_only, tied, plain],
        opset_imports={"": 20},
    )
    assert _looked_up(ir.Model(graph, ir_version=10), ["rows_only", "tied", "plain", "unknown"]) == ["rows_only"]


# ***** counters *****


def zone(root, name, words, joules, end=1000):
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / "name").write_text(words + "\n")
    (root / name / "energy_uj").write_text(f"{int(joules * 1e6)}\n")
    (root / name / "max_energy_range_uj").write_text(f"{int(end * 1e6)}\n")


def tree(root, first, second):
    """Two packages, and counters they include: their cores, the platform, the same counter by another path."""
    zone(root, "intel-rapl:0", "package-0", first)
    zone(root, "intel-rapl:1", "package-1", second)
    zone(root, "intel-rapl:0:0", "core", first)
    zone(root, "intel-rapl:2", "psys", first + second)
    zone(root, "intel-rapl-mmio:0", "package-0", first)
    (root / "intel-rapl").mkdir(exist_ok=True)


def test_energy_is_that_of_all_packages_each_once_and_counters_begin_anew(tmp_path):
    tree(tmp_path, 10, 995)
    before = energy.read(tmp_path)
    assert set(before) == {"intel-rapl:0", "intel-rapl:1"}
    tree(tmp_path, 14, 1)  # the second one has wrapped at 1000 J
    assert energy.between(before, energy.read(tmp_path)) == pytest.approx(4 + 6)


def test_a_block_counts_its_energy_a_step(tmp_path):
    tree(tmp_path, 10, 20)
    begun = usage.begin("cpu", tmp_path)
    tree(tmp_path, 13, 21)
    block = usage.end(begun, 8, tmp_path)
    assert usage.total([block])["energy_j"] == pytest.approx(0.5)
    assert usage.total([block, {**block, "joules": 0.0, "steps": 2}])["energy_j"] == pytest.approx(0.4)


def test_without_a_counter_energy_is_unknown_and_never_zero(tmp_path):
    assert energy.read(tmp_path / "none") == {}
    assert energy.between({}, {}) is None
    tree(tmp_path, 10, 20)
    still = usage.end(usage.begin("cpu", tmp_path), 8, tmp_path)
    assert still["joules"] == 0
    assert usage.total([still])["energy_j"] is None, (
        "a counter that stands still, as in a virtual machine, counts nothing"
    )
    before = energy.read(tmp_path)
    (tmp_path / "intel-rapl:1/energy_uj").write_text("not a number")
    assert energy.read(tmp_path) == {}, "half of a machine is not the machine"
    assert energy.between(before, {}) is None
    unknown = {**still, "joules": None}
    assert usage.total([still, unknown])["energy_j"] is None
    assert usage.total([]) == {"peak_bytes": None, "peak_memory_of": "process", "energy_j": None}


def test_the_peak_is_that_of_the_steps_alone_or_says_that_it_is_not():
    blocks = [{"steps": 1, "joules": None, "peak_bytes": size, "of_steps": True} for size in (5, 9, 7)]
    assert usage.total(blocks)["peak_bytes"] == 9
    assert usage.total(blocks)["peak_memory_of"] == "steps"
    blocks[1]["of_steps"] = False
    assert usage.total(blocks)["peak_memory_of"] == "process"


GIVEN_BACK = """
import numpy as np
from pathlib import Path
from xbench.host.memory import give_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

held = [np.ones(12_500) for _ in range(2000)]  # 200 MB
last = np.ones(12_500)
del held
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_what_the_proof_took_is_given_back():
    answer = subprocess.run(
        [sys.executable, "-c", GIVEN_BACK], capture_output=True, text=True, env=environment("cpu", 1)
    )
    assert int(answer.stdout) > 150e6, answer.stderr


MEASURED = """
import json, subprocess, sys
import numpy as np
from xbench.host.memory import forget_peak, peak
def held(size):
    array = np.ones(size << 20, np.uint8)
    del array
held(200)
begun = forget_peak()
low = peak()
held(100)
high = peak()
hold = "import numpy as np, sys; a = np.ones(150 << 20, np.uint8); print(flush=True); sys.stdin.read()"
child = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
both = peak()
child.communicate()
print(json.dumps([begun, low, high, both]))
"""


def test_the_peak_begins_anew_and_has_what_the_process_started_in_it():
    answer = subprocess.run(
        [sys.executable, "-P", "-c", MEASURED], capture_output=True, text=True, check=True, start_new_session=True
    )
    begun, low, high, both = (size if isinstance(size, bool) else size >> 20 for size in json.loads(answer.stdout))
    if begun:
        assert low < 150 and low + 80 < high < low + 150
    else:
        assert low >= 200
    assert both >= high + 140


# ***** this machine *****


class Probed(Exception):
    """The machine was about to be probed."""


def probed(words):
    raise Probed(words)


def kept_peaks(folder, peaks):
    name = machine_peaks.digest(machine_peaks._facts("cpu", 1))
    place = folder / "peaks" / f"{name}.json"
    place.parent.mkdir()
    seals.keep(place, name, peaks)
    return place


def test_peaks_are_probed_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XBENCH_CACHE", str(tmp_path))
    kept_peaks(tmp_path, {"flops": 1e9, "bandwidth": 2e9})
    assert machine_peaks.measured("cpu", 1, tmp_path, pytest.fail) == {"flops": 1e9, "bandwidth": 2e9}
    assert machine_peaks._facts("cpu", 1) != machine_peaks._facts("cpu", 2)


@pytest.mark.parametrize(
    "found", [[], {"flops": 1e9}, *({"flops": n, "bandwidth": 1.0} for n in (0.0, math.nan, -1.0, "1", None))]
)
def test_peaks_that_are_none_are_probed_again(tmp_path, monkeypatch, found):
    monkeypatch.setenv("XBENCH_CACHE", str(tmp_path))
    kept_peaks(tmp_path, found)
    with pytest.raises(Probed):
        machine_peaks.measured("cpu", 1, tmp_path, probed)


def test_peaks_that_were_changed_are_probed_again(tmp_path, monkeypatch):
    """They are rates that no machine reaches: a runtime would be called a cheat."""
    monkeypatch.setenv("XBENCH_CACHE", str(tmp_path))
    place = kept_peaks(tmp_path, {"flops": 1e9, "bandwidth": 2e9})
    place.write_text(place.read_text().replace("1000000000.0", "1.0"))
    with pytest.raises(Probed), pytest.warns(seals.Damaged):
        machine_peaks.measured("cpu", 1, tmp_path, probed)


@pytest.mark.parametrize(("last", "size"), [("32768K", 128 << 20), ("1024K", 64 << 20), ("491520K", 256 << 20)])
def test_what_is_copied_fits_into_no_cache_as_far_as_time_allows(tmp_path, last, size):
    for index, words in enumerate(("48K", last)):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}/size").write_text(words + "\n")
    assert machine_peaks._copied(8 << 30, tmp_path) == size
    assert machine_peaks._copied(80 << 20, tmp_path) == 10 << 20, "a machine that is full"


# ***** rows and tables *****


def test_rows_place_a_cell_under_the_roofline():
    (row,) = rows([record("fast", 0.01, numbers=NUMBERS)])
    assert tuple(row) == COLUMNS
    assert (row["flops"], row["bytes_per_s"], row["intensity"]) == pytest.approx((2e11, 1e10, 20.0))
    assert (row["share_of_peak"], row["share_of_attainable"]) == pytest.approx((0.2, 0.5))  # 20 FLOP a byte: 4e11
    assert row["bound_by"] == "memory"


def test_a_cell_that_is_faster_than_the_probe_says_so():
    (row,) = rows([record("fast", 0.001, numbers=NUMBERS)])
    assert row["share_of_peak"] == pytest.approx(2)
    text = printed([row], cost.ROOFLINE)
    assert "200 %" in text and "peak 1000 GFLOP/s, copy 20.0 GB/s" in text and "a better kernel may exceed" in text


@pytest.mark.parametrize("view", [cost.COST, cost.ROOFLINE])
def test_only_what_is_ranked_shows_numbers(view):
    table = rows([record("good", numbers=NUMBERS), record("bad", 1e-6, "FAIL", NUMBERS, message="wrong")])
    assert [row["flops"] is None for row in table] == [False, True]
    line = next(line for line in formats.to_markdown(table, view).splitlines() if line.startswith("| bad"))
    assert [cell.strip() for cell in line.split("|")[3:-2]] == [""] * (len(view.header) - 2)


@pytest.mark.parametrize("view", [cost.COST, cost.ROOFLINE])
@pytest.mark.parametrize(
    "found",
    [None, {}, {name: None for name in NUMBERS}, {name: "x" for name in NUMBERS}, {name: True for name in NUMBERS},
     {**NUMBERS, "flop": 0, "energy_j": 0.0, "bandwidth": math.nan}, {**NUMBERS, "bytes": -1}],
)  # fmt: skip
def test_records_without_a_cost_or_with_a_strange_one_are_shown(view, found):
    given = record("old", numbers=found)
    if found is None:
        del given["cost"]
    (row,) = rows([given])
    assert row["share_of_attainable"] is None and row["ratio"] == 1
    json.loads(formats.to_json([row]), parse_constant=pytest.fail)
    assert "old" in printed([row], view) and "old" in formats.to_markdown([row], view)


def test_energy_that_was_not_counted_is_not_available_and_never_zero():
    counted, unknown = rows([record("a", numbers=NUMBERS)]), rows([record("a", numbers={**NUMBERS, "energy_j": None})])
    assert "25.0 mJ" in printed(counted, cost.COST) and "n/a" not in printed(counted, cost.COST)
    assert "n/a" in printed(unknown, cost.COST) and "no energy counter" in printed(unknown, cost.COST)
    assert [cost.joules(each) for each in (None, 2e-5, 0.0123, 4.0)] == ["n/a", "20 µJ", "12.3 mJ", "4.00 J"]


def test_memory_is_told_by_host_and_device_and_of_what():
    def shown(**more):
        return printed(rows([record("a", numbers={**NUMBERS, **more})]), cost.COST)

    assert "300 MiB" in shown() and "(process)" not in shown()
    assert "300 MiB, device 2.00 GiB" in shown(device_memory_bytes=2 << 30)
    assert shown(peak_memory_of="process").count("(process)") == 2  # and what it means
    assert [cost.size(each) for each in (None, 12, 5000, 5 << 20, 3 << 30)] == [
        "",
        "12 B",
        "4.88 KiB",
        "5.00 MiB",
        "3.00 GiB",
    ]


def test_a_narrow_terminal_hides_what_can_be_spared():
    text = printed(rows([record("fast", numbers=NUMBERS)]), cost.COST, width=80)
    assert "not shown for want of width: artifact" in text and "peak memory" in text
    assert max(map(len, text.splitlines()[:3])) <= 80


def test_what_can_be_printed_of_a_real_run(shell, lenet):
    words = ("--budget", "0.1", "--batch", 2, "--mode", "forward", "--mode", "step", "--threads", 1)
    answer = shell.run("time", "lenet", *words, "--runtime", "onnxruntime", "--runtime", "torch")
    assert answer.returncode == 0, answer.stderr
    stored = [each["cost"] for each in records(shell.folder / "xbench-results")]
    shown = json.loads(shell.run("show", "--json").stdout, parse_constant=pytest.fail)
    assert len(shown) == len(stored) == 4
    available = machine.describe()["memory_bytes"]
    for row in shown:
        assert 0 < row["parameter_bytes"] <= row["artifact_bytes"] < row["peak_memory_bytes"] < available
        assert row["parameter_bytes"] == 4 * 431_080
        assert row["flop"] == (2 if row["mode"] == "forward" else 6) * 2_293_000 * 2
        assert row["bytes"] > (1 if row["mode"] == "forward" else 4) * row["parameter_bytes"]  # momentum is one slot
        assert row["flops"] == pytest.approx(row["flop"] / row["median_s"])
        assert 1e8 < row["peak_flops"] < 1e15 and 1e8 < row["bandwidth"] < 1e13
        assert 0 < row["share_of_peak"] <= row["share_of_attainable"] * (1 + 1e-9) and row["convert_s"] > 0
        assert row["energy_j"] is None or 0 < row["energy_j"] < 1000
    assert {each["peak_memory_of"] for each in stored} == {"steps" if memory.forget_peak() else "process"}
    costs, places = shell.run("show", "--cost", "--markdown").stdout, shell.run("show", "--roofline").stdout
    assert costs.count(" MiB |") == 8 and "peak memory" in costs
    assert places.count("\nonnxruntime  ") == 2 and "peak " in places and "of attainable" in places
    assert "nan" not in costs + places and "inf" not in costs + places
    (header, *lines) = csv.reader(io.StringIO(shell.run("show", "--csv").stdout))
    assert "share_of_attainable" in header and len(lines) == 4


def test_two_tables_at_once_are_refused_in_one_line(shell):
    for words in (("--cost", "--roofline"), ("--cost", "--json"), ("--roofline", "--csv")):
        answer = shell.run("show", *words)
        assert answer.returncode == 2 and "give one of them" in answer.stderr and len(answer.stderr.splitlines()) == 1


def test_the_picture_has_the_cells_that_have_a_place(shell):
    pytest.importorskip("matplotlib")
    stored = [record("a", numbers=NUMBERS), record("b", 0.02, numbers={**NUMBERS, "peak_flops": 2e12}), record("old")]
    store = shell.folder / "xbench-results"
    store.mkdir()
    (store / "results.jsonl").write_text("".join(json.dumps(each) + "\n" for each in stored))
    assert [row["runtime"] for row in roofline_plot.points(rows(stored))] == ["a", "b"]
    answer = shell.run("show", "--plot", "roofs.png")
    assert answer.returncode == 0 and "drawn in roofs.png" in answer.stderr, answer.stderr
    assert (shell.folder / "roofs.png").read_bytes().startswith(b"\x89PNG") and "old" in answer.stdout
    for words, line in (
        (("--plot", "roofs.txt"), "must end with one of .png"),
        (("--plot", "none/roofs.png"), "cannot write none/roofs.png"),
        (("--plot", "roofs.png", "--runtime", "old"), "nothing to plot"),
    ):
        answer = shell.run("show", *words)
        assert answer.returncode == 2 and line in answer.stderr and "Traceback" not in answer.stderr


def pieces(number, **more):
    piece = {"steps": 2, "seconds": 0.5, "joules": 10.0, "device_bytes": None}
    return [{**piece, "peak_bytes": place, **more} for place in range(number)]


def test_a_long_training_is_told_in_few_pieces_that_add_up():
    thin = usage.thinned(pieces(4 * usage.PIECES + 1))
    assert usage.PIECES / 2 < len(thin) <= usage.PIECES
    assert sum(each["steps"] for each in thin) == 2 * (4 * usage.PIECES + 1)
    assert sum(each["joules"] for each in thin) == pytest.approx(10 * (4 * usage.PIECES + 1))
    assert thin[-1]["peak_bytes"] == 4 * usage.PIECES and thin[0]["device_bytes"] is None
    assert usage.thinned(pieces(usage.PIECES)) == pieces(usage.PIECES)


def test_mean_power_is_without_the_first_two_and_the_last_two_pieces():
    parts = pieces(6)
    for place in (0, 1, 4, 5):
        parts[place]["joules"] = 1000.0
    assert usage.watts(parts) == pytest.approx(20.0)
    assert usage.watts(parts[:1]) == pytest.approx(2000.0), "of a few pieces all count"
    assert usage.watts(pieces(6, joules=None)) is None and usage.watts([]) is None


def test_a_counter_that_stands_still_counts_nothing_of_a_training(tmp_path):
    tree(tmp_path, 10, 20)
    still = usage.end(usage.begin("cpu", tmp_path), 8, tmp_path)
    assert usage.piece(still, 0.5)["joules"] is None
