"""The house rules: which package may import which, maximum lengths, and that tables, files and docs agree."""

import ast
import importlib
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import tiers
from places import ROOT

# Each package, and those of our packages that it may import. Downwards only.
MAY_IMPORT = {
    "models": set(),
    "studies": set(),
    "data": set(),
    "stats": set(),
    "host": set(),
    "converters": {"models", "host"},
    "metrics": {"converters"},
    "store": {"stats", "host", "converters"},
    "runtimes": {"models", "converters"},
    "parity": {"models", "converters", "runtimes"},
    "workers": {"models", "data", "stats", "metrics", "host", "converters", "runtimes", "parity"},
    "proof": {"models", "stats", "host", "converters", "store", "runtimes", "parity", "workers"},
}
MAY_IMPORT["experiments"] = {*MAY_IMPORT, "studies"}
MAY_IMPORT["recommend"] = {*MAY_IMPORT} - {"studies", "data", "models"}
MAY_IMPORT["reports"] = {"studies", "stats", "metrics", "host", "converters", "store", "experiments", "recommend"}
MAY_IMPORT["api"] = MAY_IMPORT["cli"] = {*MAY_IMPORT}
BOTTOM = {"case", "errors"}  # modules of the package itself that everyone may import
ROOTS = {"api": "xbench"}  # the root folder of the package: its files are modules next to the packages
SOURCES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))

FRAMEWORKS = {"torch", "torchvision", "tensorflow", "keras", "jax", "jaxlib", "onnxruntime", "openvino", "cv2", "tvm"}
FRAMEWORKS |= {"ai_edge_litert", "MNN", "_tools", "tract", "caffe2", "chainer", "cntk", "mxnet", "theano"}
BRIDGES = {
    "models/*.py": "torch",
    "converters/frontends/pytorch.py": "torch",
    "converters/frontends/torch_*.py": "torch",
    "converters/frontends/savedmodel.py": "tensorflow",
    "parity/explain/*.py": "torch",
    "parity/like/walk.py": "torch",
    "parity/mistakes/*.py": "torch",
    "parity/matching.py": "torch",
    "parity/oracle.py": "torch",
    "parity/trajectory.py": "torch",
    "parity/draws.py": "torch",
    "parity/network.py": "torch",
    "parity/node_by_node.py": "torch",
    "parity/clips.py": "torch",
    "parity/steps.py": "torch",
    "runtimes/opencv.py": "cv2",
    "runtimes/mnn.py": "MNN",
    "runtimes/litert.py": "ai_edge_litert",
}
ALIASES = {"jaxlib": "jax"}
# Keras and the backends that it computes on; Caffe2 is in the wheel of PyTorch.
BACKENDS = {"tensorflow": {"keras"}, "keras": {"tensorflow", "jax"}, "caffe2": {"torch"}, "MNN": {"_tools"}}
BACKENDS["ai_edge_litert"] = {"tensorflow"}

# Packages with many modules: operators written once, the vocabulary they are written in, ways to be wrong.
SUBFOLDERS = tuple(
    f"converters/{place}"
    for place in (
        *("autodiff", "autodiff/gradient", "codegen", "frontends", "inputs"),
        *("ops", "ops/arrays", "ops/contrib", "ops/generic", "passes"),
    )
)
SUBFOLDERS += (
    "runtimes/distributed",
    "runtimes/originals",
    "runtimes/scripts",
    "runtimes/support",
    "parity/explain",
    "parity/like",
    "parity/mistakes",
    "reports/html",
    "reports/quality",
    "reports/since",
)
SUBFOLDERS += (
    "workers/building",
    "workers/jobs",
    "proof/bisect",
    "experiments/scaling",
    "experiments/since",
    "experiments/widen",
)
SUBFOLDERS += ("cli/elsewhere", "cli/quality", "cli/terminal", "data/own")

FUNCTION_LINES = 50
FILE_LINES = 300
FOLDER_MODULES = 25
TABLE_LINES = 400
TABLES = {f"converters/ops/{place}{word}.py" for place in ("", "arrays/") for word in ("torch", "jax", "tensorflow")}
TABLES |= {f"runtimes/originals/{word}.py" for word in ("caffe2", "chainer", "cntk", "mxnet", "theano")}
TABLES |= {"converters/inputs/operators.py"}
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "helper", "misc", "base", "core", "manager"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("xbench", *(part for part in parts if part not in ("__init__", *ROOTS))))


MODULES = {module(path): path for path in SOURCES}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def modules_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    members = (f"{node.module}.{alias.name}" for alias in node.names)
    return [node.module or "", *(member for member in members if member in MODULES)]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node.lineno, imported) for imported in modules_of(node))


def imports_at_start(path: Path) -> Iterator[str]:
    """The modules that importing this file imports: those outside functions and `if TYPE_CHECKING`."""
    pending: list[ast.AST] = [tree(path)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from modules_of(node)
        pending.extend(ast.iter_child_nodes(node))


def frameworks_of(path: Path) -> set[str]:
    allowed = {framework for pattern, framework in BRIDGES.items() if path.match(pattern)}
    if path.parent.name in {"ops", "runtimes", "originals", "arrays", "distributed", "support"}:
        allowed |= {framework for framework in FRAMEWORKS if path.stem.lstrip("_").split("_")[0] == framework}
    return allowed.union(*(BACKENDS.get(framework, set()) for framework in allowed))


def framework(imported: str) -> str | None:
    top = imported.split(".")[0]
    return ALIASES.get(top, top) if top in FRAMEWORKS else None


def text_of_code(document: Path) -> Iterator[str]:
    """Each command of a markdown file: lines of fenced blocks, and text in backticks."""
    for number, part in enumerate(document.read_text().split("```")):
        if number % 2:
            yield from (line.strip().removeprefix("$ ") for line in part.splitlines()[1:])
        else:
            yield from re.findall(r"`([^`\n]+)`", part)


def tracked_files() -> list[Path]:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    answer = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode:
        pytest.skip("not a git checkout")
    return [path for path in (ROOT / line for line in answer.stdout.split("\0") if line) if path.is_file()]


def report(offences: list[str]) -> None:
    assert not offences, "\n" + "\n".join(offences)


def test_packages_import_downwards_only():
    offences = []
    for path in SOURCES:
        own = path.relative_to(ROOT).parts[0]
        siblings = {path.stem for path in (ROOT / own).glob("*.py")} if own in ROOTS else set()
        for line, imported in imports(path):
            parts = imported.split(".")
            if parts[0] == "xbench" and len(parts) > 1 and parts[1] not in MAY_IMPORT[own] | {own} | siblings | BOTTOM:
                offences.append(f"{name(path)}:{line}: {own} may not import {imported}")
    report(offences)


def test_a_framework_is_imported_only_in_its_own_files():
    report(
        [
            f"{name(path)}:{line}: may not import {imported}"
            for path in SOURCES
            for line, imported in imports(path)
            if framework(imported) not in frameworks_of(path) | {None}
        ]
    )


def test_nothing_imports_a_framework_at_start_up():
    offences, seen = [], set()
    pending = [(module(path), name(path)) for path in SOURCES if path.parent.name in ("cli", "api")]
    while pending:
        current, chain = pending.pop()
        if current in seen or current not in MODULES:
            continue
        seen.add(current)
        for imported in imports_at_start(MODULES[current]):
            if framework(imported):
                offences.append(f"{chain} -> {imported}")
            parents = imported.split(".")
            pending += [(".".join(parents[:end]), f"{chain} -> {imported}") for end in range(2, len(parents) + 1)]
    report(offences)


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> int:
    """The lines of a function; without its docstring if that is the reference of the package."""
    first = node.body[0]
    documented = path.parent.name in ROOTS and ast.get_docstring(node) is not None
    return node.end_lineno - node.lineno + 1 - (first.end_lineno - first.lineno + 1 if documented else 0)


def test_functions_fit_on_a_screen():
    report(
        [
            f"{name(path)}:{node.lineno}: {node.name} has {length} lines, {FUNCTION_LINES} at most"
            for path in SOURCES
            for node in ast.walk(tree(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (length := lines_of(node, path)) > FUNCTION_LINES
        ]
    )


def test_files_are_short():
    report(
        [
            f"{name(path)} has {length} lines, {limit} at most"
            for path in SOURCES
            if (length := len(path.read_text().splitlines()))
            > (limit := TABLE_LINES if name(path) in TABLES else FILE_LINES)
        ]
    )


def test_folders_are_short():
    folders = Counter(path.parent for path in ROOT.glob("[a-z]*/**/*.py") if "build" not in path.parts)
    report([f"{name(folder)}: {count} modules" for folder, count in folders.items() if count > FOLDER_MODULES])


def test_files_are_named_by_what_is_in_them():
    report([name(path) for path in SOURCES if path.stem.strip("_") in NAMES_THAT_SAY_NOTHING])


def test_packages_are_flat_and_listed_in_pyproject():
    folders = {*MAY_IMPORT, *SUBFOLDERS}
    offences = {name(path.parent) for path in SOURCES} - folders
    report([f"{folder}: a package has no subfolders" for folder in offences])
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    names = {folder: ROOTS.get(folder, f"xbench.{folder.replace('/', '.')}") for folder in folders}
    assert setuptools["package-dir"] == {names[folder]: folder for folder in folders}
    assert setuptools["packages"] == list(setuptools["package-dir"])


def test_every_slow_test_exists():
    for file, tests in tiers.SLOW.items():
        (path,) = (ROOT / "tests").rglob(f"test_{file}.py")
        tree = ast.parse(path.read_text())
        assert {*tests} <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, file


def test_every_parameter_that_makes_a_test_slow_exists(pytestconfig):
    assert not pytestconfig.stash.get(tiers.UNKNOWN, [])


def entries(package: str) -> set[str]:
    """The words of a folder: its files, except the contract and helpers of the others (`_name.py`)."""
    return {path.stem for path in (ROOT / package).glob("*.py") if not path.stem.startswith("_")}


def test_every_file_in_models_has_a_row():
    from xbench.models import MODELS

    assert {spec.factory.split(":")[0].split(".")[-1] for spec in MODELS.values()} == entries("models")


def test_every_file_in_runtimes_has_a_row():
    import xbench.runtimes

    table = getattr(xbench.runtimes, "RUNTIMES", None)
    if table is None:
        pytest.skip("xbench.runtimes.RUNTIMES is not written yet")
    own = {row.entry.partition(":")[0] for row in table.values() if row.entry.startswith("xbench.")}
    assert own == {f"xbench.runtimes.{word}" for word in entries("runtimes")}


def test_every_file_in_data_has_a_row():
    from xbench.data import SETS

    assert set(SETS) == entries("data")


def test_every_job_of_a_worker_has_a_name_of_its_own():
    """A worker takes the first file that has a job of that name."""
    from xbench.workers.worker import JOB_FILES

    files = {file: importlib.import_module(f"xbench.workers.jobs.{file}") for file in JOB_FILES}
    jobs = [(job.__name__, file) for file, module in files.items() for job in module.JOBS]
    assert set(JOB_FILES) == entries("workers/jobs")
    report([f"{job} is in {file}, too" for at, (job, file) in enumerate(jobs) if job in dict(jobs[:at])])


# Calls that escape foreign text, allowed in one file only: all others call `converters/printable.py`.
ESCAPES = {"shlex", "html.escape", "rich.markup", "json.dumps(ensure_ascii)"}
PRINTABLE = "converters/printable.py"
GENERATORS = ("workers/scripts.py", "workers/reproduce.py", "recommend/script.py")
GENERATORS += tuple(f"runtimes/scripts/{path.name}" for path in (ROOT / "runtimes" / "scripts").glob("*.py"))
GENERATORS += ("converters/codegen/standalone.py", "converters/codegen/printer.py")
# Calls that print, and the only file that may make each.
PRINTERS = {"print": "cli/__init__.py", "typer.echo": "cli/terminal/lines.py", "Console": "cli/terminal/console.py"}


def escapes_itself(node: ast.AST) -> str | None:
    """The call or import in a statement that only `printable.py` may use."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        named = [alias.name for alias in node.names]
        named += [f"{node.module}.{name}" for name in named] + [str(node.module)] if hasattr(node, "module") else []
        return next((each for each in named if each in ESCAPES), None)
    if isinstance(node, ast.Call):
        if any(each.arg == "ensure_ascii" for each in node.keywords):
            return "json.dumps(ensure_ascii)"
        if (
            node.args
            and ast.unparse(node.func).endswith(".replace")
            and ast.unparse(node.args[0]) in ("'|'", "'<'", "'$'")
        ):
            return ast.unparse(node.func)
    return None


def test_foreign_text_is_escaped_in_one_file():
    report(
        [
            f"{name(path)}:{node.lineno}: {word} is for {PRINTABLE} alone"
            for path in SOURCES
            for node in ast.walk(tree(path))
            if name(path) != PRINTABLE and (word := escapes_itself(node))
        ]
    )


def test_generators_of_programs_write_literals_by_one_function():
    """`{name!r}` and `repr` are right for text only, and a forgotten case is not visible."""
    offences = []
    for path in (ROOT / generator for generator in GENERATORS):
        for node in ast.walk(tree(path)):
            is_repr = isinstance(node, ast.Call) and ast.unparse(node.func) == "repr"
            converted = isinstance(node, ast.FormattedValue) and node.conversion != -1
            if (is_repr or converted) and not in_an_error(path, node):
                offences.append(f"{name(path)}:{node.lineno}: {ast.unparse(node)}: use printable.python")
    report(offences)


def in_an_error(path: Path, node: ast.AST) -> bool:
    raised = (each for each in ast.walk(tree(path)) if isinstance(each, ast.Raise))
    return any(node in ast.walk(each) for each in raised)


def test_commands_print_through_what_makes_text_visible():
    """Rich's markup and a terminal's commands in a name become text in `lines.py`, `console.py` of `cli/terminal/`."""
    offences = []
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            own = PRINTERS.get(called.removeprefix("rich.console."))
            if own and name(path).split("/")[0] in ("cli", "reports") and name(path) != own:
                offences.append(f"{name(path)}:{node.lineno}: {called} is for {own}")
    report(offences)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_commands_in_the_documents_exist(document):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = [line for line in text_of_code(ROOT / document) if re.match(r"(make|xbench)\b", line)]
    offences = [f"make {w}" for line in code for w in re.findall(r"\bmake ([a-z][a-z-]*)", line) if w not in targets]
    files = entries("cli") | entries("cli/elsewhere") | entries("cli/quality")
    commands = {name.rstrip("_") for name in files}  # import_.py: PEP 8 has no other way
    offences += [f"xbench {w}" for line in code for w in re.findall(r"\bxbench ([a-z]+)", line) if w not in commands]
    report(offences)


def test_no_file_names_a_folder_of_one_machine():
    folder = re.compile(r"(?<![\w/.)}-])/(?:work|root|home)(?![\w.-])")
    offences = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        numbered = enumerate(text.splitlines(), 1)
        offences += [f"{name(path)}:{number}: {line.strip()[:100]}" for number, line in numbered if folder.search(line)]
    report(offences)
