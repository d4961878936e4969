"""Matrix products in all their forms."""


def Gemm(xp, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = xp.matmul(xp.transpose(a) if transA else a, xp.transpose(b) if transB else b)
    y = y if alpha == 1 else alpha * y
    return y if c is None else y + (c if beta == 1 else beta * c)


def Einsum(xp, *arrays, equation):
    return xp.einsum(equation, *arrays)


def Det(xp, x):
    return xp.det(x)
