"""A sample as a small picture, as the network gets it: what is wrong with its preparation is seen, too."""

import base64
import io

import numpy as np

SIZE = 64  # pixels of the longer side
SHARP = 32  # up to so many nothing is compressed away
LEAST = 4  # pixels of a side: less is no picture


def picture(sample: np.ndarray) -> str | None:
    """A sample of shape (channels, height, width) or (height, width, channels), with 1 or 3 channels, as a PNG or JPEG
    in base64, from its least value, black, to its largest. None if it has another shape, or pillow is missing."""
    pixels = _pixels(sample)
    if pixels is None:
        return None
    try:
        from PIL import Image
    except ImportError:
        return None
    image = Image.fromarray(pixels)
    image.thumbnail((SIZE, SIZE))
    file = io.BytesIO()
    image.save(file, "PNG" if max(image.size) <= SHARP else "JPEG")
    return base64.b64encode(file.getvalue()).decode()


def _pixels(sample: np.ndarray) -> np.ndarray | None:
    """In eight bits, (height, width) or (height, width, 3)."""
    if sample.ndim != 3 or sample.dtype.kind not in "fiu":
        return None
    if sample.shape[0] in (1, 3):
        sample = np.moveaxis(sample, 0, -1)
    if sample.shape[-1] not in (1, 3) or min(sample.shape[:2]) < LEAST:
        return None
    values = np.nan_to_num(sample.astype(np.float64), posinf=0.0, neginf=0.0)
    values /= np.abs(values).max() or 1.0  # else the difference of two large numbers is none
    values -= values.min()
    pixels = np.round(values * (255 / (values.max() or 1.0))).astype(np.uint8)
    return pixels[..., 0] if pixels.shape[-1] == 1 else pixels
