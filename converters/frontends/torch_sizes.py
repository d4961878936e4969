"""Decides, while a module is traced, what depends on a size that is only known at run time: that of a selection.

`if index.numel() == 0` has then no answer. PyTorch's own operators take such a size to be neither 0 nor 1, and so does
the graph here. A reference is computed by the module, too: if a selection is empty and that matters, it says so.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode


@contextlib.contextmanager
def several() -> Iterator[None]:
    """While it is open, a selection has several elements."""
    evaluate = SymNode.evaluate

    def decided(node: Any, size_oblivious: bool = False) -> Any:
        try:
            return evaluate(node, size_oblivious)
        except GuardOnDataDependentSymNode:
            if size_oblivious:
                raise
            return evaluate(node, True)

    SymNode.evaluate = decided
    try:
        yield
    finally:
        SymNode.evaluate = evaluate
