"""One table, shown in a terminal and as Markdown, with the rows of `xbench check`."""

import io

import pytest

from xbench.cli.terminal.console import Terminal
from xbench.reports import checks
from xbench.reports.tables import Table, show, to_markdown


def printed(tables, width=100):
    stream = io.StringIO()
    show(tables, Terminal(file=stream, width=width))
    return stream.getvalue()


def row(runtime, status="PASS", message=None, mode="forward", **more):
    cell = {"model": "net", "runtime": runtime, "mode": mode, "status": status, "class": "fp32", "worst_tensor": "y"}
    return cell | {"ratio": 1.25, "steps": 0, "inputs": None, "certificate": None, "message": message} | more


SMALL = Table("sizes", ("name", "number"), [["a|b", "1"], ["c", "20"]], notes=["a is\nsmall"], about=["two"])


def test_numbers_are_aligned_at_the_right_and_sentences_are_one_line():
    lines = [line.rstrip() for line in printed([SMALL]).splitlines()]
    assert lines == ["sizes", "two", "name  number", "a|b        1", "c         20", "  a is small"]


def test_markdown_has_the_caption_the_sentences_and_escaped_cells():
    expected = "### sizes\n\ntwo\n\n| name | number |\n| --- | --: |\n| a\\|b | 1 |\n| c | 20 |\n\n- a is small\n"
    assert to_markdown([SMALL]) == expected


def test_a_table_without_lines_is_its_sentences():
    assert printed([Table("none", ("name",), [], notes=["there is none"])]) == "none\n  there is none\n"


def test_a_message_of_several_cells_stands_there_once_and_not_in_a_column():
    why = "float32 itself loses too much " * 5
    rows = [row("torch", "UNVERIFIED", why), row("jax", "UNVERIFIED", why), row("tvm"), row("torch", mode="gradient")]
    (table,) = checks.tables(rows)
    assert list(table.notes) == [f"torch forward, jax forward: {why}"]
    assert not any(why in cell for line in table.lines for cell in line)


@pytest.mark.parametrize(("count", "named"), [(1, "torch forward"), (3, "all 3")])
def test_who_has_a_message_is_named(count, named):
    rows = [row(name, "UNVERIFIED", "why") for name in ("torch", "jax", "tvm")[:count]]
    (table,) = checks.tables(rows)
    assert list(table.notes) == [f"{named}: why"]


def test_the_sizes_of_a_sweep_are_one_table_with_a_line_for_each():
    def at(size, runtime, *arguments, **more):
        return row(runtime, *arguments, **more) | {"model": f"m.onnx@h=2;n={size}"}

    wrong = [at(size, "tvm", "FAIL", "y is off", explanations=[]) for size in (30, 4)]
    rows = [at(30, "torch"), at(4, "torch"), *wrong, at(12, "torch", "UNSUPPORTED", "no Loop", ratio=None)]
    (table,) = checks.tables(rows)
    assert table.caption.startswith("m.onnx, h 2: ") and table.caption.endswith(", by n")
    assert list(table.header) == ["n", "torch", "tvm"]
    assert table.lines == [["4", "PASS 1.2", "FAIL 1.2"], ["12", "UNSUPPORTED", ""], ["30", "PASS 1.2", "FAIL 1.2"]]
    assert list(table.notes) == [
        "torch: no Loop (at n 12)",
        "tvm: y is off (at n 4; n 30)",
        "tvm forward: no known mistake explains it (at n 4; n 30)",
    ]
    tables = checks.tables([*rows, at(4, "torch", mode="gradient"), row("torch")])
    assert [list(each.header)[:3] for each in tables] == [
        ["n", "torch forward", "tvm forward"],
        list(checks.HEADER)[:3],
    ]


def test_modes_of_a_runtime_are_named_together_and_explanations_come_last():
    explanation = {"says": "a bias is left out", "scope": "every Conv", "tensor": "c", "ratio": 1.0}
    rows = [row("torch", "FAIL", "y is off"), row("torch", "FAIL", "y is off", "gradient", explanations=[explanation])]
    (table,) = checks.tables([*rows, row("jax", explanations=[])])
    assert list(table.notes) == [
        "torch forward/gradient: y is off",
        "torch gradient looks like: a bias is left out (every Conv, at c); 1.0 x noise is left",
        "jax forward: no known mistake explains it",
    ]
