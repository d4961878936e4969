"""What an error of PyTorch's exporter says to the author of a module: what is the matter, what to write instead where
that is known, and the line of the module's code that it comes from."""

import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import onnx_ir
import onnxscript
import torch
from torch import nn

import xbench
from xbench.converters.frontends.onnx_file import plain

PACKAGES = tuple(f"{Path(str(each.__file__)).parent}/" for each in (torch, onnxscript, onnx_ir))
SITE = Path(str(torch.__file__)).parents[1]
UNFORESEEN = (AssertionError, AttributeError, LookupError, NameError, TypeError)
OWN = f"{Path(str(xbench.__file__)).parents[1]}/converters/"
INSTEAD = (
    (
        r"(Could not guard on data-dependent expression)",
        r"\1: it branches on a value; write torch.where, or leave the check out of forward",
    ),
    (
        r"No ONNX function found for <OpOverload\(op='(?:aten|prims|torchvision)\.(\w+)'",
        r"PyTorch's exporter has no form of \1: write it in other operations",
    ),
)
PACKED = "packed sequences cannot be exported: give the padded sequence to the layer"


def explained(error: BaseException) -> str:
    """The error in one line."""
    chain = list(_chain(error))
    place = next(filter(None, map(_line_of, reversed(chain))), "")
    return _words(chain) + (f", at {place}" if place else "") + _within(chain[-1])


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _words(chain: list[BaseException]) -> str:
    frames = traceback.extract_tb(chain[-1].__traceback__)
    if any(re.search("pack(ed)?_(padded_)?sequence", f"{frame.name} {frame.line}") for frame in frames):
        return PACKED
    for pattern, words in INSTEAD:
        if match := re.search(pattern, str(chain[-1])):
            return match.expand(words)
    return plain(chain[-1])


def _within(error: BaseException) -> str:
    """The line of PyTorch's that an error of programming comes from: a fault of PyTorch's, or of its use here."""
    frames = traceback.extract_tb(error.__traceback__)
    if not isinstance(error, UNFORESEEN) or not frames or not frames[-1].filename.startswith(PACKAGES):
        return ""
    return f", from {Path(frames[-1].filename).relative_to(SITE)}:{frames[-1].lineno}"


def _line_of(error: BaseException) -> str:
    """The innermost line that is not PyTorch's or ours: of the traceback, else of the node that is translated."""
    places = [_place(*each) for each in _frames(error.__traceback__) if not _is_foreign(each[0])]
    return places[-1] if places else _line_of_node(error.__traceback__)


def _is_foreign(file: str) -> bool:
    return file.startswith((*PACKAGES, OWN, "<")) or "/torch/" in file


def _frames(at: TracebackType | None) -> Iterator[tuple[str, int, str]]:
    """Files, lines and names of functions, those of a module with its class."""
    while at is not None:
        code, owner = at.tb_frame.f_code, at.tb_frame.f_locals.get("self")
        of = f"{type(owner).__name__}." if isinstance(owner, nn.Module) else ""
        yield code.co_filename, at.tb_lineno, f"{of}{code.co_name}"
        at = at.tb_next


def _line_of_node(at: TracebackType | None) -> str:
    """The line that a node of the traced graph was made by, and the layer."""
    while at is not None:
        meta = getattr(at.tb_frame.f_locals.get("node"), "meta", None)
        at = at.tb_next
        if not isinstance(meta, dict):
            continue
        lines = re.findall(r'File "(.+?)", line (\d+), in (\w+)', str(meta.get("stack_trace", "")))
        own = [_place(file, int(line), name) for file, line, name in lines if not _is_foreign(file)]
        layers = [str(path) for path, _ in dict(meta.get("nn_module_stack") or {}).values() if path]
        return ", ".join(filter(None, (own[-1] if own else "", f"layer {layers[-1]}" if layers else "")))
    return ""


def _place(file: str, line: int, name: Any) -> str:
    return f"{plain(Path(file).name, 60)}:{line} in {plain(name, 80)}"
