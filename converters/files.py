"""Opens a file that somebody else may have put there: only a regular one, and without waiting.

A pipe waits for its writer, a device never ends, a link points anywhere.
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

WORDS = "it is no regular file"


def opened(path: Path, links: bool = True) -> BufferedReader:
    """The file, opened for reading. Without `links` it must not be a link; with them it may be one to a regular file.

    Raises:
        OSError: it is not a regular file, or cannot be opened.
    """
    return os.fdopen(descriptor(path, os.O_RDONLY, links), "rb")


def descriptor(path: Path, flags: int, links: bool = True) -> int:
    """As `opened`, a file descriptor that the caller closes, opened with the flags of `os.open`."""
    more = os.O_CLOEXEC | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW)
    try:
        file = os.open(path, flags | more, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR) and os.path.lexists(path):
            what = "it is a link" if os.path.islink(path) else WORDS
            raise OSError(errno.EINVAL, what) from error
        raise
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, WORDS)
