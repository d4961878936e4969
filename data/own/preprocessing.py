"""What is done to an image before a network takes it, as words: `resize=256,crop=224,mean=0.485/0.456/0.406`."""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xbench.data import BadData
from xbench.data.own.opening import shown
from xbench.data.own.slots import Slot, in_words, some
from xbench.data.own.values import kind

CHANNELS = {1: ("gray",), 3: ("rgb", "bgr")}
CHOICES = {
    "color": ("rgb", "bgr", "gray"),
    "interpolation": ("bilinear", "bicubic", "nearest"),
    "axes": ("nchw", "nhwc"),
}
KNOWN = ("resize", "crop", "mean", "std", "scale", *CHOICES)
PIXELS = 100_000_000  # of an image; in bytes, three times as many
Size = tuple[int, int]


@dataclass(frozen=True)
class Look:
    """How images become samples: (pixel / scale - mean) / std in float32, or the pixels if the network takes integers.

    `resize` is the shorter side, an exact (height, width), or None for the size that just covers the crop. `crop` is
    the middle (height, width). `mean` and `std` are of the channels as the network takes them. `axes` is nchw, nhwc,
    or nhw for images without an axis of channels.
    """

    resize: int | Size | None
    crop: Size
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float
    color: str
    interpolation: str
    axes: str
    scaled: bool


def look_of(options: str, slots: Sequence[Slot], where: str) -> Look:
    """What the options say, and the network's input where they say nothing.

    Raises:
        BadData: options that are unknown or do not go together; a network that does not take an image.
    """
    if len(slots) > 1:
        raise BadData(f"{where} has images, and the network takes {some(slot.name for slot in slots)}")
    given, (slot,) = _given(options, where), slots
    axes, channels, size = _image(slot, given.get("axes"), where)
    color = given.get("color", CHANNELS[channels][0])
    if color not in CHANNELS[channels]:
        raise BadData(f"{where}: color={color} does not give the {channels} channels of {in_words(slot.graph)}")
    crop = _size("crop", given["crop"], where) if "crop" in given else size
    crop = (crop, crop) if isinstance(crop, int) else crop
    resize = _size("resize", given["resize"], where) if "resize" in given else None
    if crop != size:
        raise BadData(f"{where}: crop={given['crop']} is not the size that the network takes, {size[0]}x{size[1]}")
    scaled = kind(slot.dtype) == "float"
    if not scaled and (useless := [name for name in ("mean", "std", "scale") if name in given]):
        raise BadData(f"{where}: the network takes pixels of {slot.dtype.name} as they are, without {useless[0]}")
    mean = _numbers("mean", given.get("mean", "0"), channels, where)
    std = _numbers("std", given.get("std", "1"), channels, where)
    (scale,) = _numbers("scale", given.get("scale", "255"), 1, where)
    if not (all(std) and scale):
        raise BadData(f"{where}: {'std' if scale else 'scale'} is 0, by which nothing can be divided")
    way = given.get("interpolation", CHOICES["interpolation"][0])
    return Look(resize, crop, mean, std, scale, color, way, axes, scaled)


def _given(options: str, where: str) -> Mapping[str, str]:
    given: dict[str, str] = {}
    for option in filter(None, options.split(",")):
        name, equals, value = option.partition("=")
        if name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, n=1)
            hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(KNOWN)}"
            raise BadData(f"{where}: unknown option {shown(name)}: {hint}")
        if not equals or name in given:
            raise BadData(f"{where}: {name} {'is there twice' if name in given else 'has no value, as in resize=256'}")
        if name in CHOICES and value not in CHOICES[name]:
            near = difflib.get_close_matches(value, CHOICES[name], n=1)
            hint = f"did you mean {near[0]}?" if near else f"it is {', '.join(CHOICES[name])}"
            raise BadData(f"{where}: unknown {name} {shown(value)}: {hint}")
        given[name] = value
    return given


def _image(slot: Slot, axes: str | None, where: str) -> tuple[str, int, Size]:
    """The axes, the number of channels and the size of the images that an input takes."""
    shape = slot.shape
    places = {"nchw": (0, 1, 2), "nhwc": (2, 0, 1)}
    if len(shape) == 3:
        for word in (axes,) if axes else places:
            channels, height, width = (shape[place] for place in places[word])
            if channels in CHANNELS and min(height, width) > 0:
                return word, channels, (height, width)
    if len(shape) == 2 and len(slot.graph) == 3 and isinstance(slot.graph[0], str) and axes is None and all(shape):
        return "nhw", 1, (shape[0], shape[1])
    as_asked = f", and not {axes}" if axes else ""
    raise BadData(f"{where} has images, and the network takes {in_words(slot.graph)}: no 1 or 3 channels{as_asked}")


def _size(name: str, value: str, where: str) -> int | Size:
    match = re.fullmatch(r"([0-9]{1,5})(?:x([0-9]{1,5}))?", value)
    if not match or not all(int(each) for each in match.groups() if each):
        raise BadData(f"{where}: {name}={shown(value)} is no size, as 256 or 224x224, height x width")
    return int(match[1]) if match[2] is None else (int(match[1]), int(match[2]))


def _numbers(name: str, value: str, count: int, where: str) -> tuple[float, ...]:
    """One number for each channel, or one for all."""
    try:
        numbers = tuple(float(each) for each in value.split("/"))
    except ValueError:
        numbers = ()
    if not numbers or not all(map(math.isfinite, numbers)):
        raise BadData(f"{where}: {name}={shown(value)} is no number, or numbers as 0.485/0.456/0.406")
    if len(numbers) not in (1, count):
        raise BadData(f"{where}: {name} has {len(numbers)} numbers, and the images have {count} channels")
    return numbers if len(numbers) == count else numbers * count


def applied(look: Look, image: Any, where: str) -> np.ndarray:
    """A sample of an image of pillow's in 8 bits (`images.upright`), in the axes of the network.

    Raises:
        BadData: it is smaller than the crop.
    """
    from PIL import Image

    image = image.convert("L" if look.color == "gray" else "RGB")
    size = _resized(look, image.height, image.width)
    if size[0] * size[1] > PIXELS:
        raise BadData(f"{where}: resized, it would have {size[0]} x {size[1]} pixels, more than {PIXELS:,}")
    if size != (image.height, image.width):
        way = Image.Resampling[look.interpolation.upper()]
        image = image.resize(size[::-1], way)
    height, width = look.crop
    if size[0] < height or size[1] < width:
        raise BadData(f"{where}: its size is {size[0]}x{size[1]}, less than the crop, {height}x{width}")
    top, left = round((size[0] - height) / 2), round((size[1] - width) / 2)
    pixels = np.asarray(image)[top : top + height, left : left + width].reshape(height, width, -1)
    pixels = pixels[:, :, ::-1] if look.color == "bgr" else pixels
    if look.scaled:
        mean, std = np.array(look.mean, np.float32), np.array(look.std, np.float32)
        pixels = (pixels.astype(np.float32) / np.float32(look.scale) - mean) / std
    return pixels[:, :, 0] if look.axes == "nhw" else pixels.transpose(2, 0, 1) if look.axes == "nchw" else pixels


def _resized(look: Look, height: int, width: int) -> Size:
    """The size before the crop. By the shorter side, the other one is rounded down, as in torchvision."""
    if isinstance(look.resize, tuple):
        return look.resize
    if look.resize is not None:
        shorter = look.resize
        return (shorter, int(shorter * width / height)) if height <= width else (int(shorter * height / width), shorter)
    factor = max(look.crop[0] / height, look.crop[1] / width)
    if look.crop[0] / height == factor:
        return look.crop[0], max(look.crop[1], int(look.crop[0] * width / height))
    return max(look.crop[0], int(look.crop[1] * height / width)), look.crop[1]
