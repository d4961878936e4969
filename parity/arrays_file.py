"""Files of named arrays: references, answers, states of training."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from xbench.converters import temporary

BITS = ".bfloat16"  # ends the name of an input that is stored as its bits


def join(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes an `.npz` to a temporary file and moves it into place: a reader sees all of it or nothing. NumPy's own
    function takes names as keywords, which clash with its own (`file`), and has no bfloat16: inputs keep their bits,
    other arrays are written as float32."""
    with temporary.file(path) as new, zipfile.ZipFile(new, "w") as archive:
        for name, array in arrays.items():
            if array.dtype.name == "bfloat16":
                is_input = name.startswith("input/")
                name, array = (name + BITS, array.view(np.uint16)) if is_input else (name, array.astype(np.float32))
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def read(path: Path, names: str | tuple[str, ...] = "") -> dict[str, np.ndarray]:
    """The arrays of a file whose names begin with `names`."""
    with np.load(path, allow_pickle=False) as file:
        # by the name in the archive: `file["x.npy"]` is the array `x` if there is one
        arrays = {name: file[f"{name}.npy"] for name in file.files if name.startswith(names)}
    return {name.removesuffix(BITS): _bfloat16(a) if name.endswith(BITS) else a for name, a in arrays.items()}


def _bfloat16(array: np.ndarray) -> np.ndarray:
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)
