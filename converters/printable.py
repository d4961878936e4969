"""Text of strangers as one line that may be shown and stored: an exception's, a framework's, a file's."""

READ = 10_000  # characters that are looked at


def one_line(thing: object, limit: int = 300) -> str:
    """The first line that says something, without what a terminal would obey, cut to a length; the name of its type
    where it says nothing, or cannot say it."""
    try:
        text = str.__str__(str(thing))[:READ]  # of a subclass of str a plain copy
    except BaseException:  # the text of an exception is made by whoever wrote it
        text = ""
    lines = ("".join(c for c in line if c.isprintable()).strip() for line in text.splitlines())
    return next((line for line in lines if line), type(thing).__name__)[:limit]
