"""The inputs that a network of a library usually takes, found from what it says of itself."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xbench.errors import XBenchError
from xbench.models._spec import Input

if TYPE_CHECKING:
    from torch import nn

BATCH = "batch"
LENGTH = "sequence"  # the axis of a text
SIDE, COLOURS = 224, 3  # of an image
Sizes = tuple[int | str, ...]
SECOND = 16_000  # samples of speech
FRAMES = 100  # of a spectrum of one second


def usual_inputs(network: "nn.Module") -> tuple[Input, ...]:
    """The inputs of a network of transformers, timm or torchvision.

    Raises:
        XBenchError: they cannot be found.
    """
    if hasattr(network, "main_input_name") and hasattr(network, "config"):
        return _of_transformers(network)
    described = getattr(network, "pretrained_cfg", None)  # timm's
    size = described.get("input_size") if isinstance(described, Mapping) else None
    side = getattr(getattr(network, "patch_embed", None), "img_size", None)
    if size and isinstance(side, Sequence):
        size = (size[0], *side)
    return (Input("x", (BATCH, *(size or (COLOURS, SIDE, SIDE)))),)


def _of_transformers(network: Any) -> tuple[Input, ...]:
    """Its main input, and the others that a network of its kind is called with."""
    config, taken = network.config, inspect.signature(network.forward).parameters
    main = network.main_input_name
    if main not in SIZES or (main == "past_values" and not hasattr(config, "num_input_channels")):
        raise XBenchError(f"name the inputs of {type(network).__name__}, as --input {main}:float32:batch,...")
    text = main == "input_ids"
    with_it = {
        "input_ids": text,
        "bbox": text,
        "attention_mask": text,
        "token_type_ids": text and (_value(config, "type_vocab_size") or 0) > 1,
        "pixel_values": text and hasattr(config, "vision_config"),
        "decoder_input_ids": bool(getattr(config, "is_encoder_decoder", False)),
    }
    names = dict.fromkeys([main, *(name for name, wanted in with_it.items() if wanted and name in taken)])
    return tuple(Input(name, (BATCH, *SIZES[name](config)), TYPES.get(name, "int64")) for name in names)


def _words(config: Any) -> Sizes:
    return (LENGTH,)


def _boxes(config: Any) -> Sizes:
    return (LENGTH, 4)


def _image(config: Any) -> Sizes:
    side = _value(config, "image_size") or SIDE
    height, width = (side["height"], side["width"]) if isinstance(side, Mapping) else _pair(side)
    return (_value(config, "num_channels") or COLOURS, height, width)


def _spectrum(config: Any) -> Sizes:
    """Mel bins by frames: a convolution halves the frames before positions are added to them. Frames by mel bins where
    the configuration counts features of a channel, as Speech2Text does."""
    if features := _value(config, "input_feat_per_channel"):
        return FRAMES, features
    return (_value(config, "num_mel_bins") or 80, 2 * (_value(config, "max_source_positions") or 1500))


def _sound(config: Any) -> Sizes:
    frames = _value(config, "max_length") if _value(config, "num_mel_bins") else None  # of a spectrum, as AST has it
    if frames:
        return frames, _value(config, "num_mel_bins")
    channels = _value(config, "audio_channels")  # of a codec
    return (channels, SECOND) if channels else (SECOND,)


def _series(config: Any) -> Sizes:
    return config.context_length, config.num_input_channels


SIZES: dict[str, Callable[[Any], Sizes]] = {
    "input_ids": _words,
    "attention_mask": _words,
    "token_type_ids": _words,
    "decoder_input_ids": _words,
    "bbox": _boxes,
    "pixel_values": _image,
    "input_features": _spectrum,
    "input_values": _sound,
    "past_values": _series,
}
TYPES = dict.fromkeys(("pixel_values", "input_features", "input_values", "past_values"), "float32")


def _pair(side: Any) -> tuple[int, int]:
    return (side[0], side[1]) if isinstance(side, Sequence) else (side, side)


def _value(config: Any, name: str) -> Any:
    """An attribute of a configuration, or of that of a part; None if there is none."""
    parts = (getattr(config, part, None) for part in ("text_config", "vision_config", "audio_config"))
    values = (getattr(each, name, None) for each in (config, *parts))
    return next((value for value in values if value is not None), None)
