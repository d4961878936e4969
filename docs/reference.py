"""The pages of the reference that are made of the code, whenever the site is."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from xbench import converters, models, runtimes
from xbench.converters.autodiff.gradient import RULES
from xbench.studies.lineage import LINEAGE

YES = {True: "yes", False: "no"}
OWN = ("torch", "tensorflow", "jax")  # the frameworks that have an operator table of ours


def write(folder: Path) -> None:
    """Write one Markdown page a subject into the folder, which is git's no business."""
    folder.mkdir(exist_ok=True)
    for name, text in {"networks": networks(), "runtimes": known_runtimes(), "operators": operators()}.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:  # Sphinx reads again what is newer
            path.write_text(text)


def networks() -> str:
    """Every network of the zoo, with what is asserted of it."""
    rows = [
        (f"`{spec.name}`", spec.study, f"{spec.parameters:,}", f"{spec.macs:,}", str(spec.batch))
        for spec in models.MODELS.values()
    ]
    text = "Every count is asserted by a test. MACs are multiply-accumulates of one sample, forward."
    return page("Networks", text, ("network", "study", "parameters", "MACs", "batch"), rows)


def known_runtimes() -> str:
    """Every runtime and what it can be told; what became of the frameworks of the studies."""
    rows = [
        (
            f"`{name}`",
            f"`xbench env create {row.environment}`" if row.environment else f"`pip install 'xbench[{row.extra}]'`",
            {"native": "by itself", "graph": "by the graph of a step", None: "no"}[row.autodiff],
            ", ".join(row.layouts),
            ", ".join(row.lower) or "none",
        )
        for name, row in runtimes.RUNTIMES.items()
        if not row.hidden
    ]
    text = "Own options stand behind a colon: `tensorflow:xla`, `torch:python=other/bin/python`."
    header = ("runtime", "installed by", "trains", "layouts", "precisions below fp32")
    ancestors = [
        (each.tool, each.studies, each.fate, each.successor, ", ".join(f"`{name}`" for name in each.runtimes))
        for each in LINEAGE
    ]
    fates = table(("tool", "studies", "what became of it", "successor", "here"), ancestors)
    return page("Runtimes", text, header, rows) + f"\n## The tools of the five studies\n\n{fates}"


def operators() -> str:
    """Which ONNX operators each of our tables has, and which have a gradient rule."""
    tables = {name: converters.operators_of(name) for name in OWN}
    rows = [
        (f"`{name}`", *(YES[name in tables[each]] for each in OWN), YES[name in RULES])
        for name in sorted(set().union(*tables.values()))
    ]
    text = "An operator that no table has, and that ONNX defines by others, is computed by those."
    return page("Operators", text, ("ONNX operator", *OWN, "in a training graph"), rows)


def page(title: str, text: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a page of one table."""
    return f"# {title}\n\n{text}\n\n{table(header, rows)}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    escaped = [[str("" if cell is None else cell).replace("|", "\\|") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)
