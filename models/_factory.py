"""What a user's factory makes: `module:callable` or `path/to/file.py:callable`, with arguments as `make(width=64)`."""

import ast
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

RANDOM_DEPTH = ("DropPath", "StochasticDepth")  # what the layers are called in timm and in torchvision


class BadFactory(Exception):
    """A factory that makes no network; one line."""


def make(factory: str) -> "nn.Module":
    """Calls a factory, with PyTorch's random numbers started afresh; the present folder may hold its module. Stochastic
    depth stays in evaluation, where it does nothing: to an exporter it is arithmetic with random numbers. So do layers
    that the factory has set to evaluation in a network that is not.

    Raises:
        BadFactory: it cannot be imported or called, or what it makes is no `nn.Module`.
    """
    import torch

    place, name, positional, keywords = _read(factory)
    try:
        function: Any = functools.reduce(getattr, name.split("."), _imported(place))
        _check_arguments(factory, function, positional, keywords)
        torch.manual_seed(0)
        network = function(*positional, **keywords)
    except BadFactory:
        raise
    except Exception as error:  # whatever a user's module raises when it is imported or called
        raise BadFactory(f"{factory} raises {type(error).__name__}: {error}") from error
    network = getattr(network, "_orig_mod", network)  # what torch.compile has made of it
    if not isinstance(network, torch.nn.Module):
        raise BadFactory(f"{factory} makes a {type(network).__name__}, not a torch.nn.Module")
    if isinstance(network, torch.jit.ScriptModule):
        raise BadFactory(f"{factory} makes a TorchScript module: give the module that it was made from")
    if any(torch.nn.parameter.is_lazy(each) for each in (*network.parameters(), *network.buffers())):
        raise BadFactory(f"{factory} makes lazy layers: call the network once in the factory, which gives them a size")
    for layer in network.modules():
        frozen = network.training and not layer.training
        if frozen or any(word in type(layer).__name__ for word in RANDOM_DEPTH):
            layer.eval().train = lambda mode=True, layer=layer: layer  # type: ignore[method-assign, assignment]
    return network.train()


def _read(factory: str) -> tuple[str, str, list[Any], dict[str, Any]]:
    """The module or file, the name in it, and the literals between the parentheses."""
    place, _, call = factory.partition(":")
    name, opening, rest = call.partition("(")
    if not opening:
        return place, name, [], {}
    try:
        node = ast.parse(f"_({rest}", mode="eval").body
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and all(k.arg for k in node.keywords)):
            raise ValueError
        keywords = {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
        return place, name, [ast.literal_eval(each) for each in node.args], keywords
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        example = f"{place}:{name}(width=64, kind='small')"
        raise BadFactory(f"{factory}: arguments are numbers, texts, True, False, None, as in {example}") from error


def _imported(place: str) -> ModuleType:
    """The module of a name, or of a file."""
    if not place.endswith(".py"):
        if (here := os.getcwd()) not in sys.path:
            sys.path.insert(0, here)
        return importlib.import_module(place)
    path = Path(place).resolve()
    if not path.is_file():
        raise BadFactory(f"no such file: {place}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"  # a file may be called as a package
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[name])
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _check_arguments(
    factory: str, function: Callable[..., Any], positional: list[Any], keywords: dict[str, Any]
) -> None:
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # it tells none
        return
    try:
        given = signature.bind_partial(*positional, **keywords).arguments
        optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        parameters = [p for p in signature.parameters.values() if p.kind not in optional]
        missing = [p.name for p in parameters if p.default is p.empty and p.name not in given]
    except TypeError as error:
        known = ", ".join(signature.parameters) or "none"
        raise BadFactory(f"{factory}: {error}; its arguments are {known}") from error
    if missing:
        example = f"{factory.partition('(')[0]}({', '.join(f'{each}=...' for each in missing)})"
        raise BadFactory(f"{factory} needs {', '.join(missing)}: write {example}")
