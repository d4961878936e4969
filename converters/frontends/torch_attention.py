"""PyTorch's attention in ONNX's operators."""

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18 as op
from onnxscript.function_libs.torch_lib.ops import nn as torch_lib

LEAST = float(np.finfo(np.float32).min)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False) -> Any:
    """aten::scaled_dot_product_attention; the causal mask becomes a constant where the lengths are known."""
    rows, columns = query.shape[-2], key.shape[-2]
    if enable_gqa or dropout_p or (is_causal and not (isinstance(rows, int) and isinstance(columns, int))):
        arguments = (attn_mask, dropout_p, is_causal, scale, enable_gqa)
        return torch_lib.aten_scaled_dot_product_attention(query, key, value, *arguments)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    axes = list(range(len(key.shape)))
    scores = op.MatMul(op.Mul(query, scale), op.Transpose(key, perm=[*axes[:-2], axes[-1], axes[-2]]))
    if attn_mask is not None and attn_mask.dtype == ir.DataType.BOOL:
        return op.MatMul(_masked(scores, attn_mask), value)
    if is_causal:
        mask = np.triu(np.full((rows, columns), -np.inf, np.float32), 1)
        scores = op.Add(scores, op.Constant(value=ir.tensor(mask)))
    elif attn_mask is not None:
        scores = op.Add(scores, attn_mask)
    return op.MatMul(op.Softmax(scores, axis=-1), value)


def _masked(scores, mask):
    """Weights of the places that a mask keeps. A row of which none is kept has zeros, as in PyTorch: no infinity takes
    part, of which the softmax and its gradient would be NaN."""
    weights = op.Softmax(op.Where(mask, scores, LEAST), axis=-1)
    kept = op.ReduceMax(op.Cast(mask, to=ir.DataType.FLOAT), [-1], keepdims=1)
    return op.Where(op.Cast(kept, to=ir.DataType.BOOL), weights, 0.0)
