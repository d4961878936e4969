"""Calls a user's factory: `module:callable` or `path/to/file.py:callable`, with arguments as `make(width=64)`; or
makes a network of a library (`_hub.py`)."""

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
from typing import TYPE_CHECKING, Any, cast

from xbench.errors import XBenchError
from xbench.models import _hub
from xbench.models._stored import load

if TYPE_CHECKING:
    from torch import nn

RANDOM_DEPTH = ("DropPath", "StochasticDepth")  # the layers' names in timm and in torchvision


class BadFactory(XBenchError):
    """A factory that makes no network; one line."""


def make(factory: str, weights: str = "") -> "nn.Module":
    """Calls a factory, with PyTorch's random seed reset; its module may be in the current folder. `weights` is a file
    of them, "" for those that the factory gives. Stochastic depth stays in evaluation, where it does nothing: to an
    exporter it is arithmetic with random numbers. So do layers that the factory has set to evaluation in a network that
    is not.

    Raises:
        BadFactory: it cannot be imported or called, or what it makes is no `nn.Module`.
        XBenchError: the weights cannot be read, or are of another network.
    """
    import torch

    place, name, positional, keywords = _read(factory)
    try:
        function = _function(place, name)
        _check_arguments(factory, function, positional, keywords)
        torch.manual_seed(0)
        network = function(*positional, **keywords)
    except XBenchError:
        raise
    except Exception as error:  # anything that a user's module raises on import or call
        cause = _cause(error)
        raise BadFactory(f"{factory} raises {type(cause).__name__}: {cause}") from error
    network = getattr(network, "_orig_mod", network)  # unwraps torch.compile
    if not isinstance(network, torch.nn.Module):
        raise BadFactory(f"{factory} makes a {type(network).__name__}, not a torch.nn.Module")
    if isinstance(network, torch.jit.ScriptModule):
        raise BadFactory(f"{factory} makes a TorchScript module: give the module that it was made from")
    if any(torch.nn.parameter.is_lazy(each) for each in (*network.parameters(), *network.buffers())):
        raise BadFactory(f"{factory} makes lazy layers: call the network once in the factory, which gives them a size")
    if weights:
        load(network, weights)
    for layer in network.modules():
        frozen = network.training and not layer.training
        if frozen or any(word in type(layer).__name__ for word in RANDOM_DEPTH):
            layer.eval().train = lambda mode=True, layer=layer: layer  # type: ignore[method-assign, assignment]
    return network.train()


def function(word: str) -> Callable[..., Any]:
    """A user's function by the module or file and its name, as of a factory.

    Raises:
        BadFactory: it cannot be imported, or is no function.
    """
    place, _, name = word.partition(":")
    try:
        given = functools.reduce(getattr, name.split("."), _imported(place))
    except XBenchError:
        raise
    except Exception as error:
        raise BadFactory(f"{word} raises {type(error).__name__}: {error}") from error
    if not callable(given):
        raise BadFactory(f"{word} is a {type(given).__name__}, not a function")
    return cast(Callable[..., Any], given)


def _cause(error: BaseException) -> BaseException:
    """What an error was raised from: of an import that a library puts off, what failed in it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _read(factory: str) -> tuple[str, str, list[Any], dict[str, Any]]:
    """The module, file or library, the name in it, and the literals between the parentheses."""
    place, _, call = factory.partition(":")
    if place == "hf":
        return place, call, [], {}
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


def _function(place: str, name: str) -> Any:
    if place in _hub.LIBRARIES:
        return _hub.factory(place, name)
    return functools.reduce(getattr, name.split("."), _imported(place))


def _imported(place: str) -> ModuleType:
    """The module of a name, or of a file."""
    if not place.endswith(".py"):
        if (here := os.getcwd()) not in sys.path:
            sys.path.insert(0, here)
        return importlib.import_module(place)
    path = Path(place).resolve()
    if not os.path.isfile(path):  # False, too, of a name that is longer than a file's can be
        raise BadFactory(f"no such file: {place}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"  # a file may have the name of a package
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
    except (ValueError, TypeError):  # it has none
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
