"""Output for pipelines: a job summary, annotations, CSV and Parquet equal to JSON, a workflow that runs."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import test_compare
import typer
from fault_kit import only_line, write_two_outputs
from places import ROOT
from test_reports import STORE, record
from typer.testing import CliRunner

from xbench.cli import app
from xbench.cli.terminal.form import SUMMARY
from xbench.reports import COLUMNS, github, rows
from xbench.store.command import VERSION
from xbench.store.comparison import compare
from xbench.store.results import FILE

WORKFLOW = ROOT / "examples/ci/xbench.yml"
NASTY = "a|b <script> [x](http://y) *_`~\\ @someone"
SHOWN = "a\\|b &lt;script&gt; \\[x\\]\\(http&#58;//y) \\*\\_\\`\\~\\\\ &#64;someone"


def store(folder, records):
    folder.mkdir(parents=True)
    (folder / FILE).write_text("".join(json.dumps(each) + "\n" for each in records))
    return str(folder)


@pytest.fixture
def run(monkeypatch):
    """The command line in this process, outside every job of GitHub's."""
    monkeypatch.delenv(SUMMARY, raising=False)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def stores(tmp_path, factor, **new):
    """Two stores of three runs; the second is slower by a factor, and its last cell differs."""
    runs = range(3)
    old = [test_compare.record(0.010 + n * 1e-6, batch=batch) for n in runs for batch in (1, 2)]
    later = [test_compare.record(factor * (0.010 + n * 1e-6), batch=1) for n in runs]
    later += [test_compare.record(0.010 + n * 1e-6, batch=2, **new) for n in runs]
    return store(tmp_path / "old", old), store(tmp_path / "new", later)


# ***** GitHub *****


def test_the_summary_begins_with_the_verdict_and_names_what_failed(run, tmp_path):
    done = run("show", "--out", store(tmp_path / "s", STORE), "--format", "github")
    annotation, *page = done.stdout.splitlines()
    assert done.exit_code == 0
    message = "Relu_3 is 40 %25 off | at [0] see log"
    assert annotation == f"::error title=lenet forward on cheat%3A FAIL::{message}"
    assert page[0] == "### ❌ FAIL: xbench show: 1 cell of 6 failed, 4 passed, 1 not supported"
    assert "#### lenet forward, batch 8, cpu, 2 threads" in page and "<details>" not in done.stdout
    (cheat,) = (line for line in page if line.startswith("| cheat"))
    assert cheat.startswith("| cheat | ❌ FAIL wrong |  |  |") and "Relu_3 is 40 % off \\| at \\[0\\] see log" in cheat
    assert any(line.startswith("| jax | ✅ PASS fp32 | 10.0 ms |") for line in page)
    assert any(line.startswith("| openvino | ➖ UNSUPPORTED |") for line in page)


def test_what_passes_has_no_annotation(run, tmp_path):
    done = run("show", "--out", store(tmp_path / "s", [STORE[0]]), "--format", "github")
    assert done.stdout.startswith("### ✅ PASS: xbench show: 1 cell passed\n") and "::error" not in done.stdout
    nothing = github.times(rows([STORE[4]]))
    assert nothing[0].startswith("### ⚠️ NOTHING: xbench show: no cell has a result, 1 not supported") and not nothing[1]


def test_many_tables_are_folded_but_those_that_failed():
    listed = rows([record("torch", batch=n) for n in range(1, 6)] + [record("jax", status="CRASH", batch=6)])
    page, annotations = github.times(listed)
    assert page.count("<details><summary>") == page.count("</details>") == 5 and len(annotations) == 1
    assert "#### lenet forward, batch 6" in page and "<summary>lenet forward, batch 5" in page
    for table in re.findall(r"</summary>\n(.*?)</details>", page, re.DOTALL):
        assert table.startswith("\n|") and table.endswith("|\n\n")  # GitHub reads a table only after an empty line


def test_names_are_shown_as_they_are_written():
    page, annotations = github.times(
        rows([record("torch", status="FAIL", model=NASTY, message=NASTY + "\n::warning::x")])
    )
    assert page.count(SHOWN) == 2 and "<script>" not in page and "[x](" not in page
    (line,) = annotations
    assert "\n" not in line and line.startswith("::error title=a|b <script> [x](http%3A//y) ")


def test_commands_are_escaped_as_github_says():
    assert github.annotation("a: 5 %, b", "x: 5 %, y\r\nz") == "::error title=a%3A 5 %25%2C b::x: 5 %25, y%0D%0Az"


def test_no_more_annotations_than_github_shows():
    lines = github.annotations([(f"cell {n}", "") for n in range(25)])
    assert len(lines) == github.ANNOTATIONS and "16 more failures" in lines[-1] and "cell 8" in lines[-2]
    assert len(github.annotations([("cell", "")] * 10)) == 10 and github.annotations([]) == []


def test_a_page_is_no_larger_than_github_shows():
    table = rows([record("torch", model=f"{n}" + "x" * 9000) for n in range(200)])
    page, _ = github.times(table)
    assert len(page.encode()) <= 1024 * 1024 and re.search(r"\n\d+ tables are left out", page)


def test_the_summary_of_a_job_is_appended_to(run, tmp_path, monkeypatch):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv(SUMMARY, str(path))
    done = run("show", "--out", store(tmp_path / "s", STORE), "--format", "github")
    assert done.stdout.startswith("::error") and len(done.stdout.splitlines()) == 1
    assert path.read_text().startswith("before\n### ❌ FAIL")
    monkeypatch.setenv(SUMMARY, str(tmp_path / "no/such/folder"))
    assert "which $GITHUB_STEP_SUMMARY names" in str(
        run("show", "--out", tmp_path / "s", "--format", "github").exception
    )


@pytest.mark.parametrize(("factor", "code", "sign"), [(1.2, 1, "❌ FAIL"), (1.0, 0, "✅ PASS")])
def test_a_regression_is_an_annotation_and_an_exit_code(run, tmp_path, factor, code, sign):
    done = run("compare", *stores(tmp_path, factor), "--fail-on", "3%", "--format", "github")
    assert done.exit_code == code
    page = [line for line in done.stdout.splitlines() if not line.startswith("::error")]
    assert page[0].startswith(f"### {sign}: xbench compare: {'1 cell' if code else 'no cell'} slower by 3 %")
    annotations = re.findall(
        r"^::error title=lenet forward batch 1%2C torch.*%3A slower::new / old is 1.2", done.stdout, re.M
    )
    assert len(annotations) == code and ("🔺 slower" in done.stdout) == bool(code)


def test_a_cell_that_no_longer_passes_says_why(run, tmp_path):
    done = run("compare", *stores(tmp_path, 1.0, status="FAIL"), "--fail-on", "3%", "--format", "github")
    assert done.exit_code == 1
    assert re.search(r"^::error title=lenet forward batch 2.*%3A lost::FAIL lost its way$", done.stdout, re.M)


def test_without_a_limit_a_comparison_has_no_verdict(tmp_path):
    old, new = ([test_compare.record(t)] * 3 for t in (0.01, 0.02))
    page, annotations = github.compared(compare(old, new), None)
    assert annotations == [] and not re.match("### [✅❌]", page)


def checked(runtime, status, message=None):
    parity = {"class": "fp32", "worst_tensor": "y", "ratio": 1.2, "steps": 0}
    return {"model": "net", "runtime": runtime, "mode": "forward", "status": status, "message": message, **parity}


def test_a_parity_check_is_a_page():
    page, annotations = github.checks([checked("torch", "PASS"), checked("jax", "FAIL", "y is 5 x noise")])
    assert page.startswith("### ❌ FAIL: xbench check: 1 cell of 2 failed, 1 passed\n")
    assert "| jax | forward | ❌ FAIL fp32 | 1.20 | y | y is 5 x noise |" in page
    assert annotations == ["::error title=net forward on jax%3A FAIL::y is 5 x noise"]


# ***** the word *****


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("show", "--format", "jsn"), "unknown format 'jsn': did you mean json?"),
        (("show", "--format", "csv", "--json"), "--format csv and --json contradict each other: give one of them"),
        (("show", "--format", "parquet"), "--format parquet is no text: say where it goes with --output FILE"),
        (("show", "--output", "rows"), "--output is for json, csv, markdown and parquet, not for table"),
        (
            ("show", "--format", "parquet", "--output", "x", "--cost"),
            "--json, --csv and parquet hold the columns of both",
        ),
        (("compare", ".", ".", "--format", "parquet"), "unknown format 'parquet'"),
        (("check", "lenet", "--format", "csv"), "unknown format 'csv'"),
        (("time", "lenet", "--format", "github", "--json"), "contradict each other"),
    ],
)
def test_a_word_that_cannot_be_meant_is_one_line(shell, words, line):
    answer = shell.inside(*words)
    assert answer.returncode == 2 and line in only_line(answer.stderr)


@pytest.mark.parametrize("form", ["json", "csv", "markdown"])
def test_the_short_forms_are_the_long_ones(run, tmp_path, form):
    out = store(tmp_path / "s", STORE)
    output = run("show", "--out", out, f"--{form}").stdout
    assert run("show", "--out", out, "--format", form).stdout == output
    assert run("show", "--out", out, "--format", form, f"--{form}").stdout == output
    run("show", "--out", out, "--format", form, "--output", tmp_path / "file")
    assert (tmp_path / "file").read_text() == output != ""


def test_a_comparison_as_csv_says_what_json_says(run, tmp_path):
    sides = stores(tmp_path, 1.2)
    changes = json.loads(run("compare", *sides, "--json").stdout)
    read = list(csv.DictReader(run("compare", *sides, "--format", "csv").stdout.splitlines()))
    for plain, row in zip(changes, read, strict=True):
        expected = plain | {"versions": json.dumps(plain["versions"])}
        assert row == {name: "" if value is None else str(value) for name, value in expected.items()}


# ***** Parquet *****


def test_parquet_holds_the_rows_in_their_types(run, tmp_path):
    pyarrow = pytest.importorskip("pyarrow.parquet")
    costs = {"peak_memory_bytes": 2**40, "flop": 10**12, "bytes": 4, "peak_flops": 1e11, "bandwidth": 1e10}
    costs |= {"artifact_bytes": 5, "parameter_bytes": 4, "convert_s": 0.5, "peak_memory_of": "steps"}
    out = store(tmp_path / "s", [*STORE, record("onnxruntime", 0.011, cost=costs)])
    path = tmp_path / "rows.parquet"
    done = run("show", "--out", out, "--format", "parquet", "--output", path)
    assert done.exit_code == 0 and done.stdout == ""
    table = pyarrow.read_table(path)
    records = json.loads(run("show", "--out", out, "--json").stdout)
    assert json.dumps(table.to_pylist()) == json.dumps(records) and table.column_names == list(COLUMNS)
    types = {name: str(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)}
    assert (types["flop"], types["converged"], types["median_s"], types["status"]) == (
        "int64",
        "bool",
        "double",
        "string",
    )
    assert table.schema.metadata[b"xbench"] == VERSION.encode()


def test_parquet_without_pyarrow_says_what_installs_it(shell, tmp_path):
    (shell.folder / "pyarrow").mkdir()
    (shell.folder / "pyarrow/__init__.py").write_text("raise ImportError('not here')")
    out = store(tmp_path / "s", STORE)
    paths = os.pathsep.join([str(shell.folder), os.environ.get("PYTHONPATH", "")])
    answer = shell.run("show", "--out", out, "--format", "parquet", "--output", "x", PYTHONPATH=paths)
    assert answer.returncode == 2 and "pip install 'xbench[parquet]'" in only_line(answer.stderr)


# ***** the workflow *****


@pytest.fixture
def workflow():
    return pytest.importorskip("yaml").safe_load(WORKFLOW.read_text())


def steps(workflow):
    (job,) = workflow["jobs"].values()
    return job["steps"]


def test_every_command_of_the_workflow_is_one(workflow):
    assert workflow[True] == "pull_request"  # YAML 1.1 reads `on` as true, GitHub does not
    group, seen = typer.main.get_command(app), []
    values = {name: str(value) for name, value in workflow["env"].items()} | {"side": "head"}
    for line in "\n".join(step.get("run", "") for step in steps(workflow)).splitlines():
        if "bin/xbench " not in line:
            continue
        text = re.sub(r"\$(\w+)", lambda name: values[name[1]], line.partition("bin/xbench ")[2].rstrip(") "))
        name, *words = shlex.split(text)
        context = typer.Context(group)
        group.get_command(context, name).make_context(name, words)  # raises if an option does not exist
        seen.append(name)
    assert sorted(seen) == ["check", "compare", "doctor", "report", "show", "show", "time"]


def test_the_workflow_gates_on_parity_and_on_three_per_cent(workflow):
    gates = " ".join(step.get("run", "") for step in steps(workflow) if "if" not in step)
    assert "xbench check" in gates and "--fail-on 3%" in gates and gates.count("--format github") == 2
    assert int(workflow["env"]["RUNS"]) >= 3 and workflow["permissions"] == {"contents": "read"}


def test_the_steps_of_the_workflow_run(workflow, tmp_path, faults):
    """Both sides are this xbench. Times depend on the machine, so the second gate may pass or fail."""
    for side in ("base", "head"):
        folder = tmp_path / f"env-{side}/bin"
        folder.mkdir(parents=True)
        (tmp_path / side).mkdir()
        write_two_outputs(tmp_path / side / "two.onnx")
        script = f'#!/bin/sh\nexec {sys.executable} -P -c "from xbench.cli import main; main()" "$@"\n'
        (folder / "xbench").write_text(script)
        (folder / "xbench").chmod(0o755)
    variables = {name: str(value) for name, value in workflow["env"].items()}
    variables |= {
        "MODEL": "two.onnx",
        "RUNTIMES": "null:seconds=0.004",
        "RUNS": "1",
        "BUDGET": "0.1",
        SUMMARY: str(tmp_path / "summary.md"),
    }
    ran = [step for step in steps(workflow) if "run" in step and not step["name"].startswith("Install")]
    codes = {}
    for step in ran:
        where = tmp_path / step.get("working-directory", ".")
        command = ["bash", "-e", "-c", step["run"]]
        done = subprocess.run(command, cwd=where, env={**os.environ, **variables}, capture_output=True, text=True)
        codes[step["name"]] = done.returncode, done.stdout + done.stderr
    lines = (tmp_path / "summary.md").read_text().splitlines()
    verdicts = [line for line in lines if line.startswith("### ")]
    assert verdicts[0] == "### ✅ PASS: xbench check: 1 cell passed"
    verdict = "❌ FAIL: xbench compare: 1 cell" if codes["No slower by 3 %"][0] else "✅ PASS: xbench compare: no cell"
    assert verdicts[1].startswith(f"### {verdict} slower by 3 % or no longer passing")
    assert [name for name, (code, _) in codes.items() if code] in ([], ["No slower by 3 %"]), codes
    for side in ("base", "head"):
        assert len((tmp_path / f"results/{side}" / FILE).read_text().splitlines()) == 1
    assert (tmp_path / "results/head.csv").read_text().startswith("model,runtime,")
