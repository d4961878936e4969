"""What a user can cause and mend. Imports nothing."""


class XBenchError(Exception):
    """Something the user can cause and mend: shown as one line on stderr, never as a traceback."""

    exit_code = 2
