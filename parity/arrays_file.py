"""Files of named arrays: references, answers, states of training."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from xbench.converters import temporary

BITS = ".bfloat16"  # ends the name of an input that is stored as its bits


def join(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an `.npz` to a temporary file and moves it into place: a reader sees all of it or nothing. NumPy's own
    function takes names as keywords, which clash with its own (`file`), and has no floats of bfloat16 or 8 bits: inputs
    of bfloat16 keep their bits, all others are written as float32."""
    with temporary.file(path) as new, zipfile.ZipFile(new, "w") as archive:
        for name, array in arrays.items():
            if array.dtype.name == "bfloat16" and name.startswith("input/"):
                name, array = name + BITS, array.view(np.uint16)
            elif array.dtype.isbuiltin == 2:  # a type of ml_dtypes
                array = array.astype(np.float32)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def read(path: Path, names: str | tuple[str, ...] = "") -> dict[str, np.ndarray]:
    """The arrays of a file whose names begin with `names`."""
    with np.load(path, allow_pickle=False) as file:
        # by the name in the archive: `file["x.npy"]` is the array `x` if there is one
        arrays = {name: file[f"{name}.npy"] for name in file.files if name.startswith(names)}
    bits = [name for name in arrays if name.startswith("input/") and name.endswith(BITS)]
    if bits:
        import ml_dtypes

        arrays |= {name.removesuffix(BITS): arrays.pop(name).view(ml_dtypes.bfloat16) for name in bits}
    return arrays
