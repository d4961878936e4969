"""Theano 1.0.5, in an environment of its own: `xbench env create theano`. What runs there is `originals/theano.py`.

What it compiles with g++ lies in the cache. Its convolutions and products are calls of a BLAS, and the one it links is
the OpenBLAS that NumPy's wheel brings: it is there wherever the environment is, it is the one that NumPy has loaded
already, and it obeys OPENBLAS_NUM_THREADS. With `blas.ldflags=` Theano would reach the same through NumPy's C API,
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
    found = sorted(Path(python or "").parent.parent.glob("lib/python3*/site-packages/numpy.libs/libopenblas*.so"))
    linked = f"-L{found[0].parent} -l:{found[0].name}" if found else ""
    cache = os.environ.get("XBENCH_CACHE") or Path.home() / ".cache" / "xbench"
    flags = {
        "device": "cpu",
        "floatX": "float32",
        "base_compiledir": f"{cache}/theano",
        "blas.ldflags": linked,
        "openmp": str(options.threads > 1),
        "allow_gc": "False",  # as the studies ran it: what a step computes stays allocated
    }
    told = {"THEANO_FLAGS": ",".join(f"{name}={value}" for name, value in flags.items())}
    return told | ({"LD_LIBRARY_PATH": str(found[0].parent)} if found else {})
