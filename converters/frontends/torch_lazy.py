"""Imports what PyTorch's exporter imports when it is first used, which takes longer than a small network: for processes
that workers are forked from."""

import contextlib
import importlib

NAMES = (  # private ones; another version of PyTorch may have others
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch._functorch.partitioners",
    "torch.export._trace",
    "torch.onnx._internal.exporter._core",
    "torch.onnx._internal.exporter._torchlib.ops",
    "onnxscript.rewriter.onnx_fusions",
    "sympy.tensor.tensor",
    "xbench.converters.frontends.pytorch",
)

for name in NAMES:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
