"""Which layers make a network's training form compute something else than its evaluation, and what switches that off.

The layers of one class are set to training alone. Each time the network is called with numbers of two seeds, and with
the least that can be drawn, which leaves out whatever is left out with some probability.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

MOST = 48  # classes that are tried
NAMED = 3  # classes that a message lists
DRAWN = (torch.rand, torch.rand_like)
WORDS = ("drop", "mask", "prob", "noise", "augment")  # in the names of settings
Settings = Sequence[tuple[dict[str, Any], str, Any]]  # the attributes of an object, the name of one, its value
Call = Callable[[int], Any]  # the result with random numbers of a seed


class Least(TorchFunctionMode):
    """Zeros in the place of random numbers between 0 and 1."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return torch.zeros_like(result) if func in DRAWN else result


def culprits(network: nn.Module, call: Call, differ: Callable[[Any, Any], Any]) -> str:
    """The layers that compute something else in training, and what to do; "" if no class of layers does so alone."""
    groups: dict[type[nn.Module], dict[str, nn.Module]] = {}
    for name, layer in network.eval().named_modules():
        if not type(layer).__module__.startswith("torch.nn."):
            groups.setdefault(type(layer), {})[name] = layer
    plain, said = call(0), list[str]()
    for layers in list(groups.values())[:MOST]:
        training = [(vars(layer), "training", True) for layer in layers.values()]
        results = _results(call, training)
        if any(differ(plain, result) for result in results):
            tried = {name: _results(call, [*training, *off]) for name, off in _switches(layers).items()}
            off = [name for name, made in tried.items() if len(made) == 3 and not any(differ(plain, y) for y in made)]
            said.append(_sentence(layers, any(differ(results[0], result) for result in results[1:]), off))
    return "; ".join(said[:NAMED])


def _results(call: Call, settings: Settings) -> list[Any]:
    """The three results with these settings; fewer if the network raises."""
    results = []
    with _set(settings):
        for seed, least in ((0, False), (1, False), (0, True)):
            with contextlib.suppress(Exception), Least() if least else contextlib.nullcontext():
                results.append(call(seed))
    return results


@contextlib.contextmanager
def _set(settings: Settings) -> Iterator[None]:
    """Past `setattr`, which configurations may forbid."""
    before = [(attributes, name, attributes[name]) for attributes, name, _ in settings]
    for attributes, name, value in settings:
        attributes[name] = value
    try:
        yield
    finally:
        for attributes, name, value in before:
            attributes[name] = value


def _switches(layers: Mapping[str, nn.Module]) -> dict[str, Settings]:
    """What may switch it off: probabilities and flags of the layers, and of the configuration that they hold."""
    found: dict[str, list[tuple[dict[str, Any], str, Any]]] = {}
    for layer in layers.values():
        configured = getattr(getattr(layer, "config", None), "__dict__", None)
        for attributes in (each for each in (configured, vars(layer)) if isinstance(each, dict)):
            for name, value in attributes.items():
                likely = any(word in name for word in WORDS)
                if likely and (value is True or (isinstance(value, float) and value > 0)):
                    off = False if value is True else 0
                    found.setdefault(f"{name}={off}", []).append((attributes, name, off))
    return {**found}


def _sentence(layers: Mapping[str, nn.Module], random: bool, off: Sequence[str]) -> str:
    name, layer = next(iter(layers.items()))
    several = len(layers) > 1
    where = f"{type(layer).__name__}{f' ({name})' if name else ''}{f' and {len(layers) - 1} more' if several else ''}"
    does = f"{'do' if several else 'does'}{' at random' if random else ''}"
    do = f"set {' or '.join(off[:2])}, or call" if off else "call"
    return f"{where} {does}: {do} eval() on {'them' if several else 'it'} in the factory"
