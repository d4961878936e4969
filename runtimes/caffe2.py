"""Caffe2 as PyTorch 1.8.1 still has it, in an environment of its own: `xbench env create caffe2`; inference only. It
runs `originals/caffe2.py`."""

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime
from xbench.runtimes.support.remote import Remote


def make(artifact: Artifact, options: Options) -> Runtime:
    return Remote("caffe2", artifact, options)
