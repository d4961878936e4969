"""Encoded images."""

import io

import numpy as np


def ImageDecoder(xp, stream, *, pixel_format="RGB"):
    """The image in the bytes of a file, which must be known: uint8 (height, width, channels)."""
    try:
        from PIL import Image
    except ImportError as error:
        raise NotImplementedError("ImageDecoder needs Pillow: pip install pillow") from error
    image = Image.open(io.BytesIO(xp.concrete(stream).tobytes()))
    pixels = np.asarray(image.convert("L" if pixel_format == "Grayscale" else "RGB"))
    if pixel_format == "Grayscale":
        return pixels[..., None]
    return pixels[..., ::-1].copy() if pixel_format == "BGR" else pixels
