"""MXNet 1.9.1, in an environment of its own: `xbench env create mxnet`. It runs `originals/mxnet.py`."""

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime
from xbench.runtimes.support.remote import RemoteTrainer


def make(artifact: Artifact, options: Options) -> Runtime:
    return RemoteTrainer("mxnet", artifact, options, {"MXNET_CPU_WORKER_NTHREADS": str(options.threads)})
