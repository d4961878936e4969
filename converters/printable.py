"""Escapes foreign text in other text: names of files, tensors, nodes and runtimes, messages, values of a store, which
somebody else wrote. Each function here writes such text in one language, in which it is only text.

Code that generates a program, a page, a table, a command line or a picture calls these and does not escape itself
(`tests/house/test_house.py`). `tests/support/wicked.py` has the names that all generators are tested with.
"""

import hashlib
import html as _html
import json as _json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

READ = 10_000  # characters of a foreign message that are read
NAME = 80  # characters of a file's name taken from a model's
FORMULA = tuple("=+-@\t\r＝＋－＠")  # starts of spreadsheet formulas, including Japanese wide forms
WORD = r"""(?:[\w@%+=:,./-]++|'[^']*+'|"'"|\$'(?:[^'\\]|\\.)*+')++"""  # of a command line, as `shell` writes it

# ***** terminals *****


def one_line(thing: object, limit: int = 300) -> str:
    """The first nonempty line, without terminal control characters, cut to a length; the name of its type if it is
    empty, or has no text."""
    try:
        text = str.__str__(str(thing))[:READ]  # a plain copy of a subclass of str
    except BaseException:  # the text of an exception comes from foreign code
        text = ""
    lines = ("".join(c for c in line if c.isprintable()).strip() for line in text.splitlines())
    return next((line for line in lines if line), type(thing).__name__)[:limit]


def lines(thing: object) -> str:
    """The text with its lines. Other unprintable characters (terminal commands, marks that reverse the writing
    direction, halves of surrogates) are written as `\\u001b`, as in JSON."""
    text = str(thing)
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in text)


def visible(thing: object) -> str:
    """All of the text as one line: white space becomes one space, the rest as in `lines`."""
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
    if isinstance(value, tuple) and {*map(type, value)} in ({int}, {str}):  # a tree may have millions
        return repr(value)
    if isinstance(value, tuple):
        return f"({''.join(f'{python(each)}, ' for each in value).removesuffix(' ' if len(value) == 1 else ', ')})"
    if isinstance(value, list):
        return f"[{', '.join(map(python, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{python(name)}: {python(each)}' for name, each in value.items())}}}"
    raise TypeError(f"no literal of {type(value).__name__}")


def docstring(thing: object) -> str:
    """Text inside the triple double quotes of a Python docstring."""
    return visible(thing).replace("\\", "\\\\").replace('"', '\\"')


def json(value: Any, indent: int | None = 1) -> str:
    """JSON in ASCII, safe to show in a terminal.

    Raises:
        ValueError: a number that is not finite.
    """
    return _json.dumps(value, indent=indent, allow_nan=False).replace("\x7f", "\\u007f")


def csv(value: Any) -> Any:
    """A cell of CSV: booleans in lower case, and text that no spreadsheet takes for a formula."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in value)
    return f"'{text}" if value.lstrip(" \n").startswith(FORMULA) else text


def requirement(name: str, version: str) -> str:
    """A line of pip's requirements, without a version's local part (`+cpu`).

    Raises:
        ValueError: it is more than a package and its version.
    """
    public = version.partition("+")[0]
    if not re.fullmatch(r"[A-Za-z0-9.!]+", public):
        raise ValueError(f"{visible(version)} is no version of {visible(name)}")
    return f"{name}=={public}"


# ***** command lines *****


def shell(*words: object) -> str:
    """A command line of these words for a POSIX shell, on one line. A word with unprintable characters is
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
    """Text after a # on a command line. Some interactive shells have no comments, so characters that one might
    interpret become question marks."""
    return re.sub(r"[^\w .,:+-]", "?", visible(thing))


def command(thing: object, otherwise: str) -> str:
    """A recorded command that people copy, if it is only one of xbench's; else the other text."""
    text = str(thing)
    return text if text.isprintable() and re.fullmatch(rf"xbench(?: {WORD})++", text) else otherwise


# ***** pages *****


def html(thing: object) -> str:
    """Text or the value of an attribute in HTML."""
    return _html.escape(visible(thing))


def script_json(value: Any) -> str:
    """JSON that may be in a <script>: it cannot end the script or begin a comment.

    Raises:
        ValueError: a number that is not finite.
    """
    text = _json.dumps(value, allow_nan=False, separators=(",", ":")).replace("\x7f", "\\u007f")
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


MARKS = r"[\\`*\[\]|#$!]|(?<=\])\(|(?<!^)~|^~(?![\d ])|(?<![^\W_])_|_(?![^\W_])"


def markdown(thing: object) -> str:
    """Text in Markdown, as CommonMark and GitHub read it: every character is shown, none is markup, nobody is notified.
    Characters that are not markup in their place, as an underscore within a word and our tie sign, stay unchanged."""
    plain = _html.escape(visible(thing), quote=False)
    plain = re.sub(MARKS, r"\\\g<0>", plain)
    return plain.replace("@", "&#64;").replace("://", "&#58;//").replace("www.", "www&#46;")


def markdown_code(thing: object) -> str:
    """Text in Markdown between backticks, more of them than in the text."""
    text = visible(thing)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def markdown_table(header: Sequence[object], align: Sequence[str], body: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table; `align` has `---` and `--:`."""
    written = [[*map(markdown, header)], [*align], *([*map(markdown, line)] for line in body)]
    return ["| " + " | ".join(line) + " |" for line in written]


def annotation(heading: object, message: object) -> str:
    """The command on stdout that makes GitHub show an error for the job."""
    title = _data(heading).replace(":", "%3A").replace(",", "%2C")
    return f"::error title={title}::{_data(message)}"


def _data(thing: object) -> str:
    return lines(str(thing).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def picture(thing: object) -> str:
    """Text in a matplotlib picture, which would read formulas between dollar signs."""
    return visible(thing).replace("$", "\\$")


# ***** files *****


def file_name(thing: object) -> str:
    """A name for a file or folder that stays in its folder: letters, digits and `_`; a long one is cut and made unique
    by a digest."""
    word = re.sub(r"\W", "_", str(thing)) or "_"
    if len(word.encode()) <= NAME:
        return word
    start = word.encode()[: NAME - 9].decode(errors="ignore")
    return f"{start}_{hashlib.sha256(word.encode()).hexdigest()[:8]}"
