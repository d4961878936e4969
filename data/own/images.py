"""Reads images: files of a folder, and bytes in a table."""

import io
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from xbench.data import BadData
from xbench.data.own.opening import opened, readable, shown
from xbench.data.own.preprocessing import PIXELS, Look, applied, look_of
from xbench.data.own.slots import Asked, Piece

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF")  # others may start programs, as that of PostScript
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif")
LARGE = f"it has more than {PIXELS:,} pixels"


def pieces(folder: Path, names: Sequence[str], asked: Asked) -> Iterator[Piece]:
    """The images of a folder: `names` are relative, some in subfolders, the names of which are the labels, numbered
    from 0 in the order of their letters, as in torchvision's ImageFolder.

    Raises:
        BadData: an image cannot be read, or does not fit the network.
    """
    look = look_of(asked.options, asked.slots, shown(folder))
    places = [Path(name).parent.name for name in names]
    if asked.folders and (outside := next((name for name, place in zip(names, places) if not place), None)):
        raise BadData(f"{shown(outside)} is in no subfolder, whose name would be its label")
    by_folder = all(places) and asked.labels if asked.folders is None else asked.folders
    numbers = {place: number for number, place in enumerate(sorted({*places}))}
    for name, place in zip(names, places):
        with opened(folder / name) as file:
            array = decoded(file, look, shown(name))
        labels = np.array([numbers[place]]) if by_folder else None
        yield Piece([array[None]], 1, labels, shown(name), None, len(names))


def of_bytes(data: bytes, look: Look, where: str) -> np.ndarray:
    """The sample of an image in memory.

    Raises:
        BadData: as `decoded`.
    """
    return decoded(io.BytesIO(data), look, where)


def decoded(file: IO[bytes], look: Look, where: str) -> np.ndarray:
    """The sample of an image: the first one, if it moves.

    Raises:
        BadData: it cannot be read, is very large, or smaller than the crop.
    """
    try:
        from PIL import Image
    except ImportError:
        raise BadData(f"{where} needs pillow: pip install pillow") from None
    with readable(where), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a large image, and of metadata that is damaged
        try:
            image = Image.open(file, formats=FORMATS)
        except Image.UnidentifiedImageError:
            raise ValueError(f"it is no image of {', '.join(FORMATS)}") from None
        except Image.DecompressionBombError:
            raise ValueError(LARGE) from None
        with image:
            if image.width * image.height > PIXELS:
                raise ValueError(LARGE)
            return applied(look, upright(image), where)


def upright(image: Any) -> Any:
    """An image of pillow's in 8 bits, turned as its camera was held. Transparency is dropped, as pillow does."""
    from PIL import Image, ImageOps

    image.load()
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):  # one channel of 16 bits, which pillow would cut off at 255
        return Image.fromarray(np.round(np.asarray(image, np.float64).clip(0, 65535) / 257).astype(np.uint8))
    return image
