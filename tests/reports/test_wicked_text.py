"""Foreign text in all generated output: it stays text, and nothing is executed or written elsewhere."""

import ast
import csv
import io
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
import pytest
import stores
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from onnx import TensorProto, helper, numpy_helper
from wicked import CANARY, FILES, NAMES, TENSORS

from xbench import cli
from xbench.case import Case
from xbench.converters import Program, printable
from xbench.converters.codegen import standalone
from xbench.errors import XBenchError
from xbench.parity import verdict
from xbench.proof.bisect.run import title
from xbench.proof.record import base
from xbench.recommend.deployment import deploy
from xbench.recommend.script import form, script
from xbench.store.command import command
from xbench.workers import reproduce, scripts

FEW = settings(max_examples=int(os.environ.get("XBENCH_EXAMPLES", "60")), deadline=None)
FEW = settings(FEW, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
texts = st.one_of(
    st.text(st.characters(codec=None), max_size=30),
    st.text(st.sampled_from("\"'\\`$|<>[]()!*_~#=+-@&;:/ \n\r\t\x1b\x00\u2028\u202e\udcffax0{}%"), max_size=20),
    st.lists(st.sampled_from([*NAMES.values()]), max_size=3).map("".join),
)
every_name = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
every_tensor = pytest.mark.parametrize("name", TENSORS.values(), ids=TENSORS)


def shape(text):
    """A program without its constants: two of the same shape do the same with other data."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = None
    return ast.dump(tree)


def plain_text(text):
    """Whether a text has no commands for a terminal."""
    return all(line.isprintable() for line in text.split("\n"))


@pytest.fixture
def guarded(tmp_path, monkeypatch):
    """An empty working folder, next to one that must not change; nothing may create the canary."""
    neighbour, place = tmp_path / "beside", tmp_path / "deep" / "er" / "place"
    neighbour.mkdir(), place.mkdir(parents=True)
    (neighbour / "kept").write_text("as it was")
    monkeypatch.chdir(place)
    before = {path for path in tmp_path.rglob("*") if place not in path.parents}
    yield place
    assert not [*tmp_path.rglob(CANARY)] and not Path("/tmp", CANARY).exists()
    assert {path for path in tmp_path.rglob("*") if place not in path.parents} == before
    assert (neighbour / "kept").read_text() == "as it was"


# ***** one function per language *****


@FEW
@given(texts)
def test_a_literal_and_a_docstring_are_what_was_written(text):
    assert ast.literal_eval(printable.python({text: (text, [text, 1.5, None, True])})) == {
        text: (text, [text, 1.5, None, True])
    }
    tree = ast.parse(f'"""{printable.docstring(text)}"""\nx = 1')
    assert len(tree.body) == 2 and tree.body[0].value.value == printable.visible(text)


def test_what_has_no_literal_is_an_error():
    with pytest.raises(TypeError, match="no literal of PosixPath"):
        printable.python([Path()])


@FEW
@given(texts)
def test_a_terminal_obeys_nothing(text):
    assert printable.visible(text).isprintable() and plain_text(printable.lines(text))
    assert printable.one_line(text).isprintable()
    assert plain_text(printable.json({text: text})) and json.loads(printable.lines(printable.json({text: text}))) == {
        text: text
    }


class Page(HTMLParser):
    """The tags of a page, the text in each kind, and its attributes."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.words += data


def rendered(page):
    return Page(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(page))


@FEW
@given(texts)
def test_markdown_shows_every_letter_and_is_no_markup(text):
    read = rendered("\n".join(printable.markdown_table(["a", "b"], ["---", "--:"], [["c", f"x{text}"]])))
    assert set(read.tags) == {"table", "thead", "tbody", "tr", "th", "td"}
    assert printable.visible(f"x{text}") == read.words.strip().split("\n")[-1]
    head = rendered(f"### {printable.markdown(f'x{text}')}")
    assert head.tags == ["h3"] and head.words.strip() == printable.visible(f"x{text}")
    code = rendered(printable.markdown_code(text))
    assert set(code.tags) <= {"p", "code"}


@FEW
@given(texts)
def test_html_and_its_scripts_hold_text(text):
    read = Page(f'<b title="{printable.html(text)}">{printable.html(text)}</b>')
    assert read.tags == ["b"] and read.words == printable.visible(text)
    assert read.attributes == [("title", printable.visible(text))]
    written = printable.script_json(text)
    assert json.loads(written) == text and not set(written) & set("<>&\u2028")


@FEW
@given(texts)
def test_a_cell_of_csv_is_no_formula(text):
    buffer = io.StringIO()
    csv.writer(buffer).writerow([printable.csv(text), "b"])
    (line,) = csv.reader(io.StringIO(buffer.getvalue(), newline=""))
    assert line[0].strip(" \n")[:1] not in ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
    assert plain_text(line[0].replace("\t", ""))


def test_numbers_stay_numbers_in_csv():
    assert [printable.csv(value) for value in (-1, -0.5, None, True, "a")] == [-1, -0.5, None, "true", "a"]


@FEW
@given(texts)
def test_a_name_for_a_file_stays_in_its_folder(text):
    name = printable.file_name(text)
    assert Path(name).name == name and len(name.encode()) <= 80 and name.isprintable() and name.strip("_")[:1] != "-"


def test_words_of_a_command_line_arrive_as_they_are(guarded):
    """Words with a zero byte cannot be in any command."""
    names = [name for name in NAMES.values() if "\0" not in name and "\ud800" not in name]
    line = printable.shell("printf", "%s\\0", *names)
    assert line.isprintable()
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert done.stdout.split(b"\0")[:-1] == [os.fsencode(name) for name in names]


@every_name
def test_a_command_measures_its_own_cell_and_does_nothing_else(name, guarded):
    line = command(Case(name, f"torch:{name}"))
    assert line.isprintable() and printable.command(line, "none") == line
    arguments = subprocess.run(
        ["bash", "-c", f"xbench() {{ printf '%s\\0' \"$@\"; }}\n{line}"], capture_output=True, check=True
    ).stdout.split(b"\0")
    if "\0" not in name and "\ud800" not in name:
        assert os.fsencode(name) in arguments and os.fsencode(f"torch:{name}") in arguments


@every_name
def test_a_recorded_command_is_shown_where_it_is_one_of_ours(name):
    for hostile in (name, f"xbench time {name}; {name}", f"xbench show\n{name}", "xbench time $(touch x)", "sh -c x"):
        shown = printable.command(hostile, "none")
        assert shown == "none" or re.fullmatch(r"xbench( [\w@%+=:,./-]+)+", shown)


@FEW
@given(texts)
def test_no_line_of_requirements_asks_for_more(text):
    try:
        line = printable.requirement("numpy", text)
    except ValueError as error:
        assert str(error).isprintable()
    else:
        assert re.fullmatch(r"numpy==[\w.!]+", line, re.ASCII)


# ***** programs *****


@every_name
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino", "tensorflow", "jax", "torch", "torch_compile", "tvm"])
def test_run_py_differs_in_constants_alone(runtime, name):
    def written(word):
        how = form(Case("m", runtime))
        names = {"inputs": [word, word], "outputs": [word]}
        return script(Case("m", runtime), how, word, word, names, [0.5])

    assert shape(written(name)) == shape(written("plain"))


@every_name
@pytest.mark.parametrize(
    "option", ["onnxruntime:level", "openvino:hint", "torch_compile:mode", "torch_compile:backend"]
)
def test_options_of_a_record_are_no_code_in_run_py(option, name):
    def written(word):
        case = Case("m", f"{option}={word}")
        return script(case, form(case), "t", "m", {"inputs": ["x"], "outputs": ["y"]}, [0.5])

    try:
        text = written(name)
    except XBenchError:
        return
    if "," not in name:  # it divides options
        usual = "all" if "level" in option else "latency"
        assert shape(text) == shape(written(usual))


@every_tensor
@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow"])
def test_a_standalone_file_differs_in_constants_alone(framework, name):
    def written(word):
        line = f"    relu = Conv(x, params[{printable.python(word)}])\n    return (relu,), {{}}\n"
        source = f"def apply(params, state, x, *, training=False, rng=None):\n{line}"
        program = Program(source, {word: np.ones((2, 2, 3, 3), np.float32)}, {}, ("x",), ("y",), {"Conv": 1})
        return standalone.source(program, framework, word)

    assert shape(written(name)) == shape(written("plain"))


# ***** a file with only wicked names, run in every way *****


def model():
    """A chain over all names: inputs, outputs, weights and nodes; its output is twice its input."""
    names = iter([*TENSORS.values()] * 2)
    given, weight = next(names), next(names)
    nodes, last = [helper.make_node("Mul", [given, weight], ["first"], name=weight)], "first"
    graph_names = [name for name in TENSORS.values() if name not in (given, weight)]
    for name in graph_names:
        nodes.append(helper.make_node("Relu", [last], [name], name=name, doc_string=name))
        last = name
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3])  # noqa: E731
    outputs = {name: value(name) for name in (graph_names[0], last, "file", "allow_pickle")}
    weights = [numpy_helper.from_array(np.full(3, 2, np.float32), weight)]
    graph = helper.make_graph(nodes, 'g""";x', [value(given)], [*outputs.values()], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10, doc_string='"""')
    made.producer_name = TENSORS["docstring"]
    helper.set_model_props(made, {name[:50]: name for name in TENSORS.values()})
    return made


@pytest.fixture
def wicked(guarded, exporter):
    path = guarded / f"{FILES['docstring']}.onnx"
    onnx.save(model(), path)
    return exporter.artifact(str(path)), str(path)


def run(folder, file):
    """Run a file in a folder; it must create nothing there except caches."""
    before = {*folder.rglob("*")}
    done = subprocess.run([sys.executable, "-I", "-B", file], cwd=folder, capture_output=True, text=True, timeout=300)
    assert {*folder.rglob("*")} == before
    assert plain_text(done.stdout)
    return done


def test_a_deployed_folder_of_wicked_names_runs(wicked, exporter, guarded, tmp_path_factory):
    artifact, path = wicked
    made = base(Case(path, "onnxruntime", batch=2, threads=1), artifact, "s") | {"status": "PASS"}
    times = {"load_s": 0.2, "compile_s": None, "first_s": 0.1, "anew_s": None, "median_s": 1e-3, "low_s": None}
    record = made | {"parity": {"class": "fp32", "ratio": 1.0}, "times": times | {"high_s": None}}
    record["command"] = f"xbench time $(touch {CANARY}); touch {CANARY}"
    deploy(record, artifact, exporter, guarded / "deployed", tmp_path_factory.mktemp("logs"))
    folder = guarded / "deployed"
    assert run(folder, "run.py").returncode == 0
    page = rendered((folder / "README.md").read_text())
    assert {"script", "img", "a", "em", "strong"}.isdisjoint(page.tags)
    assert "no command was recorded" in page.words
    hostile = record | {"versions": record["versions"] | {"onnxruntime": "1\n--index-url http://e.example"}}
    with pytest.raises(XBenchError, match="is no version of onnxruntime"):
        deploy(hostile, artifact, exporter, guarded / "other", tmp_path_factory.mktemp("logs"))
    assert not (guarded / "other").exists()


def test_a_reproduction_of_wicked_names_runs(wicked, exporter, guarded, tmp_path_factory):
    artifact, path = wicked
    reference = exporter.reference(artifact, "forward", 2, 0, "synthetic")
    known = verdict.read(Path(reference))
    answer = tmp_path_factory.mktemp("answer") / "a.npz"
    verdict.join(answer, {name: array for name, array in known.items() if name.startswith("output/")})
    common = {"device": "cpu", "threads": 1, "layout": "nchw"}
    runtimes = [common | {"word": word, "answer": str(answer)} for word in ("onnxruntime", 'null:a""";x')]
    runtimes[1]["word"] = f"null:{TENSORS['docstring']}"
    words = {"a": runtimes[0]["word"], "b": runtimes[1]["word"], "differs": True, "tensor": TENSORS["docstring"]}
    report = words | {"model": path, "mode": "forward", "node": {"op_type": "Relu"}, "nodes_in_subgraph": 3}
    out = guarded / "found"
    out.mkdir()
    files = reproduce.write(artifact, reference, "forward", runtimes, title(report | {"confirmed": True}), out)
    assert set(files) == {path.name for path in out.iterdir()}
    done = run(out, "reproduce.py")
    assert done.returncode == 0 and "no difference" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("\n") == 2 * len(artifact.info["outputs"]) + 1


def test_a_standalone_file_of_wicked_names_runs(wicked, guarded):
    pytest.importorskip("torch")
    artifact, _ = wicked
    out = guarded / "alone"
    out.mkdir()
    standalone.write(artifact.program(), "torch", printable.file_name(artifact.name), out)
    file = next(out.glob("*.py"))
    with file.open("a") as text:
        text.write('\n\nprint(float(apply(*load(), __import__("torch").ones(1, 3))[0][0].sum()))\n')
    done = run(out, file.name)
    assert done.stdout == "6.0\n", done.stderr


@pytest.mark.parametrize("names", [("x", "x.npy"), ("file", "allow_pickle"), ("../../x", "/x"), ('a"""', "a\u202e")])
def test_arrays_are_told_apart_whatever_they_are_called(names, guarded):
    arrays = {name: np.full(2, number) for number, name in enumerate(names)}
    verdict.join(guarded / "a.npz", arrays)
    loaded = verdict.read(guarded / "a.npz")
    assert {name: array.tolist() for name, array in loaded.items()} == {n: a.tolist() for n, a in arrays.items()}
    assert 'file[f"{{key}}.npy"]' in scripts.SCRIPT  # reads the same files, without xbench


# ***** pages, tables, terminals *****


def hostile():
    """A store in which every text of a record is wicked."""
    made = []
    for place, name in enumerate(NAMES.values()):
        names = {"note": name, "message": name, "command": f"xbench time x; {name}", "session": name, "time": name}
        machine = {"machine": stores.MACHINE | {"cpu": name, "os": name, name: name}}
        more = {**names, **machine, "versions": {name: name, "torch": name}, "mode": ("forward", "gradient")[place % 2]}
        made.append(stores.record(name, "torch", **more))
        made.append(
            stores.record(
                name, f"jax:{name}", status="FAIL", **more, parity={"worst_tensor": name, "first_wrong": name}
            )
        )
    return made


@pytest.fixture
def store(guarded):
    stores.write(guarded / "store", hostile())
    return guarded / "store"


def output_of(monkeypatch, capsys, *words):
    """The output of the console script, with both streams checked; any exit code, but no traceback."""
    monkeypatch.setattr(sys, "argv", ["xbench", *map(str, words)])
    try:
        cli.main()
    except SystemExit as end:
        assert end.code in (None, 0, 1, 2), end.code
    captured = capsys.readouterr()
    assert plain_text(captured.err) and "Traceback" not in captured.err
    return captured.out


FORMS = {
    **{
        f"show {word}".strip(): ("show", *filter(None, [word]))
        for word in ("", "--cost", "--roofline", "--csv", "--markdown", "--json")
    },
    "show github": ("show", "--format", "github"),
    "recommend": ("recommend", TENSORS["docstring"]),
    "recommend markdown": ("recommend", TENSORS["docstring"], "--markdown"),
}


@pytest.mark.parametrize("words", FORMS.values(), ids=FORMS)
def test_what_commands_print_of_a_wicked_store_is_text(words, store, monkeypatch, capsys):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    out = output_of(monkeypatch, capsys, *words, "--out", store)
    assert plain_text(out) and out
    if words == ("show",):
        assert TENSORS["markup"] in out and printable.visible(NAMES["escape"]) in out
    if "--markdown" in words:
        read = rendered(out)
        assert set(read.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "h3", "p", "ul", "li"}
        named = ("script", "link") if words[0] == "show" else ("docstring",)
        assert all(TENSORS[word] in read.words for word in named)
    if "--csv" in words:
        lines = [*csv.reader(io.StringIO(out))]
        texts = [cell for line in lines[1:] for cell in line if not re.fullmatch(r"-?[\d.e+-]+", cell)]
        assert len(lines) > 60 and not [cell for cell in texts if cell.lstrip(" \n").startswith(tuple("=+-@\t\r"))]
    if "--json" in words:
        assert {row["model"] for row in json.loads(out)} == {*NAMES.values()}


def test_a_terminal_is_given_colours_and_nothing_of_a_name(store, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    out = output_of(monkeypatch, capsys, "show", "--out", store)
    assert "\x1b[" in out and plain_text(re.sub(r"\x1b\[[\d;]*m", "", out))


def test_import_and_compare_of_wicked_stores_print_text(store, monkeypatch, capsys):
    for words in (
        ("import", store, "--out", "there"),
        ("compare", store, "there"),
        ("compare", store, "there", "--format", "csv"),
    ):
        assert plain_text(output_of(monkeypatch, capsys, *words)), words
    read = rendered(output_of(monkeypatch, capsys, "compare", store, "there", "--markdown"))
    assert set(read.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "p"} and TENSORS["script"] in read.words


def test_the_page_of_a_wicked_store_has_its_own_tags_alone(store, monkeypatch, capsys):
    pytest.importorskip("vl_convert")
    stores.write(
        Path("plain"), [stores.record(f"m{place}", runtime) for place in range(8) for runtime in ("torch", "jax")]
    )
    pages = []
    for folder in (store, "plain"):
        output_of(monkeypatch, capsys, "report", folder, "--output", "page.html", "--title", TENSORS["script"])
        pages.append(Path("page.html").read_text())
    body = [page.partition("<script>")[0] for page in pages]
    bad, good = map(Page, body)
    assert set(bad.tags) <= {*good.tags, "li", "ul"} and bad.tags.count("script") == good.tags.count("script")
    assert not [name for name, _ in bad.attributes if name.startswith("on")]
    links = {pair for pair in good.attributes if pair[0] in ("href", "src")}
    assert {pair for pair in bad.attributes if pair[0] in ("href", "src") and pair[1][:1] != "#"} <= links
    again = re.findall(r"<summary>Measure again</summary><pre>(.*?)</pre>", body[0], re.DOTALL)
    assert plain_text(body[0]) and again and not any(re.search(r"[$`;|()]", each) for each in again)


def test_pictures_show_dollar_signs(guarded):
    pytest.importorskip("matplotlib")
    from xbench.reports import rows
    from xbench.reports.roofline_plot import draw, points

    made = [each for each in hostile() if each["status"] == "PASS"]
    made += [stores.record("$\\frac{$", "torch:$\\nothing$")]
    table = rows(made)
    assert points(table)
    draw(table[:3] + table[-3:], guarded / "a.svg")
    assert (guarded / "a.svg").stat().st_size


@every_name
def test_a_refused_file_is_one_line(name, guarded, monkeypatch, capsys):
    """An error names the file as typed."""
    monkeypatch.setattr(sys, "argv", ["xbench", "show", "--out", name.replace("\0", "") or "x"])
    with pytest.raises(SystemExit):
        cli.main()
    err = capsys.readouterr().err
    assert (plain_text(err) and err.count("\n") <= 1) or "Usage" in err
