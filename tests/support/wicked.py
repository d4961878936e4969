"""Names and messages that do harm if written unescaped, by the attack of each.

`CANARY` is the file that code in them makes. `NAMES` may stand in a store, as a name or message; `TENSORS` in an ONNX
file, whose names hold no control characters; `FILES` as a file's name.
"""

CANARY = "pwned"
CODE = f'import os;os.system("touch {CANARY}")'

TENSORS = {
    "docstring": f'a""";{CODE};r"""b',
    "literal": f"a';{CODE};'b",
    "literal, doubled": f'a";{CODE};"b',
    "call": f"x));{CODE};((",
    "backslash": "a\\",
    "backslash and quotes": '\\"""\\',
    "line separator": f"a\u2028{CODE}\u2029",
    "direction": "a\u202egnp.x\u2066",
    "shell": f"$(touch {CANARY})",
    "backticks": f"`touch {CANARY}`",
    "pipe": f"a|touch {CANARY};",
    "percent": "%s%n%(a)s",
    "braces": "{}{0.__class__}{name!r}",
    "dollar": "$name${title}$$",
    "capitals": "WORD LETTER THREADS GRAPH RUNTIME XLA",
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "entity": "&lt;b&gt;&amp;",
    "link": "[x](javascript:alert(1))",
    "picture": "![x](http://e.example/x.png)",
    "markup": "[bold]a[/] [link=http://e.example]b[/link] [/nothing]",
    "emphasis": "*a* _b_ ~~c~~ # d | e @someone $f$",
    "formula": '=HYPERLINK("http://e.example","x")',
    "formula, plus": "+1+cmd|' /C calc'!A0",
    "formula, minus": "-1+1",
    "formula, at": "@SUM(1)",
    "option": "--output=x",
    "path": f"../../{CANARY}",
    "absolute": f"/tmp/../tmp/{CANARY}",
    "comment": f"# coding: utf-7\\n{CODE}",
    "numpy's keyword": "file",
    "numpy's other": "allow_pickle",
    "keyword": "import",
    "long": "x" * 5000,
}
NAMES = {
    **TENSORS,
    "lines": f"a\n{CODE}\r\n{CODE}\n",
    "escape": "\x1b[2J\x1b]0;owned\x07\x1b[8m",
    "escape of eight bits": "\x9b2J\x9d0;x\x9c",
    "nul": "a\0b",
    "delete": "a\x7fb",
    "tab": "\t=1+1",
    "return": "\r=1+1",
    "surrogate": "a\udcffb\ud800",
    "annotation": "a\n::error::b",
}
FILES = {
    word: name
    for word, name in NAMES.items()
    if "\0" not in name and "/" not in name and "\ud800" not in name and len(name) < 200
}
