"""Parses the word for a model: a network of the zoo, a file, or a factory, and the shapes of its inputs.

    resnet50                                      a network of the zoo
    model.onnx, model.onnx@sequence=128           an ONNX file; named axes and inputs get sizes after the @
    model.keras, saved_model/                     a TensorFlow model, read through tf2onnx
    package.module:factory@x:float32:batch,3,8,8  any PyTorch module: a callable that makes it, and its inputs
    mynet:make@x:float32:batch,time,8;time=16     its axes may have names, and sizes by these
    nets/small.py:make(width=64)@x:float32:batch  the same from a file, and with arguments
    hf:folder, timm:resnet18, torchvision:vgg11   a Hugging Face folder, or a library's network; their inputs are known

    mynet:make@weights=net.safetensors;x:...      any of these modules, with the weights of a file
    mynet:make@loss=losses.py:dice;x:...          any of these modules, trained by a loss that a function gives

    lenet@optimizer=adam,lr=0.001                 any of them, trained by another update rule

    model.onnx@ids=0:30522                        any of them, the values of an input drawn from 0 to 30521

The options after the @, between semicolons, are those of `--shape`, `--input`, `--range`, `--weights`, `--loss`
and `--optimizer`, so that one word says all that a record needs.
"""

import dataclasses
import difflib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xbench import models
from xbench.converters.autodiff.optimizer import SLOTS
from xbench.errors import XBenchError

BATCH = "batch"
LENGTH = 16  # of a sequence, and of an axis that nothing is known of
# What is usual for an axis whose name holds a word: the first that fits.
USUAL = {"total_seq": 32, "seq": LENGTH, "token": LENGTH, "height": 224, "width": 224, "channel": 3, "batch": 1}
USUAL_LETTERS = {"h": 224, "w": 224, "c": 3, "n": 1, "b": 1}
Sizes = tuple[int | str, ...]
LONGEST = 48  # characters of a name, of up to four bytes each; a file system takes 255
RULE, WEIGHTS, LOSS, AUTO = "optimizer=", "weights=", "loss=", "auto"
TYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")


@dataclass(frozen=True)
class Source:
    """A parsed word. `kind` is zoo, onnx, tensorflow or module; `place` a name, a path or module:factory.

    `shapes` maps names of axes to one size and names of inputs to all their sizes; `inputs` are those of a module;
    `optimizer` is None where the model's own is meant; `ranges` maps names of inputs to [low, high). `weights` is a
    file of them for a module, "" for its own; `loss` a function that gives its loss, "" for the usual one. `auto`: axes
    without a size get the one that is usual for their names.
    """

    word: str
    kind: str
    place: str
    shapes: dict[str, Sizes]
    inputs: tuple[models.Input, ...]
    optimizer: models.Optimizer | None = None
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    weights: str = ""
    auto: bool = False
    loss: str = ""

    @property
    def stem(self) -> str:
        """A name for a folder; the arguments of a module may be longer than such a name can be."""
        stem = Path(self.place.rstrip("/")).stem[:LONGEST]
        return "".join(c if c.isalnum() or c in "._-" else "_" for c in stem)


def parse(word: str) -> Source:
    """Reads the word.

    Raises:
        UnknownModel: neither a network of the zoo nor anything else.
        XBenchError: no such file, or an option that cannot be read.
    """
    place, options = parted(word)
    kind = _kind(place)
    auto = AUTO in options
    rules = [option for option in options if option.startswith(RULE)]
    options = [option for option in options if option not in rules]
    files = [option for option in options if kind == "module" and option.startswith(WEIGHTS)]
    losses = [option.removeprefix(LOSS) for option in options if _is_loss(option)]
    options = [option for option in options if option not in files and not _is_loss(option) and option != AUTO]
    spans = [option for option in options if "=" in option and ":" in option]
    options = [option for option in options if option not in spans]
    shapes = dict(_shape(option) for option in options if "=" in option)
    inputs = tuple(_input(option) for option in options if "=" not in option)
    if losses and kind != "module":
        raise XBenchError(f"{place}: --loss is for modules; a network of the zoo and a file have their own")
    if inputs and kind != "module":
        raise XBenchError(f"{place}: --input is for module:factory; this model has inputs of its own, see --shape")
    if kind == "module" and not inputs and place.partition(":")[0] not in models.LIBRARIES:
        raise XBenchError(f"{place}: name its inputs, such as --input x:float32:batch,3,224,224")
    if inputs and not any(BATCH in each.shape for each in inputs):
        option = f"{inputs[0].name}:{inputs[0].dtype}:{','.join(map(str, inputs[0].shape))}"
        raise XBenchError(f"--input {option}: no input has a batch: write {BATCH} for its first size")
    if (shapes or auto) and kind == "zoo":
        raise XBenchError(f"{place}: --shape is for files with dynamic axes, and for modules")
    inputs = sized(place, inputs, shapes, auto) if inputs else ()
    ranges = dict(_range(option) for option in spans)
    rule = _optimizer(rules[-1]) if rules else None
    return Source(
        word, kind, place, shapes, inputs, rule, ranges, _weights(files[-1]) if files else "", auto, *losses[-1:]
    )


def parted(word: str) -> tuple[str, list[str]]:
    """The place of a word, and its options. A path that exists may have an @ itself."""
    place, at, rest = (word, "", "") if os.path.exists(word.removeprefix("hf:")) else word.rpartition("@")
    return (place, [option for option in rest.split(";") if option]) if at else (word, [])


def _kind(place: str) -> str:
    # os.path, not Path, whose methods raise if a word is longer than the name of a file can be.
    if place in models.MODELS:
        return "zoo"
    library, colon, folder = place.partition(":")
    if colon and library in models.LIBRARIES:
        if library == "hf" and not os.path.isdir(folder):
            raise XBenchError(f"{place}: no such folder; nothing is downloaded")
        return "module"
    path = Path(place)
    if path.suffix in (".keras", ".h5") or os.path.exists(path / "saved_model.pb"):
        kind = "tensorflow"
    elif path.suffix == ".onnx" or os.path.exists(path) or ("/" in place and ":" not in place):
        kind = "onnx"
    elif ":" in place:
        return "module"
    else:
        models.find(place)  # which raises, with the nearest name
        raise AssertionError
    if not os.path.exists(path):
        raise XBenchError(f"no such file: {place}")
    if os.path.isdir(path) and kind == "onnx":
        raise XBenchError(f"{place} is a folder, not an ONNX file, and no SavedModel: it has no saved_model.pb")
    return kind


def usual_size(name: str) -> int | None:
    """The size that is usual for an axis of a name; None if the name says nothing."""
    lower = name.lower()
    return next((size for word, size in USUAL.items() if word in lower), USUAL_LETTERS.get(lower))


def chosen_size(name: str, axis: int = 0, rank: int = 0) -> int:
    """The size of an axis that none is given for. The last two axes of an image are large."""
    return usual_size(name) or (USUAL["height"] if rank == 4 and axis > 1 else LENGTH)


def sized(
    place: str, inputs: Sequence[models.Input], shapes: Mapping[str, Sizes], auto: bool = False
) -> tuple[models.Input, ...]:
    """The inputs of a module with sizes in the place of the names of their axes; if `auto`, usual ones where none is
    given.

    Raises:
        XBenchError: no input or axis has the name of a size, or an axis has no size.
    """
    given = [replace(each, shape=shapes.get(each.name, each.shape)) for each in inputs]
    axes = list(dict.fromkeys(size for each in given for size in each.shape if isinstance(size, str) and size != BATCH))
    known = [*(each.name for each in inputs), *axes]
    for name, shape in shapes.items():
        if name not in known and not axes:
            example = f"{inputs[0].name}:{inputs[0].dtype}:{BATCH},{name}"
            raise XBenchError(f"{place}: --shape is for files with dynamic axes, and for --input {example}")
        if name not in known:
            raise XBenchError(f"{place}: --shape {name}=...: {_unknown('axis', name, known)}")
        if name in axes and (len(shape) != 1 or BATCH in shape):
            raise XBenchError(f"{place}: --shape {name}=...: an axis has one size, such as {name}={LENGTH}")
    sizes: dict[str, int | str] = {name: shapes[name][0] for name in axes if name in shapes}
    missing = {name: chosen_size(name) for name in axes if name not in shapes}
    if missing and not auto:
        options = " ".join(f"--shape {name}={size}" for name, size in missing.items())
        verb = "are" if len(missing) > 1 else "is"
        raise XBenchError(f"{place}: how large {verb} {', '.join(missing)}? Write {options}, or --shape auto")
    sizes |= missing
    return tuple(replace(each, shape=tuple(sizes.get(str(size), size) for size in each.shape)) for each in given)


def _shape(option: str) -> tuple[str, Sizes]:
    name, _, sizes = option.partition("=")
    return name, _sizes(sizes, f"--shape {option}")


def _sizes(text: str, option: str, named: bool = False) -> Sizes:
    sizes = [size.strip() for size in text.split(",")] if text.strip() else []
    wrong = [size for size in sizes if size != BATCH and not (size.isdecimal() and int(size) > 0)]
    if bad := [size for size in wrong if not (named and size.isidentifier())]:
        other = f"the word {BATCH}" if not named else f"the word {BATCH} or another name of an axis"
        raise XBenchError(f"{option}: {bad[0]!r} is neither a positive number nor {other}")
    return tuple(int(size) if size.isdecimal() else size for size in sizes)


def _input(option: str) -> models.Input:
    name, dtype, sizes, *more = [*option.split(":"), "", ""][: max(3, option.count(":") + 1)]
    if more or not name.isidentifier() or not dtype:
        raise XBenchError(f"--input {option}: write name:type:sizes, such as x:float32:batch,3,224,224")
    if dtype not in TYPES:
        raise XBenchError(f"--input {option}: {_unknown('type', dtype, TYPES)}")
    shape = _sizes(sizes, f"--input {option}", named=True)
    if BATCH in shape[1:]:
        raise XBenchError(f"--input {option}: the word {BATCH} stands for the first size and for no other")
    return models.Input(name, shape, dtype)


def _range(option: str) -> tuple[str, tuple[float, float]]:
    """Reads `ids=0:30522`: from the first number to below the second."""
    name, _, span = option.rpartition("=")
    try:
        low, high = (float(end) for end in span.split(":"))
    except ValueError:
        raise XBenchError(f"--range {option}: write name=low:high, such as ids=0:30522") from None
    if not (name and math.isfinite(low) and math.isfinite(high)):
        raise XBenchError(f"--range {option}: write name=low:high, such as ids=0:30522")
    if low >= high:
        raise XBenchError(f"--range {option} is empty: it holds the numbers from {low:g} to below {high:g}")
    return name, (low, high)


def _is_loss(option: str) -> bool:
    """Whether an option is a loss, module:function: `loss=0:1` is the range of an input."""
    return option.startswith(LOSS) and option.rpartition(":")[2].isidentifier()


def _weights(option: str) -> str:
    file = option.removeprefix(WEIGHTS)
    if not os.path.isfile(file):
        raise XBenchError(f"--weights {file}: no such file")
    return file


TRUTH = {"true": "1", "false": "0"}


def _optimizer(option: str) -> models.Optimizer:
    """Reads `optimizer=adamw,lr=0.001,weight_decay=0.1`; a schedule is `schedule=1/0.5/0.1`, factors step by step."""
    text = option.removeprefix(RULE)
    name, *settings = text.split(",")
    if name not in SLOTS:
        raise XBenchError(f"--optimizer {text}: {_unknown('update rule', name, SLOTS)}")
    own = models.Optimizer(name)
    known = [field.name for field in dataclasses.fields(own) if field.name != "name"]
    values: dict[str, Any] = {}
    for key, _, value in (setting.partition("=") for setting in settings):
        if key not in known:
            raise XBenchError(f"--optimizer {text}: {_unknown('setting', key, known)}")
        try:
            value = TRUTH.get(value.lower(), value) if key == "nesterov" else value
            numbers = tuple(float(each) for each in value.split("/"))
        except ValueError:
            raise XBenchError(f"--optimizer {text}: {key} is not a number: {value!r}") from None
        if not all(math.isfinite(each) and each >= 0 for each in numbers) or (key != "schedule" and len(numbers) > 1):
            raise XBenchError(f"--optimizer {text}: {key} must be a number of at least 0, not {value}")
        values[key] = numbers if key == "schedule" else bool(numbers[0]) if key == "nesterov" else numbers[0]
    rule = replace(own, **values)
    if rule.nesterov and not (rule.name == "sgd" and rule.momentum):
        raise XBenchError(f"--optimizer {text}: nesterov needs sgd with a momentum")
    if max(rule.beta1, rule.beta2) >= 1:
        raise XBenchError(f"--optimizer {text}: beta1 and beta2 must be below 1")
    return rule


def _unknown(what: str, word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"unknown {what} {word!r}: " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}")


def with_options(
    word: str,
    shapes: Sequence[str] = (),
    inputs: Sequence[str] = (),
    optimizer: str | None = None,
    ranges: Sequence[str] = (),
    weights: str | None = None,
    loss: str | None = None,
) -> str:
    """The word with the options of `--shape`, `--input`, `--optimizer`, `--range`, `--weights` and `--loss`; the
    zoo's networks have their own shapes.

    Raises:
        XBenchError: a range that cannot be read, or weights for what is no module.
    """
    options = [] if word.partition("@")[0] in models.MODELS else [*inputs, *shapes]
    for each in ranges:
        _range(each)
    options += [*ranges, *([RULE + optimizer] if optimizer else [])]
    for option, prefix, value in (("--weights", WEIGHTS, weights), ("--loss", LOSS, loss)):
        if value and _kind(word.partition("@")[0]) != "module":
            raise XBenchError(f"{word}: {option} is for modules; a network of the zoo and a file have their own")
        options += [prefix + value] if value else []
    if loss and not _is_loss(LOSS + loss):
        raise XBenchError(f"--loss {loss}: write module:function or path/to/file.py:function")
    if not options:
        return word
    return f"{word}{';' if '@' in word and not os.path.exists(word) else '@'}{';'.join(options)}"
