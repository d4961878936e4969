"""Rows as a Parquet file, each column with the type given in docs/results.md; null is null."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xbench.reports import COLUMNS, Row
from xbench.store.command import VERSION

BOOLEANS = {"converged", "paired"}
INTEGERS = {
    *("batch", "threads", "peak_memory_bytes", "device_memory_bytes", "artifact_bytes", "parameter_bytes"),
    *("flop", "bytes"),
}
WORDS = {
    *("model", "runtime", "mode", "device", "machine", "status", "class", "autodiff", "precision", "layout", "plane"),
    *("tune", "data", "note", "message", "time", "peak_memory_of", "bound_by"),
}  # all others are floats


def write(found: Sequence[Row], path: Path) -> None:
    """Write the rows; the file's metadata has the version of xbench.

    Raises:
        ImportError: pyarrow is not installed.
        OSError: the file cannot be written.
    """
    import pyarrow
    import pyarrow.parquet

    types = {name: _type(pyarrow, name) for name in COLUMNS}
    schema = pyarrow.schema(list(types.items()), metadata={"xbench": VERSION, "rows": "docs/results.md"})
    columns = [pyarrow.array([row[name] for row in found], kind) for name, kind in types.items()]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, schema=schema), path)


def _type(arrow: Any, name: str) -> Any:
    if name in BOOLEANS:
        return arrow.bool_()
    if name in INTEGERS:
        return arrow.int64()
    return arrow.string() if name in WORDS else arrow.float64()
