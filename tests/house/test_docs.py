"""The pages: the shown commands are run, and must print the shown output."""

import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

sys.path.insert(0, str(ROOT / "docs"))

import shown

GUIDES = sorted((ROOT / "docs" / "guide").glob("*.md"))


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text)
    return path


def run(path: Path, capsys: pytest.CaptureFixture, *words: str) -> tuple[int, str]:
    code = shown.main([*words, str(path)])
    return code, capsys.readouterr().out


def test_a_page_that_says_what_is_printed_passes(tmp_path, capsys):
    text = "# P\n\n```console\n$ echo one; echo two\none\ntwo\n$ printf 'no end'\nno end\n$ true\n```\n"
    assert run(page(tmp_path, text), capsys) == (0, "")


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("console\n$ echo one\ntwo\n", "-two"),
        ("console\n$ echo one\n", "+one"),
        ("console\n$ echo one; false\none\n", "exit code 1"),
        ("console\n$ nothing-of-the-kind | cat\n", "exit code 127"),
        ("console measured\n$ echo 'torch PASS 12 ms'\ntorch FAIL 12 ms\n", "-torch FAIL N"),
        ("\nxbench time lenet --no-such-option\n", "No such option: --no-such-option"),
        ("\nxbench check lenet && xbench no-such-command\n", "No such command 'no-such-command'"),
    ],
)
def test_what_has_changed_or_fails_is_named(tmp_path, capsys, block, says):
    code, output = run(page(tmp_path, f"Before.\n```{block}```\n"), capsys)
    assert code == 1 and says in output


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("a 12 ms\nb 5.00 ms\n", "b 3.1 ms\na  999 µs\n"),  # another order, other times, other widths
        ("a 1 s not converged ±44.5 %\n", "a 2 s ±1.72 %\n"),
        ("a ~1.01\n", "a 1.50\n  a: PASS 4 of 10 blocks were disturbed: other processes used 48% of its CPUs\n"),
        ("a fp32 weight/fc1.bias\n", "a fp32 loss/1\n"),
    ],
)
def test_measured_blocks_are_compared_without_what_differs_from_run_to_run(then, now):
    block = shown.Shown("x", then, True, 0, 0)
    assert shown.differences(block, now) == []
    assert shown.differences(shown.Shown("x", then, False, 0, 0), now)
    assert shown.differences(block, now.replace("a ", "c "))


def test_it_does_not_count_whether_this_is_the_machine_of_a_stored_result():
    note = "note: measured on a Cray, 2 CPUs, which is not this machine\n"
    for measured in (False, True):
        assert shown.differences(shown.Shown("x", f"a\n{note}", measured, 0, 0), "a\n") == []
        assert shown.differences(shown.Shown("x", "a\n", measured, 0, 0), f"a\n{note}") == []
        assert shown.differences(shown.Shown("x", f"a\n{note}", measured, 0, 0), "b\n")


def test_write_puts_what_is_printed_now_into_the_page_and_nothing_else(tmp_path, capsys):
    before = (
        "Text.\n\n```console\n$ echo one\n$ echo two\nold\nold\n```\n\nMore.\n\n```console\n$ cat note.txt\nold\n```\n"
    )
    text = "```{code-block} text\n:caption: note.txt\n\nkept\n```\n" + before
    path = page(tmp_path, text)
    assert run(path, capsys, "--write")[0] == 0
    assert path.read_text() == text.replace("echo one\n", "echo one\none\n").replace("old\nold\n", "two\n").replace(
        "old\n", "kept\n"
    )
    assert run(path, capsys) == (0, "")


def test_a_program_is_not_told_that_nobody_looks(tmp_path, capsys, monkeypatch):
    """pytest says more where CI is set: a page would print something else there."""
    monkeypatch.setenv("CI", "true")
    path = page(tmp_path, '```console\n$ echo "${CI:-not there}"\nnot there\n```\n')
    assert run(path, capsys) == (0, "")


def test_a_page_is_a_story_in_one_folder_and_a_failure_ends_it(tmp_path, capsys):
    text = "```console\n$ echo 1 > a\n$ cat a\n1\n$ false\n$ echo never\nnever said\n```\n"
    code, output = run(page(tmp_path, text), capsys)
    assert code == 1 and "false: exit code 1" in output and "never" not in output


@pytest.mark.parametrize("path", shown.pages(), ids=lambda path: path.name)
def test_commands_that_are_not_run_are_taken_by_the_command_line(path):
    assert [(words, reason) for words in shown.told_only(path.read_text()) if (reason := shown.misread(words))] == []


def test_there_is_something_to_run_and_something_to_check():
    assert sum(1 for path in GUIDES for _ in shown.commands(path.read_text())) >= 15
    assert sum(1 for path in shown.pages() for _ in shown.told_only(path.read_text())) >= 40


def test_the_pages_that_are_run_here_are_all_that_show_what_is_printed():
    assert {path for path in shown.pages() if any(shown.commands(path.read_text()))} == set(GUIDES)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_prints_what_it_says(path, capsys):
    code, output = run(path, capsys)
    assert code == 0, output


def test_the_site_is_made_without_a_warning(tmp_path):
    words = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-d", tmp_path / "trees"]
    done = subprocess.run([*words, ROOT / "docs", tmp_path / "site"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "site" / "index.html").read_text()
    assert "guide/choose.html" in front and (tmp_path / "site" / "reference" / "operators.html").exists()
