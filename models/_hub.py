"""Networks of libraries by their own names: `hf:folder`, `timm:resnet18`, `torchvision:resnet18(num_classes=10)`.

Nothing is downloaded. A Hugging Face folder holds `config.json` and perhaps weights as safetensors. Without weights,
and for the other libraries, weights are random, with seed 0; `--weights` reads a file.
"""

import difflib
import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xbench.errors import XBenchError

if TYPE_CHECKING:
    from torch import nn

CONFIG = "config.json"
KERNELS = ("attn_implementation", "_attn_implementation", "experts_implementation")  # may name code to be downloaded
EXPERTS = "batched_mm"  # the default, a grouped product, exists in no float64
LARGEST = 2**20  # bytes of a configuration
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")  # of which reading one may run code that its author put there
Factory = Callable[..., "nn.Module"]


def factory(library: str, name: str) -> Factory:
    """What makes a network of a library, by its name there.

    Raises:
        XBenchError: the library is not installed, or has no such network.
    """
    return LIBRARIES[library](name)


def configuration(folder: str) -> dict[str, Any]:
    """What `config.json` of a Hugging Face folder holds.

    Raises:
        XBenchError: there is none, or it cannot be read.
    """
    path = Path(folder, CONFIG)
    if not Path(folder).is_dir():
        raise XBenchError(f"hf:{folder}: no such folder; nothing is downloaded")
    if not path.is_file():
        raise XBenchError(f"hf:{folder} holds no {CONFIG}")
    if path.stat().st_size > LARGEST:
        raise XBenchError(f"{path} has {path.stat().st_size:,} bytes, which is no configuration")
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise XBenchError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("model_type"), str):
        raise XBenchError(f"{path} names no model_type")
    return found


def _hugging_face(folder: str) -> Factory:
    wanted = configuration(folder)
    os.environ["HF_HUB_OFFLINE"] = "1"  # read on import
    transformers = _library("transformers", f"hf:{folder}")
    known = transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    if wanted["model_type"] not in known:
        also = ", and its own code (auto_map) is not run" if "auto_map" in wanted else ""
        version = f"transformers {transformers.__version__}"
        kind = wanted["model_type"]
        raise XBenchError(f"hf:{folder}: {version} has no model type {kind!r}{also}{_near(kind, known)}")
    if foreign := [name for name in KERNELS if "/" in str(wanted.get(name, ""))]:
        raise XBenchError(f"hf:{folder}: {CONFIG} asks for code that is not in transformers ({foreign[0]})")
    pickles = sorted(path.name for kind in PICKLES for path in Path(folder).glob(kind))
    weights = any(Path(folder).glob("model*.safetensors"))
    if pickles and not weights:
        saved = "save it as safetensors: network.save_pretrained(folder)"
        raise XBenchError(f"hf:{folder} has its weights as a pickle ({pickles[0]}), which may run code: {saved}")
    return functools.partial(_from_folder, transformers, folder, wanted, weights)


def _from_folder(transformers: Any, folder: str, wanted: dict[str, Any], weights: bool) -> "nn.Module":
    import torch

    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    config.use_cache = False
    config._experts_implementation = EXPERTS
    names = wanted.get("architectures") or ()
    named: list[Any] = [getattr(transformers, name, None) for name in names if isinstance(name, str)]
    kinds: list[Any] = [
        each for each in named if isinstance(each, type) and issubclass(each, transformers.PreTrainedModel)
    ]
    if not weights:
        return kinds[0](config) if kinds else transformers.AutoModel.from_config(config, trust_remote_code=False)
    kind = kinds[0] if kinds else transformers.AutoModel
    options = {"local_files_only": True, "use_safetensors": True, "trust_remote_code": False, "dtype": torch.float32}
    return kind.from_pretrained(folder, config=config, **options)


def _timm(name: str) -> Factory:
    timm = _library("timm", f"timm:{name}")
    if not timm.is_model(name):
        raise XBenchError(f"timm has no network {name!r}{_near(name, timm.list_models())}")
    return functools.partial(timm.create_model, name, pretrained=False)


def _torchvision(name: str) -> Factory:
    library = _library("torchvision", f"torchvision:{name}").models
    if name not in (known := library.list_models()):
        raise XBenchError(f"torchvision has no network {name!r}{_near(name, known)}")
    backbone = {} if name in library.list_models(library) else {"weights_backbone": None}
    return functools.partial(library.get_model, name, weights=None, **backbone)


LIBRARIES = {"hf": _hugging_face, "timm": _timm, "torchvision": _torchvision}


def _library(name: str, word: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise XBenchError(f"{word} needs {name}: pip install {name}") from error
    except RuntimeError as error:  # operators in C++ that were built for another PyTorch
        import torch

        raise XBenchError(f"the installed {name} is for another PyTorch than {torch.__version__}: {error}") from error


def _near(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, [*known], n=2)
    return f": did you mean {' or '.join(near)}?" if near else ""
