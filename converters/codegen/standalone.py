"""Writes a converted model as one Python file that needs its framework, numpy and safetensors, but not xbench.

The file holds the operators that the model uses, then the text of the program, then the loading of its weights. The
operators are copied from the tables of this package with what they need, the vocabulary `xp` becomes the framework's
own names, and an operator that the program applies only to shapes is copied in NumPy as well.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from xbench.converters import Program
from xbench.converters.autodiff.loss import written
from xbench.converters.codegen.copier import HERE, Copier, Symbol, read
from xbench.converters.ops.info import info
from xbench.converters.passes.kernels import inverse, kernel_orders
from xbench.converters.printable import docstring, python

IMPORT = {  # what the loading needs, independent of the operators
    "jax": "import jax.numpy as jnp",
    "tensorflow": "import tensorflow as tf",
    "torch": "import torch",
}
LOAD = {
    "jax": "jnp.asarray(a)",
    "tensorflow": "tf.Variable(a, trainable=name in PARAMETERS, name=name)",
    "torch": "a.requires_grad_(name in PARAMETERS)",
}
# For frameworks that store kernels in another order than ONNX.
TRANSPOSE = {"jax": "jnp.transpose", "tensorflow": "tf.transpose"}


def _operators(path: str) -> dict[str, str]:
    """The operators of a file -> the file."""
    return {n: path for n, d in read(path).definitions.items() if n[0].isupper() and not _is_constant(n, d)}


def _is_constant(name: str, node: ast.stmt) -> bool:
    return not isinstance(node, ast.FunctionDef) and name == name.upper()


def _generic() -> dict[str, str]:
    files = sorted(path.name for path in (HERE / "ops/generic").glob("[a-z]*.py"))
    return {name: path for file in files for name, path in _operators(f"ops/generic/{file}").items()}


def _renamed() -> dict[str, str]:
    node = read("ops/generic/elementwise.py").definitions["RENAMED"]
    assert isinstance(node, ast.Assign)
    return ast.literal_eval(node.value)


def _shape_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of operators only on values known while the framework traces: shapes, and numbers made of them."""
    known: set[str] = set()

    def is_known(node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and (info(node.func.id).shape_only or all(map(is_known, node.args)))
        if isinstance(node, ast.Name):
            return node.id in known
        return isinstance(node, ast.Constant | ast.Tuple)

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and is_known(node.value):
            known |= {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
            if isinstance(node.value.func, ast.Name) and not info(node.value.func.id).shape_only:
                yield node.value


def _program(program: Program, framework: str, copier: Copier) -> str:
    """Copies the operators of a program and returns its text, in which those on shapes have separate names."""
    tree, renamed, generic = ast.parse(program.source), _renamed(), _generic()
    homes = generic | _operators(f"ops/{framework}.py")
    on_shapes = {id(call) for call in _shape_calls(tree)}
    symbols: dict[str, Symbol] = {}
    for call in [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]:
        assert isinstance(call.func, ast.Name)
        name, space = call.func.id, "numpy" if id(call) in on_shapes else framework
        if not name[0].isupper():  # float('-inf'), or a subgraph
            continue
        call.func.id = f"{name}_numpy" if space == "numpy" else name
        if name in renamed and (space == "numpy" or name not in homes):
            symbols[call.func.id] = (f"ops/arrays/{space}.py", renamed[name], "")
        else:
            home = generic[name] if space == "numpy" else homes[name]
            symbols[call.func.id] = (home, name, space if home.startswith("ops/generic/") else "")
            copier.name(symbols[call.func.id])  # the program's own names go first
    aliases = [(name, copier.need(symbol)) for name, symbol in sorted(symbols.items())]
    copier.parts.append("\n".join(f"{name} = {written}" for name, written in aliases if name != written))
    return ast.unparse(tree) + "\n" if on_shapes else program.source


def source(program: Program, framework: str, name: str, loss: Mapping[str, Any] | None = None) -> str:
    """The text of the file; `name` is that of its `.safetensors` file, `loss` a rule of `loss.py`."""
    copier = Copier(framework)
    text = _program(program, framework, copier)
    if loss:
        copier.need((f"ops/{framework}.py", loss["name"], ""))
    operators = "\n\n\n".join(part for part in copier.parts if part)
    orders = kernel_orders(program) if framework in TRANSPOSE else {}
    if orders:
        text = text.replace("def apply(", "def network(", 1) + TURNED.format(
            framework=framework,
            orders="".join(f"    {python(name)}: {python(order)},\n" for name, order in inverse(orders).items()),
            transpose=TRANSPOSE[framework],
        )
    return TEMPLATE.format(
        name=docstring(name),
        weights=python(f"{name}.safetensors"),
        framework=framework,
        imports="\n".join(sorted(copier.imports | {"import numpy as np", IMPORT[framework]})),
        parameters=python(tuple(program.params)),
        operators=operators,
        program=text + (LOSS.format(written(loss)) if loss else ""),
        reader="torch" if framework == "torch" else "numpy",  # NumPy itself has no bfloat16
        load=LOAD[framework],
        turn=TURN if orders else "",
    )


def write(
    program: Program, framework: str, name: str, folder: Path, loss: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Writes `<name>.py` and `<name>.safetensors` into a folder and returns their names."""
    files = (f"{name}.py", f"{name}.safetensors")
    (folder / files[0]).write_text(source(program, framework, name, loss))
    arrays = {key: np.asarray(a, order="C") for key, a in {**program.params, **program.state}.items()}
    save_file(arrays, folder / files[1])
    return files


TEMPLATE = '''"""{name} in {framework}, written by xbench from an ONNX graph. Needs {framework}, numpy and safetensors.

    params, state = load()
    outputs, _ = apply(params, state, *inputs)                              # evaluation
    outputs, changed = apply(params, state, *inputs, training=True)         # training: `changed` is the new state

`params` holds the trainable arrays by their PyTorch names, `state` all others.
"""

from pathlib import Path

{imports}
from safetensors.{reader} import load_file

PARAMETERS = {parameters}

# ***** operators, named as ONNX names them *****


{operators}


# ***** the network *****


{program}

# ***** weights *****


def load(path=Path(__file__).with_name({weights})):
    """Parameters and state by name."""
    arrays = load_file(path)
{turn}    arrays = {{name: {load} for name, a in arrays.items()}}
    params = {{name: arrays[name] for name in PARAMETERS}}
    return params, {{name: a for name, a in arrays.items() if name not in params}}
'''

LOSS = """

def loss(outputs, labels):
    return {}
"""

TURN = """    for name, order in KERNELS.items():
        arrays[name] = np.ascontiguousarray(arrays[name].transpose(np.argsort(order)))
"""

TURNED = '''

# Kernels of convolutions are kept in the order of axes that {framework} computes with; this is ONNX's and PyTorch's.
KERNELS = {{
{orders}}}


def in_onnx_order(params):
    """The parameters as ONNX and PyTorch have them."""
    return {{name: {transpose}(p, KERNELS[name]) if name in KERNELS else p for name, p in params.items()}}


def apply(params, state, *inputs, training=False, rng=None):
    return network(in_onnx_order(params), state, *inputs, training=training, rng=rng)
'''
