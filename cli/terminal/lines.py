"""Plain output lines of commands. Untrusted text reaches a terminal only through here or `console.py`."""

import typer


def say(words: object, err: bool = False, nl: bool = True) -> None:
    """Print text, on stderr with `err`, without a final line break unless `nl`."""
    from xbench.converters.printable import lines

    typer.echo(lines(words), err=err, nl=nl)
