"""The error that a user can cause and fix. Imports nothing."""


class XBenchError(Exception):
    """An error the user can cause and fix: shown as one line on stderr, never as a traceback."""

    exit_code = 2
