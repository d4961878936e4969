"""Gradients of operators that write updates into an array at given places."""


def ScatterElements(op, node, dy):
    indices, axis = node.inputs[1], node.attributes.get_int("axis", 0)

    def write(x, updates, reduction):
        return op.ScatterElements(x, indices, updates, axis=axis, reduction=reduction)

    return _scattered(op, node, dy, write, lambda x: op.GatherElements(x, indices, axis=axis))


def ScatterND(op, node, dy):
    indices = node.inputs[1]

    def write(x, updates, reduction):
        return op.ScatterND(x, indices, updates, reduction=reduction)

    return _scattered(op, node, dy, write, lambda x: op.GatherND(x, indices))


def _scattered(op, node, dy, write, read):
    """`write` puts updates where the node does, `read` takes what is there."""
    updates = node.inputs[2]
    reduction = node.attributes.get_string("reduction", "none")
    if reduction == "none":
        return [write(dy, op.zeros_like(updates), "none"), None, read(dy)]
    if reduction == "add":
        return [dy, None, read(dy)]
    if reduction in ("max", "min"):
        return _largest(op, node, dy, write, read)
    raise NotImplementedError(f"the gradient of {node.op_type} with reduction {reduction}")


def _largest(op, node, dy, write, read):
    """As PyTorch's scatter_reduce: if several updates, or one and the element that was there, are the largest, each has
    an equal share."""
    x, _, updates = node.inputs
    (result,) = node.outputs
    kept = op.Cast(op.Equal(x, result), to=op.floating)
    moved = op.Cast(op.Equal(updates, read(result)), to=op.floating)
    share = op.Div(dy, write(kept, moved, "add"))
    return [op.Mul(kept, share), None, op.Mul(moved, read(share))]
