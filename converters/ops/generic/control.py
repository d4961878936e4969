"""Control flow. A body is a Python function of arrays that returns a tuple, printed before the node it belongs to.

What is known while the framework traces is decided at once, in Python: the branch of an If, the number of iterations
of a Loop. The rest are the framework's own conditionals and loops. Bodies also read arrays that are not among the
operator's inputs, so these operators are never computed in NumPy.
"""

import contextlib

import numpy as np

from xbench.converters.ops.generic.types import typed


def _decided(xp, value):
    """A condition or number of iterations in Python; NotImplementedError if only known at run time."""
    return xp.concrete(typed(value)).reshape(()).item()


def _is_decided(xp, value):
    try:
        _decided(xp, value)
    except NotImplementedError:
        return False
    return True


def _arrays(xp, values):
    if any(value is None or isinstance(value, tuple) for value in values):
        raise NotImplementedError("a sequence or an optional that depends on values only known at run time")
    return tuple(xp.asarray(typed(value)) for value in values)


def If(xp, cond, *, then_branch, else_branch):
    """The outputs of one of two functions without arguments."""
    if _is_decided(xp, cond):
        return then_branch() if _decided(xp, cond) else else_branch()
    predicate = xp.reshape(cond, ())
    return xp.cond(predicate, lambda: _arrays(xp, then_branch()), lambda: _arrays(xp, else_branch()))


# ***** loops *****


def Loop(xp, limit=None, cond=None, *carried, body):
    """`cond, *carried, *rows = body(turn, cond, *carried)` up to `limit` times, as long as `cond` is true.

    Returns the last `carried`, and the rows of all iterations stacked.
    """
    cond = True if cond is None else cond
    if limit is not None:
        # It fails if arrays change their shape between iterations, or an iteration number becomes a shape.
        with contextlib.suppress(NotImplementedError, TypeError, ValueError):
            return _scanned(xp, limit, cond, carried, body)
    try:
        return _repeated(xp, limit, cond, carried, body)
    except NotImplementedError:
        return _while(xp, limit, cond, carried, body)


def _scanned(xp, limit, cond, carried, body):
    """A known number of iterations and a condition that stays true: a scan over the iteration numbers."""
    turns = _decided(xp, limit)
    if turns < 1 or not _decided(xp, cond):
        raise NotImplementedError("a Loop without turns")

    def step(state, row):
        going, *values = body(row[0], np.asarray(True), *state)
        if not _decided(xp, going):
            raise NotImplementedError("a Loop that ends early")
        values = _arrays(xp, values)
        return values[: len(state)], values[len(state) :]

    turn = xp.asarray(np.arange(turns, dtype=np.int64))
    state, rows = xp.scan(step, _arrays(xp, carried), (turn,))
    return *state, *rows


def _repeated(xp, limit, cond, carried, body):
    """The iterations in Python, whose number and conditions are known."""
    carried = tuple(typed(value) for value in carried)
    turn, going, rows = 0, _decided(xp, cond), []
    turns = None if limit is None else _decided(xp, limit)
    while going and (turns is None or turn < turns):
        cond, *values = body(np.asarray(turn), np.asarray(True), *carried)
        carried, turn, going = tuple(values[: len(carried)]), turn + 1, _decided(xp, cond)
        rows.append(_arrays(xp, values[len(carried) :]))
    if rows:
        return *carried, *(xp.stack(parts, 0) for parts in zip(*rows, strict=True))
    shapes = _arrays(xp, body(np.asarray(0), np.asarray(True), *carried)[1 + len(carried) :])
    return *carried, *(xp.getitem(xp.expand_dims(y, (0,)), (slice(0, 0),)) for y in shapes)


def _while(xp, limit, cond, carried, body):
    """The framework's own loop, which cannot stack the results of the iterations."""
    turns = None if limit is None else xp.reshape(xp.asarray(typed(limit)), ())

    def going(turn, cond, *state):
        return cond if turns is None else xp.logical_and(cond, xp.less(turn, turns))

    def turn_once(turn, cond, *state):
        cond, *values = body(turn, cond, *state)
        if len(values) > len(state):
            raise NotImplementedError("a Loop that stacks outputs, whose number of turns is only known at run time")
        return turn + 1, *_arrays(xp, (_flag(xp, cond), *values))

    zero = xp.asarray(np.asarray(0, np.int64))
    state = (zero if turns is None else xp.astype(zero, xp.type_of(turns)), _flag(xp, cond), *_arrays(xp, carried))
    return tuple(xp.while_loop(going, turn_once, state))[2:]


def _flag(xp, cond):
    return xp.reshape(xp.asarray(typed(cond)), ())


def Scan(
    xp,
    *inputs,
    body,
    num_scan_inputs,
    scan_input_axes=None,
    scan_input_directions=None,
    scan_output_axes=None,
    scan_output_directions=None,
):
    """`*state, *rows = body(*state, *parts)` over the parts of the last `num_scan_inputs` inputs along their axes.

    Returns the last state, and the rows of all steps stacked along their axes.
    """
    count = len(inputs) - num_scan_inputs
    state, given = _arrays(xp, inputs[:count]), _arrays(xp, inputs[count:])
    axes, backward = scan_input_axes or (0,) * len(given), scan_input_directions or (0,) * len(given)
    given = [_moved(xp, x, axis, 0) for x, axis in zip(given, axes, strict=True)]
    given = [xp.flip(x, 0) if flipped else x for x, flipped in zip(given, backward, strict=True)]

    def step(state, parts):
        values = _arrays(xp, body(*state, *parts))
        return values[:count], values[count:]

    state, rows = xp.scan(step, state, tuple(given))
    axes, backward = scan_output_axes or (0,) * len(rows), scan_output_directions or (0,) * len(rows)
    rows = [xp.flip(y, 0) if flipped else y for y, flipped in zip(rows, backward, strict=True)]
    return *state, *(_moved(xp, y, 0, axis) for y, axis in zip(rows, axes, strict=True))


def _moved(xp, x, start, end):
    """x with the axis `start` put at `end`."""
    rank = len(xp.shape(x))
    order = [a for a in range(rank) if a != start % rank]
    order.insert(end % rank, start % rank)
    return x if order == list(range(rank)) else xp.transpose(x, order)


def SequenceMap(xp, sequence, *others, body):
    """The body on every element of a sequence, and of sequences in `others`. Returns a sequence for each output."""
    turns = [body(x, *(v[i] if isinstance(v, tuple) else v for v in others)) for i, x in enumerate(sequence)]
    return tuple(tuple(typed(v) for v in column) for column in zip(*turns, strict=True))
