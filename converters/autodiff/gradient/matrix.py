"""Gradients of matrix products: two more products each."""

import string

import numpy as np

from xbench.converters.autodiff.gradient.ops import dims, names, rank


def MatMul(op, node, dy):
    a, b = node.inputs
    if rank(a) == 1 or rank(b) == 1:
        return _of_vectors(op, node, dy)
    da = op.MatMul(dy, _turned(op, b))
    if rank(b) == 2 < rank(a):  # a linear layer on rows of any number of axes: one product adds them up
        rows, columns = dims(b)
        flat = op.Transpose(op.reshape(a, [None, rows]), perm=[1, 0])
        return [da, op.MatMul(flat, op.reshape(dy, [None, columns]))]
    db = op.MatMul(_turned(op, a), dy)
    return [_sum_batch(op, da, node, a), _sum_batch(op, db, node, b)]


def _turned(op, matrix):
    order = list(range(rank(matrix)))
    return op.Transpose(matrix, perm=[*order[:-2], order[-1], order[-2]])


def _sum_batch(op, g, node, x):
    """Sums over the leading axes that a product broadcast."""
    wide, own = dims(node.outputs[0])[:-2], dims(x)[:-2]
    lead = len(wide) - len(own)
    axes = [a for a in range(len(wide)) if a < lead or (own[a - lead] == 1 and wide[a] != 1)]
    if not axes:
        return g
    return op.reshape_like(op.ReduceSum(g, axes, keepdims=1), x)


def _of_vectors(op, node, dy):
    """As numpy.matmul: a vector on the left is a row, one on the right a column."""
    a, b = node.inputs
    row, column = rank(a) == 1, rank(b) == 1
    wide = op.Unsqueeze(op.Unsqueeze(dy, [-1]), [-2]) if row and column else op.Unsqueeze(dy, [-2 if row else -1])
    a2, b2 = op.Unsqueeze(a, [0]) if row else a, op.Unsqueeze(b, [1]) if column else b
    order_a, order_b = (list(range(max(rank(v), 2))) for v in (a, b))
    turned_b = op.Transpose(b2, perm=[*order_b[:-2], order_b[-1], order_b[-2]])
    turned_a = op.Transpose(a2, perm=[*order_a[:-2], order_a[-1], order_a[-2]])
    da, db = op.MatMul(wide, turned_b), op.MatMul(turned_a, wide)
    return [_vector(op, da, a, rank(b)), _vector(op, db, b, rank(a))]


def _vector(op, g, x, other):
    """The gradient of a vector that all products shared: the sum over the leading axes."""
    if rank(x) == 1 and other > 2:
        g = op.ReduceSum(g, list(range(other - 2)), keepdims=0)
    return op.reshape_like(g, x)


def Gemm(op, node, dy):
    a, b, c = [*node.inputs, None][:3]
    alpha, beta = (node.attributes.get_float(name, 1.0) for name in ("alpha", "beta"))
    ta, tb = (node.attributes.get_int(name, 0) for name in ("transA", "transB"))
    scale = {} if alpha == 1 else {"alpha": alpha}
    da = op.Gemm(b, dy, transA=tb, transB=1, **scale) if ta else op.Gemm(dy, b, transB=1 - tb, **scale)
    db = op.Gemm(dy, a, transA=1, transB=ta, **scale) if tb else op.Gemm(a, dy, transA=1 - ta, **scale)
    if c is None:
        return [da, db]
    return [da, db, op.sum_to(dy if beta == 1 else op.Mul(dy, beta), node.outputs[0], c)]


def Einsum(op, node, dy):
    """The einsum with the operand and the result swapped. Diagonals come back by the identity matrix; axes that were
    summed up by themselves are repeated."""
    operands, result = _terms(node)
    gradients = []
    for i, (x, own) in enumerate(zip(node.inputs, operands, strict=True)):
        others = [(each, term) for j, (each, term) in enumerate(zip(node.inputs, operands, strict=True)) if j != i]
        own, identities = _without_repeats(x, own, {*"".join([*operands, result])})
        given = [(dy, result), *others, *identities]
        known = "".join(term for _, term in given)
        met = "".join(letter for letter in own if letter in known)
        g = op.Einsum(*(each for each, _ in given), equation=f"{','.join(term for _, term in given)}->{met}")
        alone = [axis for axis, letter in enumerate(own) if letter not in known]
        gradients.append(op.expand_like(op.Unsqueeze(g, alone), x) if alone else g)
    return gradients


def _terms(node):
    """The letters of each operand and of the result, which may be left out of the equation; an ellipsis is letters."""
    terms, arrow, result = node.attributes.get_string("equation").replace(" ", "").partition("->")
    operands = terms.split(",")
    free = [letter for letter in string.ascii_letters if letter not in terms]
    ranks = [rank(x) - len(term) + 3 if "." in term else 0 for x, term in zip(node.inputs, operands, strict=True)]
    dots = "".join(free[: max(ranks)])
    if not arrow:
        letters = terms.replace(",", "").replace(".", "")
        result = ("..." if dots else "") + "".join(sorted(c for c in {*letters} if letters.count(c) == 1))
    operands = [term.replace("...", dots[len(dots) - own :]) for term, own in zip(operands, ranks, strict=True)]
    sizes = {}
    for x, term in zip(node.inputs, operands, strict=True):
        for letter, size in zip(term, names(x), strict=True):
            if sizes.setdefault(letter, size) != size and 1 in (sizes[letter], size):
                raise NotImplementedError(f"the gradient of Einsum {terms}->{result}, which broadcasts")
    return operands, result.replace("...", dots)


def _without_repeats(x, own, taken):
    """The letters of an operand, each once; and the identity matrices that make the new ones equal to the old."""
    free = (letter for letter in string.ascii_letters if letter not in taken)
    letters, identities = "", []
    for letter, size in zip(own, dims(x), strict=True):
        if letter in letters:
            if size is None:
                raise NotImplementedError(
                    f"the gradient of an Einsum of the diagonal of {x.name}, whose size is not known"
                )
            new = next(free)
            identities.append((np.eye(size, dtype=np.float32), letter + new))
            letter = new
        letters += letter
    return letters, identities
