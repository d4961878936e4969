"""What a command says, in plain lines. Foreign text reaches a terminal through here, or through `console.py`."""

import typer


def say(words: object, err: bool = False, nl: bool = True) -> None:
    """Prints text, on stderr with `err`, without a last line break unless `nl`."""
    from xbench.converters.printable import lines

    typer.echo(lines(words), err=err, nl=nl)
