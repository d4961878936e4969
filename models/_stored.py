"""Weights of a module from a file: `.safetensors`, or a `state_dict` that PyTorch saved, read without running code."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xbench.errors import XBenchError

if TYPE_CHECKING:
    from torch import nn

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")
WITHIN = ("state_dict", "model_state_dict", "model")  # where training loops put the weights among other things
WRAPPERS = ("module.", "_orig_mod.")  # what DataParallel and torch.compile put before every name
NAMED = 3


def load(network: "nn.Module", file: str) -> None:
    """Gives a network the weights of a file: all of its own, and no others.

    Raises:
        XBenchError: the file cannot be read, or is of another network.
    """
    found, own = _unwrapped(_tensors(Path(file))), network.state_dict()
    if missing := [name for name in own if name not in found and not _is_alias(network, name, found)]:
        raise XBenchError(f"{file} lacks {_named(missing, len(own))} of the network")
    if unknown := [name for name in found if name not in own]:
        raise XBenchError(f"{file} holds {_named(unknown, len(found))} that the network has not")
    for name, tensor in found.items():
        if tensor.shape != own[name].shape:
            sizes = f"{[*tensor.shape]}, in the network {[*own[name].shape]}"
            raise XBenchError(f"{file}: {name} has the shape {sizes}")
    network.load_state_dict(found, strict=False)


def _tensors(path: Path) -> dict[str, Any]:
    import torch

    if path.suffix not in SUFFIXES:
        raise XBenchError(f"{path}: weights are read from {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise XBenchError(f"no such file: {path}")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of a file that is damaged, or holds more than tensors
        reason = str(error).strip().split("\n")[0]
        if "weights_only" in str(error) or "Weights only" in str(error):
            reason = "it holds more than tensors, which may run code: save network.state_dict()"
        raise XBenchError(f"cannot read {path}: {reason}") from error
    for name in WITHIN:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping) or not found:
        raise XBenchError(f"{path} holds no state_dict")
    if other := [
        name for name, each in found.items() if not (isinstance(name, str) and isinstance(each, torch.Tensor))
    ]:
        raise XBenchError(f"{path}: {other[0]!r} is no tensor: save network.state_dict()")
    return dict(found)


def _unwrapped(tensors: dict[str, Any]) -> dict[str, Any]:
    for prefix in WRAPPERS:
        if all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): each for name, each in tensors.items()}
    return tensors


def _is_alias(network: "nn.Module", name: str, found: Mapping[str, Any]) -> bool:
    """Whether a tensor is one of the file's under another name: of tied weights safetensors keep one."""
    own = network.state_dict(keep_vars=True)
    return any(own[other] is own[name] for other in found if other in own)


def _named(names: list[str], of: int) -> str:
    more = ", ..." if len(names) > NAMED else ""
    return f"{len(names)} of {of} tensors ({', '.join(names[:NAMED])}{more})"
