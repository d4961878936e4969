"""Scripts that run a runtime without xbench: one file each, named in its row (`scripts`). None imports a framework.

reproduce(mode, options, device)   the text of a function `run_<runtime>(given)`: arrays by name in and out. It runs
                                   `subgraph_<table>.py` where the runtime has an operator table, else the ONNX file
                                   GRAPH. GRAPH and THREADS are replaced; the script defines HERE, INPUTS, OUTPUTS
                                   and `measured(call)`, which returns what `call` does and may time it.
deploy(options)                    the `Form` of `run.py`: how the runtime loads and runs its own form

`options` are what followed the runtime's name. A file may have one of the two.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xbench.converters.printable import one_line
from xbench.errors import XBenchError
from xbench.runtimes import parse, row_of, table


class Form(NamedTuple):
    """How a runtime's own form is run: the required packages, each by one of its names, the imports, the lines that
    compute `outputs` from `inputs`, the words in them, environment variables, and files of the form that are unused.
    The last `each` lines are those of every call, the others load it, for inputs of the shapes of `inputs`; 0: all.
    `lower` are the precisions below float32 in which it is run, too, each with its words that are others."""

    packages: Sequence[tuple[str, ...]]
    imports: str
    lines: str
    words: Mapping[str, str]
    environment: Mapping[str, str] = {}
    needless: tuple[str, ...] = ()
    each: int = 0
    lower: Mapping[str, Mapping[str, str]] = {}


# Lines that write fixed.onnx: GRAPH for the sizes of the inputs, for runtimes that need one size.
OF_ONE_SIZE = """    model = onnx.load(HERE / GRAPH, load_external_data=False)
    for value in model.graph.input:
        for axis, size in zip(value.type.tensor_type.shape.dim, given[value.name].shape):
            axis.dim_value = size
    for value in model.graph.output:
        for axis in value.type.tensor_type.shape.dim:
            axis.Clear()
    del model.graph.value_info[:]
    onnx.save(model, HERE / "fixed.onnx")"""


def reproduction(word: str, mode: str, device: str) -> str | None:
    """The text of the function that runs a part of a network on a runtime; None if the runtime has none."""
    return _result_of(word, "reproduce", str, mode, parse(word)[1], device)


def deployment(word: str) -> Form:
    """How a runtime's own form is run.

    Raises:
        XBenchError: there is no script for it, or not with these options.
    """
    if form := _result_of(word, "deploy", Form, parse(word)[1]):
        return form
    known = [name for name, row in table().items() if row.scripts and not row.hidden]
    raise XBenchError(f"{parse(word)[0]} is not deployed: there is a script of {', '.join(known)}")


def _result_of(word: str, name: str, kind: type, *arguments: Any) -> Any:
    """
    Raises:
        XBenchError: the file of a plug-in is broken.
    """
    if not (place := row_of(word).scripts):
        return None
    try:
        function = getattr(importlib.import_module(place), name, None)
        result = function and function(*arguments)
    except XBenchError:
        raise
    except Exception as error:
        raise XBenchError(f"{place}: {one_line(error)}") from error
    if result is not None and not isinstance(result, kind):
        raise XBenchError(f"{place}: its `{name}` gives a {type(result).__name__}")
    return result
