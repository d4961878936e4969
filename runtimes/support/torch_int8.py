"""A PyTorch network in int8 by its makers' own tool: torchao quantises an exported program after training (PT2E) as
Inductor's kernels for x86 take it. Convolutions and linear layers have weights of eight bits and activations of seven;
the rest, and every product of two activations, is float32."""

import operator
import platform
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from xbench.runtimes import Unavailable

PROCESSORS = ("x86_64", "AMD64")
ATEN = torch.ops.aten
# The function or layer that an operator of an exported program is of. The tool finds layers by that, which an export
# that does not trace Python code leaves out.
SOURCES = {
    **{ATEN.conv1d.default: F.conv1d, ATEN.conv2d.default: F.conv2d, ATEN.linear.default: F.linear},
    **{ATEN.batch_norm.default: F.batch_norm, ATEN.adaptive_avg_pool2d.default: F.adaptive_avg_pool2d},
    **{ATEN.relu.default: F.relu, ATEN.relu_.default: F.relu, ATEN.hardtanh.default: F.hardtanh},
    **{ATEN.hardtanh_.default: F.hardtanh, ATEN.hardswish.default: nn.Hardswish, ATEN.silu.default: nn.SiLU},
    **{ATEN.gelu.default: nn.GELU, ATEN.add.Tensor: operator.add, ATEN.add_.Tensor: operator.add},
}


def quantised(program: fx.GraphModule, batches: Sequence[Sequence[torch.Tensor]]) -> Any:
    """The exported program with the ranges of activations as they are on the batches.

    Raises:
        Unavailable: torchao is not installed, or this is another processor.
    """
    if platform.machine() not in PROCESSORS:
        raise Unavailable(f"torch_compile has int8 on x86 alone, and this is {platform.machine()}")
    try:
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
    except ImportError as error:
        raise Unavailable("torch_compile needs torchao for int8: pip install 'xbench[int8]'") from error
    for node in program.graph.nodes:
        if source := SOURCES.get(node.target):
            node.meta["source_fn_stack"] = [(node.name, source)]
    # Without VNNI a processor adds two products in 16 bits, which overflows unless one factor has seven.
    settings = x86.get_default_x86_inductor_quantization_config(reduce_range=True)
    prepared = prepare_pt2e(program, x86.X86InductorQuantizer().set_global(settings))
    with torch.no_grad():
        for batch in batches:
            prepared(*batch)
    return convert_pt2e(prepared)
