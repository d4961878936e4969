import os
import shutil
import tempfile

import pytest

CACHE = "XBENCH_CACHE"
OWN_CACHE = pytest.StashKey[str]()


def pytest_configure(config):
    # Set here and not in a fixture: pytest-xdist's workers inherit it, so the whole session exports each network once.
    if CACHE not in os.environ:
        config.stash[OWN_CACHE] = os.environ[CACHE] = tempfile.mkdtemp(prefix="xbench-tests-")


def pytest_unconfigure(config):
    own = config.stash.get(OWN_CACHE, None)
    if own is not None:
        os.environ.pop(CACHE, None)
        shutil.rmtree(own, ignore_errors=True)
