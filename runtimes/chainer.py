"""Chainer 7.8.1, in an environment of its own (`xbench env create chainer`). It runs `originals/chainer.py`."""

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime
from xbench.runtimes.support.remote import RemoteTrainer


def make(artifact: Artifact, options: Options) -> Runtime:
    return RemoteTrainer("chainer", artifact, options)
