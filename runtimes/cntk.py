"""CNTK 2.7, in an environment of its own: `xbench env create cntk`. It runs `originals/cntk.py`."""

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime
from xbench.runtimes.support.remote import RemoteTrainer


def make(artifact: Artifact, options: Options) -> Runtime:
    return RemoteTrainer("cntk", artifact, options)
