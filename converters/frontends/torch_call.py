"""Makes a user's module a function of arrays: inputs are bound to arguments by name, results become a flat tuple.

The network stays the same object, with its parameters' names, hooks and mode. Its class is replaced by a subclass
whose `forward` takes the arrays in the order of their names.
"""

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

GIVEN = "_given"  # suffix of an input with the same name as a parameter
STAR, STARS = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
IN_ORDER = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
PLAIN = (bool, int, float, complex, str, bytes, torch.SymInt, torch.SymFloat, torch.SymBool, torch.dtype, torch.device)
NO_RESULT = (type, nn.Module)  # whose attributes are not results of a call
Leaves = list[tuple[str, torch.Tensor]]
Loss = Callable[..., Any]


class BadCall(ValueError):
    """Inputs that `forward` does not accept, or a result with something other than tensors; one line."""


@dataclasses.dataclass(frozen=True)
class Binding:
    """Which arrays, by number, are positional arguments, and which are keyword arguments."""

    positional: tuple[int, ...]
    keywords: dict[str, int]


def flat(network: nn.Module, names: Sequence[str], loss: Loss | None = None) -> nn.Module:
    """Lets a network be called with arrays in the order of `names` and return a tuple of tensors. Returns the network.

    With a `loss` its value is the first of these. It gets the result of `forward`, and the arrays of the names of its
    other arguments, which `forward` does not get unless it has arguments of these names, too.

    Raises:
        BadCall: `forward` has no argument of a name, or needs another one.
    """
    kind, own = type(network), vars(network).pop("forward", None)
    signature = inspect.signature(own or network.forward)
    targets = _targets(loss, names) if loss else {}
    binding = bind(kind.__name__, signature, names, [n for n in targets if n not in signature.parameters])
    paths: list[str] = []
    hooks = _taken_hooks(network)

    def forward(self: nn.Module, *arrays: torch.Tensor) -> tuple[torch.Tensor, ...]:
        positional = tuple(arrays[index] for index in binding.positional)
        keywords = {name: arrays[index] for name, index in binding.keywords.items()}
        result = own(*positional, **keywords) if own else kind.forward(self, *positional, **keywords)
        for hook, takes_keywords in hooks:
            given = (positional, keywords, result) if takes_keywords else (positional, result)
            changed = hook(self, *given)
            result = result if changed is None else changed
        leaves = [("", result)] if isinstance(result, torch.Tensor) else flattened(result)
        if loss:
            leaves.insert(0, ("loss", _number(loss(result, **{name: arrays[at] for name, at in targets.items()}))))
        if torch.compiler.is_exporting() or not torch.compiler.is_compiling():
            paths[:] = [path for path, _ in leaves]
        return tuple(tensor for _, tensor in leaves)

    # torch.export reads the signature, and does not name the arguments of a star.
    arguments = [inspect.Parameter(name, IN_ORDER[1]) for name in ("self", *(f"array{n}" for n in range(len(names))))]
    forward.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    scope = {"forward": forward, "__module__": kind.__module__, "__doc__": kind.__doc__, "output_paths": paths}
    network.__class__ = type(kind.__name__, (kind,), scope)
    return network


def _targets(loss: Loss, names: Sequence[str]) -> dict[str, int]:
    """The arrays, by number, that a loss takes beside the result.

    Raises:
        BadCall: it takes no result, or there is no array of the name of an argument that it must have.
    """
    try:
        _, *others = inspect.signature(loss).parameters.values()
    except ValueError:
        raise BadCall(f"the loss {_title(loss)} must take what forward returns") from None
    for each in others:
        if each.default is each.empty and each.kind not in (STAR, STARS) and each.name not in names:
            raise BadCall(
                f"the loss {_title(loss)} also needs {each.name}: give it as an input, such as {each.name}:..."
            )
    return {each.name: names.index(each.name) for each in others if each.name in names}


def _number(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor) and value.ndim == 0 and value.is_floating_point():
        return value
    what = f"of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else f"that is a {type(value).__name__}"
    raise BadCall(f"has a loss {what}: it must be one number, such as the mean")


def _title(loss: Loss) -> str:
    return str(getattr(loss, "__name__", type(loss).__name__))


def _taken_hooks(network: nn.Module) -> list[tuple[Callable[..., Any], bool]]:
    """The hooks that read a network's result, which are called with the original and not a flat tuple; and whether each
    takes keyword arguments."""
    hooks = [(hook, key in network._forward_hooks_with_kwargs) for key, hook in network._forward_hooks.items()]
    network._forward_hooks.clear()
    return hooks


def bind(title: str, signature: inspect.Signature, names: Sequence[str], left_out: Sequence[str] = ()) -> Binding:
    """Binds arrays to the arguments of their names, but those that are `left_out`. Others go to `*args` in their order,
    or to `**kwargs`. A `forward` with one argument takes an array of any name.

    Raises:
        BadCall: no argument of that name, or one that is required is missing.
    """
    arguments = {p.name: p for p in signature.parameters.values() if p.kind not in (STAR, STARS)}
    kinds = {p.kind for p in signature.parameters.values()}
    bound: dict[str, int] = {}
    others: list[int] = []
    taken = {index: name for index, name in enumerate(names) if name not in left_out}
    for index, name in taken.items():
        argument = name if name in arguments else name.removesuffix(GIVEN)
        if argument in arguments and argument not in bound:
            bound[argument] = index
        else:
            others.append(index)
    if len(taken) == len(arguments) == len(others) == 1:
        bound, others = {next(iter(arguments)): others[0]}, []
    if others and not kinds & {STAR, STARS}:
        known = ", ".join(arguments) or "no argument"
        raise BadCall(f"forward of {title} has no argument {names[others[0]]!r}; it has {known}")
    if missing := [name for name, p in arguments.items() if p.default is p.empty and name not in bound]:
        raise BadCall(f"forward of {title} also needs {', '.join(missing)}")
    leading = _leading(arguments, bound)
    keywords = {name: index for name, index in bound.items() if name not in leading}
    if STAR in kinds and others:
        if before := [n for n, p in arguments.items() if p.kind in IN_ORDER and n not in leading]:
            raise BadCall(f"forward of {title} also needs {', '.join(before)}, which come before its star argument")
        return Binding((*leading.values(), *others), keywords)
    return Binding((*leading.values(),), keywords | {names[index]: index for index in others})


def _leading(arguments: Mapping[str, inspect.Parameter], bound: Mapping[str, int]) -> dict[str, int]:
    """The arguments that can be positional: those before the first omitted one."""
    leading: dict[str, int] = {}
    for name, parameter in arguments.items():
        if parameter.kind not in IN_ORDER or name not in bound:
            break
        leading[name] = bound[name]
    return leading


def flattened(result: Any) -> Leaves:
    """The tensors of a result with their paths, such as `logits` or `hidden.0`; None and plain values are omitted.
    Objects of other kinds, such as a cache of keys and values, are split into their attributes.

    Raises:
        BadCall: an object without a tensor, or no tensor at all.
    """
    leaves = _leaves(result, "", ())
    if not leaves:
        raise BadCall("returns no tensor")
    return leaves


def _leaves(result: Any, path: str, above: tuple[Any, ...]) -> Leaves:
    if isinstance(result, torch.Tensor):
        return [(path, result)]
    if result is None or isinstance(result, PLAIN) or any(result is each for each in above):
        return []
    parts = _parts(result)
    if parts is not None:
        return [leaf for name, value in parts for leaf in _leaves(value, _joined(path, name), (*above, result))]
    leaves: Leaves = []
    for name, value in () if isinstance(result, NO_RESULT) else getattr(result, "__dict__", {}).items():
        with contextlib.suppress(BadCall):  # an attribute may be anything
            leaves += _leaves(value, _joined(path, name), (*above, result))
    if not leaves:
        where = f" at {path}" if path else ""
        raise BadCall(f"returns a {type(result).__name__}{where}, which holds no tensor")
    return leaves


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _parts(result: Any) -> list[tuple[str, Any]] | None:
    """The items of a container, by name; None if it is not a container."""
    if isinstance(result, Mapping):
        return [(str(name) or "_", value) for name, value in result.items()]
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return list(zip(result._fields, result, strict=True))
    if isinstance(result, list | tuple):
        return [(str(number), value) for number, value in enumerate(result)]
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return [(field.name, getattr(result, field.name)) for field in dataclasses.fields(result)]
    if type(result) in pytree.SUPPORTED_NODES:
        children, _ = pytree.SUPPORTED_NODES[type(result)].flatten_fn(result)
        return [(str(number), value) for number, value in enumerate(children)]
    return None


def output_paths(network: nn.Module) -> list[str]:
    """The paths of the tensors that a flat network returned last; empty for other networks."""
    paths: list[str] = getattr(network, "output_paths", [])
    return paths
