"""Foreign text in other text. Names of files, tensors, nodes and runtimes, messages, what a store holds: somebody else
has written them. Each function here writes such text in one language, in which it says nothing but itself.

Whoever generates a program, a page, a table, a command line or a picture calls these and escapes nothing itself
(`tests/house/test_house.py`). `tests/support/wicked.py` has the names that all generators are tried with.
"""

import hashlib
import html as _html
import json as _json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

READ = 10_000  # characters of a stranger's message that are looked at
NAME = 80  # characters of a file's name that come from a model's
FORMULA = tuple("=+-@\t\r＝＋－＠")  # what a spreadsheet computes, the wide forms of Japanese ones too
WORD = r"""(?:[\w@%+=:,./-]++|'[^']*+'|"'"|\$'(?:[^'\\]|\\.)*+')++"""  # of a command line, as `shell` writes it

# ***** terminals *****


def one_line(thing: object, limit: int = 300) -> str:
    """The first line that says something, without what a terminal would obey, cut to a length; the name of its type
    where it says nothing, or cannot say it."""
    try:
        text = str.__str__(str(thing))[:READ]  # of a subclass of str a plain copy
    except BaseException:  # the text of an exception is made by whoever wrote it
        text = ""
    lines = ("".join(c for c in line if c.isprintable()).strip() for line in text.splitlines())
    return next((line for line in lines if line), type(thing).__name__)[:limit]


def lines(thing: object) -> str:
    """The text with its lines. Whatever else is not printable (a terminal's commands, marks that turn the direction of
    writing, halves of surrogates) is written as `\\u001b`, which JSON reads, too."""
    text = str(thing)
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in text)


def visible(thing: object) -> str:
    """All of the text as one line: white space is one space, and the rest as in `lines`."""
    return lines(" ".join(str(thing).split()))


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


# ***** programs and data *****


def python(value: Any) -> str:
    """A Python literal of text, numbers, None, and of tuples, lists and dictionaries of them.

    Raises:
        TypeError: the type has no literal.
    """
    if isinstance(value, str):
        return repr(str.__str__(value))
    if value is None or isinstance(value, bool | int | float | complex):
        return repr(value)
    if isinstance(value, tuple) and {*map(type, value)} in ({int}, {str}):  # of a tree there may be millions
        return repr(value)
    if isinstance(value, tuple):
        return f"({''.join(f'{python(each)}, ' for each in value).removesuffix(' ' if len(value) == 1 else ', ')})"
    if isinstance(value, list):
        return f"[{', '.join(map(python, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{python(name)}: {python(each)}' for name, each in value.items())}}}"
    raise TypeError(f"no literal of {type(value).__name__}")


def docstring(thing: object) -> str:
    """Text between three double quotes of a Python docstring."""
    return visible(thing).replace("\\", "\\\\").replace('"', '\\"')


def json(value: Any, indent: int | None = 1) -> str:
    """JSON in ASCII, which a terminal shows as it is.

    Raises:
        ValueError: a number that is not finite.
    """
    return _json.dumps(value, indent=indent, allow_nan=False).replace("\x7f", "\\u007f")


def csv(value: Any) -> Any:
    """A cell of CSV: truth in lower case, and text that no spreadsheet takes for a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in value)
    return f"'{text}" if value.lstrip(" \n").startswith(FORMULA) else text


def requirement(name: str, version: str) -> str:
    """A line of pip's requirements, without what a version has of its own (`+cpu`).

    Raises:
        ValueError: it would be more than a package and its version.
    """
    public = version.partition("+")[0]
    if not re.fullmatch(r"[A-Za-z0-9.!]+", public):
        raise ValueError(f"{visible(version)} is no version of {visible(name)}")
    return f"{name}=={public}"


# ***** command lines *****


def shell(*words: object) -> str:
    """A command line of these words for a POSIX shell, on one line. A word with letters that are not printable is
    written as `$'\\x1b'`, which bash, zsh and ksh read."""
    return " ".join(map(_word, words))


def _word(word: object) -> str:
    text = str(word)
    if text.isprintable():
        return shlex.quote(text)
    data = re.sub("[\ud800-\udc7f\udd00-\udfff]", "?", text).encode("utf-8", "surrogateescape")  # a name's own bytes
    plain = re.sub(rb"[^\w.,:=/+-]", lambda match: b"\\x%02x" % match[0][0], data)
    return f"$'{plain.decode()}'"


def shell_comment(thing: object) -> str:
    """Text behind a # on a command line. Some shells know no comments where commands are typed, so that letters that
    one might obey are question marks."""
    return re.sub(r"[^\w .,:+-]", "?", visible(thing))


def command(thing: object, otherwise: str) -> str:
    """A command that somebody recorded and people copy: if it is one of xbench's alone; else the other text."""
    text = str(thing)
    return text if text.isprintable() and re.fullmatch(rf"xbench(?: {WORD})++", text) else otherwise


# ***** pages *****


def html(thing: object) -> str:
    """Text or the value of an attribute in HTML."""
    return _html.escape(visible(thing))


def script_json(value: Any) -> str:
    """JSON that may stand in a <script>: no letter of it can end the script or begin a comment.

    Raises:
        ValueError: a number that is not finite.
    """
    text = _json.dumps(value, allow_nan=False, separators=(",", ":")).replace("\x7f", "\\u007f")
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


MARKS = r"[\\`*\[\]|#$!]|(?<=\])\(|(?<!^)~|^~(?![\d ])|(?<![^\W_])_|_(?![^\W_])"


def markdown(thing: object) -> str:
    """Text in Markdown, as CommonMark and GitHub read it: every letter is shown, none is a mark, nobody is notified.
    What is none where it stands, as an underscore within a word and our own sign of a tie, stays as it is."""
    plain = _html.escape(visible(thing), quote=False)
    plain = re.sub(MARKS, r"\\\g<0>", plain)
    return plain.replace("@", "&#64;").replace("://", "&#58;//").replace("www.", "www&#46;")


def markdown_code(thing: object) -> str:
    """Text in Markdown between backticks, of which there are more than in the text."""
    text = visible(thing)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def markdown_table(header: Sequence[object], align: Sequence[str], body: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table; `align` has `---` and `--:`."""
    written = [[*map(markdown, header)], [*align], *([*map(markdown, line)] for line in body)]
    return ["| " + " | ".join(line) + " |" for line in written]


def annotation(heading: object, message: object) -> str:
    """The command on stdout that makes GitHub show an error beside the job."""
    title = _data(heading).replace(":", "%3A").replace(",", "%2C")
    return f"::error title={title}::{_data(message)}"


def _data(thing: object) -> str:
    return lines(str(thing).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def picture(thing: object) -> str:
    """Text in a picture of matplotlib, which would read formulas between dollar signs."""
    return visible(thing).replace("$", "\\$")


# ***** files *****


def file_name(thing: object) -> str:
    """A name for a file or folder that stays in its folder: letters, digits and `_`, those of a long one cut and told
    apart by a digest."""
    word = re.sub(r"\W", "_", str(thing)) or "_"
    if len(word.encode()) <= NAME:
        return word
    start = word.encode()[: NAME - 9].decode(errors="ignore")
    return f"{start}_{hashlib.sha256(word.encode()).hexdigest()[:8]}"
