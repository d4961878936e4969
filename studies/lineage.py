"""The tools of the five studies: what became of each, and which runtime here is its living successor.

Years and last releases are those of the projects' own repositories and of PyPI, as of November 2026.
"""

from typing import NamedTuple


class Ancestor(NamedTuple):
    """A tool that a study timed. `runtimes` are its successors here, by name; `original` says that the first of them is
    the tool itself, in an environment of its own if its row names one. `trap` is an unrelated package of its name on
    PyPI."""

    tool: str
    studies: str
    fate: str
    successor: str
    runtimes: tuple[str, ...] = ()
    original: bool = False
    trap: str | None = None


LINEAGE = (
    Ancestor(
        "Caffe", "1 3 5", "1.0 in 2017, last commit in 2020", "Caffe2, then PyTorch", ("caffe2", "torch"), trap="caffe"
    ),
    Ancestor("Caffe-MPI", "2", "last commit in 2018", "torch.distributed on NCCL", ("torch",)),
    Ancestor(
        "Caffe2", "4", "merged into PyTorch in 2018, removed from it in 2024", "PyTorch", ("caffe2", "torch"), True
    ),
    Ancestor("CNTK", "1 2 4", "2.7 is its last release", "ONNX Runtime, by its README", ("cntk", "onnxruntime"), True),
    Ancestor("MXNet, Gluon", "1 2 4", "1.9.1 in 2022; in the Apache Attic since 2023", "none", ("mxnet",), True),
    Ancestor("TensorFlow", "1 2 3 4 5", "alive", "itself", ("tensorflow",), original=True),
    Ancestor("Torch7", "1 3 5", "no longer developed; its kernels became ATen", "PyTorch", ("torch",)),
    Ancestor("PyTorch", "4", "alive", "itself", ("torch", "torch_compile"), original=True),
    Ancestor("Theano", "4 5", "its makers stopped in 2017; 1.0.5 still runs", "PyTensor", ("theano",), True),
    Ancestor("Lasagne", "4", "0.1 in 2015, last commit in 2019", "none"),
    Ancestor("Neon", "3 5", "discontinued in 2019", "nGraph, then OpenVINO", ("openvino",), trap="neon"),
    Ancestor("Keras", "4", "alive, on TensorFlow, JAX and PyTorch", "itself", ("keras", "tensorflow", "jax"), True),
    Ancestor("Chainer", "4", "maintenance only since 2019, last commit in 2022", "PyTorch", ("chainer", "torch"), True),
    Ancestor("Knet", "4", "last commit in 2022 (Julia)", "Flux.jl", trap="knet"),
)
