"""ONNX -> any framework, by one rule: *an operator is a function from arrays and ONNX attributes to arrays.*

`convert` prints the graph once as a Python function written in ONNX's own operator names, the same text for every
framework; a framework is the table of functions in which that text runs (`ops/torch.py`, `ops/jax.py`,
`ops/tensorflow.py`). Inputs are positional, attributes are keywords with ONNX's names and defaults. Some things
in the text are not ONNX's:

- `training` and `rng`, the keywords of `apply`: BatchNormalization and Dropout are exported once and act by them;
- `unbiased=1` on BatchNormalization: the running variance is PyTorch's (Bessel-corrected), ONNX's own is not;
- `channels_last=1` on convolutions, poolings and BatchNormalization (`layout.py`);
- Gemm of more than two axes, and `ScaledDotProductAttention` (`fusion.py`);
- an input that must be known when the graph is compiled (axes, shapes, pads, ...) is printed as a Python literal.

This file reads no graph, so running a converted model does not import ONNX: `convert.py` does.
"""

import ast
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

# The frameworks whose operator tables are in this folder, by the names of their files.
TABLES = ("torch", "tensorflow", "jax")
AT_RUN_TIME = "only known at run time"  # in what operators raise where a compiler must know a shape, or a condition
PARAMETERS = "xbench.parameters"  # metadata_props: JSON list of the trainable initializers
UNUSED = "xbench.unused"  # metadata_props: JSON object, the sizes of a module's parameters that no output depends on
UNBIASED = "xbench.unbiased_variance"  # metadata_props: set where BatchNormalization means PyTorch's
FROZEN = "xbench.frozen"  # metadata_props of a BatchNormalization that normalises by its statistics in training, too
PADDING = "xbench.padding_idx"  # metadata_props of a Gather: a row that is not trained, as in PyTorch's Embedding
DETACHED = "xbench.detached"  # metadata_props of an Identity that passes on no gradient, as Tensor.detach


class UnsupportedOps(Exception):
    """Operators that a framework's table lacks: all of them, with how often each occurs."""

    def __init__(self, operators: Mapping[str, int]) -> None:
        self.operators = dict(sorted(operators.items()))
        super().__init__(", ".join(f"{name} ({count})" for name, count in self.operators.items()))


@dataclass(frozen=True)
class Program:
    """A converted model: readable text, and the arrays it works on.

    `params` holds the trainable arrays by PyTorch name, `state` all others (running statistics, buffers, folded
    constants). The text defines `apply(params, state, *inputs, training=False, rng=None)`, which returns the tuple of
    outputs and a dictionary of the state that changed.
    """

    source: str
    params: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: dict[str, int] = field(default_factory=dict)

    def bind(self, table: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
        """Runs the text in a framework's table and returns its `apply`.

        Raises:
            UnsupportedOps: the table lacks operators; all of them are named.
        """
        if missing := {name: n for name, n in self.operators.items() if name not in table}:
            raise UnsupportedOps(missing)
        namespace = dict(table)
        exec(compile(self.source, "<xbench program>", "exec"), namespace)
        return namespace["apply"]


@functools.cache
def operators_of(table: str) -> set[str]:
    """The operators of a framework's table, read from its source so that the framework need not be imported."""
    folder = Path(__file__).parent / "ops"
    names: set[str] = set()
    for file in (folder / f"{table}.py", *(folder / "generic").glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    every = target.elts if isinstance(target, ast.Tuple) else [target]
                    names |= {t.id for t in every if isinstance(t, ast.Name) and t.id != t.id.upper()}
                if ast.unparse(node.targets[0]) == "RENAMED" and isinstance(node.value, ast.Dict):
                    names |= {str(ast.literal_eval(key)) for key in node.value.keys if key is not None}
    return {name for name in names if name[0].isupper()}
