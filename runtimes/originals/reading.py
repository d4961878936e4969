"""What the tables of all old frameworks share: operators that compute nothing, and ways to say what is missing."""

import types


class Unsupported(Exception):
    """What a framework cannot do, or its table here does not; it names the operator."""


def symmetric(pads, rank, what):
    """ONNX's pads where they are alike on both sides: one number a dimension."""
    if pads is None:
        return (0,) * rank
    if tuple(pads[:rank]) != tuple(pads[rank:]):
        raise Unsupported("%s with pads that differ by side: %s" % (what, (pads,)))
    return tuple(pads[:rank])


def plain(what, auto_pad, **others):
    """Refuses attributes of an operator that have a value."""
    if auto_pad not in ("NOTSET", "VALID"):
        raise Unsupported("%s with auto_pad %s" % (what, auto_pad))
    for name, value in others.items():
        if value:
            raise Unsupported("%s with %s" % (what, name))


def type_of(to):
    """The name of one of ONNX's types, as far as these networks use them."""
    names = {1: "float32", 6: "int32", 7: "int64"}
    if to not in names:
        raise Unsupported("Cast to ONNX's type %d" % to)
    return names[to]


def gates(gate_order):
    """Where input, forget, cell and output are, of ONNX's order input, output, forget, cell."""
    order = gate_order or (0, 1, 2, 3)
    return [order[0], order[2], order[3], order[1]]


def Constant(*, value_float=None, value_ints=None, value_int=None, value_floats=None):
    return next(v for v in (value_float, value_ints, value_int, value_floats) if v is not None)


def Identity(x, *, detached=0):
    if detached:
        raise Unsupported("Identity that hands no gradient on")
    return x


def operators(names):
    """The functions of a file whose names are ONNX operators', and those that are here."""
    own = {"Constant": Constant, "Identity": Identity}
    found = {n: each for n, each in names.items() if isinstance(each, types.FunctionType) and n[0].isupper()}
    return dict(own, **found)
