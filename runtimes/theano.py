"""Theano 1.0.5, in an environment of its own: `xbench env create theano`. It runs `originals/theano.py`.

The code it compiles with g++ is in the cache. Its convolutions and products are calls of a BLAS, and it links the
OpenBLAS of NumPy's wheel: that is in every such environment, NumPy has loaded it already, and it obeys
OPENBLAS_NUM_THREADS. With `blas.ldflags=` Theano would reach the same through NumPy's C API,
product by product.
"""

import os
from pathlib import Path

from xbench.converters.artifact import Artifact
from xbench.runtimes import Options, Runtime
from xbench.runtimes._configuration import interpreter
from xbench.runtimes.support.remote import RemoteTrainer


def make(artifact: Artifact, options: Options) -> Runtime:
    return RemoteTrainer("theano", artifact, options, _variables(options))


def _variables(options: Options) -> dict[str, str]:
    python = interpreter(f"theano:python={options.extra['python']}" if "python" in options.extra else "theano")
    libraries = sorted(Path(python or "").parent.parent.glob("lib/python3*/site-packages/numpy.libs/libopenblas*.so"))
    linked = f"-L{libraries[0].parent} -l:{libraries[0].name}" if libraries else ""
    cache = os.environ.get("XBENCH_CACHE") or Path.home() / ".cache" / "xbench"
    flags = {
        "device": "cpu",
        "floatX": "float32",
        "base_compiledir": f"{cache}/theano",
        "blas.ldflags": linked,
        "openmp": str(options.threads > 1),
        "allow_gc": "False",  # as the studies ran it: a step's results stay allocated
    }
    variables = {"THEANO_FLAGS": ",".join(f"{name}={value}" for name, value in flags.items())}
    return variables | ({"LD_LIBRARY_PATH": str(libraries[0].parent)} if libraries else {})
