"""NumPy's vocabulary in every framework, in which the operators of `converters/ops/generic/` are written.

The modules of this folder define the same names, `NAMES`, with NumPy's meaning and these additions:

- arguments may be the framework's arrays, NumPy arrays and Python numbers, mixed; others take the type
  and the device of the framework's;
- `axis` may be a tuple wherever NumPy allows one, `shape(x)` is a tuple of integers known when the framework traces,
  types have NumPy's names (`type_of(x)`, `astype(x, "float32")`);
- `concrete(x)` is the NumPy value of an array, or NotImplementedError while it is traced;
- `quotient` is a division that no compiler turns into a product with the reciprocal;
- `COMPILES`: whether elementwise functions of one array are compiled into one loop;
- `projects_in_scan()`: whether `scan` is faster with the products of its rows inside than with one product before it;
- what NumPy lacks: `erf`, `sigmoid`, `trunc_divide` (of integers, towards zero), `scatter`, `top_k`, `det`, `fft`,
  `scan`, `while_loop`, `cond`, `stop_gradient`, `uniform`, `normal`, `asarray(x, like)` (in the type and on the device
  of `like`), `beside(x, like)` (on its device).
"""

UNARY = [
    "abs",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "bitwise_not",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "expm1",
    "floor",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "logical_not",
    "negative",
    "rint",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]
BINARY = [
    "add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "divide",
    "equal",
    "fmod",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "quotient",
    "right_shift",
    "subtract",
    "trunc_divide",
]
REDUCTIONS = ["all", "any", "max", "mean", "min", "prod", "sum"]
SHAPES = [
    "broadcast_to",
    "concatenate",
    "expand_dims",
    "flip",
    "getitem",
    "pad",
    "reshape",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
]
SELECTION = ["argmax", "argmin", "argsort", "cumsum", "scatter", "sort", "take", "take_along_axis", "top_k", "where"]
ALGEBRA = ["det", "einsum", "fft", "matmul"]
CONTROL = ["cond", "scan", "stop_gradient", "while_loop"]
ARRAYS = ["asarray", "astype", "beside", "concrete", "is_array", "normal", "shape", "type_of", "uniform"]
NAMES = frozenset([*UNARY, *BINARY, *REDUCTIONS, *SHAPES, *SELECTION, *ALGEBRA, *CONTROL, *ARRAYS])
